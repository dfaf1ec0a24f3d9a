"""Offer the NUMA nodes on which the devices of the inventory can be had that a container, or its pod, asks for. Pure.

A set of nodes is offered where all that is asked can be met on it, of all types together; those with the fewest nodes
are preferred, as Koordinator does. Where the machine has too many nodes to try each set, those are offered that have a
node which can serve alone, or else enough devices of each type.
"""

from collections.abc import Iterator, Sequence

from policies.devices.allocate import DeviceAllocator, DeviceAttempt, DeviceQuestion
from policies.devices.candidates import DeviceCandidate
from policies.devices.demand import DemandError
from policies.devices.fields import AnnotationError
from policies.devices.hints import can_meet, serving_sets
from policies.hints.model import Amount, Hints
from policies.hints.node_sets import by_size, hints_of
from policies.topology_aware.alignment.offers import (
    MOST_TRIED,
    Asked,
    ResourceHints,
    free_text,
    sets_with_enough,
)
from policies.topology_aware.device_choice.allocation import question_of
from policies.topology_aware.device_choice.allocation_conflict import held_by_others, held_by_pod
from policies.topology_aware.device_choice.allocation_places import DevicePlaces, places_on
from policies.topology_aware.device_choice.inventory import fixed_devices
from policies.topology_aware.supply.context import PlacementContext
from sysfs.text import plural


def allocation_hints(context: PlacementContext, asked: Asked) -> Iterator[ResourceHints]:
    """Yield the hints of each type of devices that is asked for; the same for all, as they are allocated together.

    A container that runs has none to choose. What cannot be read has no hints: its container is refused for it.
    """
    allocator = context.allocator
    if allocator is None or not asked.allocations or fixed_devices(context) is not None:
        return
    try:
        questions = tuple(question_of(ask) for ask in asked.allocations)
        offer = _Offer(context, allocator, questions)
        hints = offer.hints()
    except (AnnotationError, DemandError):
        return
    for kind in offer.kinds:
        yield ResourceHints(kind, hints, plural(offer.count(kind), "device"), offer.free_text(kind), "allocation")


class _Offer:
    """What the devices that are free offer to one container, or to those of a pod."""

    def __init__(
        self, context: PlacementContext, allocator: DeviceAllocator, questions: Sequence[DeviceQuestion]
    ) -> None:
        self._allocator, self._questions = allocator, questions
        self._held, self._own = held_by_others(context), held_by_pod(context)
        self._places: DevicePlaces = places_on(context.tree.machine, allocator)
        usage = allocator.usage(self._held, self._own)
        found = [DeviceAttempt(allocator, question, usage).found for question in questions]
        self.kinds = tuple(dict.fromkeys(kind for each in found for kind in each))
        self._wanted = {kind: sum(each[kind][0] for each in found if kind in each) for kind in self.kinds}
        self._usable: dict[str, tuple[DeviceCandidate, ...]] = {}
        for each in found:
            for kind, (_, usable) in each.items():
                if len(usable) >= len(self._usable.get(kind, ())):
                    self._usable[kind] = usable

    def count(self, kind: str) -> int:
        """Return how many devices are asked for."""
        return self._wanted[kind]

    def free_text(self, kind: str) -> str:
        """Return how many that could serve are on each node, in words."""
        return free_text(self._places.nodes, self._on_nodes(kind)[0])

    def _on_nodes(self, kind: str) -> tuple[list[int], int]:
        """Return how many devices that could serve are on each node, and how many on none that is known."""
        at = [self._places.nodes_at(candidate.device.key) for candidate in self._usable[kind]]
        return [sum(mask >> node.id & 1 for mask in at) for node in self._places.nodes], at.count(0)

    def hints(self) -> Hints:
        """Return the sets of nodes. Raises DemandError."""
        if not can_meet(self._allocator, self._questions, self._held, None, self._own):
            return ()
        if not any(any(self._on_nodes(kind)[0]) for kind in self.kinds):
            return None
        nodes = self._places.nodes
        if len(nodes) > MOST_TRIED:
            return self._summed()
        can_serve = serving_sets(self._allocator, self._questions, self._held, self._places.masks, self._own)
        serving = [index for index in by_size(len(nodes)) if can_serve[index]]
        size = min((index.bit_count() for index in serving), default=0)
        return hints_of([node.id for node in nodes], serving, size)

    def _summed(self) -> Hints:
        """Return the sets that have a node which can serve alone; without such a node those with enough devices."""
        nodes = self._places.nodes
        alone = [int(self._serves(1 << node.id)) for node in nodes]
        amounts = [Amount(alone, 1)]
        if not any(alone):
            counts = [(*self._on_nodes(kind), self._wanted[kind]) for kind in self.kinds]
            amounts = [Amount(on, wanted - others) for on, others, wanted in counts if wanted > others]
        return sets_with_enough(nodes, amounts, amounts)

    def _serves(self, nodes: int) -> bool:
        within = self._places.within(nodes)
        return can_meet(self._allocator, self._questions, self._held, within, self._own)
