import json

import pytest

from cri_proxy.cri.devices.pci_functions import PciFunction
from cri_proxy.cri.devices.texts import DeviceTexts, allocated_text, device_texts, own_functions
from policies.device_grants import DeviceGrant
from policies.devices import DeviceInventory, InventoryDevice, PciePath
from tests.fakes.device_policy import two_pairs
from tests.fakes.sriov_tree import by_address

NODE = two_pairs()
GPU0, GPU1 = (DeviceGrant("gpu", n, 100, resources=(("nvidia.com/gpu", 1),)) for n in (0, 1))
GIVEN = DeviceGrant("gpu", 0, 100, is_given=True)
VF = DeviceGrant("rdma", 1, 1, vf="0000:20:00.2", resources=(("koordinator.sh/rdma", 1),))


def said(*grants: DeviceGrant) -> dict[str, str]:
    return dict(device_texts(grants, NODE).variables)


def test_a_container_is_told_its_devices_by_type_and_its_gpus_by_uuid() -> None:
    assert said(GPU0, GPU1, VF) == {
        "CRI_PROXY_ALLOCATED_GPU": "0,1",
        "CRI_PROXY_ALLOCATED_RDMA": "1@0000:20:00.2",
        "NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1",
        "PCIDEVICE_KOORDINATOR_SH_RDMA": "0000:20:00.2",
        "PCIDEVICE_KOORDINATOR_SH_RDMA_INFO": '{"0000:20:00.2":{"generic":{"deviceID":"0000:20:00.2"}}}',
    }


def test_functions_are_named_by_the_resource_with_how_they_are_bound() -> None:
    bound = PciFunction(VF.vf, "vfio-pci", vfio="/dev/vfio/7")
    told = dict(device_texts([VF], NODE, by_address([bound])).variables)["PCIDEVICE_KOORDINATOR_SH_RDMA_INFO"]
    assert json.loads(told)[VF.vf]["vfio"] == {"dev-mount": "/dev/vfio/7", "mount": "/dev/vfio/vfio"}


@pytest.mark.parametrize(
    ("grant", "own"),
    [
        (DeviceGrant("nic", 0, 100), {"cri-proxy.io/nic": ("0000:51:00.0",)}),
        (DeviceGrant("nic", 0, 1), {}),  # others have the rest of it
        (DeviceGrant("nic", 1, 100), {}),  # of an address that no source knows
        (DeviceGrant("nic", 0, 1, vf="0000:51:00.1"), {"cri-proxy.io/nic": ("0000:51:00.1",)}),
        (DeviceGrant("nic", 0, 1, vf="0000:51:00.1", is_given=True), {}),
        (DeviceGrant("nic", 0, 1, vf="00000000:5A:00.1"), {"cri-proxy.io/nic": ("0000:5a:00.1",)}),
        (DeviceGrant("nic", 0, 1, vf="../../../kernel"), {}),
        (DeviceGrant("gpu", 0, 100), {}),
    ],
)
def test_what_a_container_has_alone_is_named_by_address(grant: DeviceGrant, own: dict[str, tuple[str, ...]]) -> None:
    nics = (InventoryDevice("nic", 0, path=PciePath(bus="0000:51:00.0")), InventoryDevice("nic", 1))
    assert own_functions([grant], DeviceInventory((*nics, InventoryDevice("gpu", 0)))) == own


def test_gpus_without_an_identifier_are_told_by_their_minors() -> None:
    texts = device_texts([GPU1], DeviceInventory(()))
    assert dict(texts.variables)["NVIDIA_VISIBLE_DEVICES"] == "1"


def test_only_gpus_that_may_be_nvidias_are_told_to_its_toolkit() -> None:
    gpus = [InventoryDevice("gpu", n, vendor=vendor) for n, vendor in enumerate(("amd", "nvidia"))]
    grants = [DeviceGrant("gpu", n, 100) for n in (0, 1)]
    assert dict(device_texts(grants, DeviceInventory(tuple(gpus))).variables)["NVIDIA_VISIBLE_DEVICES"] == "1"
    assert "NVIDIA_VISIBLE_DEVICES" not in dict(device_texts(grants[:1], DeviceInventory(tuple(gpus))).variables)


def test_a_share_is_told_with_its_units() -> None:
    assert said(DeviceGrant("gpu", 1, 25))["CRI_PROXY_ALLOCATED_GPU"] == "1:25"


def test_what_others_chose_is_theirs_to_tell() -> None:
    assert device_texts([GIVEN], NODE) == DeviceTexts()
    assert {name for name in said(GIVEN, VF) if "GPU" in name or "NVIDIA" in name} == set()
    assert said(GIVEN, GPU1)["NVIDIA_VISIBLE_DEVICES"] == "GPU-0,GPU-1"


@pytest.mark.parametrize(
    ("grant", "entry"),
    [
        (
            GPU1,
            {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": f"{80 << 30}"}
            | {"koordinator.sh/gpu-memory-ratio": "100"},
        ),
        (
            DeviceGrant("gpu", 1, 50, resources=(("koordinator.sh/gpu-memory", 40 << 30),)),
            {"koordinator.sh/gpu-memory": f"{40 << 30}", "koordinator.sh/gpu-memory-ratio": "50"},
        ),
        (DeviceGrant("rdma", 1, 30), {"koordinator.sh/rdma": "30"}),
    ],
)
def test_the_annotation_has_amounts_as_koordinator_writes_them(grant: DeviceGrant, entry: dict[str, str]) -> None:
    assert json.loads(allocated_text([grant], NODE))[grant.kind][0]["resources"] == entry


def test_memory_that_the_inventory_does_not_tell_is_left_out() -> None:
    (entry,) = json.loads(allocated_text([GPU0], DeviceInventory(())))["gpu"]
    assert entry["resources"] == {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}


def test_the_annotation_has_devices_by_type_with_identifiers_and_vfs() -> None:
    found = json.loads(allocated_text([GPU0, VF], NODE))
    assert list(found) == ["gpu", "rdma"]
    assert (found["gpu"][0]["minor"], found["gpu"][0]["id"]) == (0, "GPU-0")
    assert found["rdma"][0]["extension"] == {"vfs": [{"minor": 1, "busID": "0000:20:00.2"}]}


def test_nothing_is_told_where_nothing_was_allocated() -> None:
    assert device_texts([GIVEN], NODE) == DeviceTexts()
