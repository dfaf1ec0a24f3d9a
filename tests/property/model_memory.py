"""The rules of memory (docs/placement.md section 6), evaluated by trying every set of nodes.

A promise is kept somewhere in its zone. All promises can be kept at once just when no set of nodes has more promised
inside it than it holds (Hall's theorem), so every set is tried: meant for machines of a few nodes.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations

from policies.base import Allocations, CpuKind, Grant, Request
from sysfs.model import Machine, MemoryKind
from tests.property.model_pools import Ids

USUAL = (MemoryKind.DRAM, MemoryKind.PMEM)  # what a container gets that does not ask for a kind: all but HBM
Promise = tuple[Ids, int]  # (nodes, bytes)


def promised_bytes(request: Request) -> int:
    """What a container counts for: its memory request, else its limit."""
    return request.memory_request_bytes or request.memory_limit_bytes or 0


def nodes_of(machine: Machine, kinds: Iterable[MemoryKind]) -> Ids:
    wanted = tuple(kinds)
    return frozenset(n.id for n in machine.nodes if n.memory_bytes and n.kind in wanted)


def are_kept(machine: Machine, promises: Iterable[Promise]) -> bool:
    """Whether no set of nodes has more promised inside it than it holds."""
    made = [promise for promise in promises if promise[1]]
    nodes = sorted(frozenset().union(*(zone for zone, _ in made)) if made else ())
    capacity = {n.id: n.memory_bytes for n in machine.nodes}
    return all(
        sum(amount for zone, amount in made if zone <= some) <= sum(capacity[node] for node in some)
        for some in _sets_of(nodes)
    )


def _sets_of(nodes: list[int]) -> Iterator[Ids]:
    for count in range(1, len(nodes) + 1):
        yield from map(frozenset, combinations(nodes, count))


def zone_of(machine: Machine, grant: Grant) -> Ids:
    """Where a grant's memory may be: its nodes, or anywhere if none are written."""
    everywhere = frozenset(machine.memory_nodes)
    return (frozenset(grant.mems) & everywhere) or everywhere


def widest_of(machine: Machine, grant: Grant) -> Ids:
    """How far its zone may be widened: not for who stays put, within PMEM while cold, within the kinds if strict."""
    request, zone = grant.request, zone_of(machine, grant)
    if not grant.mems or grant.kind in (CpuKind.PRESERVE, CpuKind.RESERVED) or request.preferences.preserve_memory:
        return zone
    if grant.is_cold:
        return zone | nodes_of(machine, [MemoryKind.PMEM])
    return zone | allowed_nodes(machine, request)


def allowed_nodes(machine: Machine, request: Request) -> Ids:
    """Every node, or under a strict wish those of the wanted kinds."""
    if request.preferences.strict_memory:
        return nodes_of(machine, request.preferences.memory_kinds or USUAL)
    return frozenset(machine.memory_nodes)


def zones_hold(machine: Machine, held: Allocations) -> bool:
    """Whether all promises can be kept where they are."""
    return are_kept(machine, [(zone_of(machine, g), promised_bytes(g.request)) for g in held.grants])


def zones_could_hold(machine: Machine, held: Allocations) -> bool:
    """Whether they could be if zones were widened as far as may be."""
    return are_kept(machine, [(widest_of(machine, g), promised_bytes(g.request)) for g in held.grants])


def has_memory_for(machine: Machine, held: Allocations, request: Request) -> bool:
    """Whether a strict wish for memory can be met: the kinds are there, usable by the kernel, and not promised yet."""
    if not request.preferences.strict_memory or request.preferences.preserve_memory or not machine.memory_nodes:
        return True
    allowed = allowed_nodes(machine, request)
    if not allowed or any(not nodes_of(machine, [kind]) for kind in request.preferences.memory_kinds):
        return False
    everywhere_movable = not any(n.is_normal_memory and n.memory_bytes for n in machine.nodes)
    is_normal = any(n.is_normal_memory for n in machine.nodes if n.id in allowed)
    if not is_normal and not everywhere_movable:
        return False  # the kernel cannot keep its own part in movable memory
    promises = [(widest_of(machine, g), promised_bytes(g.request)) for g in held.grants]
    wanted = promised_bytes(request)
    return not wanted or are_kept(machine, [*promises, (allowed, wanted)])
