"""The last decision about every container, and what happened to it since: for ``explain``, across restarts.

Kept for containers that have a row, and for the newest of those that hold nothing. A record is saved when it is
known what became of its decision, after the runtime's answer was passed on: nobody waits for it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from cri_proxy.clock import Clock
from cri_proxy.node.decision_log.summary import (
    after_earlier,
    change_code,
    change_text,
    is_same_wish,
    moved_code,
    moved_text,
    record_of_grant,
    with_change,
)
from cri_proxy.node.observer import Circumstances
from cri_proxy.node.persistence import Persistence
from cri_proxy.state.decisions import (
    KEPT_WITHOUT_ROW,
    Change,
    DecisionRecord,
    Named,
    Outcome,
    PackedDecision,
    named,
    pack,
    unpack,
)
from cri_proxy.state.rows import Row, Saved
from policies.base import ContainerKey, Grant, Placed, Reason

# Records that are kept ready to read; the others are text, a quarter of the size.
UNPACKED = 32


@dataclass(frozen=True, slots=True)
class Open:
    """A decision of which nobody knows yet what becomes of it.

    ``row`` is the live container that is decided on again, ``earlier`` the record that counted until then.
    ``moved`` are those whose grants changed to make room. ``company`` gives who drew it and who pushed it.
    """

    record: DecisionRecord
    row: Row | None
    earlier: DecisionRecord | None
    moved: tuple[Grant, ...]
    company: Callable[[], tuple[Reason, ...]]


class Records:
    """Records by container; what is saved goes to the persistence that ``recall`` brings."""

    def __init__(self, clock: Clock, on_damage: Callable[[str], None] = lambda problem: None) -> None:
        """Empty, and nothing is saved before ``recall``. ``on_damage`` hears of a record that cannot be read."""
        self._clock = clock
        self._on_damage = on_damage
        self._persistence: Persistence | None = None
        self._packed: dict[ContainerKey, PackedDecision] = {}
        self._open: dict[ContainerKey, Open] = {}
        # Those without a row, oldest first, and those that were unpacked last; the values of the first say nothing.
        self._rowless: OrderedDict[ContainerKey, None] = OrderedDict()
        self._unpacked: OrderedDict[ContainerKey, DecisionRecord] = OrderedDict()

    def recall(self, saved: Saved, persistence: Persistence) -> None:
        """Take over what earlier processes left; a decision of this process counts more."""
        self._persistence = persistence
        known = dict(self._packed)
        for packed in saved.decisions:
            if packed.key not in known:
                self._keep(packed)

    def get(self, key: ContainerKey) -> DecisionRecord | None:
        """The last decision about this container, a refusal too; None also for one that cannot be read."""
        opened = self._open.get(key)
        if opened is not None:
            return opened.record
        packed = self._packed.get(key)
        if packed is None:
            return None
        record = self._unpacked.get(key)
        if record is None:
            try:
                record = unpack(packed)
            except ValueError as error:
                del self._packed[key]
                self._rowless.pop(key, None)
                self._on_damage(f"{packed.who}: {error}")
                return None
        self._remember(record)
        return record

    def names(self) -> dict[ContainerKey, Named]:
        """Whose decisions are known, by the names that people use."""
        names = {key: packed.who for key, packed in self._packed.items()}
        return names | {key: named(opened.record.request) for key, opened in self._open.items()}

    def refused_since(self, at_seconds: float, most: int) -> tuple[DecisionRecord, ...]:
        """The newest of those that were refused or not created since then."""
        late = [p for p in self._packed.values() if p.outlives_row and p.decided_at_seconds >= at_seconds]
        late.sort(key=lambda packed: (packed.decided_at_seconds, packed.key), reverse=True)
        return tuple(record for packed in late[:most] if (record := self.get(packed.key)) is not None)

    def open(self, record: DecisionRecord, decision: Placed, circumstances: Circumstances) -> None:
        """A container has a place that nobody has confirmed yet."""
        earlier = self.get(record.key)
        complete = after_earlier(record, earlier)
        if circumstances.row is not None and earlier is not None:  # a new size comes without annotations
            complete = replace(complete, problems=complete.problems or earlier.problems)
        self._open[record.key] = Open(complete, circumstances.row, earlier, decision.moved, circumstances.company)

    def refused(self, record: DecisionRecord, row: Row | None) -> None:
        """A container has no place; a live one, as ``row`` says, keeps what it has."""
        if row is None:
            self._put(after_earlier(record, self.get(record.key)))
            return
        text = record.reasons[0].text if record.reasons else "no reason is known"
        is_resize = not is_same_wish(row.grant.request, record.request)
        self._change(row.grant, "resize-refused" if is_resize else "no-other-place", text)

    def confirmed(self, row: Row) -> Open | None:
        """The runtime has done what was decided; None when that was not in doubt, or is not known any more."""
        opened = self._open.pop(row.key, None)
        record = opened.record if opened is not None else self.get(row.key)
        if record is None or record.outlives_row:
            record = record_of_grant(row.grant, Outcome.RESTORED, at_seconds=self._clock.now_seconds())
        elif record.is_confirmed:
            return opened
        record = replace(record, is_confirmed=True)
        if opened is not None:
            record = replace(record, company=opened.company())
        self._put(record)
        for other in self._moved(opened) if opened is not None else ():
            self._put(other)
        return opened

    def given_up(self, row: Row, why: str) -> DecisionRecord:
        """The place was given back before a container was in it; gives the record that says so."""
        opened = self._open.pop(row.key, None)
        record = opened.record if opened is not None else self.get(row.key)
        if record is None:
            record = record_of_grant(row.grant, Outcome.NOT_CREATED, at_seconds=self._clock.now_seconds())
        failed = replace(record, outcome=Outcome.NOT_CREATED, failure=why, is_confirmed=True)
        if opened is not None:
            failed = replace(failed, company=opened.company())
        self._put(failed)
        return failed

    def kept(self, row: Row, why: str) -> None:
        """A live container keeps what it held before it was last decided on."""
        opened = self._open.pop(row.key, None)
        holds = opened.row.grant if opened is not None and opened.row is not None else row.grant
        self._change(holds, "resize-undone", why)

    def changed(self, before: Grant | None, after: Grant, why: str) -> None:
        """A container holds something else, or something at last, without having asked for it."""
        if before is None:
            adopted = record_of_grant(after, Outcome.ADOPTED, at_seconds=self._clock.now_seconds())
            self._put(after_earlier(adopted, self.get(after.container)))
        else:
            self._change(after, change_code(before, after), f"{change_text(before, after)}: {why}")

    def happened(self, row: Row, what: str, text: str) -> None:
        """Something that changes nothing about what the container holds; what is only repeated is no news."""
        record = self.get(row.key)
        last = record.history[-1] if record is not None and record.history else None
        if last is None or (last.what, last.text) != (what, text):
            self._change(row.grant, what, text)

    def forgotten(self, keys: Sequence[ContainerKey]) -> None:
        """These containers have no row any more: only the newest of such are kept, and none for later processes."""
        for key in keys:
            self._open.pop(key, None)
            packed = self._packed.get(key)
            if packed is not None:
                self._keep(packed, has_row=False)

    def _moved(self, opened: Open) -> Iterable[DecisionRecord]:
        """The records of those that made room, with a line that says so."""
        whose = named(opened.record.request)
        lines = {str(moved.who): moved for moved in opened.record.moved}
        for grant in opened.moved:
            moved = lines.get(str(named(grant.request)))
            if moved is not None:
                text = f"{moved_text(moved)}, to make room for {whose}"
                yield self._changed(grant, Change(self._clock.now_seconds(), moved_code(moved), text))

    def _change(self, grant: Grant, what: str, text: str) -> None:
        self._put(self._changed(grant, Change(self._clock.now_seconds(), what, text)))

    def _changed(self, grant: Grant, change: Change) -> DecisionRecord:
        """The record that counts for a container which holds ``grant``, with this change; an open one gets it too."""
        opened = self._open.get(grant.container)
        if opened is not None:
            self._open[grant.container] = replace(opened, record=with_change(opened.record, change))
        record = opened.earlier if opened is not None else self.get(grant.container)
        if record is None or record.outlives_row:
            record = record_of_grant(grant, Outcome.RESTORED, at_seconds=change.at_seconds)
        changed = with_change(record, change)
        if opened is not None:
            self._open[grant.container] = replace(self._open[grant.container], earlier=changed)
        return changed

    def _put(self, record: DecisionRecord) -> None:
        """Keep a record and save it."""
        packed = pack(record)
        self._keep(packed)
        self._remember(record)
        if self._persistence is not None:
            self._persistence.save_later([packed])

    def _keep(self, packed: PackedDecision, *, has_row: bool = True) -> None:
        self._packed[packed.key] = packed
        self._unpacked.pop(packed.key, None)
        self._rowless.pop(packed.key, None)
        if packed.outlives_row or not has_row:
            self._rowless[packed.key] = None
        while len(self._rowless) > KEPT_WITHOUT_ROW:
            oldest, _ = self._rowless.popitem(last=False)
            del self._packed[oldest]
            self._unpacked.pop(oldest, None)

    def _remember(self, record: DecisionRecord) -> None:
        """Who is asked for once is asked for again."""
        self._unpacked[record.key] = record
        self._unpacked.move_to_end(record.key)
        while len(self._unpacked) > UNPACKED:
            self._unpacked.popitem(last=False)
