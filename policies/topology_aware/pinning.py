"""Derive the pinning of every container from all grants, what a change of grants changes, and pools from cpusets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from itertools import compress
from operator import attrgetter, not_, or_

from policies.base import Allocations, ContainerKey, CpuKind, Grant, Pinning, Request, Update
from policies.hardware.siblings import one_thread_per_core, siblings_of
from policies.preferences import Threads
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.supply.context import grants_of
from policies.topology_aware.supply.demand import has_overflowed
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import CpuSet, NodeSet, changes_between

_POOL = attrgetter("pool")


def pinning_of(grant: Grant, supply: Supply, effective: tuple[int, ...], options: TopologyAwareOptions) -> Pinning:
    """Return the pinning of one grant. ``effective`` is ``supply.effective()``."""
    return _pinning(_cpus_of(grant, supply, effective, options), _mems_of(grant, options))


@lru_cache(1024)
def _pinning(cpus: int, mems: int) -> Pinning:
    """Return the pinning of these masks as one object: most sharers of a pool have the same, at each decision."""
    return Pinning(CpuSet(cpus) if cpus else None, NodeSet(mems) if mems else None)


def _mems_of(grant: Grant, options: TopologyAwareOptions) -> int:
    """Return what is written as its memory nodes; 0 = nothing."""
    mems = grant.mems.mask
    if not mems or not options.pin_memory or grant.request.preferences.preserve_memory:
        return 0
    # The kernel takes the nearest node first: what it may spill to costs no locality while there is room near.
    return mems | grant.spill.mask


def _cpus_of(grant: Grant, supply: Supply, effective: tuple[int, ...], options: TopologyAwareOptions) -> int:
    """Return what is written as its CPUs; 0 = nothing."""
    if not options.pin_cpu or grant.kind is CpuKind.PRESERVE:
        return 0
    owned, shared = grant.exclusive.mask | grant.isolated.mask, _shared_of(grant, supply, effective)
    request = grant.request
    # A claim is exactly the CPUs that another allocator chose, siblings included.
    if (request.preferences.threads or options.threads) is Threads.HIDE and request.claim is None:
        return _one_of_each_core(supply, owned, shared)
    return owned | shared


def _shared_of(grant: Grant, supply: Supply, effective: tuple[int, ...]) -> int:
    """Return the CPUs that it shares with others."""
    kind = grant.kind
    if kind is CpuKind.SHARED or kind is CpuKind.MIXED:
        return effective[supply.tree.by_name.get(grant.pool, 0)]
    return supply.reserved_set() if kind is CpuKind.RESERVED else 0


def _one_of_each_core(supply: Supply, owned: int, shared: int) -> int:
    """Return the lowest thread of every core that it may run on; on a core of which it owns threads, an owned one.

    The siblings of shared CPUs stay in the shared set: others may use them.
    """
    shifts = supply.tree.sibling_shifts
    own_threads = one_thread_per_core(shifts, owned)
    return own_threads | one_thread_per_core(shifts, shared) & ~siblings_of(shifts, owned)


@dataclass(frozen=True, slots=True)
class Pinned:
    """The pinning of every container with one of these grants, in no order, and the supply that it follows from."""

    grants: tuple[Grant, ...]
    supply: Supply
    pinnings: Mapping[ContainerKey, Pinning] = field(default_factory=dict)

    def with_grants(self, grants: tuple[Grant, ...], supply: Supply, options: TopologyAwareOptions) -> "Pinned":
        """Return the pinnings with these grants in place of the former ones; only what may differ is derived again."""
        gone, come = changes_between(self.grants, grants)
        effective = supply.effective()
        moves = _Moves.between(self.supply, supply, self.supply.effective(), effective)
        if moves.is_any:
            come = (*come, *moves.touched(grants))
        pinnings = dict(self.pinnings)
        for grant in gone:
            del pinnings[grant.container]
        for grant in come:
            pinnings[grant.container] = pinning_of(grant, supply, effective, options)
        return Pinned(grants, supply, pinnings)


@dataclass(frozen=True, slots=True)
class OtherGrants:
    """The grants of others, sorted by container, and those of them that change, as they are afterwards."""

    grants: Sequence[Grant]
    moved: Sequence[Grant] = ()


def changed_pinnings(
    before: Supply, after: Supply, others: OtherGrants, options: TopologyAwareOptions
) -> tuple[Update, ...]:
    """Return an update for each pinning that differs, sorted by container."""
    changed = _changed(before, after, others, options)
    return tuple(Update(grant.request.container, _pinning(cpus, mems)) for grant, cpus, mems in changed)


def count_changed(before: Supply, after: Supply, others: OtherGrants, options: TopologyAwareOptions) -> int:
    """Return how many updates ``changed_pinnings`` has."""
    return sum(1 for _ in _changed(before, after, others, options))


def _changed(
    before: Supply, after: Supply, others: OtherGrants, options: TopologyAwareOptions
) -> Iterator[tuple[Grant, int, int]]:
    """Yield the grants whose pinning differs, as they are afterwards, with the CPUs and memory nodes as masks."""
    old, new = before.effective(), after.effective()
    moves = _Moves.between(before, after, old, new)
    by_container = {grant.container: grant for grant in others.moved}
    moving = grants_of(others.grants, by_container)
    # All other pinnings follow from the grant alone, and stay: a thousand need no comparison.
    pairs = {grant.container: (grant, grant) for grant in moves.touched(others.grants)}
    pairs |= {grant.container: (grant, by_container[grant.container]) for grant in moving}
    # Those that a moved set touches are in order already; grants that change may be anywhere among them.
    for container in sorted(pairs) if moving else pairs:
        was, now = pairs[container]
        cpus, mems = _cpus_of(now, after, new, options), _mems_of(now, options)
        if cpus != _cpus_of(was, before, old, options) or (was is not now and mems != _mems_of(was, options)):
            yield now, cpus, mems


@dataclass(frozen=True, slots=True)
class _Moves:
    """Which of the sets that containers share differ between two supplies: those of the other pools, the reserved."""

    unmoved: frozenset[str]
    is_any: bool
    moves_reserved: bool

    @classmethod
    def between(cls, before: Supply, after: Supply, old: tuple[int, ...], new: tuple[int, ...]) -> "_Moves":
        """Return the difference; ``old`` and ``new`` are what is effective."""
        pairs = zip(before.tree.pools, old, new, strict=True)
        unmoved = frozenset(pool.name for pool, was, now in pairs if was == now)
        moves_reserved = before.reserved_set() != after.reserved_set()
        return cls(unmoved, moves_reserved or len(unmoved) < len(before.tree.pools), moves_reserved)

    def touched(self, grants: Sequence[Grant]) -> Iterator[Grant]:
        """Yield those of the grants whose cpuset follows from a set that differs."""
        if not self.is_any:
            return
        if not self.moves_reserved:  # then those in the pools that differ: looked up in C, there may be a thousand
            grants = list(compress(grants, map(not_, map(self.unmoved.__contains__, map(_POOL, grants)))))
        yield from filter(self._touches, grants)

    def _touches(self, grant: Grant) -> bool:
        """Return whether the grant's cpuset follows from a set that differs. One in an unknown pool may."""
        kind = grant.kind
        if kind is CpuKind.SHARED or kind is CpuKind.MIXED:
            return grant.pool not in self.unmoved
        return kind is CpuKind.RESERVED and self.moves_reserved


def at_live_pools(
    options: TopologyAwareOptions,
    supply: Supply,
    held: Allocations,
    requests: Sequence[Request],
    live: Mapping[ContainerKey, CpuSet],
) -> tuple[Allocations, tuple[Request, ...]]:
    """Return the grants, and the requests with their earlier pools, where the live cpusets show the containers to be.

    They come from annotations, which stay as they were at creation. Since then a container may have come home or gone
    to a wider pool, or have left the reserved CPUs or come back (docs/placement.md, Restart and faults).

    ``supply`` is that of ``held``. What the requests owned counts as owned: no container shares it. A cpuset that no
    pool explains leaves the pool as it is.
    """
    # The live cpusets of sharers lack these CPUs: with them no pool would explain such a cpuset.
    before = reduce(or_, (r.previous.owned.mask for r in requests if r.previous is not None), 0)
    search = _LivePools(options, supply.owning(before))
    moved = (search.where(g, live[g.container]) for g in held.grants if g.container in live)
    return held.with_grants(*moved), tuple(search.requested(r, live.get(r.container)) for r in requests)


class _LivePools:
    """The shared sets of all pools, which every container is compared with; never leaves this module."""

    def __init__(self, options: TopologyAwareOptions, supply: Supply) -> None:
        self._options = options
        self._supply = supply
        self._effective = supply.effective()

    def where(self, grant: Grant, cpus: CpuSet) -> Grant:
        """Return the grant in the pool that gives it these CPUs: its own if that does, else the narrowest."""
        return next((there for there in self._places(grant) if self._cpus_of(there) == cpus), grant)

    def requested(self, request: Request, cpus: CpuSet | None) -> Request:
        """Return the request with the pool in which it shares these CPUs as the previous one."""
        previous = request.previous
        if previous is None or not previous.pool or previous.owned or cpus is None:
            return request
        there = self.where(Grant(request, previous.pool, CpuKind.SHARED), cpus)
        return replace(request, previous=replace(previous, pool=there.pool))

    def _cpus_of(self, grant: Grant) -> CpuSet | None:
        return pinning_of(grant, self._supply, self._effective, self._options).cpus

    def _places(self, grant: Grant) -> Iterator[Grant]:
        """Yield the grant as it is, then as it would be in other places."""
        yield grant
        tree = self._supply.tree
        if has_overflowed(grant):
            yield replace(grant, pool=tree.root.name, kind=CpuKind.RESERVED, shared_mcpu=0)
        elif grant.kind is CpuKind.RESERVED and grant.reserved_mcpu:
            grant = replace(grant, kind=CpuKind.SHARED, shared_mcpu=grant.reserved_mcpu)
        if grant.kind not in (CpuKind.SHARED, CpuKind.MIXED):
            return
        for pool in sorted(tree.pools, key=lambda pool: (-pool.depth, pool.index)):
            # A pool without shared CPUs would answer with those of a wider one.
            if self._supply.shared[pool.index] and not grant.owned.mask & ~(pool.sharable | pool.isolated):
                yield replace(grant, pool=pool.name)
