"""Offer the NUMA nodes on which a container's devices are available: hints to merge with those for CPUs and memory.

A set of nodes is offered when the whole request, all types together, can be met by devices on it. A device whose node
is not known is available with any set.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from policies.device_grants import DeviceGrant
from policies.devices.allocate import CannotAllocate, DeviceAllocator, DeviceAttempt, DeviceQuestion
from policies.devices.model import PcieGroup
from policies.hints import MAX_LISTED_NODES, Hint, hints_of, served, sums, unions
from sysfs.cpuset import NodeSet


def device_hints(
    allocator: DeviceAllocator, question: DeviceQuestion, held: Sequence[DeviceGrant] = ()
) -> Mapping[str, tuple[Hint, ...] | None] | CannotAllocate:
    """Return the hints for each type that is asked for; None: its devices say nothing of NUMA nodes.

    All types have the same sets, by size and lowest nodes; those of the smallest size are preferred. A set counts that
    has another one in it: with more devices to choose from, a request can still be met. Raises DemandError.
    """
    demands = allocator.demands(question)
    # A request that the whole machine cannot serve is refused before all sets of its nodes are tried.
    whole = allocator.allocate(question, held)
    if isinstance(whole, CannotAllocate):
        return whole
    kinds = [demand.kind for demand in demands]
    nodes = _nodes_of(allocator, kinds)
    if not nodes:
        return dict.fromkeys(kinds)
    if len(nodes) > MAX_LISTED_NODES:
        return CannotAllocate(f"the devices are on {len(nodes)} NUMA nodes; hints are listed for {MAX_LISTED_NODES}")
    return dict.fromkeys(kinds, hints_on(allocator, (question,), held, {node: 1 << node for node in nodes}))


def hints_on(
    allocator: DeviceAllocator,
    questions: Sequence[DeviceQuestion],
    held: Sequence[DeviceGrant],
    nodes: Mapping[int, int],
    own: Sequence[DeviceGrant] = (),
) -> tuple[Hint, ...]:
    """Return the sets of nodes on which devices can meet these questions, one after the other; the smallest preferred.

    ``nodes`` has for each the mask of the NUMA nodes whose devices are its own. Devices on nodes that none names belong
    to every set. Raises DemandError.
    """
    places = tuple(nodes.values())
    beyond = ~reduce(or_, places, 0)
    usage = allocator.usage(held, own)
    attempts = [DeviceAttempt(allocator, question, usage) for question in questions]
    # Counted for all sets at once: without enough devices the search for a set would be in vain.
    enough = _enough(attempts, allocator.groups, places)
    # Enough devices are all that it takes, unless some are counted in two places.
    is_decided = len(attempts) == 1 and not attempts[0].is_constrained and sum(places) == reduce(or_, places, 0)
    masks = unions(places)

    def can_serve(index: int) -> bool:
        return enough[index] and (is_decided or can_meet(allocator, questions, held, masks[index] | beyond, own))

    serving = served(len(places), can_serve)
    # The fewest nodes that can serve now, as in Koordinator: the kubelet prefers the fewest that ever could, and
    # would refuse a container that free GPUs of two nodes can serve.
    return hints_of(tuple(nodes), serving, min((index.bit_count() for index in serving), default=0))


def can_meet(
    allocator: DeviceAllocator,
    questions: Sequence[DeviceQuestion],
    held: Sequence[DeviceGrant],
    within: int | None,
    own: Sequence[DeviceGrant] = (),
) -> bool:
    """Return whether devices on these nodes can meet the questions, one after the other. Raises DemandError.

    They are of one pod, which is not kept from a PCIe that it has exclusively.
    """
    for question in questions:
        found = DeviceAttempt(allocator, question, allocator.usage(held, own), within).run()
        if isinstance(found, CannotAllocate):
            return False
        own = (*own, *found.grants)
    return True


def _enough(attempts: Sequence[DeviceAttempt], groups: Sequence[PcieGroup], places: Sequence[int]) -> list[bool]:
    """Return for every subset of the places whether each attempt has enough devices on it, wherever they are there."""
    enough = [True] * (1 << len(places))
    for count, usable in (found for attempt in attempts for found in attempt.found.values()):
        on = [groups[candidate.group].numa for candidate in usable]
        here = [sum(numa is not None and place >> numa & 1 for numa in on) for place in places]
        anywhere = sum(numa is None or not any(place >> numa & 1 for place in places) for numa in on)
        totals = sums(here)
        enough = [is_enough and total + anywhere >= count for is_enough, total in zip(enough, totals, strict=True)]
    return enough


def _nodes_of(allocator: DeviceAllocator, kinds: Sequence[str]) -> tuple[int, ...]:
    """Return the NUMA nodes that have devices of these types."""
    groups = (group for group in allocator.groups if any(device.kind in kinds for device in group.devices))
    return tuple(NodeSet.of(group.numa for group in groups if group.numa is not None))
