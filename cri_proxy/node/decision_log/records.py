"""Keep and save each container's last decision and history for ``explain``; a decision is open until the outcome.

Records are kept for containers that have a row, and for the newest of those that hold nothing.
"""

import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from cri_proxy.clock import Clock
from cri_proxy.node.decision_log.summary import (
    Circumstances,
    after_earlier,
    asks_same,
    change_code,
    change_text,
    record_of_grant,
    with_history,
)
from cri_proxy.node.persistence import Persistence
from cri_proxy.state import decisions
from cri_proxy.state.rows import Row, Saved
from policies.base import ContainerKey, Grant, Placed, Reason
from policies.container_name import ContainerName

# Records that are kept unpacked: 20 kB each, where a compressed one takes a third of one.
UNPACKED = 4
# Fewer than this wait to be packed: one after the other takes half of the time of one in the middle of other work.
PUT_OFF = 16
_WINDOW_BITS = 12  # 4 kB: about a record


@dataclass(frozen=True, slots=True)
class KeptDecision:
    """A packed record with its text compressed, which makes a tenth of it.

    ``like`` is the text of another record, from which the compressed one takes what both have (zlib's preset
    dictionary). ``has_problems``: annotations of the container could not be read.
    """

    packed: decisions.PackedDecision
    text: bytes
    like: bytes
    has_problems: bool = False

    @classmethod
    def of(cls, packed: decisions.PackedDecision, like: bytes) -> Self:
        """Compress it, in 40 microseconds: zlib's usual window would take 0.2 MB, and six times as long to clear."""
        compressing = zlib.compressobj(1, wbits=_WINDOW_BITS, memLevel=4, zdict=like)
        text = compressing.compress(packed.text.encode()) + compressing.flush()
        return cls(replace(packed, text=""), text, like, '"problems":[' in packed.text)

    def whole(self) -> decisions.PackedDecision:
        """Return it with its text."""
        text = zlib.decompressobj(wbits=_WINDOW_BITS, zdict=self.like).decompress(self.text)
        return replace(self.packed, text=text.decode())


@dataclass(frozen=True, slots=True)
class OpenDecision:
    """A decision whose outcome at the runtime is not known yet.

    ``row`` is the live container that is re-decided, ``earlier`` the record that counted until then.
    ``moved`` are the containers whose grants changed to make room. ``affinity_reasons`` returns those that
    counted.
    """

    record: decisions.DecisionRecord
    row: Row | None
    earlier: decisions.DecisionRecord | None
    moved: tuple[Grant, ...]
    affinity_reasons: Callable[[], tuple[Reason, ...]]


def _closed(
    record: decisions.DecisionRecord, affinity_reasons: Callable[[], tuple[Reason, ...]]
) -> decisions.DecisionRecord:
    """Return the record with the affinities that counted, as sentences: worked out once no call waits any more."""
    return replace(record, affinity_reasons=tuple(reason.text for reason in affinity_reasons()), is_confirmed=True)


class Records:
    """Records by container. A record is saved once the outcome of its decision is known; no call waits for that."""

    def __init__(self, clock: Clock, on_damage: Callable[[str], object]) -> None:
        """Start empty; nothing is saved before ``recall``. ``on_damage`` gets the error of an unreadable record."""
        self._clock = clock
        self._on_damage = on_damage
        self._persistence: Persistence | None = None
        self.version = 0  # of the closed decisions: it grows with each that comes or changes
        self._packed: dict[ContainerKey, KeptDecision] = {}
        self._like = b""  # the text of the first one
        self._open: dict[ContainerKey, OpenDecision] = {}
        self._late: dict[ContainerKey, decisions.DecisionRecord] = {}  # closed, and not packed yet
        # Containers without a row, oldest first (the values mean nothing), and records by their last use.
        self._rowless: OrderedDict[ContainerKey, None] = OrderedDict()
        self._unpacked: OrderedDict[ContainerKey, decisions.DecisionRecord] = OrderedDict()

    def recall(self, saved: Saved, persistence: Persistence) -> None:
        """Load the records of earlier processes; one of this process takes precedence. Save from now on."""
        self._persistence = persistence
        persistence.late = self._write_late
        self.version += 1
        known = dict(self._packed)
        for packed in saved.decisions:
            if packed.key not in known:
                self._keep(self._kept_of(packed))

    def get(self, key: ContainerKey) -> decisions.DecisionRecord | None:
        """Return the last decision about this container, a refusal too; None also for one that cannot be read."""
        opened = self._open.get(key)
        if opened is not None:
            return opened.record
        if key in self._late:
            return self._late[key]
        kept = self._packed.get(key)
        if kept is None:
            return None
        record = self._unpacked.get(key)
        if record is None:
            try:
                record = self._read(kept)
            except ValueError as error:
                # Dropped: else each question about the container would fail and be logged again.
                del self._packed[key]
                self._rowless.pop(key, None)
                self._on_damage(f"{kept.packed.name}: {error}")
                return None
        self._remember(record)
        return record

    def names(self) -> dict[ContainerKey, ContainerName]:
        """Return the containers with a known decision, by the names that people use."""
        self._write_late()
        names = {key: kept.packed.name for key, kept in self._packed.items()}
        return names | {key: opened.record.request.full_name for key, opened in self._open.items()}

    def misread(self) -> frozenset[ContainerKey]:
        """Return the containers with annotations that could not be read."""
        self._write_late()
        opened = {key for key, each in self._open.items() if each.record.problems}
        return frozenset(opened | {key for key, kept in self._packed.items() if kept.has_problems})

    def refused_since(self, at_seconds: float) -> tuple[ContainerKey, ...]:
        """Return the containers that were refused or not created since then, the newest first."""
        self._write_late()
        packed = (kept.packed for kept in self._packed.values())
        late = [p for p in packed if p.outlives_row and p.at_seconds >= at_seconds]
        late.sort(key=lambda packed: (packed.at_seconds, packed.key), reverse=True)
        return tuple(packed.key for packed in late)

    def open(self, record: decisions.DecisionRecord, decision: Placed, circumstances: Circumstances) -> None:
        """Add a placement that the runtime has not confirmed yet."""
        earlier = self.get(record.key)
        complete = after_earlier(record, earlier)
        if circumstances.row is not None and earlier is not None:  # a new size comes without annotations
            complete = replace(complete, problems=complete.problems or earlier.problems)
        self._open[record.key] = OpenDecision(
            complete, circumstances.row, earlier, decision.moved, circumstances.affinity_reasons
        )

    def refused(self, record: decisions.DecisionRecord, circumstances: Circumstances) -> None:
        """Add a refusal; a live container keeps its record, with an entry in its history."""
        row = circumstances.row
        if row is None:
            self._put(after_earlier(_closed(record, circumstances.affinity_reasons), self.get(record.key)))
            return
        text = record.reasons[0].text if record.reasons else "no reason is known"
        is_resize = not asks_same(row.grant.request, record.request)
        self._add(row.grant, "resize-refused" if is_resize else "no-other-place", text)

    def confirmed(self, row: Row) -> OpenDecision | None:
        """Close a decision that was carried out; None when it was not open."""
        opened = self._open.pop(row.key, None)
        record = opened.record if opened is not None else self.get(row.key)
        if record is None or record.outlives_row:
            record = record_of_grant(row.grant, decisions.Outcome.RESTORED, at_seconds=self._clock.now_seconds())
        elif record.is_confirmed:
            return opened
        self._put(replace(record, is_confirmed=True) if opened is None else _closed(record, opened.affinity_reasons))
        for other in self._moved(opened) if opened is not None else ():
            self._put(other)
        return opened

    def given_up(self, row: Row, why: str) -> decisions.DecisionRecord:
        """Close a decision whose container was not created; return its record."""
        opened = self._open.pop(row.key, None)
        record = opened.record if opened is not None else self.get(row.key)
        if record is None:
            record = record_of_grant(row.grant, decisions.Outcome.NOT_CREATED, at_seconds=self._clock.now_seconds())
        failed = replace(record, outcome=decisions.Outcome.NOT_CREATED, failure=why, is_confirmed=True)
        failed = _closed(failed, opened.affinity_reasons) if opened is not None else failed
        self._put(failed)
        return failed

    def kept(self, row: Row, why: str) -> None:
        """Close a decision about a live container that keeps what it held before."""
        opened = self._open.pop(row.key, None)
        holds = opened.row.grant if opened is not None and opened.row is not None else row.grant
        self._add(holds, "resize-undone", why)

    def changed(self, before: Grant | None, after: Grant, why: str, *, came_home: bool = False) -> None:
        """Add a change of a grant that no request asked for; None = the container held nothing."""
        if before is None:
            adopted = record_of_grant(after, decisions.Outcome.ADOPTED, at_seconds=self._clock.now_seconds())
            self._put(after_earlier(adopted, self.get(after.container)))
        else:
            code = decisions.REBALANCED if came_home else change_code(before, after)
            self._add(after, code, f"{change_text(before, after)}: {why}")

    def happened(self, row: Row, what: str, text: str) -> None:
        """Add an event that leaves the grant as it is; a repetition of the last one is counted."""
        self._add(row.grant, what, text)

    def forgotten(self, keys: Sequence[ContainerKey]) -> None:
        """Note that these containers have no row any more: the newest of them are kept, in memory only."""
        self._write_late()
        for key in keys:
            self._open.pop(key, None)
            kept = self._packed.get(key)
            if kept is not None:
                self.version += 1
                self._keep(kept, has_row=False)

    def pods_gone(self, uids: Collection[str]) -> None:
        """Forget the containers of these pods, which have no sandbox any more; the caller deletes them in the store."""
        self._write_late()
        for key in [key for key in (*self._packed, *self._open) if key.pod_uid in uids]:
            for known in (self._packed, self._open, self._rowless, self._unpacked):
                known.pop(key, None)

    def _moved(self, opened: OpenDecision) -> Iterable[decisions.DecisionRecord]:
        """Return the records of the containers that made room, with an entry about that."""
        name = opened.record.request.full_name
        moves = {move.who: move for move in opened.record.moves}
        for grant in opened.moved:
            move = moves.get(grant.request.full_name)
            if move is not None:
                yield self._with_entry(
                    grant, move.code, f"{move.text} {'beside' if move.is_rebalanced else 'for'} {name}"
                )

    def _add(self, grant: Grant, what: str, text: str) -> None:
        self._put(self._with_entry(grant, what, text))

    def _with_entry(self, grant: Grant, what: str, text: str) -> decisions.DecisionRecord:
        """Return the record of a container that holds ``grant``, with this entry; an open decision gets it too."""
        entry = decisions.HistoryEntry(self._clock.now_seconds(), what, text)
        opened = self._open.get(grant.container)
        record = opened.earlier if opened is not None else self.get(grant.container)
        if record is None or record.outlives_row:
            record = record_of_grant(grant, decisions.Outcome.RESTORED, at_seconds=entry.at_seconds)
        record = with_history(record, entry)
        if opened is not None:
            opened = replace(opened, record=with_history(opened.record, entry), earlier=record)
            self._open[grant.container] = opened
        return record

    def _put(self, record: decisions.DecisionRecord) -> None:
        """Keep a record and save it, both a little later where saves are gathered."""
        self.version += 1
        if self._persistence is None or not self._persistence.gathers():
            self._write(record)
            return
        self._late[record.key] = record
        if len(self._late) >= PUT_OFF:
            self._write_late()

    def _write_late(self) -> None:
        for key in tuple(self._late):
            self._write(self._late.pop(key))

    def _write(self, record: decisions.DecisionRecord) -> None:
        packed = self._pack(record)
        self._keep(self._kept_of(packed))
        self._remember(record)
        if self._persistence is not None:
            self._persistence.save_later([packed])

    def _pack(self, record: decisions.DecisionRecord) -> decisions.PackedDecision:
        """Return the record as it is saved; a node in memory need not write it down."""
        return decisions.pack(record)

    def _kept_of(self, packed: decisions.PackedDecision) -> KeptDecision:
        """Return the packed record as it is kept in memory."""
        self._like = self._like or packed.text.encode()
        return KeptDecision.of(packed, self._like)

    def _read(self, kept: KeptDecision) -> decisions.DecisionRecord:
        """Return the record. Raises ValueError when it is damaged."""
        return decisions.unpack(kept.whole())

    def _keep(self, kept: KeptDecision, *, has_row: bool = True) -> None:
        packed = kept.packed
        self._packed[packed.key] = kept
        # It is of the record before; the caller remembers the new one if it has it unpacked.
        self._unpacked.pop(packed.key, None)
        self._rowless.pop(packed.key, None)
        if packed.outlives_row or not has_row:
            self._rowless[packed.key] = None
        while len(self._rowless) > decisions.KEPT_WITHOUT_ROW:
            oldest, _ = self._rowless.popitem(last=False)
            del self._packed[oldest]
            self._unpacked.pop(oldest, None)

    def _remember(self, record: decisions.DecisionRecord) -> None:
        """Keep the record unpacked: a container that is asked about is asked about again."""
        self._unpacked[record.key] = record
        self._unpacked.move_to_end(record.key)
        while len(self._unpacked) > UNPACKED:
            self._unpacked.popitem(last=False)
