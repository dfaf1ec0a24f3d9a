"""Offer the node sets whose free devices reach a request, as the kubelet's device manager does.

Source: Kubernetes 1.36, KEP-693; only nodes that have a device of the resource are part of a hint.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from policies.hints.model import Hint, Hints
from policies.hints.node_sets import by_size, hints_of, listed_nodes, touching
from sysfs.cpuset import NodeSet


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """How many devices of a resource are asked for, and which there are.

    ``nodes`` has the mask of every device, healthy or not; None: its plugin does not say. ``available`` are the
    healthy ones that no container has, ``reusable`` the ones of init containers of the pod, ``allocated`` the ones
    that this container holds already.

    ``preferred_sets`` are sets of ``count`` devices that go well together, by their plugin. With them a hint is
    preferred when it is exactly the nodes of such a set; None: when it has as few nodes as it takes on an idle machine.
    """

    count: int
    nodes: Mapping[str, int | None]
    available: frozenset[str]
    reusable: frozenset[str] = frozenset()
    allocated: frozenset[str] = frozenset()
    preferred_sets: tuple[frozenset[str], ...] | None = None


@dataclass(frozen=True, slots=True)
class DeviceProvider:
    """Offers hints for each resource of devices. ``nodes`` is the mask of the machine's nodes."""

    nodes: int
    requests: Mapping[str, DeviceRequest]

    def within(self, counted: int) -> "DeviceProvider":
        """Return the provider for which these nodes alone are nodes; a device on others alone is one without nodes."""
        left = {
            name: replace(request, nodes={device: _left(mask, counted) for device, mask in request.nodes.items()})
            for name, request in self.requests.items()
        }
        return DeviceProvider(counted, left) if counted != self.nodes else self

    def offers(self) -> Mapping[str, Hints]:
        """Return the hints by resource; None for a resource whose devices have no NUMA nodes."""
        return {resource: self._preferred(request, self._hints(request)) for resource, request in self.requests.items()}

    def without_preference(self, offers: Mapping[str, Hints]) -> tuple[str, ...]:
        """Return the resources of these offers without a preferred hint: none of the preferred sets is possible."""
        asked = (resource for resource, request in self.requests.items() if request.preferred_sets is not None)
        return tuple(name for name in asked if offers[name] and not any(h.preferred for h in offers[name] or ()))

    def _preferred(self, request: DeviceRequest, hints: Hints) -> Hints:
        """Return the hints with the flags that the preferred sets give them, if there are any."""
        if request.preferred_sets is None or hints is None:
            return hints
        usable = request.allocated or request.available | request.reusable
        sets = (devices for devices in request.preferred_sets if len(devices) == request.count and devices <= usable)
        affinities = {NodeSet.of_masks(self._masks(request, devices)).mask for devices in sets}
        return tuple(Hint(hint.nodes, hint.nodes in affinities) for hint in hints)

    def _hints(self, request: DeviceRequest) -> Hints:
        if all(mask is None for mask in request.nodes.values()):
            return None
        if request.allocated:
            if len(request.allocated) != request.count:
                return ()  # the request has changed: the devices that it holds cannot serve it
            return self._generate(request, request.allocated, frozenset())
        if len(request.available | request.reusable) < request.count:
            return ()
        return self._generate(request, request.available - request.reusable, request.reusable)

    def _generate(self, request: DeviceRequest, available: Iterable[str], reusable: Iterable[str]) -> Hints:
        known = self._masks(request, request.nodes)
        # As the kubelet: where no device is on a node of this machine, all of its nodes are tried.
        within = NodeSet.of_masks(known) or NodeSet(self.nodes)
        free = self._masks(request, available)
        kept = self._masks(request, reusable)
        nodes = listed_nodes(within.mask)
        capacity, room, held = touching(nodes, known), touching(nodes, free), touching(nodes, kept)
        keeping = (index for index in by_size(len(nodes)) if held[index] == len(kept))
        fitting = [index for index in keeping if held[index] + room[index] >= request.count]
        sizes = (index.bit_count() for index in by_size(len(nodes)) if capacity[index] >= request.count)
        size = next(sizes, len(nodes))
        return hints_of(nodes, fitting, size)

    def _masks(self, request: DeviceRequest, devices: Iterable[str]) -> list[int]:
        """Return the nodes of those devices whose plugin named any."""
        masks = (request.nodes.get(device) for device in devices)
        return [mask & self.nodes for mask in masks if mask is not None]


def _left(mask: int | None, counted: int) -> int | None:
    return mask and (mask & counted or None)
