"""Frozen values of decisions: requests with preferences, grants, allocations, pinnings, reasons and pool views."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Self

from policies.alignment import Alignment, PodSums
from policies.claims import CpuClaim
from policies.container_name import ContainerName
from policies.device_grants import DeviceGrant, DeviceHolding, sources_of
from policies.pod_share import PodShare, PodTotals
from policies.preferences import Preferences
from sysfs.cpuset import CpuSet, NodeSet

Labels = tuple[tuple[str, str], ...]  # sorted by key


class QosClass(StrEnum):
    """The pod's QoS class, as Kubernetes spells it."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class CpuKind(StrEnum):
    """The kind of CPUs in a grant."""

    PRESERVE = "preserve"  # we do not touch its cpuset
    RESERVED = "reserved"  # the CPUs kept for the system
    SHARED = "shared"  # the shared set of its pool
    EXCLUSIVE = "exclusive"  # ordinary CPUs owned alone
    ISOLATED = "isolated"  # kernel-isolated CPUs owned alone
    MIXED = "mixed"  # owned CPUs and the pool's shared set


@dataclass(frozen=True, slots=True, order=True)
class HugePageLimit:
    """How many bytes of huge pages of one size a container may use. Kubernetes requests what it limits."""

    page_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True, order=True)
class ContainerKey:
    """The owner of a grant. It outlives container ids and restarts (docs/placement.md, Restart and faults)."""

    pod_uid: str
    name: str


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of a container, read from its sandbox."""

    uid: str
    name: str
    namespace: str
    qos: QosClass
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Expression:
    """A match expression: ``key`` is looked up on a container, compared by ``operator`` with ``values``."""

    key: str
    # Equals NotEqual In NotIn Exists NotExist AlwaysTrue Matches MatchesNot MatchesAny MatchesNone
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Affinity:
    """A preference for other containers; a negative weight repels. ``scope`` None = the same pod."""

    match: Expression
    weight: int = 1
    scope: Expression | None = None


@dataclass(frozen=True, slots=True)
class DeviceLocality:
    """Where something that the container uses is: CPUs, or NUMA nodes, near ``source`` (a path or device)."""

    source: str
    cpus: CpuSet
    nodes: NodeSet
    via: str = ""  # what named it, '' for the request's own devices and mounts: a variable, a CDI device, a claim
    devices: tuple[str, ...] = ()  # the PCI devices, or sources of others, that it is; () where they are not known


@dataclass(frozen=True, slots=True)
class Previous:
    """The former place of a container (at an earlier attempt, or before a resize), which it should get again."""

    pool: str  # '' = it had devices, and no place
    owned: CpuSet
    added: tuple[CpuSet, ...] = ()  # as in ``Grant``
    only_there: bool = False  # not in a wider pool: it lost some of its CPUs and has to move anyway
    alignment: Alignment | None = None  # as in ``Request``
    devices: tuple[DeviceGrant, ...] = ()  # as in ``Grant``
    is_running: bool = False  # it gets a new size, and neither more devices nor others
    # Where its devices and mounts were, which is said of the container's request; None: that is not known.
    near: tuple[DeviceLocality, ...] | None = field(default=None, repr=False)

    @property
    def of_devices(self) -> "Previous | None":
        """Its devices alone, without a place to come back to; None where it has none."""
        says_of_them = self.devices or self.is_running
        return Previous("", CpuSet(), devices=self.devices, is_running=self.is_running) if says_of_them else None


@dataclass(frozen=True, slots=True)
class Request:
    """The request of one container, as read from CRI messages and annotations."""

    container: ContainerKey
    pod: Pod
    cpu_request_mcpu: int
    cpu_limit_mcpu: int | None = None  # None = unlimited
    memory_request_bytes: int = 0
    memory_limit_bytes: int | None = None
    huge_pages: tuple[HugePageLimit, ...] = ()  # by page size, none without a limit
    labels: Labels = ()
    preferences: Preferences = Preferences()
    affinities: tuple[Affinity, ...] = ()
    localities: tuple[DeviceLocality, ...] = ()
    previous: Previous | None = None
    origins: tuple[tuple[str, str], ...] = ()  # (field, the annotation, CRI field or default it came from)
    pod_totals: PodTotals | None = None  # None: the pod's containers ask for themselves alone, as far as is known
    pod_request_mcpu: int = 0  # of all containers of the pod together; 0 = none, or not known
    pod_sums: PodSums | None = None  # what hints are merged for under the scope pod
    alignment: Alignment | None = None  # set with the grant: the NUMA nodes that it is kept within
    given: tuple[DeviceGrant, ...] = ()  # devices of the inventory that others chose for it
    lacks: tuple[str, ...] = ()  # CDI devices that the kubelet asked for, and that it runs without
    claim: CpuClaim | None = None  # CPUs that others chose for it

    @property
    def full_name(self) -> ContainerName:
        """The name of the container that people use."""
        return ContainerName(self.pod.namespace, self.pod.name, self.container.name)


@dataclass(frozen=True, slots=True)
class Grant:
    """The resources that a container holds. Its cpuset follows from this and from all other grants (``pinnings``)."""

    request: Request
    pool: str  # pool name; '' for kinds that have none
    kind: CpuKind
    exclusive: CpuSet = CpuSet()  # ordinary CPUs owned alone
    isolated: CpuSet = CpuSet()  # kernel-isolated CPUs owned alone
    shared_mcpu: int = 0  # booked in the pool's shared account; 0 for containers that ask for nothing
    reserved_mcpu: int = 0  # booked on the reserved CPUs; if SHARED, asked for there, where is no room
    mems: NodeSet = NodeSet()  # memory nodes (its zone); empty = not written
    added: tuple[CpuSet, ...] = ()  # owned CPUs that came with each growth, oldest first; the others came before
    is_cold: bool = False  # its cold start lasts: DRAM is still withheld from it
    share: PodShare | None = None  # its CPUs, its memory or both are its pod's: the same grant is with other containers
    spill: NodeSet = NodeSet()  # written beside its zone: nodes that it may use, where it is promised nothing
    devices: tuple[DeviceGrant, ...] = ()  # whole ones of cost files by type and name, then shares by type and minor

    @property
    def container(self) -> ContainerKey:
        """The owner."""
        return self.request.container

    @property
    def device_sources(self) -> tuple[str, ...]:
        """The names of its devices among the localities of its request."""
        return sources_of(self.devices)

    @property
    def owned(self) -> CpuSet:
        """The CPUs that it has alone."""
        return self.exclusive | self.isolated if self.isolated.mask else self.exclusive

    @property
    def is_in_pool(self) -> bool:
        """Whether it runs in a pool: reserved and preserved containers do not."""
        return self.kind is not CpuKind.PRESERVE and self.kind is not CpuKind.RESERVED

    @property
    def is_overcommitted(self) -> bool:
        """Whether it asked for CPU time, or has a claim, and only shares with none booked: there was no room for it."""
        asks = self.request.pod.qos is not QosClass.BEST_EFFORT and self.booked_for_mcpu > 0
        return self.kind is CpuKind.SHARED and not self.shared_mcpu and (asks or self.request.claim is not None)

    @property
    def booked_for_mcpu(self) -> int:
        """The CPU request that the grant was made for: the container's own, or what its pod's containers share."""
        share = self.share
        return self.request.cpu_request_mcpu if share is None or share.cpu_mcpu is None else share.cpu_mcpu

    @property
    def shares_cpus(self) -> bool:
        """Whether its CPUs are its pod's."""
        return self.share is not None and self.share.cpu_mcpu is not None

    def shares_cpus_with(self, other: "Grant") -> bool:
        """Return whether both run on the same CPUs of one pod."""
        # A pod may have CPUs of several claims, and others that all share: these are different sets.
        is_of_pod = self.container.pod_uid == other.container.pod_uid
        return is_of_pod and self.shares_cpus and other.shares_cpus and self.request.claim == other.request.claim

    @property
    def as_previous(self) -> Previous | None:
        """The place that a new attempt or size of this container should get again: of kinds without one its devices."""
        # No place to come back to, but devices that its processes have open.
        if self.kind in (CpuKind.PRESERVE, CpuKind.RESERVED):
            return Previous("", CpuSet(), devices=self.devices) if self.devices else None
        alignment, near = self.request.alignment, self.request.localities
        return Previous(self.pool, self.owned, self.added, alignment=alignment, devices=self.devices, near=near)

    @property
    def as_running(self) -> Previous | None:
        """The place that a new size of this container should keep; None where it has none."""
        previous = self.as_previous
        if previous is None and self.request.preferences.devices:
            previous = Previous("", CpuSet())  # it runs without the devices that it asks for
        return None if previous is None else replace(previous, is_running=True)

    @property
    def as_elsewhere(self) -> Previous | None:
        """The devices that a container that exists keeps in any place; None where it neither has nor asks for any."""
        has_or_asks = self.devices or self.request.preferences.devices
        return Previous("", CpuSet(), devices=self.devices, is_running=True) if has_or_asks else None


@dataclass(frozen=True, slots=True)
class Allocations:
    """All grants of the node, sorted by container, CPUs withheld from exclusive use, devices held without a grant."""

    grants: tuple[Grant, ...] = ()
    withheld: CpuSet = CpuSet()  # used by containers with a cpuset of their own (docs/placement.md, Choosing CPUs)
    holdings: tuple[DeviceHolding, ...] = ()  # of containers that have no grant here

    def _index(self, container: ContainerKey) -> int:
        return bisect_left(self.grants, container, key=lambda g: g.container)

    def get(self, container: ContainerKey) -> Grant | None:
        """Return the grant of this container, or None."""
        i = self._index(container)
        return self.grants[i] if i < len(self.grants) and self.grants[i].container == container else None

    def device_holders(self) -> Iterator[tuple[str, tuple[DeviceGrant, ...]]]:
        """Yield everyone who has devices, by name, with these: containers with a grant, then others."""
        yield from ((str(grant.request.full_name), grant.devices) for grant in self.grants if grant.devices)
        yield from ((holding.holder, holding.devices) for holding in self.holdings)

    def with_grants(self, *grants: Grant) -> Self:
        """Return a copy with these grants, each in place of an older one of the same container."""
        merged = list(self.grants)
        for grant in grants:
            i = bisect_left(merged, grant.container, key=lambda g: g.container)
            end = i + 1 if i < len(merged) and merged[i].container == grant.container else i
            merged[i:end] = [grant]
        return replace(self, grants=tuple(merged))

    def without(self, container: ContainerKey) -> Self:
        """Return a copy without this container's grant. It may have none."""
        i = self._index(container)
        if i == len(self.grants) or self.grants[i].container != container:
            return self
        return replace(self, grants=self.grants[:i] + self.grants[i + 1 :])


@dataclass(frozen=True, slots=True)
class Pinning:
    """The cpuset fields that are written for a container. None = the field is not written. Never an empty set."""

    cpus: CpuSet | None = None
    mems: NodeSet | None = None

    def over(self, other: "Pinning | None") -> "Pinning":
        """Return this pinning, with the fields that it does not write taken from ``other``."""
        if other is None:
            return self
        return Pinning(other.cpus if self.cpus is None else self.cpus, other.mems if self.mems is None else self.mems)


Pinnings = Mapping[ContainerKey, Pinning]


@dataclass(frozen=True, slots=True)
class Update:
    """Another container whose pinning changes."""

    container: ContainerKey
    pinning: Pinning


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason: ``code`` for machines (a bounded set, used as a metric label), ``text`` one sentence for people."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Ranked:
    """A pool as it was considered: its key, field by field in the order of comparison, and the outcome."""

    pool: str
    key: tuple[tuple[str, int | float | str], ...]
    outcome: str  # 'chosen', 'not tried', or why it was refused


@dataclass(frozen=True, slots=True)
class Placed:
    """The container has a place."""

    grant: Grant
    pinning: Pinning = Pinning()
    updates: tuple[Update, ...] = ()  # containers whose pinning changes, sorted by container
    moved: tuple[Grant, ...] = ()  # others that get a wider pool or more memory nodes to make room
    reasons: tuple[Reason, ...] = ()
    ranking: tuple[Ranked, ...] = ()
    rebalanced: tuple[ContainerKey, ...] = ()  # the moved ones that go to a better place for the CPUs they lose


@dataclass(frozen=True, slots=True)
class Rejected:
    """The container has no place: the machine is full, or a strict preference cannot be met."""

    reason: Reason
    ranking: tuple[Ranked, ...] = ()


Decision = Placed | Rejected


@dataclass(frozen=True, slots=True)
class Reinstated:
    """Saved grants and new requests, put on a machine: at start, and after a change of options or topology."""

    allocations: Allocations
    kept: tuple[ContainerKey, ...]
    replaced: tuple[tuple[ContainerKey, Reason], ...]  # no longer legal (or new), placed again
    unplaced: tuple[tuple[ContainerKey, Reason], ...]  # could not be placed as asked: shared in the root, reported

    @classmethod
    def of(
        cls,
        allocations: Allocations,
        replaced: Mapping[ContainerKey, Reason],
        unplaced: Mapping[ContainerKey, Reason] = MappingProxyType({}),
    ) -> Self:
        """Return the result in which every container that is neither replaced nor unplaced has kept its grant."""
        keys = (grant.container for grant in allocations.grants)
        kept = tuple(key for key in keys if key not in replaced and key not in unplaced)
        return cls(allocations, kept, tuple(sorted(replaced.items())), tuple(sorted(unplaced.items())))


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as ``status`` shows it. CPU figures are what is left, given the grants."""

    name: str
    parent: str  # '' for the root
    depth: int
    kind: str  # root, package, die, node, l3
    cpus: CpuSet  # available CPUs of the pool
    shared: CpuSet  # the current shared set
    isolated_free: CpuSet
    reserved: CpuSet
    mems: NodeSet
    shared_free_mcpu: int
    shared_granted_mcpu: int  # in the whole subtree
    memory_bytes: int = 0  # capacity of the pool's memory nodes
    memory_free_bytes: int = 0  # of it, not promised to containers that can only be in there
