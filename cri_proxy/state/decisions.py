"""The record of a decision: what ``explain`` tells, compact enough to keep one for every container."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cri_proxy.codec import decode, encode
from policies.base import ContainerKey, CpuKind, Default, Grant, Pinning, Reason, Request
from sysfs.cpuset import CpuSet, NodeSet

# Pools that are kept of a ranking, the chosen one apart: who asks about the 17th best knows how to simulate.
KEPT_POOLS: Final = 16
# Later changes of one container, and other containers that changed by one decision.
KEPT_CHANGES: Final = 16
KEPT_DISPLACED: Final = 32
# Records of containers that have no row: refused, not created. The kubelet tries a pod again under the same key,
# so this is that many pods.
KEPT_WITHOUT_ROW: Final = 256


class Outcome(StrEnum):
    """What came of a decision."""

    PLACED = "placed"
    REFUSED = "refused"  # no place, or not as strictly asked
    NOT_CREATED = "not created"  # it had a place; the runtime did not make it, or the caller left
    ADOPTED = "adopted"  # it ran before it was known
    RESTORED = "restored"  # it held a grant of which no record was left


@dataclass(frozen=True, slots=True)
class RankedPool:
    """One pool as it was considered; ``values`` belong to the record's ``fields``."""

    pool: str
    values: tuple[int | float | str, ...]
    outcome: str


@dataclass(frozen=True, slots=True)
class Granted:
    """What was decided: the parts of a grant, and the cpuset that followed from it then."""

    pool: str
    kind: CpuKind
    pinning: Pinning
    exclusive: CpuSet = CpuSet()
    isolated: CpuSet = CpuSet()
    shared_mcpu: int = 0
    reserved_mcpu: int = 0
    is_cold: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """A container by the names that people use."""

    namespace: str
    pod: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}/{self.name}"


@dataclass(frozen=True, slots=True)
class Displaced:
    """Another container whose pinning changed by a decision; ``before`` None = it is not known."""

    who: Named
    before: Pinning | None
    after: Pinning


@dataclass(frozen=True, slots=True)
class Moved:
    """Another container whose grant changed to make room: its pool, its memory nodes, or both."""

    who: Named
    pool_before: str
    pool: str
    mems_before: NodeSet
    mems: NodeSet


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to a container since, or before, it was decided on: ``what`` is a code, ``text`` a sentence."""

    at_seconds: float  # since the epoch
    what: str
    text: str


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision about one container, and what happened to it since.

    ``duration_seconds`` is how long deciding took. ``granted`` is None for a refusal. ``fields`` name the values of
    ``ranking``, which holds the best pools and the chosen one of ``pools_considered``. ``company`` says who drew it
    and who pushed it. ``failure`` says why it was not created. ``history`` is oldest first. ``is_confirmed``: the
    runtime has said what became of it.
    """

    request: Request
    outcome: Outcome
    decided_at_seconds: float
    duration_seconds: float = 0.0
    granted: Granted | None = None
    reasons: tuple[Reason, ...] = ()
    fields: tuple[str, ...] = ()
    ranking: tuple[RankedPool, ...] = ()
    pools_considered: int = 0
    displaced: tuple[Displaced, ...] = ()
    displaced_count: int = 0
    moved: tuple[Moved, ...] = ()
    problems: tuple[str, ...] = ()
    defaults: tuple[Default, ...] = ()
    company: tuple[Reason, ...] = ()
    failure: str = ""
    history: tuple[Change, ...] = ()
    is_confirmed: bool = False

    @property
    def key(self) -> ContainerKey:
        """Whose record this is: the primary key."""
        return self.request.container

    @property
    def outlives_row(self) -> bool:
        """Whether it is about a container that holds nothing, hence has no row of its own to go with."""
        return self.outcome in (Outcome.REFUSED, Outcome.NOT_CREATED)


@dataclass(frozen=True, slots=True)
class PackedDecision:
    """A record as text, with what it is searched by: to read hundreds of them at a start would take its time."""

    key: ContainerKey
    who: Named
    outlives_row: bool
    decided_at_seconds: float
    text: str


def pack(record: DecisionRecord) -> PackedDecision:
    """The record as it is kept and saved."""
    text = json.dumps(encode(record, sparse=True), separators=(",", ":"), ensure_ascii=False)
    return PackedDecision(record.key, named(record.request), record.outlives_row, record.decided_at_seconds, text)


def unpack(packed: PackedDecision) -> DecisionRecord:
    """The record itself. Raises ValueError for one that is damaged, or of a version that is not understood."""
    try:
        return decode(DecisionRecord, json.loads(packed.text))
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def named(request: Request) -> Named:
    """The names of the container that asks."""
    return Named(request.pod.namespace, request.pod.name, request.container.name)


def granted_of(grant: Grant, pinning: Pinning) -> Granted:
    """The parts of a grant that a record keeps; the request stands in the record already."""
    return Granted(
        grant.pool,
        grant.kind,
        pinning,
        exclusive=grant.exclusive,
        isolated=grant.isolated,
        shared_mcpu=grant.shared_mcpu,
        reserved_mcpu=grant.reserved_mcpu,
        is_cold=grant.is_cold,
    )
