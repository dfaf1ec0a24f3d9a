"""Derive costs from a matrix of links: GPUs and NICs to each other, NVLinks before paths over PCIe."""

from policies.costs.derive_pci import (
    ONE_SWITCH,
    SAME_HOST_BRIDGE,
    SAME_NODE_DEVICE,
    SEVERAL_SWITCHES,
    devices_of_nodes,
)
from policies.costs.derive_scale import FARTHEST, NodeScale
from policies.costs.link_text import LinkMatrix, nvlinks
from policies.costs.model import CostLine, CostListing
from sysfs.cpuset import NodeSet

GPU_TYPE = "nvidia.com/gpu"
NIC_TYPE = "nic"
ONE_NVLINK = 10
MOST_NVLINKS = 2
# What 18 NVLinks, the most of a pair today, save against one.
_LINKS = 18

_PCI_COSTS = {"PIX": ONE_SWITCH, "PXB": SEVERAL_SWITCHES, "PHB": SAME_HOST_BRIDGE, "NODE": SAME_NODE_DEVICE}


def costs_of_links(matrix: LinkMatrix, scale: NodeScale) -> CostListing:
    """Return what the devices of a matrix cost each other, said both ways.

    GPUs are ``nvidia.com/gpu/gpu0``, NICs ``nic/NAME``.
    """
    name_of = {gpu: gpu_name(gpu) for gpu in matrix.gpus} | {nic: f"{NIC_TYPE}/{nic}" for nic in matrix.nics}
    lines = [
        CostLine((name_of[one],), _cost(matrix, one, other, scale), (name_of[other],)) for one, other in matrix.words
    ]
    return CostListing(tuple(lines), tuple(name_of.values()))


def nodes_of_gpus(matrix: LinkMatrix) -> dict[str, NodeSet]:
    """Return the nodes of the GPUs that have them, by their names in a listing."""
    return {gpu_name(gpu): nodes for gpu, nodes in matrix.nodes.items()}


def gpu_name(gpu: str) -> str:
    """Return the name of a GPU in a listing.

    >>> gpu_name("GPU0")
    'nvidia.com/gpu/gpu0'
    """
    return f"{GPU_TYPE}/{gpu.lower()}"


def link_cost(links: int) -> int:
    """Return the cost of a pair with this many NVLinks.

    >>> [link_cost(links) for links in (1, 2, 4, 12, 18)]
    [10, 9, 8, 4, 2]
    """
    saved = -(-(ONE_NVLINK - MOST_NVLINKS) * (min(links, _LINKS) - 1) // (_LINKS - 1))
    return ONE_NVLINK - saved


def _cost(matrix: LinkMatrix, one: str, other: str, scale: NodeScale) -> int:
    word = matrix.words[one, other]
    if links := nvlinks(word):
        return link_cost(links)
    if word in _PCI_COSTS:
        cost = _PCI_COSTS[word]
    else:
        nodes = [matrix.nodes.get(device, NodeSet()) for device in (one, other)]
        cost = devices_of_nodes(nodes[0], nodes[1], scale) if all(nodes) else FARTHEST
    # A switch between two GPUs is no match for NVLink, though it is the nearest a GPU and a NIC can have.
    return min(FARTHEST, cost + ONE_NVLINK) if one in matrix.gpus and other in matrix.gpus else cost
