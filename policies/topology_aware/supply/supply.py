"""Sum up the grants per pool (immutable, updated by differences), and compute what every pool can still give.

The rule (docs/placement.md, Choosing CPUs): in every pool, 1000 x the CPUs of the shared set is at least the
shared capacity granted in the pool's subtree, and a pool whose shared set is used keeps at least one CPU.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile

from policies.base import Affinity, CpuKind, Grant
from policies.hardware.pools import PoolTree
from policies.topology_aware.supply.affinity_matches import AffinityMatches
from policies.topology_aware.supply.hugepages import huge_page_account
from policies.topology_aware.supply.machine_devices import Accelerator, Holders, free_accelerators, holders_with
from policies.topology_aware.supply.memory_account import MemoryAccount, empty_account, promises_of
from policies.topology_aware.supply.memory_nodes import memory_nodes_of
from sysfs.cpuset import changes_between, gathered

FEW_CPUS = 2
"""Where a container without a CPU limit is squeezed: it may use all that it finds, and finds next to nothing."""

Affinities = Mapping[tuple[Affinity, ...], Mapping[int, int]]
"""How many containers in a pool have these affinities. Replicas have the same."""


@dataclass(frozen=True, slots=True)
class Supply:
    """A snapshot of the grants, summed up. Tuples have one entry per pool.

    ``shared`` are the shared sets: sharable CPUs without an owner. ``granted_mcpu`` are sums over the subtree;
    ``unbooked_sharers`` counts the containers that use this pool's shared set and are booked with no CPU time;
    ``limits`` has the CPU limits, in CPUs rounded up and sorted, of those that only share it, ``unlimited`` how many of
    these have none.
    ``withheld`` CPUs are shared but never owned. ``reserved_mcpu`` is booked on the reserved CPUs. ``memory`` has the
    promises by zones. ``accelerators`` are those of the machine, ``holders`` those who hold devices.
    """

    tree: PoolTree
    withheld: int
    owned: int
    shared: tuple[int, ...]
    granted_mcpu: tuple[int, ...]
    unbooked_sharers: tuple[int, ...]
    limits: tuple[tuple[int, ...], ...]
    unlimited: tuple[int, ...]
    reserved_users: int
    reserved_mcpu: int
    memory: MemoryAccount
    matches: AffinityMatches = field(compare=False, repr=False)
    accelerators: tuple[Accelerator, ...] = ()
    holders: Holders = field(default_factory=dict)
    affinities: Affinities = field(default_factory=dict)

    @property
    def free_accelerators(self) -> tuple[Accelerator, ...]:
        """The accelerators that no container is known to hold."""
        return free_accelerators(self.accelerators, self.holders) if self.accelerators else ()

    @property
    def needs_root_cpu(self) -> bool:
        """Return whether the last CPU of the root's shared set must stay: some container has no other."""
        return not self.tree.root.reserved and (self.reserved_users > 0 or any(self.unbooked_sharers))

    @property
    def has_shared_cpus(self) -> bool:
        """Return whether there is a CPU for containers that own none: shared in the root, or reserved."""
        return bool(self.shared[0] or self.tree.root.reserved)

    def plus(self, *grants: Grant) -> "Supply":
        """Return the supply with these grants taken."""
        return self.changed((), grants)

    def minus(self, *grants: Grant) -> "Supply":
        """Return the supply with these grants released."""
        return self.changed(grants, ())

    def changed(self, gone: tuple[Grant, ...], come: tuple[Grant, ...]) -> "Supply":
        """Return the supply with some grants released and others taken."""
        if not gone and not come:
            return self
        tree, nodes, sums = self.tree, self.memory.nodes, _Sums(self)
        for grant in gone:
            sums.book(grant, -1)
        for grant in come:
            sums.book(grant, 1)
        shared = self.shared
        # Sharers take no CPU from a set: most changes keep all of them.
        if sums.owned != self.owned:
            shared = tuple(p.sharable & ~sums.owned for p in tree.pools)
        return Supply(
            tree=tree,
            withheld=self.withheld,
            owned=sums.owned,
            shared=shared,
            granted_mcpu=tuple(sums.granted_mcpu),
            unbooked_sharers=tuple(sums.unbooked_sharers),
            limits=tuple(sums.limits),
            unlimited=tuple(sums.unlimited),
            reserved_users=sums.reserved_users,
            reserved_mcpu=sums.reserved_mcpu,
            memory=self.memory.changed(promises_of(nodes, gone), promises_of(nodes, come)),
            accelerators=self.accelerators,
            holders=holders_with(holders_with(self.holders, gone, -1), come, 1) if self.accelerators else self.holders,
            affinities=affinities_with(affinities_with(self.affinities, tree, gone, -1), tree, come, 1),
            matches=self.matches,
        )

    def owning(self, cpus: int) -> "Supply":
        """Return the supply with these CPUs owned as well, for what others run on then; no container is booked."""
        owned = self.owned | cpus
        return replace(self, owned=owned, shared=tuple(p.sharable & ~owned for p in self.tree.pools))

    def effective(self) -> tuple[int, ...]:
        """Return per pool what its sharers run on: its shared set, the nearest non-empty one above, or reserved."""
        result: list[int] = []
        for pool, own in zip(self.tree.pools, self.shared, strict=True):
            # An empty cpuset_cpus is "not specified" in CRI, and no restriction: sharers need some set that has CPUs.
            inherited = result[pool.parent] if pool.parent >= 0 else self.tree.root.reserved
            result.append(own or inherited)
        return tuple(result)

    def reserved_set(self) -> int:
        """Return what reserved containers run on: the reserved CPUs, or the root's shared set if there are none."""
        return self.tree.root.reserved or self.shared[0]

    def reserved_free_mcpu(self) -> int:
        """Return what can still be booked on the reserved CPUs; negative where more is booked than they have."""
        return 1000 * self.tree.root.reserved.bit_count() - self.reserved_mcpu

    def free_isolated(self, pool: int) -> int:
        """Return the kernel-isolated CPUs of the pool that can still be given."""
        return self.tree.pools[pool].isolated & ~self.owned & ~self.withheld

    def squeezed_here(self, pool: int, owned: int, *, with_unlimited: bool) -> int:
        """Return how many CPUs below their limits the sharers of this pool alone lose, summed up, if so many are owned.

        ``with_unlimited``: those without a limit count too, with what they should find at least; not in pools of which
        that is most.
        """
        width = self.shared[pool].bit_count()
        squeezed = self.limits[pool][bisect_right(self.limits[pool], width - owned) :]
        lost = sum(min(limit, width) - (width - owned) for limit in squeezed)
        if with_unlimited and self.tree.pools[pool].sharable.bit_count() >= 2 * (FEW_CPUS + 1):
            lost += self.unlimited[pool] * max(0, min(FEW_CPUS + 1, width) - (width - owned))
        return lost

    def holds(self) -> bool:
        """Return whether every pool covers what is granted in it and every container has some CPU to run on."""
        if self.needs_root_cpu and not self.shared[0]:
            return False
        pairs = zip(self.shared, self.granted_mcpu, strict=True)
        return all(1000 * shared.bit_count() >= granted for shared, granted in pairs)


class _Sums:
    """The sums over grants while some are booked; never leaves this module. See ``Supply``."""

    def __init__(self, supply: Supply) -> None:
        self._tree = supply.tree
        self.owned, self.granted_mcpu = supply.owned, list(supply.granted_mcpu)
        self.unbooked_sharers, self.limits = list(supply.unbooked_sharers), list(supply.limits)
        self.unlimited = list(supply.unlimited)
        self.reserved_users, self.reserved_mcpu = supply.reserved_users, supply.reserved_mcpu

    def book(self, grant: Grant, sign: int) -> None:
        """Count a grant that is taken (1) or released (-1)."""
        kind = grant.kind
        # It runs on a cpuset that it brought, whose CPUs are withheld (``Allocations.withheld``).
        if kind is CpuKind.PRESERVE:
            return
        if kind is CpuKind.RESERVED:
            self.reserved_users += sign
            self.reserved_mcpu += sign * grant.reserved_mcpu
            return
        path = self._tree.named(grant.pool).path
        here = path[0]
        own = grant.exclusive.mask | grant.isolated.mask
        self.owned = self.owned | own if sign > 0 else self.owned & ~own
        if not grant.shared_mcpu and kind in (CpuKind.SHARED, CpuKind.MIXED):
            self.unbooked_sharers[here] += sign
        if kind is CpuKind.SHARED:
            if limit := grant.request.cpu_limit_mcpu:
                self.limits[here] = _with_limit(self.limits[here], -(-limit // 1000), sign)
            else:
                self.unlimited[here] += sign
        if grant.shared_mcpu:
            for i in path:
                self.granted_mcpu[i] += sign * grant.shared_mcpu


def of_pod(grants: Sequence[Grant], uid: str) -> Iterator[Grant]:
    """Yield the grants of a pod's containers among these, which are sorted by container."""
    start = bisect_left(grants, uid, key=lambda grant: grant.container.pod_uid)
    return takewhile(lambda grant: grant.container.pod_uid == uid, islice(grants, start, None))


def affinities_with(affinities: Affinities, tree: PoolTree, grants: Iterable[Grant], sign: int) -> Affinities:
    """Return the affinities with those of these grants more (1) or fewer (-1); some kinds are in no pool."""
    changes = gathered(
        (grant.request.affinities, tree.by_name.get(grant.pool, 0))
        for grant in grants
        if grant.request.affinities and grant.is_in_pool
    )
    if not changes:
        return affinities
    result = dict(affinities)
    for wanted, pools in changes.items():
        counts = dict(result.get(wanted, {}))
        for pool in pools:
            counts[pool] = counts.get(pool, 0) + sign
            if not counts[pool]:
                del counts[pool]
        result[wanted] = counts
        if not counts:
            del result[wanted]
    return result


def empty_supply(tree: PoolTree, withheld: int) -> Supply:
    """Return the supply of a machine on which nothing is granted."""
    zeros = (0,) * len(tree.pools)
    nodes = memory_nodes_of(tree.machine)
    memory = empty_account(nodes, huge_page_account(tree.machine, nodes))
    no_limits: tuple[tuple[int, ...], ...] = ((),) * len(tree.pools)
    shared, matches = tuple(p.sharable for p in tree.pools), AffinityMatches(tree)
    return Supply(tree, withheld, 0, shared, zeros, zeros, no_limits, zeros, 0, 0, memory, matches)


def _with_limit(limits: tuple[int, ...], limit: int, sign: int) -> tuple[int, ...]:
    at = bisect_left(limits, limit)
    return (*limits[:at], limit, *limits[at:]) if sign > 0 else (*limits[:at], *limits[at + 1 :])


def updated_supply(supply: Supply, old: tuple[Grant, ...], new: tuple[Grant, ...]) -> Supply:
    """Return the supply of ``new``, given that of ``old``; only the grants that are not in both are booked again.

    Grants are exact integers, so the result is that of booking all of them.
    """
    return supply.changed(*changes_between(old, new))


@dataclass(frozen=True, slots=True)
class Room:
    """The free capacity of every pool, under one rule on busy pools. Tuples have one entry per pool.

    ``free_mcpu`` is bounded by every pool above. ``spare`` is how many CPUs may be owned alone before a busy
    pool at or above it is left without one. ``inner`` is what its subtree can give up, without the pool's own
    bound; ``give`` includes that bound. ``keep_busy`` is the rule.
    """

    keep_busy: bool
    free_mcpu: tuple[int, ...]
    spare: tuple[int, ...]
    inner: tuple[int, ...]
    give: tuple[int, ...]


def room_of(supply: Supply, *, keep_busy: bool) -> Room:
    """Return what can be given. ``keep_busy``: pools keep a CPU also for containers booked with no CPU time."""
    pools, granted = supply.tree.pools, supply.granted_mcpu
    keep = [1 if keep_busy and n else 0 for n in supply.unbooked_sharers]
    # Also where busy pools may be emptied: with no CPU reserved, some container has nowhere else to run.
    if supply.needs_root_cpu:
        keep[0] = 1
    free: list[int] = []
    spare: list[int] = []
    for pool, cpus, kept in zip(pools, map(int.bit_count, supply.shared), keep, strict=True):
        left = 1000 * cpus - granted[pool.index]
        whole = cpus - kept
        up = pool.parent
        # A wider pool may have granted what this one still has free.
        free.append(left if up < 0 else min(left, free[up]))
        spare.append(whole if up < 0 else min(whole, spare[up]))
    inner, give = givable(supply, supply.granted_mcpu, keep)
    return Room(keep_busy, tuple(free), tuple(spare), tuple(inner), tuple(give))


def givable(supply: Supply, granted_mcpu: Iterable[int], keep: list[int]) -> tuple[list[int], list[int]]:
    """Return per pool how many CPUs the subtree can give up (``inner``), and the pool with it (``give``)."""
    pools, shared = supply.tree.pools, supply.shared
    granted = list(granted_mcpu)
    inner, give = [0] * len(pools), [0] * len(pools)
    # Withheld CPUs are in the cpuset of a container that is left alone: they can be shared, not owned.
    ownable = ~(supply.owned | supply.withheld)
    # Children first: what they can give is part of what their parent can.
    for pool in reversed(pools):
        i = pool.index
        if pool.loose:
            inner[i] += (pool.loose & ownable).bit_count()
        # A fraction keeps a whole CPU: no part of one can be owned.
        needed = max(-(-granted[i] // 1000), keep[i])
        given = give[i] = max(0, min(inner[i], shared[i].bit_count() - needed))
        if pool.parent >= 0:
            inner[pool.parent] += given
    return inner, give
