"""Plan one container's memory: a cheap offer per pool; in the chosen pool its zone, a cold start, others to widen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from policies.base import Grant, Placed, Reason, Request
from policies.hardware.pools import Pool
from policies.topology_aware.memory import reasons
from policies.topology_aware.memory.home import (
    Home,
    HomeSearch,
    LocalMemory,
    cold_start,
    home_of,
    local_memory,
    with_enough,
)
from policies.topology_aware.memory.hugepages import ON_ITS_NODES, HugePagePlan, huge_page_ranks, plan_huge_pages
from policies.topology_aware.memory.spill import spill_reasons, spilling
from policies.topology_aware.memory.widen import widened
from policies.topology_aware.supply.context import PlacementContext, grants_of, with_moved
from policies.topology_aware.supply.demand import Demand
from policies.topology_aware.supply.memory_account import (
    FIRST,
    PRIORITY,
    MemoryAccount,
    Promise,
    has_strict_zone,
    promised_bytes,
    wanted_kinds,
    widest_zone,
)
from policies.topology_aware.supply.memory_nodes import node_ids
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import CpuSet, NodeSet


@dataclass(frozen=True, slots=True)
class MemoryOffer:
    """The memory plan of one pool.

    ``zone`` is the home zone, 0 if a strict preference cannot be met or cri-proxy does not write the memory nodes.
    ``room``: 2 = the zone has room, at most after containers of a lower QoS class were given more nodes; 1 = only if
    its own zone, or that of its equals, is widened; 0 = the machine has less left of what it may use. ``as_is``: 1 =
    there is room without widening others. ``kinds``: 1 = the pool itself has the wanted kinds. ``holds_limit``: 1 = the
    zone is as large as the memory limit, or there is no limit. ``huge_pages``: 2 = the zone has the huge
    pages, 1 = only with more nodes, 0 = they are not there.
    """

    zone: int
    room: int
    as_is: int
    kinds: int
    holds_limit: int
    huge_pages: int = ON_ITS_NODES


_NOT_OURS = MemoryOffer(0, 2, 1, 1, 1)  # the same for all pools: memory does not choose among them
_REFUSED = MemoryOffer(0, 0, 0, 0, 0, 0)


def memory_offers(supply: Supply, request: Request, demand: Demand, pools: Sequence[Pool]) -> tuple[MemoryOffer, ...]:
    """Return what each of these pools could give. ``supply`` is without the container's own grant."""
    account = supply.memory
    if request.preferences.preserve_memory or not account.nodes.every:
        return (_NOT_OURS,) * len(pools)
    owns = bool(demand.whole)
    by_mems: dict[int, tuple[int, bool]] = {}  # L3 domains have the memory of their node
    enough: dict[int, int] = {}  # the zone with what is beyond the pool, by that without
    homes_of = HomeSearch(supply.tree.machine, account.nodes, request)
    for mems in {pool.mems for pool in pools}:
        home = homes_of.home(LocalMemory(mems, owns))
        if home.zone not in enough:
            # Without what the limit adds: pools are compared by whether their own memory holds it.
            enough[home.zone] = with_enough(account, home, request, for_limit=False).zone
        by_mems[mems] = enough[home.zone], home.in_pool
    homes = [by_mems[pool.mems] for pool in pools]
    zones = {zone for zone, _ in homes if zone}
    rooms, limit = _rooms(account, request, zones), request.memory_limit_bytes or 0
    pages = huge_page_ranks(account, request, zones) if request.huge_pages else dict.fromkeys(zones, ON_ITS_NODES)
    holds = {zone: int(account.nodes.capacity(zone) >= limit) for zone in zones}
    offers = {
        (zone, in_pool): MemoryOffer(zone, *rooms[zone], int(in_pool), holds[zone], pages[zone]) if zone else _REFUSED
        for zone, in_pool in set(homes)
    }
    return tuple(map(offers.__getitem__, homes))


def _rooms(account: MemoryAccount, request: Request, zones: set[int]) -> dict[int, tuple[int, int]]:
    """Return ``room`` and ``as_is`` of each zone. Promises are laid out once or twice, each zone is tried on top."""
    wanted = promised_bytes(request)
    if not wanted:
        return dict.fromkeys(zones, (2, 1))
    # Not even with all zones as wide as they may become: no pool is told from another by it.
    if not account.could_take(widest_zone(account.nodes, request), wanted):
        return dict.fromkeys(zones, (0, 0))
    as_is = account.taking(zones, wanted)
    yielded: set[int] = set()
    if PRIORITY[request.pod.qos] == FIRST and as_is != zones:
        yielded = account.taking(zones - as_is, wanted, yielding=True)
    return {zone: (2 if zone in as_is | yielded else 1, int(zone in as_is)) for zone in zones}


def memory_distances(
    account: MemoryAccount, request: Request, pools: Sequence[Pool], zones: Sequence[int]
) -> tuple[float, ...]:
    """Return for each pool, with its zone, how much farther its memory is than the nearest, on average over the bytes.

    The kernel allocates from the nearest node of the zone first (Documentation/admin-guide/mm/numa_memory_policy.rst).
    So an expander, PMEM or HBM beside a node does not count for that node's CPUs as long as nearer memory has room.
    What does not fit beside the promises of others counts as far as the farthest node of the zone. A container that is
    promised nothing is looked at as if it needed little.
    """
    free = account.free_bytes()
    wanted = promised_bytes(request) or 1
    places = [(pool.distances, zone) for pool, zone in zip(pools, zones, strict=True)]  # L3 domains have their node's
    found = {place: _distance(*place, wanted, free) for place in dict.fromkeys(places)}
    return tuple(found[place] for place in places)


def _distance(distances: tuple[tuple[int, int], ...], zone: int, wanted: int, free: Mapping[int, int]) -> float:
    left, total, farthest = wanted, 0, 0
    for distance, nodes in distances:
        if not nodes & zone:
            continue
        farthest = distance
        here = min(left, sum(free[node] for node in node_ids(nodes & zone)))
        total += here * distance
        left -= here
        if not left:
            break
    return (total + left * farthest) // wanted / 100


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The container's zone (empty = not written), and grants of others that get more memory nodes for it."""

    mems: NodeSet
    is_cold: bool = False
    widened: tuple[Grant, ...] = ()
    reasons: tuple[Reason, ...] = ()


def plan_memory(
    supply: Supply, others: Sequence[Grant], request: Request, local: LocalMemory, *, held: NodeSet = NodeSet()
) -> MemoryPlan | Reason:
    """Plan the zone at these CPUs' memory, beside ``others``. Return a Reason if a strict preference cannot be met.

    ``supply`` is that of ``others``. ``held`` is the zone of a running container: it is kept, and widened if needed, so
    that none of its pages moves.
    """
    account = supply.memory
    if request.preferences.preserve_memory or not account.nodes.every:
        return MemoryPlan(NodeSet())
    home = home_of(supply.tree.machine, account.nodes, local, request)
    # Strict kinds that this machine lacks, or has as movable memory alone: no widening helps.
    if home.refused:
        return reasons.strict_memory(wanted_kinds(request), home.refused)
    context = _MemoryContext(account, others, request, held.mask & account.nodes.every)
    home = with_enough(account, home, request, held=context.held)
    pages = _huge_pages(context, home, local)
    if pages.refused is not None:
        return pages.refused
    why = (reasons.kinds_absent(home.absent, home.zone),) if home.absent else ()
    if home.beyond:
        needed = max(promised_bytes(request), request.memory_limit_bytes or 0)
        why = (*why, reasons.beyond_near(home.zone & ~home.beyond, home.beyond, needed))
    home = replace(home, zone=home.zone | pages.zone & ~context.held)
    why = (*why, *pages.reasons)
    if home.added_normal and request.preferences.memory_kinds:
        why = (*why, reasons.normal_added(home.added_normal))
    cold = cold_start(account.nodes, home, request)
    # A running container that has DRAM has pages there: its cold start is over and does not begin again.
    if cold.zone and not context.held & account.nodes.dram:
        plan = _planned(context, cold.zone, account.nodes.pmem & widest_zone(account.nodes, request) | cold.zone)
        if plan is not None:
            seconds = request.preferences.cold_start_seconds
            starts_cold = reasons.starts_cold(plan.mems.mask, home.zone & ~plan.mems.mask, seconds)
            return replace(plan, is_cold=True, reasons=(*why, *plan.reasons, starts_cold))
        why = (*why, reasons.no_cold_start(f"PMEM does not have {reasons.amount_text(promised_bytes(request))} left"))
    elif cold.missing and not context.held:
        why = (*why, reasons.no_cold_start(cold.missing))
    plan = _planned(context, home.zone, widest_zone(account.nodes, request))
    if plan is not None:
        return replace(plan, reasons=(*why, *plan.reasons))
    return _without_room(context, why)


@dataclass(frozen=True, slots=True)
class _MemoryContext:
    """A container, the memory promised to others, and what it holds."""

    account: MemoryAccount
    others: Sequence[Grant]
    request: Request
    held: int


def _huge_pages(context: _MemoryContext, home: Home, local: LocalMemory) -> HugePagePlan:
    zone = home.zone | context.held
    if not context.request.huge_pages:
        return HugePagePlan(zone)
    return plan_huge_pages(context.account, context.request, zone, local.around or local.mems)


def _planned(context: _MemoryContext, home: int, most: int) -> MemoryPlan | None:
    """Plan from this zone, which may be widened to ``most``. Return None if not even that has room."""
    zone = context.held | home
    request, nodes = context.request, context.account.nodes
    wanted = promised_bytes(request)
    if not wanted or context.account.takes(zone, wanted):
        return MemoryPlan(NodeSet(zone))
    # Not even with every zone as wide as it may become: a search for containers to widen would end the same.
    if not context.account.could_take(most | zone, wanted):
        return None
    # The one that is placed has no pages yet, so that it widens before its equals.
    mine = Promise(request.container, PRIORITY[request.pod.qos], zone, most | zone, wanted, is_new=True)
    zones = dict(widened(nodes, {**context.account.promises, mine.container: mine}))
    mems = zones.pop(request.container, zone)
    moved = tuple(replace(g, mems=NodeSet(zones[g.container])) for g in grants_of(context.others, zones))
    why = [reasons.widened(home, mems, wanted)] if mems != zone else []
    if moved:
        why.append(reasons.others_widened(moved))
    return MemoryPlan(NodeSet(mems), widened=moved, reasons=tuple(why))


def _without_room(context: _MemoryContext, why: tuple[Reason, ...]) -> MemoryPlan | Reason:
    """Plan without enough memory anywhere: refuse under a strict preference, else allow every node."""
    request, nodes = context.request, context.account.nodes
    wanted = promised_bytes(request)
    zone = widest_zone(nodes, request) | context.held
    if has_strict_zone(request):
        return reasons.outside_alignment(zone, reasons.no_room(zone, wanted))
    if request.preferences.strict_memory:
        return reasons.strict_memory(wanted_kinds(request), reasons.no_room(zone, wanted))
    return MemoryPlan(NodeSet(zone), reasons=(*why, reasons.short(zone, wanted)))


def memory_in(
    context: PlacementContext, pool: Pool, moved: tuple[Grant, ...], owned: CpuSet = CpuSet()
) -> MemoryPlan | Reason:
    """Plan the memory of the container that owns these CPUs of this pool, beside the others as ``moved`` leaves them.

    Return a Reason if a strict preference cannot be met.
    """
    # Where they move to they may have other nodes: the promises beside which the container is planned.
    by_container = {g.container: g for g in moved}
    others = [by_container.get(g.container, g) for g in context.others] if moved else context.others
    supply = with_moved(context, moved) if moved else context.supply
    held = context.own.mems if context.own is not None else NodeSet()
    local = local_memory(context.tree.machine, pool, owned, shares=bool(context.demand.shared_mcpu))
    return plan_memory(supply, others, context.request, local, held=held)


def with_memory(context: PlacementContext, grant: Grant, moved: tuple[Grant, ...], memory: MemoryPlan) -> Placed:
    """Return the placement of this grant with its memory, the others that change for it, and the reasons of that."""
    nodes, own = context.supply.memory.nodes, context.own
    grant = replace(grant, mems=memory.mems, is_cold=memory.is_cold)
    # A grant that moves and is widened is in both: the widened one is of the moved one.
    changed = {g.container: g for g in (*moved, *memory.widened)}
    others = tuple(changed[key] for key in sorted(changed))
    held = NodeSet() if own is None else own.spill
    # With a limit it stays in its zone; to what it could spill before it had one, it may have pages there.
    if context.request.memory_limit_bytes is not None and not held:
        return Placed(grant, moved=others, reasons=memory.reasons)
    grant = spilling(nodes, grant, context.options, held)
    return Placed(grant, moved=others, reasons=(*memory.reasons, *spill_reasons(nodes, grant, context.options)))
