"""Offer the NUMA nodes of the devices that a container has, and of those that it asks for. Pure.

What others have chosen offers sets with a node of each. What is asked for of the types that cost files list offers
those with enough free ones: a device is on the nodes of the CPUs that it costs least. Which devices init containers
leave is not known: CRI does not say which containers these are.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from policies.alignment import DeviceAmount
from policies.base import DeviceLocality
from policies.costs.model import type_of
from policies.hints.devices import DeviceProvider, DeviceRequest, with_chosen_set
from policies.topology_aware.alignment.offers import (
    SHOWN,
    Asked,
    ResourceHints,
    cpu_nodes,
    free_text,
    nodes_text,
)
from policies.topology_aware.device_choice.choice import cheapest_anywhere
from policies.topology_aware.device_choice.inventory import DeviceStock, fixed_devices, nodes_of, stock_of
from policies.topology_aware.supply.context import PlacementContext
from sysfs.model import Machine
from sysfs.text import plural, some

_POD_RESOURCES: Final = "podresapi:"


def device_hints(context: PlacementContext) -> Iterator[ResourceHints]:
    """Yield the hints of the devices that the container has, by resource: sets that have a node of each of them.

    Which devices it has, others have chosen. Mounts have no hints, as in the kubelet.
    """
    machine = context.tree.machine
    found: dict[str, dict[str, int]] = {}
    for place in context.request.hints:
        resource, nodes = _resource_of(place.source), _nodes_of(machine, place)
        if resource and nodes:
            found.setdefault(resource, {})[place.source] = nodes
    every = sum(1 << node.id for node in cpu_nodes(machine))
    for resource, places in found.items():
        chosen = frozenset(places)
        request = DeviceRequest(len(places), places, frozenset(), allocated=chosen)
        offers = DeviceProvider(every, {resource: request}).offers()
        yield ResourceHints(resource, offers[resource], plural(len(places), "device"), _devices_text(places), "hints")


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
    every = near = 0
    for node in cpu_nodes(machine):
        every |= 1 << node.id
        if node.id in place.nodes or (not place.nodes and node.cpus.mask & place.cpus.mask):
            near |= 1 << node.id
    for node in machine.nodes if not near else ():
        near |= node.near.mask if node.id in place.nodes else 0
    return near & every if near & every != every else 0


def _devices_text(places: dict[str, int]) -> str:
    names = [f"{source} on {nodes_text(nodes)}" for source, nodes in sorted(places.items())]
    return some(names, SHOWN)


def requested_hints(context: PlacementContext, asked: Asked) -> Iterator[ResourceHints]:
    """Yield the hints of each type of devices that the container, or its pod, asks for by annotation.

    A container that runs has none to choose: its devices offer hints as those that the kubelet has chosen.
    """
    catalog = context.catalog
    if catalog is None or not asked.devices or fixed_devices(context) is not None:
        return
    nodes = cpu_nodes(context.tree.machine)
    every = sum(1 << node.id for node in nodes)
    stock = stock_of(context, catalog, asked.devices)
    chooser = cheapest_anywhere(context, stock) if context.options.topology.prefers_chosen_sets else None
    for amount in asked.devices:
        places = nodes_of(catalog, amount.kind, every)
        request = DeviceRequest(amount.count, places, frozenset(stock.free[amount.kind]))
        if chooser is not None:
            request = with_chosen_set(request, chooser)
        hints = DeviceProvider(every, {amount.kind: request}).offers()[amount.kind]
        words = free_text(nodes, _per_node(stock, amount, places, [node.id for node in nodes]))
        yield ResourceHints(amount.kind, hints, plural(amount.count, "device"), words, "devices")


def _per_node(
    stock: DeviceStock, amount: DeviceAmount, places: Mapping[str, int | None], nodes: Sequence[int]
) -> list[int]:
    """Return how many devices are free on each node; one on several counts on each."""
    free = [places[name] for name in stock.free[amount.kind]]
    return [sum(mask is None or bool(mask >> node & 1) for mask in free) for node in nodes]
