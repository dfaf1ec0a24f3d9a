"""Offer the NUMA nodes on which a container's devices can be had: hints to merge with those for CPUs and memory.

A set of nodes is offered when the whole request, all types together, can be met by devices on it. A device whose node
is not known can be had with any set.
"""

from collections.abc import Mapping, Sequence

from policies.devices.allocate import CannotAllocate, DeviceAllocator, DeviceQuestion
from policies.devices.usage import DeviceGrant
from policies.hints.model import Hint
from policies.hints.node_sets import MAX_LISTED_NODES, by_size
from sysfs.cpuset import NodeSet


def device_hints(
    allocator: DeviceAllocator, question: DeviceQuestion, held: Sequence[DeviceGrant] = ()
) -> Mapping[str, tuple[Hint, ...] | None] | CannotAllocate:
    """Return the hints for each type that is asked for; None: its devices say nothing of NUMA nodes.

    All types have the same sets, by size and lowest nodes; those of the smallest size are preferred. A set counts that
    has another one in it: with more devices to choose from, a request can still be met. Raises DemandError.
    """
    demands = allocator.demands(question)
    whole = allocator.allocate(question, held)
    if isinstance(whole, CannotAllocate):
        return whole
    kinds = [demand.kind for demand in demands]
    nodes = _nodes_of(allocator, kinds)
    if not nodes:
        return dict.fromkeys(kinds)
    if len(nodes) > MAX_LISTED_NODES:
        return CannotAllocate(f"the devices are on {len(nodes)} NUMA nodes; hints are listed for {MAX_LISTED_NODES}")
    masks = [_mask(index, nodes) for index in by_size(len(nodes))]
    least: list[int] = []
    for mask in masks:
        if any(known & mask == known for known in least):
            continue
        if not isinstance(allocator.allocate(question, held, mask), CannotAllocate):
            least.append(mask)
    size = min((mask.bit_count() for mask in least), default=0)
    hints = tuple(
        Hint(mask, mask.bit_count() == size) for mask in masks if any(known & mask == known for known in least)
    )
    return dict.fromkeys(kinds, hints)


def _nodes_of(allocator: DeviceAllocator, kinds: Sequence[str]) -> tuple[int, ...]:
    """Return the NUMA nodes that have devices of these types."""
    return tuple(
        NodeSet.of(
            group.numa
            for group in allocator.groups
            if group.numa is not None and any(device.kind in kinds for device in group.devices)
        )
    )


def _mask(index: int, nodes: Sequence[int]) -> int:
    return sum(1 << node for position, node in enumerate(nodes) if index >> position & 1)
