"""Derive costs from a matrix of links: GPUs and NICs to each other, NVLinks and XGMI before paths over PCIe."""

from collections.abc import Mapping

from policies.devices.costs import derive_pci
from policies.devices.costs.derive_scale import FARTHEST, NodeScale
from policies.devices.costs.model import CostError, CostLine, CostListing
from policies.devices.costs.text import is_plain_name
from policies.devices.links import UNKNOWN, Link, LinkMatrix
from sysfs.cpuset import NodeSet

GPU_TYPE = "nvidia.com/gpu"
GPU_TYPES = {"amd": "amd.com/gpu"}
NIC_TYPE = "nic"
ONE_NVLINK = 10
MOST_NVLINKS = 2
# What 18 NVLinks, the most of a pair today, save against one.
_LINKS = 18

_PCI_COSTS = {
    "PSB": derive_pci.ONE_SWITCH,
    "PIX": derive_pci.ONE_SWITCH,
    "PXB": derive_pci.SEVERAL_SWITCHES,
    "PHB": derive_pci.SAME_HOST_BRIDGE,
    "NODE": derive_pci.SAME_NODE_DEVICE,
}


def costs_of_links(matrix: LinkMatrix, scale: NodeScale) -> CostListing:
    """Return what the devices of a matrix cost each other, said both ways.

    GPUs are ``nvidia.com/gpu/gpu0``, of AMD ``amd.com/gpu/gpu0``, NICs ``nic/NAME``. Raises CostError for a NIC whose
    name in the legend cannot be that of an instance.
    """
    for nic in matrix.nics:
        if nic.device and not is_plain_name(nic.device):
            raise CostError(0, nic.name, f"expected a device's name in the legend, got {nic.device[:40]!r}; correct it")
    name_of = {gpu.name: gpu_name(gpu.name, matrix.vendor) for gpu in matrix.gpus}
    name_of |= {nic.name: f"{NIC_TYPE}/{nic.device or nic.name}" for nic in matrix.nics}
    nodes_of = {gpu.name: gpu.nodes for gpu in matrix.gpus}
    costs = {pair: _cost(link, *pair, nodes_of, scale) for pair, link in matrix.links.items()}
    lines = [CostLine((name_of[one],), cost, (name_of[other],)) for (one, other), cost in costs.items()]
    return CostListing(tuple(lines), tuple(name_of.values()))


def nodes_of_gpus(matrix: LinkMatrix) -> dict[str, NodeSet]:
    """Return the nodes of the GPUs that have them, by their names in a listing."""
    return {gpu_name(gpu.name, matrix.vendor): gpu.nodes for gpu in matrix.gpus if gpu.nodes}


def gpu_name(gpu: str, vendor: str = "") -> str:
    """Return the name of a GPU in a listing.

    >>> gpu_name("GPU0"), gpu_name("GPU0", "amd")
    ('nvidia.com/gpu/gpu0', 'amd.com/gpu/gpu0')
    """
    return f"{GPU_TYPES.get(vendor, GPU_TYPE)}/{gpu.lower()}"


def link_cost(links: int) -> int:
    """Return the cost of a pair with this many NVLinks.

    >>> [link_cost(links) for links in (1, 2, 4, 12, 18)]
    [10, 9, 8, 4, 2]
    """
    saved = -(-(ONE_NVLINK - MOST_NVLINKS) * (min(links, _LINKS) - 1) // (_LINKS - 1))
    return ONE_NVLINK - saved


def _cost(link: Link, one: str, other: str, nodes_of: Mapping[str, NodeSet], scale: NodeScale) -> int:
    """Return the cost of a pair; ``nodes_of`` has the nodes of the GPUs."""
    if link.is_linked:
        # Each hop of XGMI behind the first costs 1 more; the last is still nearer than any path of PCIe.
        return min(link_cost(link.nvlinks or link.xgmi) + link.xgmi_hops - 1, ONE_NVLINK + derive_pci.ONE_SWITCH - 1)
    if link.pcie in _PCI_COSTS:
        cost = _PCI_COSTS[link.pcie]
    else:
        nodes = [nodes_of.get(device, NodeSet()) for device in (one, other)]
        is_known = link.pcie != UNKNOWN and all(nodes)
        cost = derive_pci.devices_of_nodes(nodes[0], nodes[1], scale) if is_known else FARTHEST
    # A switch between two GPUs is no match for NVLink, though it is the nearest a GPU and a NIC can have.
    return min(FARTHEST, cost + ONE_NVLINK) if one in nodes_of and other in nodes_of else cost
