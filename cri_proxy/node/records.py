"""The last decision about every container, and what happened to it since: for ``explain``, across restarts.

Kept for containers that have a row, and for the newest of those that hold nothing. A record is saved when it is
known what became of its decision, after the runtime's answer was passed on: nobody waits for it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from cri_proxy.clock import Clock
from cri_proxy.node.observer import Circumstances
from cri_proxy.node.persistence import Persistence
from cri_proxy.node.recording import after_earlier, change_text, moved_code, moved_text, record_of_grant, with_change
from cri_proxy.state.decisions import KEPT_WITHOUT_ROW, Change, DecisionRecord, Outcome, named
from cri_proxy.state.rows import Row, Saved
from policies.base import ContainerKey, Grant, Placed, Reason


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

    def __init__(self, clock: Clock) -> None:
        """Empty, and nothing is saved before ``recall``."""
        self._clock = clock
        self._persistence: Persistence | None = None
        self._records: dict[ContainerKey, DecisionRecord] = {}
        self._open: dict[ContainerKey, Open] = {}
        # Those without a row, oldest first; the values say nothing.
        self._rowless: OrderedDict[ContainerKey, None] = OrderedDict()

    def recall(self, saved: Saved, persistence: Persistence) -> None:
        """Take over what earlier processes left; a decision of this process counts more."""
        self._persistence = persistence
        known = dict(self._records)
        self._records = {}
        for record in (*saved.decisions, *known.values()):
            self._put(record)

    def get(self, key: ContainerKey) -> DecisionRecord | None:
        """The last decision about this container, a refusal too."""
        return self._records.get(key)

    def all(self) -> tuple[DecisionRecord, ...]:
        """All kept records, by container."""
        return tuple(self._records[key] for key in sorted(self._records))

    def open(self, record: DecisionRecord, decision: Placed, circumstances: Circumstances) -> None:
        """A container has a place that nobody has confirmed yet."""
        earlier = self._records.get(record.key)
        complete = after_earlier(record, earlier)
        if circumstances.row is not None and earlier is not None:  # a new size comes without annotations
            complete = replace(complete, problems=complete.problems or earlier.problems)
        self._open[record.key] = Open(complete, circumstances.row, earlier, decision.moved, circumstances.company)
        self._put(complete)

    def refused(self, record: DecisionRecord, row: Row | None) -> None:
        """A container has no place; a live one, as ``row`` says, keeps what it has."""
        if row is None:
            self._put_and_save(after_earlier(record, self._records.get(record.key)))
            return
        text = record.reasons[0].text if record.reasons else "no reason is known"
        self._change(row.grant, "resize-refused", text)

    def confirmed(self, row: Row) -> Open | None:
        """The runtime has done what was decided; None when that was not in doubt, or is not known any more."""
        opened = self._open.pop(row.key, None)
        record = self._records.get(row.key)
        if record is None or record.outlives_row:
            record = record_of_grant(row.grant, Outcome.RESTORED, at_seconds=self._clock.now_seconds())
        record = replace(record, is_confirmed=True)
        if opened is not None:
            record = replace(record, company=opened.company())
        self._put(record)
        others = tuple(self._moved(opened)) if opened is not None else ()
        self._save(record, *others)
        return opened

    def given_up(self, row: Row, why: str) -> DecisionRecord:
        """The place was given back before a container was in it; gives the record that says so."""
        opened = self._open.pop(row.key, None)
        record = opened.record if opened is not None else self._records.get(row.key)
        if record is None:
            record = record_of_grant(row.grant, Outcome.NOT_CREATED, at_seconds=self._clock.now_seconds())
        failed = replace(record, outcome=Outcome.NOT_CREATED, failure=why, is_confirmed=True)
        if opened is not None:
            failed = replace(failed, company=opened.company())
        self._put_and_save(failed)
        return failed

    def kept(self, row: Row, why: str) -> None:
        """A live container keeps what it held before it was last decided on."""
        opened = self._open.pop(row.key, None)
        if opened is not None and opened.earlier is not None:
            self._put(opened.earlier)
        holds = opened.row.grant if opened is not None and opened.row is not None else row.grant
        self._change(holds, "resize-undone", why)

    def changed(self, before: Grant | None, after: Grant, why: str) -> None:
        """A container holds something else, or something at last, without having asked for it."""
        if before is None:
            adopted = record_of_grant(after, Outcome.ADOPTED, at_seconds=self._clock.now_seconds())
            self._put_and_save(after_earlier(adopted, self._records.get(after.container)))
        else:
            self._change(after, "re-placed", f"{change_text(before, after)}: {why}")

    def forgotten(self, keys: Sequence[ContainerKey]) -> None:
        """These containers have no row any more: only the newest of such are kept, and none for later processes."""
        for key in keys:
            self._open.pop(key, None)
            if key in self._records:
                self._put(self._records[key], has_row=False)

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
        self._save(self._changed(grant, Change(self._clock.now_seconds(), what, text)))

    def _changed(self, grant: Grant, change: Change) -> DecisionRecord:
        """Note a change of a container that holds ``grant``, whether or not its decision is on record."""
        key = grant.container
        record = self._records.get(key)
        if record is None or record.outlives_row:
            record = record_of_grant(grant, Outcome.RESTORED, at_seconds=change.at_seconds)
        changed = with_change(record, change)
        self._put(changed)
        opened = self._open.get(key)
        if opened is not None:
            earlier = with_change(opened.earlier, change) if opened.earlier is not None else None
            self._open[key] = replace(opened, record=changed, earlier=earlier)
        return changed

    def _put_and_save(self, record: DecisionRecord) -> None:
        self._put(record)
        self._save(record)

    def _put(self, record: DecisionRecord, *, has_row: bool = True) -> None:
        self._records[record.key] = record
        self._rowless.pop(record.key, None)
        if record.outlives_row or not has_row:
            self._rowless[record.key] = None
        while len(self._rowless) > KEPT_WITHOUT_ROW:
            oldest, _ = self._rowless.popitem(last=False)
            del self._records[oldest]

    def _save(self, *records: DecisionRecord) -> None:
        if self._persistence is not None:
            self._persistence.save_later(records)
