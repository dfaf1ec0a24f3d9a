"""Offer the NUMA nodes of the devices that a container has, and of those that it, or its pod, asks for. Pure.

What others have chosen offers sets with a node of each. What is asked for of the types that cost files list offers
those with enough free ones: a device is on the nodes of the CPUs that it costs least. Which devices init containers
leave is not known: CRI does not say which containers these are.

Of the inventory a set of nodes is offered where all that is asked can be met on it, of all types together; those with
the fewest nodes are preferred, as Koordinator does. Where the machine has too many nodes to try each set, those are
offered that have a node which can serve alone, or else enough devices of each type.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from policies.base import DeviceLocality
from policies.device_requests import DeviceAmount
from policies.devices import AnnotationError, DemandError, DeviceAttempt, DeviceQuestion, can_meet, hints_on
from policies.devices.costs import type_of
from policies.hints import Amount, DeviceProvider, DeviceRequest, Hints
from policies.topology_aware.alignment.offers import (
    MOST_TRIED,
    SHOWN,
    Asked,
    ResourceHints,
    cpu_nodes,
    free_text,
    nodes_text,
    sets_with_enough,
)
from policies.topology_aware.devices.cost_choice import DeviceStock, cheapest_anywhere
from policies.topology_aware.devices.held import HeldDevices, fixed_devices
from policies.topology_aware.devices.place_choice import question_of
from policies.topology_aware.supply.context import PlacementContext
from sysfs.cpuset import NodeSet
from sysfs.model import Machine
from sysfs.text import plural, some

_POD_RESOURCES: Final = "podresapi:"


def device_hints(context: PlacementContext, asked: Asked) -> Iterator[ResourceHints]:
    """Yield the hints of the devices that a container has, by resource, then of those that it, or its pod, asks for.

    One that runs has none to choose: its devices offer hints as those that the kubelet has chosen.
    """
    yield from _of_had(context)
    node = context.machine_devices
    if node is None or not (asked.devices or asked.allocations) or fixed_devices(context) is not None:
        return
    held = HeldDevices(context, node)
    yield from _of_amounts(context, held, asked.devices)
    # What others chose for it is neither free to be chosen nor held by others.
    yield from _of_allocations(replace(held, has=context.request.given), asked)


def _of_had(context: PlacementContext) -> Iterator[ResourceHints]:
    """Yield sets that have a node of each device of a resource.

    Which devices it has, others have chosen. Mounts have no hints, as in the kubelet.
    """
    machine = context.tree.machine
    found: dict[str, dict[str, int]] = {}
    for place in context.request.localities:
        resource, nodes = _resource_of(place.source), _nodes_of(machine, place)
        if resource and nodes:
            found.setdefault(resource, {})[place.source] = nodes
    every = sum(1 << node.id for node in cpu_nodes(machine))
    for resource, places in found.items():
        chosen = frozenset(places)
        request = DeviceRequest(len(places), places, frozenset(), allocated=chosen)
        offers = DeviceProvider(every, {resource: request}).offers()
        yield ResourceHints(
            resource, offers[resource], plural(len(places), "device"), _devices_text(places), "localities"
        )


def _resource_of(source: str) -> str:
    """Return the resource that a device is counted as; '' for a mount.

    >>> _resource_of("podresapi:example.com/nic/n0,n1"), _resource_of("/dev/nvidia0"), _resource_of("0000:3b:00.0")
    ('example.com/nic', '/dev/nvidia', 'PCI devices')
    >>> _resource_of("example.com/gpu/gpu0")  # of a cost file
    'example.com/gpu'
    """
    if source.startswith(_POD_RESOURCES):
        return source.removeprefix(_POD_RESOURCES).rpartition("/")[0]
    if source.startswith("/"):
        return source.rstrip("0123456789") if source.startswith("/dev/") else ""
    return type_of(source) or "PCI devices"


def _nodes_of(machine: Machine, place: DeviceLocality) -> int:
    """Return the nodes with CPUs that a device is at; 0 where that is not known, or all of them."""
    nodes, named = cpu_nodes(machine), place.nodes
    every = NodeSet.of(node.id for node in nodes)
    near = named & every if named else NodeSet.of(node.id for node in nodes if node.cpus.mask & place.cpus.mask)
    near = near or NodeSet.of_masks(node.near.mask for node in machine.nodes if node.id in named) & every
    return near.mask if near != every else 0


def _devices_text(places: dict[str, int]) -> str:
    names = [f"{source} on {nodes_text(nodes)}" for source, nodes in sorted(places.items())]
    return some(names, SHOWN)


def _of_amounts(
    context: PlacementContext, held: HeldDevices, wanted: tuple[DeviceAmount, ...]
) -> Iterator[ResourceHints]:
    """Yield the hints of each type that cost files list."""
    nodes = cpu_nodes(context.tree.machine)
    every = sum(1 << node.id for node in nodes)
    stock = DeviceStock(held, wanted)
    prefers_chosen = context.options.topology.prefers_chosen_sets and bool(wanted)
    cheapest = cheapest_anywhere(context, stock) if prefers_chosen else frozenset()
    for amount in wanted:
        places, free = held.node.nodes_by_cost(amount.kind), stock.free[amount.kind]
        chosen = cheapest.intersection(free)
        # With no set to prefer nothing is preferred; None would prefer the fewest nodes.
        sets = None if not prefers_chosen else (chosen,) if chosen else ()
        request = DeviceRequest(amount.count, places, frozenset(free), preferred_sets=sets)
        hints = DeviceProvider(every, {amount.kind: request}).offers()[amount.kind]
        masks = [places[name] for name in free]  # one on several nodes counts on each
        on_each = [sum(mask is None or bool(mask >> node.id & 1) for mask in masks) for node in nodes]
        words = free_text(nodes, on_each)
        yield ResourceHints(amount.kind, hints, plural(amount.count, "device"), words, "devices.counts")


def _of_allocations(held: HeldDevices, asked: Asked) -> Iterator[ResourceHints]:
    """Yield the hints of each type of the inventory; the same for all, as they are allocated together.

    What cannot be read has no hints: its container is refused for it.
    """
    if not asked.allocations:
        return
    try:
        offer = _Offer(held, tuple(question_of(ask) for ask in asked.allocations))
        hints = offer.hints()
    except (AnnotationError, DemandError):
        return
    for kind, count in offer.wanted.items():
        yield ResourceHints(kind, hints, plural(count, "device"), offer.free_text(kind), "devices.requests")


class _Offer:
    """The offer of the devices that are free to one container, or to those of a pod."""

    def __init__(self, held: HeldDevices, questions: Sequence[DeviceQuestion]) -> None:
        self._held, self._node, self._questions = held, held.node, questions
        self.wanted: dict[str, int] = {}
        """How many devices of each type are asked for."""
        self._at: dict[str, list[int]] = {}  # the nodes of those that could serve
        attempts = [DeviceAttempt(held.node.allocator, question, held.usage) for question in questions]
        for kind, (count, usable) in (found for attempt in attempts for found in attempt.found.items()):
            self.wanted[kind] = self.wanted.get(kind, 0) + count
            if len(usable) >= len(self._at.get(kind, ())):
                self._at[kind] = [self._node.nodes_at(candidate.device.key) for candidate in usable]

    def free_text(self, kind: str) -> str:
        """Return how many that could serve are on each node, in words."""
        return free_text(self._node.nodes, self._on_nodes(kind)[0])

    def _on_nodes(self, kind: str) -> tuple[list[int], int]:
        """Return how many devices that could serve are on each node, and how many on none that is known."""
        at = self._at[kind]
        return [sum(mask >> node.id & 1 for mask in at) for node in self._node.nodes], at.count(0)

    def _is_met(self, nodes: int | None) -> bool:
        within, held = self._node.within(nodes), self._held
        return can_meet(self._node.allocator, self._questions, held.by_others, within, held.by_pod)

    def hints(self) -> Hints:
        """Return the sets of nodes. Raises DemandError."""
        if not self._is_met(None):
            return ()
        # Where no device names a node there is no preference, as in the kubelet's device manager.
        if not any(any(self._on_nodes(kind)[0]) for kind in self.wanted):
            return None
        nodes, held = self._node.nodes, self._held
        if len(nodes) > MOST_TRIED:
            return self._summed()
        own = {node.id: mask for node, mask in zip(nodes, self._node.masks, strict=True)}
        return hints_on(self._node.allocator, self._questions, held.by_others, own, held.by_pod)

    def _summed(self) -> Hints:
        """Return the sets that have a node which can serve alone; without such a node those with enough devices."""
        nodes = self._node.nodes
        alone = [int(self._is_met(1 << node.id)) for node in nodes]
        amounts = [Amount(alone, 1)]
        if not any(alone):
            counts = [(*self._on_nodes(kind), wanted) for kind, wanted in self.wanted.items()]
            # Devices of which no node is known serve every set.
            amounts = [Amount(on, wanted - others) for on, others, wanted in counts if wanted > others]
        return sets_with_enough(nodes, amounts, amounts)
