"""Offer the node sets whose free devices reach a request, as the kubelet's device manager does.

Source: Kubernetes 1.36, KEP-693; only nodes that have a device of the resource are part of a hint.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from policies.choose import Chooser
from policies.hints.model import Amount, Hint, Hints, Unlisted
from policies.hints.node_sets import MAX_LISTED_NODES, by_size, sums, touching, unlisted
from policies.hints.search import fewest_nodes
from policies.hints.unlisted import is_offered
from sysfs.cpuset import NodeSet

_FEW_NODES = 2  # up to three hints


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """How many devices of a resource are asked for, and which there are.

    ``nodes`` has the mask of every device, healthy or not; None: its plugin does not say. ``available`` are the
    healthy ones that no container has, ``reusable`` the ones of init containers of the pod, ``allocated`` the ones
    that this container holds already.

    ``preferred_sets`` are sets of ``count`` devices that go well together, as their plugin says. With them a hint is
    preferred when it is exactly the nodes of such a set; None: when it has as few nodes as it takes on an idle machine.
    """

    count: int
    nodes: Mapping[str, int | None]
    available: frozenset[str]
    reusable: frozenset[str] = frozenset()
    allocated: frozenset[str] = frozenset()
    preferred_sets: tuple[frozenset[str], ...] | None = None


def with_chosen_set(request: DeviceRequest, chooser: Chooser) -> DeviceRequest:
    """Return the request with the set that a chooser prefers of all devices that the container can have."""
    available = tuple(sorted(request.available | request.reusable))
    if not len(request.reusable) <= request.count <= len(available):
        return replace(request, preferred_sets=())
    answer = frozenset(chooser.choose(available, tuple(sorted(request.reusable)), request.count))
    return replace(request, preferred_sets=(answer,) if answer else ())


@dataclass(frozen=True, slots=True)
class DeviceProvider:
    """Offers hints for each resource of devices. ``nodes`` is the mask of the machine's nodes.

    With more nodes than ``most_listed`` the hints are not listed but for devices on one node or two: a merge of hints
    that are not listed with long lists beside them would look at each pair.
    """

    nodes: int
    requests: Mapping[str, DeviceRequest]
    most_listed: int = MAX_LISTED_NODES

    def offers(self) -> Mapping[str, Hints]:
        """Return the hints by resource; None for a resource whose devices have no NUMA nodes."""
        return {resource: self._preferred(request, self._hints(request)) for resource, request in self.requests.items()}

    def without_preference(self, offers: Mapping[str, Hints]) -> tuple[str, ...]:
        """Return the resources of these offers of which no hint is preferred: none of the preferred sets can be had."""
        asked = (resource for resource, request in self.requests.items() if request.preferred_sets is not None)
        return tuple(resource for resource in asked if offers[resource] and not has_preferred(offers[resource]))

    def _preferred(self, request: DeviceRequest, hints: Hints) -> Hints:
        """Return the hints with the flags that the preferred sets give them, if there are any."""
        if request.preferred_sets is None or hints is None:
            return hints
        usable = request.allocated or request.available | request.reusable
        affinities = {
            NodeSet.of_masks(self._masks(request, devices)).mask
            for devices in request.preferred_sets
            if len(devices) == request.count and devices <= usable
        }
        if not isinstance(hints, Unlisted):
            return tuple(Hint(hint.nodes, hint.nodes in affinities) for hint in hints)
        listed = (Hint(mask, preferred=True) for mask in sorted(affinities) if is_offered(hints, mask))
        return replace(hints, preferred_size=0, listed=tuple(listed))

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
        if len(within) > (self.most_listed if self.nodes.bit_count() <= self.most_listed else _FEW_NODES):
            found = self._unlisted(request.count, within.mask, known, free, kept)
            if found is not None:
                return found
            if len(within) > MAX_LISTED_NODES:
                return self._by_lowest_node(request.count, within.mask, known, free, kept)
        nodes = tuple(within)
        capacity, room, held = touching(nodes, known), touching(nodes, free), touching(nodes, kept)
        fitting = [
            index
            for index in by_size(len(nodes))
            if held[index] == len(kept) and held[index] + room[index] >= request.count
        ]
        sizes = (index.bit_count() for index in by_size(len(nodes)) if capacity[index] >= request.count)
        size = next(sizes, len(nodes))
        masks = sums(1 << node for node in nodes)
        return tuple(Hint(masks[index], index.bit_count() == size) for index in fitting)

    def _unlisted(
        self, count: int, within: int, known: Sequence[int], free: Sequence[int], kept: Sequence[int]
    ) -> Hints:
        """Return the hints as a family; None where a family would not be exact.

        ``known``, ``free`` and ``kept`` are the nodes of each device. Devices of which each is on one node add up.
        Where all devices are needed, each is an amount of its own: a set has one of its nodes, or has not.
        """
        if not all(kept):
            return ()  # an init container's device is on no node of the machine
        amounts = self._amounts(count, (*free, *kept))
        capacity = self._amounts(count, known)
        if amounts is None or capacity is None:
            return None
        return unlisted(
            Unlisted(
                amounts=(*amounts, *self._each(kept)),
                preferred_size=fewest_nodes(capacity, within),
                within=within,
            )
        )

    def _amounts(self, count: int, masks: Sequence[int]) -> tuple[Amount, ...] | None:
        """Return what makes a set have as many of these devices; None where amounts by node cannot say it."""
        width = self.nodes.bit_length()
        if all(mask.bit_count() < 2 for mask in masks):
            return (Amount(_by_lowest(masks, width), count),)
        on_nodes = [mask for mask in masks if mask]
        return self._each(on_nodes) if len(on_nodes) == count else None

    def _each(self, masks: Iterable[int]) -> tuple[Amount, ...]:
        """Return what makes a set have a node of each of these."""
        width = self.nodes.bit_length()
        return tuple(Amount(tuple(mask >> node & 1 for node in range(width)), 1) for mask in sorted(set(masks)))

    def _by_lowest_node(
        self, count: int, within: int, known: Sequence[int], free: Sequence[int], kept: Sequence[int]
    ) -> Hints:
        """Return the hints of devices on many nodes; a device on several of them counts for the lowest."""
        width = self.nodes.bit_length()
        return unlisted(
            Unlisted(
                amounts=(Amount(_by_lowest([*free, *kept], width), count),),
                preferred_size=fewest_nodes([Amount(_by_lowest(known, width), count)], within),
                within=within,
                required=NodeSet.of_masks(mask & -mask for mask in kept).mask,
            )
        )

    def _masks(self, request: DeviceRequest, devices: Iterable[str]) -> list[int]:
        """Return the nodes of those devices whose plugin named any."""
        masks = (request.nodes.get(device) for device in devices)
        return [mask & self.nodes for mask in masks if mask is not None]


def has_preferred(hints: Hints) -> bool:
    """Return whether one of the hints is preferred."""
    if isinstance(hints, Unlisted):
        return hints.preferred_size > 0 or any(hint.preferred for hint in hints.listed)
    return any(hint.preferred for hint in hints or ())


def _by_lowest(masks: Iterable[int], width: int) -> tuple[int, ...]:
    """Return how many of these devices have each node as their lowest."""
    counts = [0] * width
    for mask in masks:
        if mask:
            counts[(mask & -mask).bit_length() - 1] += 1
    return tuple(counts)
