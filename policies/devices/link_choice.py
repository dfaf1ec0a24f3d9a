"""Choose GPUs by the links between them, among those that are as good by their NUMA nodes.

Links count where GPUs are asked for by themselves, several and whole: which of them a NIC or a partition goes with is
decided by their PCIe, and a part of a GPU reaches no other one. The GPU of minor N is the GPUN of the matrix.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Final

from policies.devices.candidates import DeviceCandidate
from policies.devices.demand import DeviceDemand
from policies.devices.model import GPU, PcieGroup
from policies.links.allocate import GpuRequest, allocate
from policies.links.matrix import LinkMatrix

MOST_NODE_SETS: Final = 256
"""Sets of NUMA nodes that are compared; where there are more, the first choice stays."""


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
) -> tuple[DeviceCandidate, ...]:
    """Return as many GPUs as ``chosen``, on as many NUMA nodes, that score highest by their links.

    Of each set of nodes best-effort takes one (``policies.links``), which also leaves good ones to others. Ties go to
    the lowest nodes, and to what is chosen already where the matrix lacks one of the GPUs.
    """
    on_node: dict[int | None, list[DeviceCandidate]] = {}
    for candidate in usable:
        on_node.setdefault(groups[candidate.group].numa, []).append(candidate)
    width = len({groups[candidate.group].numa for candidate in chosen})
    is_known = {candidate.device.minor for candidate in usable} <= matrix.indices
    if not is_known or comb(len(on_node), width) > MOST_NODE_SETS:
        return tuple(chosen)
    nodes = sorted(on_node, key=lambda node: (node is None, node))
    best: tuple[int, tuple[DeviceCandidate, ...]] | None = None
    for some in combinations(nodes, width):
        here = {candidate.device.minor: candidate for node in some for candidate in on_node[node]}
        found = allocate(matrix, GpuRequest(len(chosen), frozenset(here)))
        if found.devices and (best is None or found.score > best[0]):
            best = (found.score, tuple(here[minor] for minor in found.devices))
    return tuple(chosen) if best is None else best[1]
