"""Offer the NUMA nodes that can serve a container: for CPUs to own or share, and memory with huge pages. Pure.

The sets are sets of nodes with CPUs. A node without CPUs belongs to the nodes that are nearest to it, as it does in the
pools: its memory is theirs (docs/hints.md). What is free is what this policy could give: shares move to wider pools for
CPUs to own, and containers that are not Guaranteed get other memory nodes for memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from policies.base import HugePageLimit
from policies.device_requests import DeviceAmount, DeviceAsk, summed
from policies.hardware.pools import memory_at
from policies.hints import Amount, Hints, by_size, enough, fewest_nodes, hints_of, listed_nodes, served, unions
from policies.preferences import Threads
from policies.topology_aware.cpus.cores import on_free_cores
from policies.topology_aware.memory.reasons import amount_text
from policies.topology_aware.migration import with_shares_in_root
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.supply.memory_account import MemoryAccount, has_memory_hints, promised_bytes, wanted_kinds
from policies.topology_aware.supply.memory_packing import promised_inside
from policies.topology_aware.supply.supply import Room, room_of
from sysfs.cpuset import NodeSet
from sysfs.model import Machine, NumaNode
from sysfs.text import plural, some

MOST_TRIED: Final = 8
"""Nodes of a machine whose sets are tried one by one, as many as the kubelet allows: more than 255 would take longer
than the rest of a decision. With more nodes a set has the sum of what each of its nodes has."""
SHOWN: Final = 8  # nodes in a sentence


@dataclass(frozen=True, slots=True)
class Asked:
    """The amounts that hints are offered for: those of a container, or of its pod."""

    whole: int
    memory_bytes: int
    huge_pages: tuple[HugePageLimit, ...]
    devices: tuple[DeviceAmount, ...] = ()
    allocations: tuple[DeviceAsk, ...] = ()  # of amounts, by container


@dataclass(frozen=True, slots=True)
class ResourceHints:
    """The hints of one resource; ``wanted`` and ``free`` are in words, ``field`` is that of ``Request.origins``."""

    resource: str
    hints: Hints
    wanted: str
    free: str
    field: str


def asked_of(context: PlacementContext, *, is_of_pod: bool) -> Asked:
    """Return what the container asks for, or the sums of its pod where they are more.

    The sandbox does not say which of its containers own CPUs: of a Guaranteed pod the whole part of the sum counts.
    """
    request, demand = context.request, context.demand
    whole, memory_bytes = demand.whole, promised_bytes(request)
    pod = request.pod_sums if is_of_pod else None
    if pod is not None and has_memory_hints(request):
        prefers_shared = request.preferences.prefer_shared
        shares = context.options.prefer_shared if prefers_shared is None else prefers_shared
        whole = whole if shares else max(whole, pod.cpu_mcpu // 1000)
        memory_bytes = max(memory_bytes, pod.memory_bytes)
    own, of_pod = request.preferences.devices, request.pod_sums.devices if is_of_pod and request.pod_sums else ()
    # Of a type the larger number is the last.
    counts = {amount.kind: amount for amount in sorted((*own.counts, *summed(of_pod)))}
    return Asked(whole, memory_bytes, request.huge_pages, tuple(counts.values()), _allocations(own, of_pod))


def _allocations(own: DeviceAsk, of_pod: Sequence[DeviceAsk]) -> tuple[DeviceAsk, ...]:
    """Return the amounts that are asked for: by the container, or by each one of its pod that annotations name."""
    own, pod = replace(own, counts=()), tuple(ask for ask in of_pod if ask.requests)
    return pod if not own.requests or own in pod else (own, *pod)


def cpu_nodes(machine: Machine) -> tuple[NumaNode, ...]:
    """Return the nodes that sets are made of: those with CPUs."""
    return tuple(node for node in machine.nodes if node.cpus)


def mems_of(machine: Machine, nodes: int) -> int:
    """Return the memory nodes that belong to these nodes."""
    return NodeSet.of_masks(memory_at(machine, n.cpus.mask) for n in cpu_nodes(machine) if nodes >> n.id & 1).mask


def cpu_hints(context: PlacementContext, asked: Asked) -> Iterator[ResourceHints]:
    """Yield the hints for CPUs to own, first for the kind that is preferred, then for others that would do.

    Of each kind, first where no share has to move for them. A container that only shares CPUs has none, as in the
    kubelet.
    """
    if not asked.whole:
        return
    nodes = cpu_nodes(context.tree.machine)
    moved = room_of(with_shares_in_root(context).supply, keep_busy=False)
    # The merge takes the lowest of equal sets: in one list owners would go to the first nodes and make sharers move.
    rooms = (room_of(context.supply, keep_busy=True), moved)
    words = f"{plural(asked.whole, 'CPU')} to own"
    for free, capacity, kind in _kinds(context):
        has = [(node.cpus.mask & capacity).bit_count() for node in nodes]
        known: list[tuple[list[int], bool]] = []
        for room in rooms:
            gives = [_given(context, room, node, free) for node in nodes]
            most = room.give[0] if free & context.tree.root.sharable else sum(gives)
            if (gives, most >= asked.whole) in known:
                continue
            known.append((gives, most >= asked.whole))
            found = sets_with_enough(nodes, [Amount(gives, asked.whole)], [Amount(has, asked.whole)])
            # Nodes may have enough together while wider pools keep some of these CPUs for their own shares.
            hints = found if most >= asked.whole else ()
            yield ResourceHints("cpu", hints, words + kind, free_text(nodes, gives), "cpu_request_mcpu")


def free_in(context: PlacementContext, within: int) -> str:
    """Return how many CPUs each of these nodes can give of those that would do, once shares have moved, in words."""
    *_, (free, _, kind) = _kinds(context)
    room = room_of(with_shares_in_root(context).supply, keep_busy=False)
    nodes = [node for node in cpu_nodes(context.tree.machine) if within >> node.id & 1]
    return free_text(nodes, [f"{_given(context, room, node, free)}{kind}" for node in nodes])


def share_hints(context: PlacementContext) -> ResourceHints:
    """Return the hints for CPUs to share, which count only where they leave any nodes: the kubelet has none."""
    supply, wanted = context.supply, context.demand.shared_mcpu
    room, nodes = room_of(supply, keep_busy=True), cpu_nodes(context.tree.machine)
    free = []
    for node in nodes:
        pool = context.tree.by_hardware.get(node.cpus.mask, 0)
        free.append(room.free_mcpu[pool] if supply.shared[pool] & node.cpus.mask else 0)
    fits = [int(mcpu >= wanted and mcpu > 0) for mcpu in free]
    found = sets_with_enough(nodes, [Amount(fits, 1)], [Amount([1] * len(nodes), 1)])
    words = f"{wanted}m to share" if wanted else "a CPU to share"
    return ResourceHints("cpu", found, words, free_text(nodes, [f"{mcpu}m" for mcpu in free]), "cpu_request_mcpu")


def _kinds(context: PlacementContext) -> Iterator[tuple[int, int, str]]:
    """Yield (free CPUs, all such CPUs, what they are) of each kind that would do, best first."""
    supply, root, demand = context.supply, context.tree.root, context.demand
    ordinary = supply.shared[0] & ~supply.withheld
    must_be_isolated = demand.isolation is Isolation.REQUIRE
    if must_be_isolated or (demand.isolation is not Isolation.NO and root.isolated):
        yield supply.free_isolated(0), root.isolated, ", isolated"
    if must_be_isolated:
        return
    if demand.threads is not Threads.ANY:
        yield on_free_cores(context.tree, ordinary), root.sharable, " on whole cores"
        if demand.strict_threads:
            return
    yield ordinary, root.sharable, ""


def _given(context: PlacementContext, room: Room, node: NumaNode, free: int) -> int:
    """Return how many of the free CPUs a node can give, where some of its shares stay."""
    count = (node.cpus.mask & free).bit_count()
    pool = context.tree.by_hardware.get(node.cpus.mask)
    # Shares run on no isolated CPU, so that what a pool owes to them does not bound these.
    is_isolated = bool(node.cpus.mask & free & context.tree.root.isolated)
    return count if pool is None or is_isolated else min(count, room.give[pool])


def memory_hints(context: PlacementContext, asked: Asked) -> tuple[ResourceHints, ...]:
    """Return the hints for memory and huge pages of each size: the same for all of them, as in the kubelet."""
    request, account = context.request, context.supply.memory
    if not has_memory_hints(request) or not account.nodes.every or not (asked.memory_bytes or asked.huge_pages):
        return ()
    machine = context.tree.machine
    nodes, kinds = cpu_nodes(machine), account.nodes.of_kinds(wanted_kinds(request))
    zones = [memory_at(machine, node.cpus.mask) & account.nodes.every for node in nodes]
    places = [zone & kinds for zone in zones]
    memory_sets = _tried_memory if len(nodes) <= MOST_TRIED else _summed_memory
    found = memory_sets(nodes, account, asked, places)
    left = account.free_bytes()
    free = [sum(amount for node, amount in left.items() if zone >> node & 1) for zone in places]
    result = []
    if asked.memory_bytes:
        words = free_text(nodes, [amount_text(max(0, amount)) for amount in free])
        field = "memory_limit_bytes" if request.memory_limit_bytes else "memory_request_bytes"
        result.append(ResourceHints("memory", found, amount_text(asked.memory_bytes), words, field))
    for pages in asked.huge_pages:
        pool = account.huge_pages.pools.get(pages.page_bytes)
        has = [amount_text(pool.capacity(zone)) if pool is not None else "none" for zone in places]
        name = f"hugepages-{amount_text(pages.page_bytes).replace(' ', '').removesuffix('B')}"
        words = f"{free_text(nodes, has)} in all"
        result.append(ResourceHints(name, found, amount_text(pages.limit_bytes), words, "huge_pages"))
    return tuple(result)


def _tried_memory(nodes: Sequence[NumaNode], account: MemoryAccount, asked: Asked, places: Sequence[int]) -> Hints:
    """Return the sets whose memory holds what is asked beside the promises to others, and all sets around these."""
    zones = unions(places)
    pages = [account.huge_pages.layout((each,)) for each in asked.huge_pages]
    has = [_has(account, asked, zone) for zone in zones]
    # Promises to containers that are not Guaranteed can go elsewhere (docs/adr/0013-topology-hints.md).
    packing = account.layouts.of("yielding", account.yielding)

    def fits(index: int) -> bool:
        zone = zones[index]
        if not has[index] or any(layout.lacking(zone) for layout in pages):
            return False
        if packing is not None:
            return packing.takes(zone, asked.memory_bytes)
        # More is promised already than there is.
        return account.nodes.capacity(zone) - promised_inside(account.yielding, zone) >= asked.memory_bytes

    # What is free decides the sets, capacity which of them are preferred, as in the kubelet.
    size = next((index.bit_count() for index in by_size(len(places)) if has[index]), len(places))
    return hints_of([node.id for node in nodes], served(len(places), fits), size)


def _has(account: MemoryAccount, asked: Asked, zone: int) -> bool:
    """Return whether the zone would hold what is asked if nothing else were there."""
    if account.nodes.capacity(zone) < asked.memory_bytes:
        return False
    pools = ((account.huge_pages.pools.get(pages.page_bytes), pages.limit_bytes) for pages in asked.huge_pages)
    return all(pool is not None and pool.capacity(zone) >= limit_bytes for pool, limit_bytes in pools)


def _summed_memory(nodes: Sequence[NumaNode], account: MemoryAccount, asked: Asked, places: Sequence[int]) -> Hints:
    """Return the sets whose nodes have enough together."""
    left, pools = account.free_bytes(), account.huge_pages.pools
    free = [sum(left[n] for n in left if zone >> n & 1) for zone in places]
    amounts = [Amount(free, asked.memory_bytes)]
    capacity = [Amount([account.nodes.capacity(zone) for zone in places], asked.memory_bytes)]
    for pages in asked.huge_pages:
        pool = pools.get(pages.page_bytes)
        if pool is None:
            return ()
        of_pages = Amount([pool.capacity(zone) for zone in places], pages.limit_bytes)
        capacity.append(of_pages)
        amounts.append(of_pages)
    return sets_with_enough(nodes, amounts, capacity)


def sets_with_enough(nodes: Sequence[NumaNode], amounts: Sequence[Amount], capacity: Sequence[Amount]) -> Hints:
    """Return the sets that have enough of each amount; preferred are as small as the capacity allows at all.

    What a node has given away twice counts as nothing. Raises TooManyNodesError.
    """
    ids = listed_nodes(NodeSet.of(node.id for node in nodes).mask)
    free = [Amount([max(0, has) for has in amount.has], amount.request) for amount in amounts]
    return hints_of(ids, enough(len(ids), free), fewest_nodes(len(ids), capacity))


def free_text(nodes: Sequence[NumaNode], amounts: Sequence[int | str]) -> str:
    """Return what each of these nodes has, in words."""
    pairs = [f"{amount} on node {node.id}" for node, amount in zip(nodes, amounts, strict=True)]
    return some(pairs, SHOWN)


def nodes_text(nodes: int) -> str:
    """Return NUMA nodes in words; many of them as a list of ranges.

    >>> nodes_text(0b10), nodes_text(0b111), nodes_text(0x3ff)
    ('NUMA node 1', 'NUMA nodes 0, 1 and 2', 'NUMA nodes 0-9')
    """
    if nodes.bit_count() > SHOWN:
        return f"NUMA nodes {NodeSet(nodes)}"
    ids = [str(i) for i in range(nodes.bit_length()) if nodes >> i & 1]
    if len(ids) == 1:
        return f"NUMA node {ids[0]}"
    return f"NUMA nodes {', '.join(ids[:-1])} and {ids[-1]}" if ids else "no NUMA node"
