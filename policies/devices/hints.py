"""Offer the NUMA nodes on which a container's devices can be had: hints to merge with those for CPUs and memory.

A set of nodes is offered when the whole request, all types together, can be met by devices on it. A device whose node
is not known can be had with any set.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from policies.device_grants import DeviceGrant
from policies.devices.allocate import (
    CannotAllocate,
    DeviceAllocation,
    DeviceAllocator,
    DeviceAttempt,
    DeviceQuestion,
)
from policies.devices.model import PcieGroup
from policies.devices.usage import usage_of
from policies.hints.model import Hint
from policies.hints.node_sets import MAX_LISTED_NODES, by_size, sums
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
    attempt = DeviceAttempt(allocator, question, usage_of(held, allocator.inventory, allocator.groups), None)
    enough = _enough(attempt, allocator.groups, nodes)
    masks = sums(1 << node for node in nodes)
    can_serve = [False] * len(masks)
    for index in by_size(len(nodes)):
        # What a part of these nodes can serve, they can; the parts come first.
        is_known = any(can_serve[index & ~(1 << node)] for node in range(len(nodes)) if index >> node & 1)
        can_serve[index] = is_known or (
            enough[index]
            and (not attempt.is_constrained or _can_serve(allocator.allocate(question, held, masks[index])))
        )
    serving = [index for index in by_size(len(nodes)) if can_serve[index]]
    size = min(index.bit_count() for index in serving)
    hints = tuple(Hint(masks[index], index.bit_count() == size) for index in serving)
    return dict.fromkeys(kinds, hints)


def _can_serve(answer: DeviceAllocation | CannotAllocate) -> bool:
    return isinstance(answer, DeviceAllocation)


def _enough(attempt: DeviceAttempt, groups: Sequence[PcieGroup], nodes: Sequence[int]) -> list[bool]:
    """Return for every subset of the nodes whether it has enough devices of each type, wherever they are on it."""
    enough = [True] * (1 << len(nodes))
    for count, usable in attempt.found.values():
        on = Counter(groups[candidate.group].numa for candidate in usable)
        totals = sums(on[node] for node in nodes)
        enough = [is_enough and total + on[None] >= count for is_enough, total in zip(enough, totals, strict=True)]
    return enough


def _nodes_of(allocator: DeviceAllocator, kinds: Sequence[str]) -> tuple[int, ...]:
    """Return the NUMA nodes that have devices of these types."""
    return tuple(
        NodeSet.of(
            group.numa
            for group in allocator.groups
            if group.numa is not None and any(device.kind in kinds for device in group.devices)
        )
    )
