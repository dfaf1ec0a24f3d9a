"""Offer the node sets with room for memory and huge pages, as the kubelet's static memory manager does.

Source: Kubernetes 1.36, KEP-1769. Memory that is assigned from several nodes makes them a group: while it is in use,
they serve together or not at all.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from policies.hints.model import Amount, Hint, Offers
from policies.hints.node_sets import MAX_LISTED_NODES, enough, fewest_nodes, hints_of, listed_nodes
from sysfs.cpuset import NodeSet
from sysfs.model import Machine
from sysfs.quantity import bytes_text

RESOURCE = "memory"
HUGE_PAGES = "hugepages-"
Bytes = Mapping[str, int]
"""Bytes by resource: ``memory``, ``hugepages-2Mi``."""

NONE: Bytes = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MemoryAmounts:
    """The memory of a node for containers when it is idle, and the free part of it."""

    allocatable: Bytes
    free: Bytes


@dataclass(frozen=True, slots=True)
class AssignedMemory:
    """Memory that a container has already, and the mask of nodes that it was assigned from."""

    nodes: int
    amounts: Bytes


@dataclass(frozen=True, slots=True)
class MemoryProvider:
    """Offers the node sets for memory and huge pages, the same ones for each.

    ``groups`` are the masks of nodes that containers have memory of, a single node included. ``reusable`` is what the
    pod's init containers had, by the mask that it was assigned from: it counts for exactly that set.
    """

    nodes: Mapping[int, MemoryAmounts]
    request: Bytes
    groups: frozenset[int] = frozenset()
    reusable: Mapping[int, Bytes] = field(default_factory=lambda: MappingProxyType({}))
    allocated: AssignedMemory | None = None

    def within(self, counted: int) -> "MemoryProvider":
        """Return the provider for which these nodes alone are nodes; ``counted`` is a mask."""
        return replace(self, nodes={node: self.nodes[node] for node in NodeSet(counted) if node in self.nodes})

    def offers(self) -> Offers:
        """Return the hints by resource.

        No opinion (None), as the kubelet has none, without a request, for a changed request, and where no set has
        room: its memory manager refuses such a container when it assigns the memory.
        """
        if not self.request:
            return None
        if self.allocated is not None:
            hints = (Hint(self.allocated.nodes, preferred=True),)
            return dict.fromkeys(self.request, hints) if dict(self.allocated.amounts) == dict(self.request) else None
        found = self._hints()
        return dict.fromkeys(self.request, found) if found else None

    def _hints(self) -> tuple[Hint, ...]:
        nodes = listed_nodes(self._counted_nodes())
        size = fewest_nodes(len(nodes), self._amounts(nodes, lambda node: node.allocatable))
        groups = self.groups | self.reusable.keys()
        together = [Hint(group, group.bit_count() == size) for group in groups if self._serves(group)]
        alone = [node for node in nodes if node not in NodeSet.of_masks(groups)]
        free = self._amounts(alone, lambda node: node.free)
        return tuple(sorted((*hints_of(alone, enough(len(alone), free), size), *together), key=_rank))

    def _counted_nodes(self) -> int:
        """Return the mask of the nodes; where they are too many to list their sets, of those that have some of it."""
        nodes = self.nodes
        if len(nodes) > MAX_LISTED_NODES:
            nodes = {node: has for node, has in nodes.items() if any(map(has.allocatable.get, self.request))}
        return sum(1 << node for node in nodes)

    def _amounts(self, nodes: Iterable[int], of: Callable[[MemoryAmounts], Bytes]) -> list[Amount]:
        """Return for each requested resource what the nodes have of it."""
        per_node = [of(self.nodes[node]) for node in nodes]
        return [Amount([has.get(name, 0) for has in per_node], request) for name, request in self.request.items()]

    def _serves(self, group: int) -> bool:
        """Return whether these nodes would have room together, and have it now, with what is reusable of them."""
        has = [self.nodes[node] for node in NodeSet(group) if node in self.nodes]
        spare = self.reusable.get(group, NONE)
        return len(has) == group.bit_count() and all(
            sum(each.allocatable.get(name, 0) for each in has) >= request
            and sum(each.free.get(name, 0) for each in has) + spare.get(name, 0) >= request
            for name, request in self.request.items()
        )


def _rank(hint: Hint) -> tuple[int, list[int]]:
    """Return the order of the kubelet: by size, then by the lowest nodes."""
    nodes = list(NodeSet(hint.nodes or 0))
    return len(nodes), nodes


def idle_memory(machine: Machine) -> dict[int, MemoryAmounts]:
    """Return the memory and huge pages of a machine that runs nothing, by node.

    >>> from sysfs.descriptions.machine import describe
    >>> idle_memory(describe({"memory": "1Gi", "hugepages": {"2Mi": 32}}))[0].free
    {'memory': 1006632960, 'hugepages-2Mi': 67108864}
    """
    found = {}
    for node in machine.nodes:
        pages = {HUGE_PAGES + bytes_text(pool.page_bytes): pool.total_bytes for pool in node.huge_pages}
        amounts = {RESOURCE: node.ordinary_bytes} | pages
        found[node.id] = MemoryAmounts(allocatable=amounts, free=amounts)
    return found
