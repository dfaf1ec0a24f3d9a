import pytest

from cri_proxy.cri.devices.names import devices_allocated, devices_named, names_of
from policies.device_grants import DeviceGrant
from policies.devices import DeviceInventory, InventoryDevice, JoinedDevices, PciePath
from tests.fakes.device_policy import inventory, two_pairs

NODE = two_pairs()


def test_a_gpu_is_named_by_its_uuid_then_by_its_minor_then_as_ours() -> None:
    assert names_of(DeviceGrant("gpu", 1, 50), NODE) == (
        "nvidia.com/gpu=GPU-1",
        "nvidia.com/gpu=1",
        "cri-proxy.io/gpu=1",
    )


def test_a_device_that_is_gone_from_the_inventory_keeps_the_names_of_its_minor() -> None:
    assert names_of(DeviceGrant("gpu", 7, 100), NODE) == ("nvidia.com/gpu=7", "cri-proxy.io/gpu=7")


def test_a_vf_is_named_by_its_address_and_never_as_its_nic() -> None:
    assert names_of(DeviceGrant("rdma", 0, 1, vf="0000:10:00.1"), NODE) == ("cri-proxy.io/vf=0000:10:00.1",)
    assert names_of(DeviceGrant("rdma", 0, 100), NODE) == ("cri-proxy.io/rdma=0",)


def test_every_name_leads_back_to_its_device() -> None:
    for grant in (
        DeviceGrant("gpu", 1, 100),
        DeviceGrant("rdma", 0, 100),
        DeviceGrant("rdma", 1, 1, vf="0000:20:00.2"),
    ):
        for name in names_of(grant, NODE):
            (found,) = devices_named([name, "vendor.com/class=other"], JoinedDevices(NODE))
            assert (found.key, found.vf, found.amount, found.is_given) == (grant.key, grant.vf, grant.amount, True)


def test_gpus_have_the_names_of_their_vendor() -> None:
    node = DeviceInventory((InventoryDevice("gpu", 0, vendor="amd"), InventoryDevice("gpu", 1, vendor="8086")))
    assert names_of(DeviceGrant("gpu", 0, 100), node) == ("amd.com/gpu=0", "cri-proxy.io/gpu=0")
    assert names_of(DeviceGrant("gpu", 1, 100), node) == ("cri-proxy.io/gpu=1",)
    assert [str(grant) for grant in devices_named(["amd.com/gpu=all"], JoinedDevices(node))] == ["gpu 0"]
    assert devices_named(["nvidia.com/gpu=all", "nvidia.com/gpu=0"], JoinedDevices(node)) == ()


def test_a_name_of_the_type_that_a_device_had_before_is_its_own() -> None:
    node = JoinedDevices(DeviceInventory((InventoryDevice("nic", 0, formerly=(("rdma", 2),)),)))
    assert [str(grant) for grant in devices_named(["cri-proxy.io/rdma=2"], node)] == ["nic 0"]


def test_two_names_of_one_device_are_one() -> None:
    names = ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-0"]
    assert [str(grant) for grant in devices_named(names, JoinedDevices(NODE))] == ["gpu 0"]


def test_all_gpus_of_nvidia_are_every_gpu() -> None:
    assert [str(grant) for grant in devices_named(["nvidia.com/gpu=all"], JoinedDevices(NODE))] == ["gpu 0", "gpu 1"]


def test_names_are_of_no_device_without_an_inventory_or_names() -> None:
    assert devices_named(["nvidia.com/gpu=0"], JoinedDevices()) == ()
    assert devices_named([], JoinedDevices(DeviceInventory((InventoryDevice("gpu", 0),)))) == ()


@pytest.mark.parametrize(
    "name",
    ["nvidia.com/gpu=0", "nvidia.com/gpu=gpu0", "k8s.device-plugin.nvidia.com/gpu=GPU-5a", "nvidia.com/gpu=all"],
)
def test_a_cdi_name_is_of_the_device_that_cost_files_call_otherwise(name: str) -> None:
    """Cost files write a number, an index with the type, or a UUID, and so do specifications."""
    listed = "nvidia.com/gpu/GPU-5a" if "GPU-5a" in name else "nvidia.com/gpu/gpu0"
    joined = JoinedDevices(DeviceInventory((), costs=inventory(listed, "example.com/nic/0")))
    assert [(grant.cost_name, grant.is_given) for grant in devices_named([name], joined)] == [(listed, True)]


@pytest.mark.parametrize(
    ("allocated", "device"),
    [
        ("nvidia.com/gpu/GPU-1", "gpu 1"),
        ("amd.com/gpu/0000:83:00.0", "gpu 2"),
        ("amd.com/gpu/amdgpu_xcp_1", "gpu 3"),
        ("amd.com/cpx_nps4/amdgpu_xcp_1", "gpu 3"),
        ("amd.com/cpx_nps4/0000:83:00.0", "gpu 2"),
        ("amd.com/cpx_nps4/amdgpu_xcp_2", None),
        ("intel.com/sriov_netdevice/0000:20:00.2", "rdma 1 VF 0000:20:00.2"),
        ("cri-proxy.io/gpu/gpu-1", "gpu 1"),
        ("example.com/any/0000:20:00.2", "rdma 1 VF 0000:20:00.2"),
        ("example.com/any/rdma-1-share-0", None),  # the annotation of our plugin names it
        ("rdma/hca_shared_devices_a/0", None),
        ("nvidia.com/mig-1g.5gb/MIG-7c", None),
    ],
)
def test_the_kubelet_names_devices_as_their_plugins_do(allocated: str, device: str | None) -> None:
    amd = InventoryDevice("gpu", 2, path=PciePath(bus="0000:83:00.0"))
    part = InventoryDevice("gpu", 3, uuid="amdgpu_xcp_1", vendor="amd")
    found = devices_allocated([allocated], JoinedDevices(DeviceInventory((*NODE.devices, amd, part))))
    assert [(str(grant), grant.is_given) for grant in found] == ([(device, True)] if device else [])


def test_shares_that_a_plugin_offers_of_one_gpu_are_that_gpu_once() -> None:
    names = ["nvidia.com/gpu.shared/GPU-1::0", "nvidia.com/gpu.shared/GPU-1::3"]
    assert [(str(g), g.is_shared) for g in devices_allocated(names, JoinedDevices(NODE))] == [("gpu 1", True)]
