"""Choose GPUs by the links between them, among those that are as good by their NUMA nodes.

Links count so where GPUs are asked for by themselves, several and whole: which of them a NIC goes with is decided by
their PCIe, and by links among equal places (``policies.devices.joint``); a part of a GPU reaches no other one. The GPU
of minor N is the GPUN of the matrix, unless its tool tells addresses. Costs decide among sets with links as good.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from typing import Final

from policies.devices.candidates import DeviceCandidate
from policies.devices.costs import Group, Inventory, SelectOptions, SetRequest, layered, select_in
from policies.devices.demand import DeviceDemand
from policies.devices.device_types import GPU
from policies.devices.identity import address_in
from policies.devices.links import (
    GpuPlace,
    GpuPlaces,
    GpuRequest,
    LinkMatrix,
    NodeDistance,
    allocate,
    places_of,
    points_between,
    renumbered,
)
from policies.devices.model import InventoryDevice, PcieGroup
from sysfs.cpuset import gathered

# The work is bounded, not the time: the same request gets the same devices on every machine.
SELECT: Final = SelectOptions(steps=800, walk_steps=100)
MOST_NODE_SETS: Final = 256
"""Sets of NUMA nodes that are compared; where there are more, the first choice stays."""


def links_of(matrix: LinkMatrix | None, gpus: Sequence[InventoryDevice]) -> LinkMatrix | None:
    """Return the matrix with the minors of these GPUs as numbers; None for one that is not of them.

    Where its tool tells the PCI addresses of GPUs, they are known by these. One of whole GPUs is not of their
    partitions, which have numbers of their own.
    """
    if matrix is None:
        return None
    minors = {address_in(gpu.path.bus): gpu.minor for gpu in gpus if gpu.path.bus}
    numbers = {gpu.index: minors[gpu.address] for gpu in matrix.gpus if gpu.address in minors}
    if any(index != minor for index, minor in numbers.items()):
        matrix = renumbered(matrix, numbers)
    is_parted = any(gpu.part_of for gpu in gpus)
    return None if is_parted and not matrix.indices.issuperset(gpu.minor for gpu in gpus) else matrix


def counts_links(demand: DeviceDemand) -> bool:
    """Return whether links tell the devices of a demand apart."""
    return demand.kind == GPU and demand.is_whole and demand.count > 1 and not demand.is_all


def link_score(matrix: LinkMatrix, minors: Sequence[int]) -> int:
    """Return the sum over the pairs of these GPUs; 0 where the matrix lacks one of them."""
    gpus = frozenset(minors)
    return allocate(matrix, GpuRequest(len(gpus), gpus)).score if gpus <= matrix.indices else 0


def best_linked(
    matrix: LinkMatrix,
    groups: Sequence[PcieGroup],
    usable: Sequence[DeviceCandidate],
    chosen: Sequence[DeviceCandidate],
    distance: NodeDistance | None = None,
) -> tuple[DeviceCandidate, ...]:
    """Return as many GPUs as ``chosen``, on as many NUMA nodes, that score highest by their links.

    Of each set of nodes best-effort takes one (``policies.devices.links``), which also leaves good ones to others. Ties
    go to GPUs that are near each other, then to nodes in use, then to the lowest ones, and to what is chosen already
    where the matrix lacks one of the GPUs. Those that the pod keeps are among them.
    """
    on_node = gathered((groups[candidate.group].numa, candidate) for candidate in usable)
    width = len({groups[candidate.group].numa for candidate in chosen})
    is_known = {candidate.device.minor for candidate in usable} <= matrix.indices
    if not is_known or comb(len(on_node), width) > MOST_NODE_SETS:
        return tuple(chosen)
    free = {candidate.device.minor for candidate in usable}
    kept = frozenset(candidate.device.minor for candidate in usable if candidate.is_kept)
    places = gpu_places(matrix, groups)
    # `allocate` takes of equal GPUs those on nodes and switches in use, which it knows by the places of GPUs not free.
    taken = {gpu: place for gpu, place in places.items() if gpu not in free}
    used = {place.node for place in taken.values()}
    # Of sets that score the same the first stays: on nodes in use, then on the lowest.
    nodes = sorted(on_node, key=lambda node: (node not in used, node is None, node))
    best: tuple[tuple[int, int], tuple[DeviceCandidate, ...]] | None = None
    for some in combinations(nodes, width):
        here = {candidate.device.minor: candidate for node in some for candidate in on_node[node]}
        at = taken | {gpu: places[gpu] for gpu in here}
        found = allocate(matrix, GpuRequest(len(chosen), frozenset(here), kept, places=at, distance=distance))
        score = found.score, found.nearness
        if found.devices and (best is None or score > best[0]):
            best = score, tuple(here[minor] for minor in found.devices)
    return tuple(chosen) if best is None else best[1]


def gpu_places(matrix: LinkMatrix, groups: Sequence[PcieGroup]) -> GpuPlaces:
    """Return where the GPUs of an inventory are; of those whose node it leaves open what the matrix tells."""
    listed = {
        device.minor: GpuPlace(group.numa, number if group.pcie is not None else None)
        for number, group in enumerate(groups)
        for device in group.devices
        if device.kind == GPU and group.numa is not None
    }
    every = {device.minor: GpuPlace() for group in groups for device in group.devices if device.kind == GPU}
    return {**every, **places_of(matrix), **listed}


def cheapest_linked(
    matrix: LinkMatrix, costs: Inventory, names: Mapping[int, str], request: GpuRequest, chosen: Sequence[int]
) -> tuple[int, ...]:
    """Return the cheapest GPUs with links as good as those of the chosen ones; these where none are cheaper.

    ``names`` are those of GPUs in the cost files. The better links of a pair outweigh all costs in the search.
    """
    usable = request.available or frozenset()
    if len(chosen) == len(usable) or not matrix.indices.issuperset(usable) or not names.keys() >= usable:
        return tuple(chosen)
    gpus = sorted(usable, key=lambda gpu: (gpu not in chosen, gpu))  # of equal sets the one that is chosen
    cost, points = costs.between([names[gpu] for gpu in gpus]), points_between(matrix, gpus)
    if not any(map(any, cost)):
        return tuple(chosen)
    most, numbers = max(map(max, points)), range(len(gpus))
    # Each GPU of a set is in as many pairs: what it costs the CPUs is divided among them.
    pair = [[(len(chosen) - 1) * cost[a][b] + cost[a][a] + cost[b][b] for b in numbers] for a in numbers]
    outweighs = 1 + sum(map(sum, pair))
    rows = [[(most - points[a][b]) * outweighs + pair[a][b] if a != b else 0 for b in numbers] for a in numbers]
    groups = [Group(GPU, (f"{GPU}/{number}",)) for number in numbers]
    must = frozenset(f"{GPU}/{number}" for number in numbers if gpus[number] in request.required)
    found = select_in(layered(groups, rows, SetRequest({GPU: len(chosen)}, must=must)), SELECT)
    cheapest = sorted(gpus[int(name.rpartition("/")[2])] for name in found.names)
    # The search has a budget, and may end at a set with worse links.
    return tuple(cheapest if link_score(matrix, cheapest) == link_score(matrix, chosen) else chosen)
