"""Offer the node sets with room for memory and huge pages, as the kubelet's static memory manager does.

Source: Kubernetes 1.36, KEP-1769. Memory that is assigned from several nodes makes them a group: while it is in use,
they serve together or not at all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from policies.hints.model import Amount, Hint, Offers, Unlisted
from policies.hints.node_sets import offered
from policies.hints.search import fewest_nodes
from sysfs.cpuset import NodeSet
from sysfs.model import Machine
from sysfs.quantity import page_size_text

RESOURCE = "memory"
HUGE_PAGES = "hugepages-"
Bytes = Mapping[str, int]
"""Bytes by resource: ``memory``, ``hugepages-2Mi``."""

NONE: Bytes = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MemoryAmounts:
    """What a node can give to containers when it is idle, and what of it is free."""

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
        return dict.fromkeys(self.request, found) if isinstance(found, Unlisted) or found else None

    def _hints(self) -> Sequence[Hint] | Unlisted:
        mask = sum(1 << node for node in self.nodes)
        capacity = self._amounts(lambda node: node.allocatable)
        size = fewest_nodes(capacity, mask)
        free = self._amounts(lambda node: node.free)
        groups = self.groups | self.reusable.keys()
        used = NodeSet.of_masks(groups).mask
        together = tuple(
            Hint(group, group.bit_count() == size)
            for group in sorted(groups)
            if self._reaches(group, capacity, NONE) and self._reaches(group, free, self.reusable.get(group, NONE))
        )
        return offered(Unlisted(free, preferred_size=size, within=mask & ~used, listed=together))

    def _amounts(self, of: Callable[[MemoryAmounts], Bytes]) -> tuple[Amount, ...]:
        """Return for each requested resource what the nodes have of it."""
        idle = MemoryAmounts(NONE, NONE)
        count = max(self.nodes, default=-1) + 1
        per_node = [of(self.nodes.get(node, idle)) for node in range(count)]
        return tuple(
            Amount(tuple(amounts.get(resource, 0) for amounts in per_node), request)
            for resource, request in self.request.items()
        )

    def _reaches(self, nodes: int, amounts: Iterable[Amount], spare: Bytes) -> bool:
        """Return whether these nodes together, with what is spare beside, have what is requested."""
        return all(
            sum(amount.free[node] for node in NodeSet(nodes)) + spare.get(resource, 0) >= amount.request
            for resource, amount in zip(self.request, amounts, strict=True)
        )


def idle_memory(machine: Machine) -> dict[int, MemoryAmounts]:
    """Return the memory and huge pages of a machine that runs nothing, by node.

    >>> from sysfs.descriptions.machine import describe
    >>> idle_memory(describe({"memory": "1Gi", "hugepages": {"2Mi": 32}}))[0].free
    {'memory': 1006632960, 'hugepages-2Mi': 67108864}
    """
    found = {}
    for node in machine.nodes:
        pages = {HUGE_PAGES + page_size_text(pool.page_bytes): pool.total_bytes for pool in node.huge_pages}
        amounts = {RESOURCE: node.ordinary_bytes} | pages
        found[node.id] = MemoryAmounts(allocatable=amounts, free=amounts)
    return found
