from cri_proxy.cri.devices.names import devices_named, names_of
from policies.device_grants import DeviceGrant
from policies.devices import DeviceInventory, InventoryDevice, JoinedDevices
from tests.fakes.device_policy import two_pairs

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


def test_two_names_of_one_device_are_one() -> None:
    names = ["nvidia.com/gpu=0", "nvidia.com/gpu=GPU-0"]
    assert [str(grant) for grant in devices_named(names, JoinedDevices(NODE))] == ["gpu 0"]


def test_all_gpus_of_nvidia_are_every_gpu() -> None:
    assert [str(grant) for grant in devices_named(["nvidia.com/gpu=all"], JoinedDevices(NODE))] == ["gpu 0", "gpu 1"]


def test_names_are_of_no_device_without_an_inventory_or_names() -> None:
    assert devices_named(["nvidia.com/gpu=0"], JoinedDevices()) == ()
    assert devices_named([], JoinedDevices(DeviceInventory((InventoryDevice("gpu", 0),)))) == ()
