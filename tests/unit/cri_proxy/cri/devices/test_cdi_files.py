"""Specifications of an inventory's functions, held against the names that grants have and the reader of such files."""

import json
from dataclasses import replace

import pytest

from cri_proxy.cri.cdi.conversion import HostFile
from cri_proxy.cri.cdi.resolve import resolve
from cri_proxy.cri.cdi.specs import cdi_spec
from cri_proxy.cri.devices.cdi_files import CdiNaming, SpecifiedFunctions, cdi_files, file_names, is_own_text
from cri_proxy.cri.devices.names import names_of
from cri_proxy.cri.devices.pci_functions import PciFunction
from policies.device_grants import DeviceGrant
from policies.devices import DeviceInventory, InventoryDevice, PciePath, VfGroup, VirtualFunction
from tests.fakes.sriov_tree import by_address

NIC, OTHER, GPU = "0000:51:00.0", "0000:61:00.0", "0000:3b:00.0"
VFS = tuple(f"0000:51:00.{n}" for n in (1, 2))
INVENTORY = DeviceInventory(
    (
        InventoryDevice("gpu", 0, path=PciePath(bus=GPU)),
        InventoryDevice(
            "rdma",
            3,
            path=PciePath(bus=NIC),
            vf_groups=(VfGroup((VirtualFunction(0, VFS[1]),), {"a": "b"}), VfGroup((VirtualFunction(1, VFS[0]),))),
        ),
        InventoryDevice("nic", 0, path=PciePath(bus=OTHER)),
    )
)
RDMA = PciFunction(NIC, "mlx5_core", rdma=("mlx5_0",), verbs=("uverbs0",), has_connection_manager=True)
VERBS = PciFunction(VFS[0], "mlx5_core", rdma=("mlx5_1",), verbs=("uverbs1",), mads=("umad1",))
VFIO = PciFunction(VFS[1], "vfio-pci", vfio="/dev/vfio/9")
FUNCTIONS = (PciFunction(GPU, "nvidia"), RDMA, VERBS, VFIO, PciFunction(OTHER, "vfio-pci", vfio="/dev/vfio/12"))
NO_NAMING = CdiNaming()


def found(
    *changed: PciFunction, naming: CdiNaming = NO_NAMING, inventory: DeviceInventory = INVENTORY
) -> SpecifiedFunctions:
    return cdi_files(inventory, by_address([*FUNCTIONS, *changed]), naming)


def test_every_device_has_the_nodes_that_its_driver_gives_it() -> None:
    by_name = {
        f"{file.kind}={device.name}": [node["path"] for node in device.edits["deviceNodes"]]
        for file in found().files
        for device in file.devices
    }
    assert by_name == {
        "cri-proxy.io/nic=0": ["/dev/vfio/vfio", "/dev/vfio/12"],
        "cri-proxy.io/rdma=3": ["/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"],
        f"cri-proxy.io/vf={VFS[0]}": ["/dev/infiniband/uverbs1", "/dev/infiniband/umad1"],
        f"cri-proxy.io/vf={VFS[1]}": ["/dev/vfio/vfio", "/dev/vfio/9"],
    }


def test_the_names_are_those_by_which_grants_name_their_devices() -> None:
    declared = {f"{file.kind}={device.name}" for file in found().files for device in file.devices}
    grants = [DeviceGrant("rdma", 3, 1, vf) for vf in VFS] + [DeviceGrant("rdma", 3, 100), DeviceGrant("nic", 0, 1)]
    assert {name for grant in grants for name in names_of(grant, INVENTORY)} == declared


def test_a_reader_of_specifications_finds_all_that_is_written() -> None:
    """Ours resolves devices where the runtime does not: it refuses each field that the specification does not have."""
    specs = [(f"/etc/cdi/{file.name}", cdi_spec(json.loads(file.text))) for file in found().files]
    names = [f"{file.kind}={device.name}" for file in found().files for device in file.devices]
    answer = resolve(specs, names, lambda path: HostFile("c", (1, 3)))
    assert (answer.problem, list(answer.names)) == ("", names)
    assert {node.permissions for node in answer.given.nodes} == {"rw"}


def test_files_are_the_same_however_the_inventory_is_sorted() -> None:
    device = INVENTORY.devices[1]
    turned = replace(device, vf_groups=device.vf_groups[::-1])
    other = replace(INVENTORY, devices=(*INVENTORY.devices[2:], INVENTORY.devices[0], turned))
    texts = [{file.name: file.text for file in found(inventory=each).files} for each in (INVENTORY, other)]
    assert texts[0] == texts[1]


def test_a_file_has_the_lowest_version_that_knows_what_it_has() -> None:
    """A runtime refuses files of versions that it does not know, whatever they have."""
    assert {file.version for file in found().files} == {"0.5.0"}
    assert {file.version for file in found(naming=CdiNaming("example.com/nic.fast")).files} == {"0.6.0"}
    interface = PciFunction(VFS[0], "iavf", interfaces=("ens1v0",))
    files = found(interface, naming=CdiNaming(has_interfaces=True)).files
    assert {file.name: file.version for file in files if "vf" in file.name} == {
        "cri-proxy.io-vf.json": "0.5.0",
        "cri-proxy.io-vf-net.json": "1.1.0",
    }
    (net,) = [file for file in files if file.version == "1.1.0"]
    assert net.devices[0].edits == {"netDevices": [{"hostInterfaceName": "ens1v0", "name": "ens1v0"}]}


def test_another_kind_has_all_devices_by_their_addresses() -> None:
    (file,) = found(naming=CdiNaming("example.com/nic")).files
    assert (file.name, file.kind) == ("example.com-nic.json", "example.com/nic")
    assert sorted(device.name for device in file.devices) == [*sorted((NIC, *VFS)), OTHER]


@pytest.mark.parametrize(
    ("function", "refusal"),
    [
        (
            PciFunction(VFS[0]),
            f"rdma 3 VF {VFS[0]} has no driver: bind it by echo {VFS[0]} > /sys/bus/pci/drivers_probe",
        ),
        (PciFunction(VFS[0], "vfio-pci"), "in no IOMMU group: boot with intel_iommu=on"),
        (
            PciFunction(VFS[0], "mlx5_core", rdma=("mlx5_1",)),
            "has the RDMA device mlx5_1 without verbs: modprobe ib_uverbs",
        ),
        (PciFunction(VFS[0], "uio_pci_generic"), "bound to uio_pci_generic, which offers containers nothing"),
    ],
)
def test_what_cannot_be_given_is_refused_with_the_remedy_and_the_others_are_declared(
    function: PciFunction, refusal: str
) -> None:
    answer = found(function)
    assert len(answer.refused) == 1
    assert refusal in answer.refused[0]
    assert sum(len(file.devices) for file in answer.files) == 3


def test_a_function_that_the_machine_has_not_is_refused() -> None:
    known = by_address(function for function in FUNCTIONS if function.address in (GPU, OTHER))
    refused = cdi_files(INVENTORY, known, NO_NAMING).refused
    assert refused[0] == f"rdma 3 ({NIC}) is no PCI function of this machine: correct its bus"
    assert refused[1].endswith(f"enable VFs: echo NUMBER > /sys/bus/pci/devices/{NIC}/sriov_numvfs")
    without = DeviceInventory((InventoryDevice("rdma", 0), InventoryDevice("gpu", 0)))
    assert cdi_files(without, {}, NO_NAMING).refused == ("rdma 0 has no bus in the inventory: add its PCI address",)


def test_a_network_interface_is_declared_where_that_is_wanted_and_never_that_of_the_host() -> None:
    functions = PciFunction(VFS[0], "iavf", interfaces=("ens1v0",)), PciFunction(OTHER, "i40e", interfaces=("ens2",))
    for naming, declared in ((NO_NAMING, False), (CdiNaming(has_interfaces=True), True)):
        answer = found(*functions, naming=naming)
        names = [device.name for file in answer.files for device in file.devices]
        assert (VFS[0] in names, "cri-proxy.io-nic.json" in [file.name for file in answer.files]) == (declared, False)
        assert answer.refused == ()
        assert f"nic 0 ({OTHER})" in answer.notes[1] and "network interfaces" in answer.notes[1]


def test_gpus_are_left_to_their_vendors_but_those_that_virtual_machines_get() -> None:
    assert found().notes == (
        f"gpu 0 ({GPU}): not declared: left to their vendors' tools, such as nvidia-ctk cdi generate",
    )
    bound = found(PciFunction(GPU, "vfio-pci", vfio="/dev/vfio/1"))
    assert [device.name for file in bound.files if file.kind == "cri-proxy.io/gpu" for device in file.devices] == ["0"]


def test_functions_of_one_iommu_group_are_named() -> None:
    shared = found(PciFunction(VFS[0], "vfio-pci", vfio="/dev/vfio/9"))
    both = ", ".join(f"rdma 3 VF {vf}" for vf in VFS)
    assert shared.notes[-1] == f"{both} are in one IOMMU group, /dev/vfio/9: one container at a time can open it"


def test_a_file_is_ours_while_nobody_has_changed_it() -> None:
    naming = CdiNaming(has_interfaces=True)
    files = found(PciFunction(VFS[0], "iavf", interfaces=("ens1v0",)), naming=naming).files
    assert {file.name for file in files} <= {
        *file_names(naming, ("cri-proxy.io/vf", "cri-proxy.io/rdma", "cri-proxy.io/nic"))
    }
    for file in files:
        assert is_own_text(file.text)
        for changed in (
            file.text + "\n",
            file.text.replace("  ", "\t", 1),
            file.text.replace("/dev/", "/dev/shm/").replace("hostInterfaceName", "name", 1),
            file.text.replace('"devices"', '"containerEdits": {},\n  "devices"', 1),
        ):
            assert not is_own_text(changed), changed


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "{" * 9999, '{"cdiVersion": 1, "kind": 2, "devices": [3]}'])
def test_garbage_is_not_ours(text: str) -> None:
    assert not is_own_text(text)
