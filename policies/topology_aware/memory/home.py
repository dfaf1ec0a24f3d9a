"""Compute home zones: the memory nodes at a container's CPUs, enough of them for its promise, without DRAM if cold."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from policies.base import CpuKind, DeviceLocality, Grant, Request
from policies.hardware.pools import Pool, memory_at
from policies.topology_aware.memory.hugepages import spread_nodes
from policies.topology_aware.memory.reasons import kinds_text
from policies.topology_aware.supply.memory_account import (
    MemoryAccount,
    aligned_zone,
    has_strict_zone,
    promised_bytes,
    wanted_kinds,
    widest_zone,
)
from policies.topology_aware.supply.memory_nodes import DEFAULT_KINDS, KINDS, MemoryNodes
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine, MemoryKind


@dataclass(frozen=True, slots=True)
class Home:
    """A home zone. ``zone`` is 0 if a strict preference cannot be met: ``refused`` ends a sentence about the reason.

    ``in_pool``: the pool itself has memory of every kind that is asked for. ``absent`` are kinds asked for that the
    machine lacks; ``added_normal`` are nodes added because all others have movable memory only; ``beyond`` are nodes
    added because the others are smaller than what is promised.
    """

    zone: int
    in_pool: bool
    absent: tuple[MemoryKind, ...] = ()
    added_normal: int = 0
    refused: str = ""
    beyond: int = 0


@dataclass(frozen=True, slots=True)
class LocalMemory:
    """The memory nodes at the CPUs of a container.

    ``owns``: it owns CPUs, which its devices may spread. ``around`` are the nodes of its pool, 0 where they are the
    same.
    """

    mems: int
    owns: bool = False
    around: int = 0


def local_memory(machine: Machine, pool: Pool, owned: CpuSet, *, shares: bool) -> LocalMemory:
    """Return the memory at the CPUs that the container owns; if it ``shares`` others of its pool too, the pool's."""
    mems = memory_at(machine, owned.mask) if owned and not shares else pool.mems
    return LocalMemory(mems, bool(owned), pool.mems)


def home_of(machine: Machine, nodes: MemoryNodes, local: LocalMemory, request: Request) -> Home:
    """Return the home zone of a container with this memory at its CPUs."""
    return HomeSearch(machine, nodes, request).home(local)


class HomeSearch:
    """The home zones of one container in several pools: what it asks for is looked up once."""

    def __init__(self, machine: Machine, nodes: MemoryNodes, request: Request) -> None:
        """Take the machine and what is asked for."""
        self._machine, self._nodes, self._request = machine, nodes, request
        self._wanted, wishes = wanted_kinds(request), request.preferences
        self._mask = nodes.of_kinds(self._wanted)
        self._strict = wishes.strict_memory
        self._absent = tuple(kind for kind in wishes.memory_kinds if not nodes.of_kind(kind))
        # A cold start needs a pool with slow memory.
        slow = (MemoryKind.PMEM,) if wishes.cold_start_seconds and nodes.pmem else ()
        self._needed = [nodes.of_kind(kind) for kind in (*wishes.memory_kinds, *slow)]
        self._aligned = aligned_zone(nodes, request)
        # Shared CPUs may be beyond the nodes that hints were merged to; memory that had a hint never is.
        self._beyond = self._aligned if has_strict_zone(request) else 0

    def home(self, local: LocalMemory) -> Home:
        """Return the home zone with this memory at its CPUs."""
        nodes, request, absent, strict = self._nodes, self._request, self._absent, self._strict
        # Another allocator chose memory with the CPUs; nodes that are gone since count for nothing.
        if request.claim is not None and request.claim.mems.mask & nodes.every:
            local = replace(local, mems=request.claim.mems.mask & nodes.every)
        in_pool = bool(local.mems & self._mask) and all(local.mems & kind for kind in self._needed)
        if strict and (absent or not self._mask):
            return Home(0, in_pool, absent, refused=f"this machine has no {kinds_text(absent or self._wanted)}")
        mems = local.mems & self._aligned or self._beyond or local.mems
        spread = _spread(self._machine, nodes, mems, request) if local.owns else 0
        zone = _of_wanted_kinds(nodes, mems, request, spread)
        normal = _normal_for(nodes, zone, self._mask, strict=strict)
        if normal is None:
            refused = "all of it is movable memory, in which the kernel cannot keep its part"
            return Home(0, in_pool, absent, refused=refused)
        return Home(zone | normal, in_pool, absent, normal)


def default_kinds_of(nodes: MemoryNodes, mems: int) -> int:
    """Return those of these nodes that every container may get; all of them if there is only HBM."""
    return mems & nodes.of_kinds(DEFAULT_KINDS) or mems


def _of_wanted_kinds(nodes: MemoryNodes, mems: int, request: Request, spread: int) -> int:
    """Return the local nodes of the wanted kinds (or ``spread``, near devices), and the nearest of kinds they lack."""
    wanted = wanted_kinds(request)
    zone = spread or mems & nodes.of_kinds(wanted)
    # A container that asks for no kind gets what its CPUs have, and no far PMEM.
    lacking = request.preferences.memory_kinds or (() if zone else wanted)
    start = zone or mems
    for kind in lacking:
        of_kind = nodes.of_kind(kind)
        if not start & of_kind:
            zone |= nodes.nearest(start, of_kind & widest_zone(nodes, request) or of_kind)
    return zone or default_kinds_of(nodes, mems)


def _normal_for(nodes: MemoryNodes, zone: int, wanted: int, *, strict: bool) -> int | None:
    """Return normal memory for a zone without any: of the wanted kinds, else of another; None = not allowed."""
    # The kernel's own allocations for a container cannot lie in ZONE_MOVABLE (admin-guide/mm/memory-hotplug.rst).
    if zone & nodes.normal or not nodes.normal:
        return 0
    if wanted & nodes.normal:
        return nodes.nearest(zone, wanted & nodes.normal)
    if strict:
        return None
    kinds = (nodes.nearest(zone, nodes.of_kind(kind) & nodes.normal) for kind in KINDS)
    return next((found for found in kinds if found), 0)


def _spread(machine: Machine, nodes: MemoryNodes, mems: int, request: Request) -> int:
    """Return the memory at the container's devices if they are at several places among its nodes, else 0."""
    if request.preferences.spread_by_locality is False:
        return 0
    places = {_memory_at(machine, nodes, place) for place in request.localities}
    union = reduce(or_, places, 0)
    wanted = nodes.of_kinds(wanted_kinds(request))
    inside = 0 not in places and not union & ~(mems & wanted)
    return union if len(places) > 1 and inside else 0


def _memory_at(machine: Machine, nodes: MemoryNodes, near: DeviceLocality) -> int:
    """Return the memory nodes that a locality names, or those of the CPUs that it names."""
    if near.nodes:
        return near.nodes.mask & nodes.every
    return sum(1 << n.id for n in machine.nodes if n.cpus.mask & near.cpus.mask) & nodes.every


def with_enough(account: MemoryAccount, home: Home, request: Request, *, for_limit: bool = True, held: int = 0) -> Home:
    """Return the home with the nearest other nodes if its own hold less than its promise, or than its limit.

    The limit counts only ``for_limit``. Of nodes at the same distance those that it holds (``held``) come first, then
    those with the most left. An amount that is larger than everything it may use adds nothing.
    """
    nodes = account.nodes
    # A pool that holds the limit is preferred, but what is compared before may draw it to a smaller one: it would be
    # killed there below its limit, whatever others have left.
    amounts = (promised_bytes(request), request.memory_limit_bytes or 0 if for_limit else 0)
    if max(amounts) <= nodes.capacity(home.zone):
        return home
    within = widest_zone(nodes, request)
    most = nodes.capacity(within | home.zone) if home.zone else 0
    missing = max((amount for amount in amounts if amount <= most), default=0) - nodes.capacity(home.zone)
    if missing <= 0:
        return home
    free, kinds = account.free_bytes(), wanted_kinds(request)
    added = 0
    for extra in range(len(KINDS) + 1):  # other kinds come last
        among = nodes.of_kinds((*kinds, *KINDS[:extra])) & within & ~added
        for node in nodes.by_distance(home.zone, among, lambda node: (not held >> node & 1, -free[node])):
            added |= 1 << node
            missing -= nodes.capacity_bytes[node]
            if missing <= 0:
                return replace(home, zone=home.zone | added, beyond=added)
    return home


@dataclass(frozen=True, slots=True)
class ColdStart:
    """A cold start. ``zone`` is home without DRAM; 0 if there is no cold start, and ``missing`` is why."""

    zone: int = 0
    missing: str = ""


def cold_start(nodes: MemoryNodes, home: Home, request: Request) -> ColdStart:
    """Return the zone of a container whose DRAM is withheld at first: PMEM, if it can do without other memory."""
    if not request.preferences.cold_start_seconds or not home.zone:
        return ColdStart()
    kinds = wanted_kinds(request)
    needs = (
        (MemoryKind.PMEM in kinds and MemoryKind.DRAM in kinds, "memory-type does not name both DRAM and PMEM"),
        (not request.huge_pages, "its huge pages have to be there from the beginning"),
        (home.zone & nodes.pmem, "its pool has no PMEM"),
        (home.zone & nodes.dram, "its pool has no DRAM to withhold"),
        (home.zone & nodes.pmem & nodes.normal, "the PMEM is movable memory, in which the kernel cannot keep its part"),
    )
    missing = next((text for is_met, text in needs if not is_met), "")
    return ColdStart(missing=missing) if missing else ColdStart(home.zone & ~nodes.dram)


def is_ours(grant: Grant) -> bool:
    """Return whether cri-proxy writes the memory nodes of this container."""
    return bool(grant.mems) and grant.kind is not CpuKind.PRESERVE and not grant.request.preferences.preserve_memory


def home_of_grant(supply: Supply, grant: Grant) -> Home:
    """Return the home of the grant at its CPUs, as if they had all the memory that it is promised."""
    tree, nodes = supply.tree, supply.memory.nodes
    local = local_memory(tree.machine, tree.named(grant.pool), grant.owned, shares=bool(grant.shared_mcpu))
    return home_of(tree.machine, nodes, local, grant.request)


def home_zone(supply: Supply, grant: Grant, home: Home | None = None) -> int:
    """Return the home zone of the grant, without DRAM while its cold start lasts; 0 if there is none.

    ``home`` is its ``home_of_grant``, where the caller knows that already.
    """
    if not is_ours(grant):
        return 0
    home = home or home_of_grant(supply, grant)
    # Of equally near nodes beyond its pool those that it has come first: no page moves to be as near.
    home = with_enough(supply.memory, home, grant.request, held=grant.mems.mask)
    zone = cold_start(supply.memory.nodes, home, grant.request).zone if grant.is_cold else home.zone
    return zone | spread_nodes(supply.memory, grant.request)


class Homes:
    """The home zones of many grants: the home of those that are alike is computed once. Mutable."""

    def __init__(self, supply: Supply) -> None:
        """``supply`` has the memory."""
        self._supply = supply
        self._known: dict[tuple[object, ...], Home] = {}

    def zone(self, grant: Grant, pool: str) -> int:
        """Return the home zone of the grant in this pool, as ``home_zone`` does."""
        return home_zone(self._supply, grant, self._home(grant, pool))

    def _home(self, grant: Grant, pool: str) -> Home:
        request = grant.request
        if request.localities or grant.owned or request.alignment is not None or request.claim is not None:
            return home_of_grant(self._supply, replace(grant, pool=pool))
        # Without devices, merged nodes or CPUs of its own the home follows from this key, the same for most of a pool.
        wanted = grant.request.preferences
        key = (pool, wanted.memory_kinds, wanted.strict_memory, wanted.cold_start_seconds)
        if key not in self._known:
            self._known[key] = home_of_grant(self._supply, replace(grant, pool=pool))
        return self._known[key]


def in_pools(supply: Supply, moves: Iterable[tuple[Grant, str]]) -> tuple[Grant, ...]:
    """Return each grant in another pool. Its zone grows by the home zone there, so that no page moves."""
    homes = Homes(supply)
    return tuple(
        replace(grant, pool=pool, mems=NodeSet(grant.mems.mask | homes.zone(grant, pool))) for grant, pool in moves
    )


def in_pool(supply: Supply, grant: Grant, pool: str) -> Grant:
    """Return this one grant in another pool, as ``in_pools`` does."""
    return in_pools(supply, [(grant, pool)])[0]


def after_cold_start(supply: Supply, grant: Grant) -> Grant:
    """Return the grant after its cold start, with DRAM in its zone.

    Others need not make room: a zone that grows leaves every promise as easy to keep as before.
    """
    grant = replace(grant, is_cold=False)
    return replace(grant, mems=grant.mems | NodeSet(home_zone(supply, grant)))
