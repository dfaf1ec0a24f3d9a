"""What providers of hints have to answer, by trying every node set with plain sets: slow, and one rule a line."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

Hint = tuple[frozenset[int], bool]
Hints = list[Hint]


def node_sets(nodes: Collection[int]) -> Iterator[frozenset[int]]:
    """Every set of nodes but the empty one: small ones first, then those with the lowest nodes."""
    ordered = sorted(nodes)
    for size in range(1, len(ordered) + 1):
        yield from map(frozenset, combinations(ordered, size))


def cpu_hints(
    cpus: Mapping[int, set[int]], request: int, free: set[int], reusable: set[int], sockets: Sequence[set[int]] = ()
) -> Hints:
    """The CPU manager. ``sockets`` is given for align-by-socket only."""
    nodes = [node for node in cpus if cpus[node]]
    found, enough = [], []
    for candidate in node_sets(nodes):
        inside = set().union(*(cpus[node] for node in candidate))
        if len(inside) >= request:
            enough.append(len(candidate))
        if reusable <= inside and len(inside & (free | reusable)) >= request:
            found.append(candidate)
    smallest = min(enough, default=len(nodes))
    return [(each, len(each) == smallest or _is_aligned(each, smallest, nodes, sockets)) for each in found]


def _is_aligned(candidate: frozenset[int], smallest: int, nodes: list[int], sockets: Sequence[set[int]]) -> bool:
    occupied = [socket for socket in sockets if socket & set(nodes)]
    if not occupied or len(nodes) // len(occupied) == 0:
        return False
    per_socket = len(nodes) // len(occupied)
    least = (smallest + per_socket - 1) // per_socket
    return sum(1 for socket in occupied if socket & candidate) == least


def device_hints(
    machine: set[int],
    request: int,
    devices: Mapping[str, set[int] | None],
    available: Collection[str],
    reusable: Collection[str],
) -> Hints:
    """The device manager, for a container that holds no device yet and where there are enough."""
    named = {device: nodes for device, nodes in devices.items() if nodes is not None}
    nodes = set().union(*named.values()) & machine or machine
    found, enough = [], []
    for candidate in node_sets(nodes):
        inside = {device for device in named if named[device] & candidate}
        if len(inside) >= request:
            enough.append(len(candidate))
        kept = {device for device in reusable if device in named}
        if kept <= inside and len(kept) + len(inside & set(available)) >= request:
            found.append(candidate)
    smallest = min(enough, default=len(nodes))
    return [(each, len(each) == smallest) for each in found]


@dataclass(frozen=True)
class PlainNode:
    """A node's memory; ``group`` are the nodes that share assigned memory with it, empty while it has none."""

    allocatable: Mapping[str, int]
    free: Mapping[str, int]
    group: frozenset[int] = frozenset()


@dataclass(frozen=True)
class PlainMemory:
    """The memory of a machine, and what init containers of the pod had of which node sets."""

    nodes: Mapping[int, PlainNode]
    reusable: Mapping[frozenset[int], Mapping[str, int]] = field(default_factory=dict)

    def hints(self, request: Mapping[str, int]) -> Hints:
        """The memory manager: the same for every resource of the request."""
        found, enough = [], []
        for candidate in node_sets(self.nodes):
            inside = [self.nodes[node] for node in candidate]
            if not all(sum(node.allocatable[name] for node in inside) >= request[name] for name in request):
                continue
            enough.append(len(candidate))
            if len(candidate) == 1 and len(inside[0].group) > 1:
                continue  # its memory is shared with other nodes
            if len(candidate) > 1 and any(node.group and node.group != candidate for node in inside):
                continue  # a node of it serves alone, or in another group
            spare = self.reusable.get(candidate, {})
            if all(sum(node.free[name] for node in inside) + spare.get(name, 0) >= request[name] for name in request):
                found.append(candidate)
        smallest = min(enough, default=len(self.nodes))
        return [(each, len(each) == smallest) for each in found]
