from pathlib import Path

import pytest

from cri_proxy.inventory.file import DIALECT, read_inventory, read_inventory_file
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.devices import DEVICE_TYPES, DeviceInventory, InventoryDevice, PciePath, VfGroup, VirtualFunction

TYPES = ", ".join(DEVICE_TYPES)
NO_ADDRESS = "expected a PCI address like 0000:3b:00.0"
DEVICE_OBJECT = """\
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Device
metadata:
  name: node-1
  labels: {node.koordinator.sh/gpu-model: H800}
  annotations:
    scheduling.koordinator.sh/gpu-partitions: |-
      {"2": [{"minors": [0, 1], "allocationScore": 3, "gpuLinkType": "NVLink"}]}
spec:
  devices:
    - type: gpu
      id: GPU-8c25ea37
      minor: 0
      moduleID: 1
      health: true
      resources: {koordinator.sh/gpu-core: "100", koordinator.sh/gpu-memory: 80Gi}
      topology: {socketID: 0, nodeID: 1, pcieID: "pci0000:3a", busID: "0000:3B:00.0"}
    - type: rdma
      minor: 0
      health: false
      topology: {socketID: -1, nodeID: -1, pcieID: ""}
      vfGroups: [{labels: {type: fast}, vfs: [{minor: 7, busID: "0000:3c:00.1"}]}]
"""


def read(text: str) -> DeviceInventory:
    (root,) = YamlField.documents(text, "node.yaml", DIALECT)
    return read_inventory(root)


def problem(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        read(text)
    return str(caught.value)


def test_a_device_has_its_place_its_labels_and_what_it_has() -> None:
    found = read(
        "rdma: [{minor: 1, numa: 0, pcie: sw0, bus: '0000:1A:00.0', root: 'pci0000:16', switches: ['0000:16:01.0'],\n"
        " uuid: NIC-1, labels: {speed: 100}, health: false, resources: {gpu-memory: 1Gi, example.com/x: 2},\n"
        " vf_groups: [{labels: {a: b}, vfs: [{bus: '0000:1a:00.1'}, {minor: 9, bus: '0000:1a:00.2'}]}]}]"
    )
    vfs = (VirtualFunction(0, "0000:1a:00.1"), VirtualFunction(9, "0000:1a:00.2"))
    assert found.devices == (
        InventoryDevice(
            "rdma",
            1,
            0,
            "sw0",
            PciePath("pci0000:16", ("0000:16:01.0",), "0000:1a:00.0"),
            {"speed": "100"},
            False,
            {"koordinator.sh/gpu-memory": 1 << 30, "example.com/x": 2},
            (VfGroup(vfs, {"a": "b"}),),
            "NIC-1",
        ),
    )


def test_what_is_left_out_is_unknown_and_devices_are_healthy() -> None:
    found = read("gpu: [{minor: 0}, {minor: 1, numa: null, pcie: null}, {minor: 2, numa: -1}]\nrdma:\npartitions: null")
    assert {(device.numa, device.pcie, device.is_healthy) for device in found.devices} == {(None, None, True)}
    assert found.partitions is None


def test_a_pci_address_may_lack_its_domain_as_lspci_prints_it() -> None:
    found = read("gpu: [{minor: 0, bus: '3B:00.0'}, {minor: 1, bus: ''}, {minor: 2, bus: ''}]")
    assert [device.path.bus for device in found.devices] == ["0000:3b:00.0", "", ""]


def test_partitions_and_labels_of_the_node_may_stand_beside_the_devices() -> None:
    found = read("gpu: []\npartitions: {2: [{minors: [1, 0]}]}\nnode_labels: {gpu-model: H100}")
    assert found.partitions is not None
    assert (found.partitions[0].minors, found.node_labels) == ((0, 1), {"gpu-model": "H100"})


def test_koordinators_object_is_read_as_it_is() -> None:
    found = read(DEVICE_OBJECT)
    gpu, nic = found.devices
    assert (gpu.numa, gpu.pcie, gpu.path.bus, gpu.uuid) == (1, "pci0000:3a", "0000:3b:00.0", "GPU-8c25ea37")
    assert gpu.resources["koordinator.sh/gpu-memory"] == 80 << 30
    assert (nic.numa, nic.pcie, nic.is_healthy, nic.vf_groups[0].vfs[0].minor) == (None, None, False, 7)
    assert found.partitions is not None
    assert (found.partitions[0].score, found.partitions[0].link) == (3, "NVLink")
    assert found.node_labels == {"node.koordinator.sh/gpu-model": "H800"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpus: []", "node.yaml:1: the inventory: unknown key 'gpus'; did you mean gpu?"),
        ("gpu:\n- {numa: 0}", "node.yaml:2: gpu: minor is missing; give each device a number of its own"),
        ("gpu:\n- {minor: 0, pci: x}", "node.yaml:2: gpu: unknown key 'pci'; did you mean pcie?"),
        (
            "gpu:\n- {minor: 0}\n- {minor: 0}",
            "node.yaml:3: gpu 0 stands twice, first on line 2; give each device its own",
        ),
        ("gpu: [{minor: x}]", "node.yaml:1: gpu.minor: expected a number from 0 to 65535, got 'x'"),
        ("gpu: [{minor: 0, numa: 2000}]", "node.yaml:1: gpu 0.numa: expected a number from 0 to 1023, got '2000'"),
        ("gpu: [{minor: 0, health: maybe}]", "node.yaml:1: gpu 0.health: expected true or false, got 'maybe'"),
        (
            "rdma: [{minor: 0, vf_groups: [{vfs: [{minor: 0}]}]}]",
            "node.yaml:1: rdma 0.vf_groups.vfs: bus is missing; give the PCI address of the VF",
        ),
        (
            "rdma:\n- {minor: 0, vf_groups: [{vfs: [{bus: '00:0a.1'}]}]}\n"
            "- {minor: 1, vf_groups: [{vfs: [{bus: '00:0A.1'}]}]}",
            "node.yaml:3: the VF 0000:00:0a.1 stands twice, first on line 2; give each device its own",
        ),
        (
            "gpu:\n- {minor: 0, bus: '3b:00.0'}\nrdma:\n- {minor: 0, bus: '00000000:3B:00.0'}",
            "node.yaml:4: the PCI address 0000:3b:00.0 stands twice, first on line 2; give each device its own",
        ),
        (
            "gpu:\n- {minor: 0, uuid: GPU-1}\n- {minor: 1, uuid: GPU-1}",
            "node.yaml:3: the uuid GPU-1 stands twice, first on line 2; give each device its own",
        ),
        ("gpu: [{minor: 0, bus: 0000:3b:00}]", f"node.yaml:1: gpu 0.bus: {NO_ADDRESS}, got '0000:3b:00'"),
        (
            "gpu: [{minor: 0, vf_groups: [{vfs: [{bus: ''}]}]}]",
            f"node.yaml:1: gpu 0.vf_groups.vfs.bus: {NO_ADDRESS}, got ''",
        ),
        (
            "gpu: [{minor: 0, resources: {gpu-memroy: 80Gi}}]",
            "node.yaml:1: gpu 0.resources: unknown key 'gpu-memroy'; did you mean gpu-memory?",
        ),
        ("kind: Pod", f"node.yaml:1: kind: expected Device with spec.devices, or lists {TYPES}, got 'Pod'"),
        (
            "kind: Device\nspec: {devices: [{minor: 0}]}",
            f"node.yaml:2: spec.devices: type is missing; give one of {TYPES}",
        ),
        (
            "kind: Device\nspec: {devices: [{type: npu}]}",
            f"node.yaml:2: type: expected one of {TYPES}, got 'npu'; did you mean gpu?",
        ),
    ],
)
def test_an_error_names_the_line_the_word_and_the_remedy(text: str, said: str) -> None:
    assert problem(text) == said


@pytest.mark.parametrize("table", ["[", "", '{"2": [{"minors": [0]}]}'])
def test_a_partition_table_that_is_no_json_object_names_its_annotation(table: str) -> None:
    text = (
        f"kind: Device\nspec: {{}}\nmetadata: {{annotations: {{scheduling.koordinator.sh/gpu-partitions: '{table}'}}}}"
    )
    assert problem(text).startswith("node.yaml:3: scheduling.koordinator.sh/gpu-partitions: ")


def test_a_dash_is_a_file_and_no_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "-").write_text("gpu: [{minor: 3}]\n")
    monkeypatch.chdir(tmp_path)
    assert read_inventory_file(Path("-")).devices[0].minor == 3


def test_a_file_holds_one_inventory(tmp_path: Path) -> None:
    path = tmp_path / "node.yaml"
    path.write_text("gpu: [{minor: 0}]\n")
    assert len(read_inventory_file(path).devices) == 1
    path.write_text("gpu: []\n---\ngpu: []\n")
    with pytest.raises(DocumentError, match="3: another document begins here: an inventory file holds one"):
        read_inventory_file(path)
    with pytest.raises(DocumentError, match="cannot be read: No such file"):
        read_inventory_file(tmp_path / "none.yaml")


def test_links_between_gpus_are_those_of_a_matrix() -> None:
    found = read("gpu: [{minor: 0}, {minor: 1}]\nlinks: {nvlink: [X 2, 2 X]}")
    assert found.links is not None
    assert found.links.link(0, 1).word == "NV2"
    assert "GPU0 to GPU1" in problem("gpu: [{minor: 0}, {minor: 1}]\nlinks: {nvlink: [X z, 2 X]}")
