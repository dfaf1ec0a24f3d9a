"""The stored record of a decision about one container: its values, its packed JSON, and the words for its changes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from itertools import chain
from typing import Final

from cri_proxy.codec import Plain, decode, encode_fields
from cri_proxy.foreign_text import SENTENCE_BYTES, admit, is_same_failure
from policies.answers import Default
from policies.base import ContainerKey, CpuKind, Grant, Pinning, Ranked, Reason, Request
from policies.container_name import ContainerName
from policies.device_grants import device_words
from policies.topology_aware import WHY_WORSE
from sysfs.cpuset import CpuSet, NodeSet

# Pools that are kept of a ranking, beside the chosen one: `simulate` shows the others.
KEPT_POOLS: Final = 16
# Later changes of one container, and other containers that changed by one decision.
KEPT_CHANGES: Final = 16
KEPT_DISPLACED: Final = 32
# Records of containers that have no row: refused, not created. The kubelet tries a pod again under the same key,
# so this is that many pods.
KEPT_WITHOUT_ROW: Final = 256
KEPT_REASONS: Final = 4  # of a record that is too large
# Annotations that could not be read; a pod may have hundreds, and each is a line of the log as well.
KEPT_PROBLEMS: Final = 16
PROBLEM_BYTES: Final = 512
# All texts of one history: four failures in the runtime's longest words, or sixteen in usual ones.
HISTORY_BYTES: Final = 8 << 10
# A record as it is kept and saved; usual ones have 2 to 6 kB. Labels, affinities and device paths of a pod can have
# a megabyte: a record that is larger goes without them. 256 records have 8 MiB at most.
RECORD_BYTES: Final = 32 << 10
CHOSEN: Final = "chosen"
REBALANCED: Final = "rebalanced"  # the code of a move to the place that a fresh decision would choose
_NOT_TRIED: Final = "not tried"


class Outcome(StrEnum):
    """The result of a decision."""

    PLACED = "placed"
    REFUSED = "refused"  # no place, or not as strictly asked
    NOT_CREATED = "not created"  # it had a place; the runtime did not make it, or the caller left
    ADOPTED = "adopted"  # it ran before it was known
    RESTORED = "restored"  # it held a grant of which no record was left


# Entries of a history that say what could not be done, in others' words. In all others a number is what matters.
FAILURES: Final = frozenset(
    {Outcome.REFUSED, Outcome.NOT_CREATED, "no-other-place", "resize-refused", "resize-undone", "update-refused"}
)


@dataclass(frozen=True, slots=True)
class RankedPool(Ranked):
    """A pool that was considered, and why it is not the chosen one, in words."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Granted:
    """The result of a decision: the parts of a grant, and the pinning that followed from it then."""

    pool: str
    kind: CpuKind
    pinning: Pinning
    exclusive: CpuSet = CpuSet()
    isolated: CpuSet = CpuSet()
    shared_mcpu: int = 0
    reserved_mcpu: int = 0
    is_cold: bool = False
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PinningChange(ContainerName):
    """A container whose pinning changes, from what (None = not known, or not ours) to what."""

    cpus: CpuSet | None
    mems: NodeSet | None
    cpus_before: CpuSet | None = None
    mems_before: NodeSet | None = None

    @classmethod
    def of(cls, name: ContainerName, before: Pinning | None, after: Pinning) -> "PinningChange":
        """Return the change of this container from one pinning to another; None = the first is not known."""
        cpus_before, mems_before = (before.cpus, before.mems) if before is not None else (None, None)
        return cls(name.namespace, name.pod, name.name, after.cpus, after.mems, cpus_before, mems_before)


@dataclass(frozen=True, slots=True)
class GrantMove:
    """Another container whose grant changed to make room: its pool, its memory nodes, or both.

    ``is_rebalanced``: it lost CPUs of its pool, and went where a fresh decision would place it.
    """

    who: ContainerName
    pool_before: str
    pool: str
    mems_before: NodeSet
    mems: NodeSet
    is_rebalanced: bool = False

    @property
    def code(self) -> str:
        """The code of the move in the history of the container that moved."""
        if self.is_rebalanced:
            return REBALANCED
        return "lifted" if self.pool_before != self.pool else memory_code(self.mems_before, self.mems)

    @property
    def text(self) -> str:
        """The new place, and what the move was for, in words."""
        parts = []
        if self.pool_before != self.pool:
            parts.append(f"from {self.pool_before} to {self.pool}")
        if self.mems_before != self.mems:
            parts.append(memory_text(self.mems_before, self.mems))
        return ", ".join((*parts, "as too few CPUs were left" if self.is_rebalanced else "to make room"))


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An event of a container before or after its decision: ``what`` is a code, ``text`` a sentence.

    ``count`` is how often it happened in succession, ``last_at_seconds`` when last (None = once). ``text`` is that of
    the last time.
    """

    at_seconds: float  # since the epoch
    what: str
    text: str
    count: int = 1
    last_at_seconds: float | None = None

    def __post_init__(self) -> None:
        """Cut and clean the sentence, which may hold the runtime's words or a process's name."""
        object.__setattr__(self, "text", admit(self.text, SENTENCE_BYTES))

    def repeats(self, other: "HistoryEntry") -> bool:
        """Return whether both say the same; failures are compared without ids and numbers."""
        if self.what != other.what:
            return False
        return self.text == other.text or (self.what in FAILURES and is_same_failure(self.text, other.text))

    def again(self, later: "HistoryEntry") -> "HistoryEntry":
        """Return this entry with one more occurrence."""
        return replace(self, text=later.text, count=self.count + 1, last_at_seconds=later.at_seconds)


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision about one container, and the container's later history.

    ``decided_at_seconds`` is since the epoch, None for a restored container, which has ``restored_at_seconds``.
    ``duration_seconds`` is how long the decision took. ``granted`` is None for a refusal. ``ranking`` holds the best
    pools and the chosen one of ``pools_considered``. ``displaced`` are the first of ``displaced_count`` containers
    whose pinning changed, ``moves`` those whose grant changed to make room. ``problems`` are the first annotations
    that could not be read. ``affinity_reasons`` name the containers that attracted or repelled it. ``failure`` is
    why it was not created. ``history`` is oldest first. ``is_confirmed``: the runtime has answered.
    """

    request: Request
    outcome: Outcome
    decided_at_seconds: float | None
    duration_seconds: float = 0.0
    granted: Granted | None = None
    reasons: tuple[Reason, ...] = ()
    ranking: tuple[RankedPool, ...] = ()
    pools_considered: int = 0
    displaced: tuple[PinningChange, ...] = ()
    displaced_count: int = 0
    moves: tuple[GrantMove, ...] = ()
    problems: tuple[str, ...] = ()
    defaults: tuple[Default, ...] = ()
    affinity_reasons: tuple[str, ...] = ()
    failure: str = ""
    history: tuple[HistoryEntry, ...] = ()
    is_confirmed: bool = False
    restored_at_seconds: float | None = None

    def __post_init__(self) -> None:
        """Cut and clean what others wrote, where there is any: an older version has saved it as it came."""
        if self.failure:
            object.__setattr__(self, "failure", admit(self.failure, SENTENCE_BYTES))
        if self.problems:
            object.__setattr__(self, "problems", bounded_problems(self.problems))
        if self.history:
            object.__setattr__(self, "history", bounded_history(self.history))

    @property
    def key(self) -> ContainerKey:
        """The container that the record is about: the primary key."""
        return self.request.container

    @property
    def at_seconds(self) -> float:
        """When the record began, since the epoch; 0 where that is not known."""
        return self.decided_at_seconds or self.restored_at_seconds or 0.0

    @property
    def outlives_row(self) -> bool:
        """Whether the container holds nothing: no row exists whose deletion would delete the record."""
        return self.outcome in (Outcome.REFUSED, Outcome.NOT_CREATED)


@dataclass(frozen=True, slots=True)
class PackedDecision:
    """A record as text, with the fields it is searched by: parsing hundreds of records would slow down a start."""

    key: ContainerKey
    name: ContainerName
    outlives_row: bool
    at_seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class _StoredPool:
    """A pool of a stored ranking; ``values`` belong to the ranking's ``fields``."""

    pool: str
    values: tuple[int | float | str, ...]
    outcome: str


@dataclass(frozen=True, slots=True)
class _StoredRanking:
    """A ranking without what repeats: the names of the keys' fields stand once, the reasons follow from the values."""

    fields: tuple[str, ...] = ()
    ranking: tuple[_StoredPool, ...] = ()

    def pools(self) -> tuple[RankedPool, ...]:
        """Return the ranking in full."""
        return with_reasons(
            [
                Ranked(each.pool, tuple(zip(self.fields, each.values, strict=False)), each.outcome)
                for each in self.ranking
            ]
        )


def bounded_history(history: Sequence[HistoryEntry]) -> tuple[HistoryEntry, ...]:
    """Return the newest of these entries that are within the bounds of a record."""
    kept, size = 0, 0
    for entry in reversed(history[-KEPT_CHANGES:]):
        size += len(entry.text.encode())
        if size > HISTORY_BYTES:
            break
        kept += 1
    return tuple(history[len(history) - kept :])


def bounded_problems(problems: Sequence[str]) -> tuple[str, ...]:
    """Return the first of these problems of annotations, cut and clean, and how many there are beyond."""
    shown = problems if len(problems) <= KEPT_PROBLEMS else problems[: KEPT_PROBLEMS - 1]
    more = len(problems) - len(shown)
    return (*(admit(each, PROBLEM_BYTES) for each in shown), *([f"and {more} more annotations"] if more else []))


def pack(record: DecisionRecord) -> PackedDecision:
    """Return the record as it is kept and saved, without what makes it too large."""
    labels = chain.from_iterable((*record.request.pod.labels, *record.request.labels))
    is_large = sum(map(len, labels)) > RECORD_BYTES  # not worth writing first: a megabyte holds up the event loop
    text = _packed_text(_without_details(record) if is_large else record)
    if len(text) > RECORD_BYTES:
        text = _packed_text(_without_details(record))
    return PackedDecision(record.key, record.request.full_name, record.outlives_row, record.at_seconds, text)


def bounded(packed: PackedDecision) -> PackedDecision:
    """Return a record that an older version has saved, within today's bounds. Raises ValueError when it is damaged."""
    return packed if len(packed.text) <= RECORD_BYTES else pack(unpack(packed))


def _without_details(record: DecisionRecord) -> DecisionRecord:
    """Return the record with the parts only whose size has a bound: the outcome, why, and the history."""
    asked = record.request
    preferences = replace(asked.preferences, notify=())
    pod = replace(asked.pod, labels=())
    short = replace(asked, pod=pod, labels=(), preferences=preferences, affinities=(), localities=(), origins=())
    reasons = tuple(replace(reason, text=admit(reason.text)) for reason in record.reasons[:KEPT_REASONS])
    granted = replace(record.granted, devices=()) if record.granted is not None else None
    return replace(
        record, request=short, granted=granted, reasons=reasons, ranking=(), displaced=(), moves=(), affinity_reasons=()
    )


def _packed_text(record: DecisionRecord) -> str:
    plain = encode_fields(replace(record, ranking=()), sparse=True)
    plain |= _plain_ranking(record.ranking)
    # ASCII, of which a character takes one byte in memory; next to an emoji every character takes four.
    return json.dumps(plain, separators=(",", ":"))


def _plain_ranking(pools: Sequence[RankedPool]) -> dict[str, Plain]:
    """Return a ranking as ``_StoredRanking`` is encoded: a third of a record, and all its values are plain."""
    if not pools:
        return {}
    stored: list[Plain] = [
        {"pool": each.pool, "values": [value for _, value in each.key], "outcome": each.outcome} for each in pools
    ]
    return {"fields": [name for name, _ in pools[0].key], "ranking": stored}


def unpack(packed: PackedDecision) -> DecisionRecord:
    """Return the record of this text. Raises ValueError when it is damaged, or of an unknown version."""
    try:
        plain = json.loads(packed.text)
        if "company" in plain:  # the name of these reasons in records that were saved before
            plain["affinity_reasons"] = plain.pop("company")
        stored = decode(_StoredRanking, plain)
        return replace(decode(DecisionRecord, {**plain, "ranking": ()}), ranking=stored.pools())
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def with_reasons(ranking: Sequence[Ranked]) -> tuple[RankedPool, ...]:
    """Return these pools, best first, each with the reason why it is not the chosen one."""
    chosen = next((i for i, row in enumerate(ranking) if row.outcome == CHOSEN), None)
    whys = [
        _why_not(row, ranking[chosen], is_behind=i > chosen) if chosen is not None and i != chosen else ""
        for i, row in enumerate(ranking)
    ]
    return tuple(RankedPool(row.pool, row.key, row.outcome, why) for row, why in zip(ranking, whys, strict=True))


def _why_not(row: Ranked, chosen: Ranked, *, is_behind: bool) -> str:
    """Return why this pool is not the chosen one: its key is smaller, or it could not be used."""
    if not is_behind:
        return row.outcome if row.outcome != _NOT_TRIED else "ranks higher, but could not give what is asked"
    for (field, value), (_, better) in zip(row.key, chosen.key, strict=False):
        if value != better:
            return WHY_WORSE.get(field, f"has less {field}")
    return row.outcome


def memory_code(before: NodeSet, after: NodeSet) -> str:
    """Return the code of a change of memory nodes."""
    if before <= after:
        return "widened"
    return "narrowed" if after <= before else "memory-moved"


def memory_text(before: NodeSet, after: NodeSet) -> str:
    """Return a change of memory nodes in words."""
    return f"memory nodes from {before or 'none'} to {after or 'none'}"


def granted_of(grant: Grant, pinning: Pinning) -> Granted:
    """Return the parts of a grant that a record keeps; the record has the request already."""
    parts = {field.name: getattr(grant, field.name) for field in fields(Granted) if field.name != "pinning"}
    parts["devices"] = device_words(grant.devices) if grant.devices else ()
    return Granted(pinning=pinning, **parts)
