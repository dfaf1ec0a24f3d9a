from dataclasses import replace

import pytest

from cri_proxy.cli.render.device_tree import device_tree
from cri_proxy.inventory.file import DIALECT, inventory_value, read_inventory
from cri_proxy.yaml_fields import YamlField
from policies.device_grants import DeviceGrant
from policies.devices import DeviceInventory, GpuPartition, PciePath
from policies.devices.links import matrix_of
from tests.unit.policies.devices.build import gpu, nic

NODE = DeviceInventory(
    (
        replace(gpu(0, 1, "p1"), path=PciePath("pci0000:16", ("0000:16:00.0",), "0000:17:00.0"), uuid="GPU-1"),
        replace(nic(0, None, vfs=1, speed="100G"), is_healthy=False),
    ),
    (GpuPartition((0,), 2), GpuPartition((0, 1), 1, 400, "NVLink")),
    {"node.koordinator.sh/gpu-model": "H100"},
)


def test_devices_stand_below_their_node_and_pcie_and_partitions_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    held = [DeviceGrant("gpu", 0, 30), DeviceGrant("rdma", 0, 1, "0000:00:00.1")]
    assert device_tree(NODE, held).splitlines() == [
        "NUMA node 1",
        "  PCIe p1",
        "    gpu 0          0000:17:00.0  80Gi of memory, 70 of 100 free",
        "NUMA node unknown",
        "  PCIe unknown",
        "    rdma 0                       unhealthy, 1 VF (1 in use), speed=100G, 99 of",
        "                                 100 free",
        "partitions of GPUs",
        "  1   {0}",
        "  2   {0-1}",
    ]


def test_no_devices_are_said() -> None:
    assert device_tree(DeviceInventory(())) == "no devices"


def test_what_is_printed_as_data_is_read_again() -> None:
    import json

    (root,) = YamlField.documents(json.dumps(inventory_value(NODE)), "node.json", DIALECT)
    assert read_inventory(root) == NODE


def test_links_stand_at_the_end_and_are_read_again() -> None:
    import json

    both = matrix_of([[0, 2, 0], [2, 0, 0], [0, 0, 0]], [["X", "PIX", "SYS"], ["PIX", "X", "SYS"], ["SYS", "SYS", "X"]])
    node = DeviceInventory((gpu(0), gpu(1), gpu(2)), links=both)
    assert device_tree(node).splitlines()[-3:] == ["links between GPUs", "  NV2   0-1", "  SYS   0-2 1-2"]
    (root,) = YamlField.documents(json.dumps(inventory_value(node)), "node.json", DIALECT)
    assert read_inventory(root) == node
