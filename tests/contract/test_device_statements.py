"""Each fact that two sources of a device state differently is a warning in the status, with the names of both."""

import json
from collections.abc import Mapping
from typing import Final

import pytest

from cri_proxy.cri.device_names.nvidia_gpus import Gpu
from cri_proxy.inventory.driver_names import with_identifiers
from cri_proxy.inventory.file import read_inventory_text
from cri_proxy.inventory.merge import with_scanned
from cri_proxy.inventory.pci import inventory_of
from cri_proxy.node.status.view import NodeView
from policies.builder import build_policy
from policies.devices import DeviceInventory
from policies.devices.costs import CostLine, CostListing, Inventory, compile_costs, cpu_names
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.site import Site, opened

BUS, UUID = "0000:51:00.0", "GPU-5a12b7cd-0011-2233-4455-66778899aabb"
PCI: Final = {"address": BUS, "class": 0x030200, "node": 1, "parent": "0000:50:00.0"}
MACHINE = describe({"packages": 2, "cores": 2, "memory": "2Gi", "pci": [PCI]})
NODES: Final = {node.id: node.cpus for node in MACHINE.nodes}
TRUE: Final = {"minor": 0, "numa": 1, "bus": BUS, "uuid": UUID}
LATER = "; the former counts"


def joined(gpus: list[dict[str, object]], near: Mapping[str, int]) -> DeviceInventory:
    """The file with these GPUs, a scan, the driver, and cost files in which each name is nearest to a node."""
    lines = [
        CostLine((name,), 5 if n == at else 50, cpu_names(own)) for name, at in near.items() for n, own in NODES.items()
    ]
    listed = read_inventory_text(json.dumps({"gpu": gpus}), "devices.yaml")
    found = with_identifiers(with_scanned(listed, inventory_of(MACHINE)), [Gpu(BUS, 0, UUID.lower())])
    return DeviceInventory(found.devices, costs=Inventory(compile_costs(CostListing(tuple(lines), tuple(near)))))


async def warnings(inventory: DeviceInventory) -> list[str]:
    """What a node's status says of these devices."""
    policy = build_policy("topology-aware", MACHINE, TopologyAwareOptions(MACHINE.online, CpuSet.of([0])), inventory)
    async with opened(Site(policy)) as site:
        view = NodeView(site.node, name="n")
        return [each.removeprefix("devices: ") for each in view.status().warnings if each.startswith("devices: ")]


@pytest.mark.parametrize(
    ("gpus", "near", "said"),
    [
        ([TRUE | {"numa": 0}], {},
         "gpu 0: devices.yaml line 1 puts it at NUMA node 0, the scan at NUMA node 1" + LATER),
        ([TRUE | {"root": "pci0000:80"}], {},
         "gpu 0: devices.yaml line 1 puts it below pci0000:80, the scan below pci0000:50 0000:50:00.0" + LATER),
        ([TRUE | {"uuid": "GPU-6b"}], {},
         f"gpu 0: devices.yaml line 1 lists it as GPU-6b, the NVIDIA driver as {UUID}" + LATER),
        ([TRUE], {f"a.com/x/{UUID}": 0},
         f"gpu 0: devices.yaml line 1 puts it at NUMA node 1, a.com/x/{UUID} of the cost files at NUMA node 0" + LATER),
        ([], {"nvidia.com/gpu/0": 0},
         "gpu 0: the scan puts it at NUMA node 1, nvidia.com/gpu/0 of the cost files at NUMA node 0" + LATER),
        ([TRUE, {"minor": 1, "uuid": "gpu-0"}], {"nvidia.com/gpu/gpu0": 1},
         "nvidia.com/gpu/gpu0 of the cost files names gpu 1 and gpu 0: it counts as gpu 1"),
        ([TRUE, {"minor": 1, "uuid": BUS}], {}, f"gpu 0 and gpu 1 are both listed as {BUS}: it counts as gpu 0"),
    ],
    ids=["node", "path", "identifier", "node-by-costs", "node-by-costs-and-scan", "cdi-name-and-number", "address"],
)  # fmt: skip
async def test_facts_that_differ_are_a_warning(
    gpus: list[dict[str, object]], near: Mapping[str, int], said: str
) -> None:
    assert await warnings(joined(gpus, near)) == [said]


@pytest.mark.parametrize("identity", ["0000:99:00.0", "GPU-99"])
async def test_two_names_of_cost_files_for_one_device_that_differ_are_a_warning(identity: str) -> None:
    one, two = f"a.com/x/{identity}", f"b.com/y/{identity}"
    assert await warnings(joined([TRUE], {one: 0, two: 1})) == [
        f"{one}: {one} of the cost files puts it at NUMA node 0, {two} of the cost files at NUMA node 1; "
        "each counts under its name"
    ]


async def test_sources_that_agree_are_no_warning() -> None:
    agreed = {f"a.com/x/{BUS}": 1, "nvidia.com/gpu/gpu0": 1, f"b.com/y/{UUID}": 1}
    assert await warnings(joined([TRUE], agreed)) == await warnings(joined([], agreed)) == []
