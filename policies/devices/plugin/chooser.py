"""Choose among the devices that a plugin offers: by their links, their costs, or their place on the machine.

Each way is a ``Chooser`` of ids; ``chooser_of`` takes the one that knows most.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Final

from policies.devices.costs import NO_DEVICES, CostTable, Inventory, cheapest_of
from policies.devices.device_types import GPU
from policies.devices.link_choice import MOST_NODE_SETS, cheapest_linked, gpu_places
from policies.devices.links import GpuPlaces, GpuRequest, LinkMatrix, LinkOptions, MatrixGpu, allocate
from policies.devices.partitions import PartitionRule, ranked_partitions
from policies.devices.plugin.offer import Chooser, OfferedDevice, OfferedDevices, OfferForm
from policies.devices.plugin.shares import ShareChooser
from policies.devices.search import GroupOffer, cheapest_spread
from sysfs.cpuset import gathered

_SPARING: Final = LinkOptions(spares_links=True)


@dataclass(frozen=True, slots=True)
class KnownCloseness:
    """The known relations of devices, beside their place: links of GPUs, costs, partitions of GPUs."""

    links: LinkMatrix | None = None
    costs: Inventory = NO_DEVICES
    partitions: PartitionRule | None = None


def chooser_of(offered: OfferedDevices, resource: str, known: KnownCloseness) -> Chooser:
    """Return the chooser of a resource: by links if these have its GPUs, then by costs if these have its devices.

    Partitions of GPUs go before all, and costs decide between sets with as good links. In a matrix a GPU has its minor
    as number, in costs a device is ``RESOURCE/gpu0``. All of these are about whole devices.
    """
    if offered.offer.form is OfferForm.VFS:
        return VfChooser(offered)
    if offered.offer.form is OfferForm.SHARES:
        by_place = PlaceChooser(offered)
        return ShareChooser(offered, by_place) if offered.kind == GPU else by_place
    minors = {name: device.part.number for name, device in offered.devices.items()}
    names = {name: f"{resource}/{offered.kind}{minor}" for name, minor in minors.items()}
    found: Chooser = PlaceChooser(offered)
    if offered.kind == GPU and known.links is not None and known.links.indices.intersection(minors.values()):
        listed = {minors[n]: names[n] for n in names if names[n] in known.costs.devices.get(resource, ())}
        places = gpu_places(known.links, offered.groups)
        found = LinkChooser(known.links, minors, known.costs, listed, places)
    elif _has_costs(known.costs.table, set(names.values())):
        found = CostChooser(known.costs, resource, names)
    if offered.kind == GPU and known.partitions is not None:
        found = PartitionChooser(minors, known.partitions, found)
    return found


def _has_costs(table: CostTable, names: set[str]) -> bool:
    """Return whether the table has a cost of one of these instances."""
    return any(row and names.intersection(group.members) for group, row in zip(table.groups, table.costs, strict=True))


@dataclass(frozen=True, slots=True)
class LinkChooser:
    """Prefers the GPUs that best-effort takes; of sets with as good links the cheapest one, then the nearest.

    ``gpus`` has the number in the matrix of each device, ``names`` those of the numbers in the cost files. A device
    without a number counts as unlinked and comes last. Devices that are parts of one GPU are not told apart: with
    several of them there is no preferred set. A single GPU is the one whose links the others miss least, so that no
    linked pair is broken for it.
    """

    matrix: LinkMatrix
    gpus: Mapping[str, int]
    costs: Inventory = NO_DEVICES
    names: Mapping[int, str] = field(default_factory=dict)
    places: GpuPlaces | None = None

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        """Return the preferred set of this size, with all of ``included``; empty where there is none."""
        devices = dict.fromkeys(available)
        indices = self.matrix.indices
        free = max(indices, default=-1) + 1
        unlinked = [name for name in devices if self.gpus.get(name) not in indices]
        number = {name: self.gpus[name] for name in devices if self.gpus.get(name) in indices}
        number |= {name: free + i for i, name in enumerate(unlinked)}
        name_of = {index: name for name, index in number.items()}
        # Two ids with one number are parts of one GPU.
        if len(name_of) < len(number) or not number.keys() >= set(included):
            return ()
        more = tuple(MatrixGpu(free + i) for i in range(len(unlinked)))
        matrix = LinkMatrix((*self.matrix.gpus, *more), (), self.matrix.links)
        request = GpuRequest(size, frozenset(name_of), frozenset(number[name] for name in included), self.places)
        chosen = allocate(matrix, request, _SPARING).devices
        # All single GPUs have the same link score, and costs would undo the choice that spares linked pairs.
        if size > 1 and chosen:
            chosen = cheapest_linked(matrix, self.costs, self.names, request, chosen)
        return tuple(name_of[index] for index in chosen)


@dataclass(frozen=True, slots=True)
class CostChooser:
    """Prefers the cheapest devices by their costs to each other; ``names`` has that of each id in the cost files.

    A device that the files do not list costs nothing, as one that reports nothing.
    """

    costs: Inventory
    resource: str
    names: Mapping[str, str]

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        """Return the preferred set of this size, with all of ``included``; empty where there is none."""
        ids = {self.names[name]: name for name in available if name in self.names}
        must = frozenset(self.names.get(name, name) for name in included)
        if not must <= ids.keys():
            return ()
        return tuple(ids[name] for name in cheapest_of(self.costs.table, self.resource, tuple(ids), must, size))


@dataclass(frozen=True, slots=True)
class PartitionChooser:
    """Prefers the best partition of GPUs that is free; where none is, what ``otherwise`` prefers."""

    minors: Mapping[str, int]
    rule: PartitionRule
    otherwise: Chooser

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        """Return the preferred set of this size, with all of ``included``; empty where there is none."""
        ids = {self.minors[name]: name for name in available if name in self.minors}
        minors = frozenset(ids)
        for found in ranked_partitions(self.rule, size, minors, minors):
            names = tuple(ids[minor] for minor in sorted(found.minors))
            if set(included) <= set(names):
                return names
        return self.otherwise.choose(available, included, size)


@dataclass(frozen=True, slots=True)
class PlaceChooser:
    """Prefers devices on the fewest NUMA nodes, then PCIe groups, both in use before idle ones, lowest numbers.

    Shares are taken of as few devices as possible. Exact; the order in which devices are named does not matter.
    """

    offered: OfferedDevices

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        """Return the preferred set of this size, with all of ``included``; empty where there is none."""
        free = {name for name in available if name in self.offered.devices}
        must = set(included)
        if not must <= free:
            return ()
        members = gathered((self.offered.devices[name].group, self.offered.devices[name]) for name in free)
        numbers = sorted(members)
        counts = Counter(self.offered.devices[name].group for name in must)
        taken = [device.id for device in _taken(self.offered, free)]
        used = {self.offered.devices[name].group for name in (*taken, *must)}
        used_nodes = set(map(self._node, used))
        offers = [
            GroupOffer(
                node := self._node(group),
                len(members[group]),
                is_used=group in used,
                least=counts[group],
                is_node_used=node in used_nodes,
            )
            for group in numbers
        ]
        spread = cheapest_spread(offers, size)
        if spread is None:
            return ()
        counted = zip(numbers, spread.counts, strict=True)
        picked = (device for group, n in counted for device in self._picked(members[group], must, taken)[:n])
        return tuple(device.id for device in sorted(picked, key=lambda device: (device.part.number, device.order)))

    def _node(self, group: int) -> int:
        """Return a number for the NUMA node of a group; one whose node is not known is on a node of its own."""
        node = self.offered.groups[group].numa
        return -1 - group if node is None else node

    def _picked(self, members: Iterable[OfferedDevice], must: set[str], taken: Sequence[str]) -> list[OfferedDevice]:
        """Return the ids of a group in the order in which they are taken: what must be there, then the others."""
        ordered = sorted(members, key=lambda device: (device.part.number, device.id not in must, device.order))
        if self.offered.offer.form is OfferForm.SHARES:
            held = {self.offered.devices[name].part.number for name in (*must, *taken)}
            ordered = sorted(ordered, key=lambda device: device.part.number not in held)
        return sorted(ordered, key=lambda device: device.id not in must)


@dataclass(frozen=True, slots=True)
class VfChooser:
    """Prefers virtual functions on the fewest NUMA nodes, of as many devices as there are, of those least in use.

    Devices of unknown node count as on one. Where there are many sets of nodes, the first ``MOST_NODE_SETS`` of those
    that have enough are compared.
    """

    offered: OfferedDevices

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        """Return the preferred set of this size, with all of ``included``; empty where there is none."""
        devices = self.offered.devices
        free, must = {name for name in available if name in devices}, set(included)
        if not must <= free:
            return ()
        load = Counter(device.part.number for device in _taken(self.offered, free))
        on_node = gathered((self._node(devices[name]), devices[name]) for name in free)
        fixed = {self._node(devices[name]) for name in must}
        others = sorted(on_node.keys() - fixed, key=lambda node: (node is None, node))
        for width in range(len(others) + 1):
            sets = ([*fixed, *some] for some in combinations(others, width))
            members = ([device for node in nodes for device in on_node[node]] for nodes in sets)
            enough = islice((here for here in members if len(here) >= size), MOST_NODE_SETS)
            ways = [_of_many(here, must, load)[:size] for here in enough]
            if ways:
                best = max(ways, key=lambda way: _width_and_rest(way, load))
                return tuple(device.id for device in sorted(best, key=lambda d: (d.part.number, d.order)))
        return ()

    def _node(self, device: OfferedDevice) -> int | None:
        return self.offered.groups[device.group].numa


def _taken(offered: OfferedDevices, free: set[str]) -> Iterator[OfferedDevice]:
    """Yield the healthy devices that are not free, so that others have them."""
    # The kubelet offers healthy ids alone, so that an unhealthy one is missing though no pod has it.
    return (each for each in offered.devices.values() if each.is_healthy and each.id not in free)


def _of_many(here: Iterable[OfferedDevice], must: set[str], load: Mapping[int, int]) -> list[OfferedDevice]:
    """Return functions in the order in which they are taken: what must be there, then one of each device in turn."""
    of_each = gathered((each.part.number, each) for each in sorted(here, key=lambda d: (d.id not in must, d.order)))
    turns = [(turn, load[number], each) for number, same in of_each.items() for turn, each in enumerate(same)]
    return [each for *_, each in sorted(turns, key=lambda t: (t[2].id not in must, *t[:2], t[2].part.number))]


def _width_and_rest(way: Sequence[OfferedDevice], load: Mapping[int, int]) -> tuple[int, int]:
    """Return of how many devices functions are, and how little others have of these; more is better."""
    return len({each.part.number for each in way}), -sum(load[each.part.number] for each in way)
