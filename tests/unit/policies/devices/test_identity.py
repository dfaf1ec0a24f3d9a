import pytest

from policies.device_grants import DeviceGrant
from policies.devices import DeviceInventory, InventoryDevice, JoinedDevices, PciePath, VfGroup, VirtualFunction
from tests.fakes.device_policy import inventory

UUID = "GPU-5a12b7cd-0011-2233-4455-66778899aabb"
BARE = "gpu5a12b7cd00112233445566778899aabb"


def known_as(device: InventoryDevice) -> set[str]:
    (piece,) = JoinedDevices(DeviceInventory((device,))).pieces
    return set(piece.identities)


def told(name: str) -> set[str]:
    return set(JoinedDevices().named(name).identities)


def test_a_device_is_known_by_address_identifier_and_number() -> None:
    device = InventoryDevice("gpu", 3, path=PciePath(bus="0000:51:00.0"), uuid=UUID)
    assert known_as(device) == {"0000:51:00.0", BARE, "gpu 3"}
    assert known_as(InventoryDevice("rdma", 1, uuid="0000:51:00.0")) == {"0000:51:00.0", "rdma 1"}
    assert known_as(InventoryDevice("fpga", 0, uuid="Card-7")) == {"fpga=card7", "fpga 0"}


@pytest.mark.parametrize(
    ("name", "tells"),
    [
        ("nvidia.com/gpu/0", "gpu 0"),
        ("nvidia.com/gpu/gpu-12", "gpu 12"),
        ("koordinator.sh/rdma/rdma1", "rdma 1"),
        ("cri-proxy.io/fpga/2", "fpga 2"),
        (f"example.com/gpu/{UUID.lower()}", BARE),
        (f"nvidia.com/gpu/{UUID[:-13]}{UUID[-12:]}", BARE),  # the dash before a number is dropped in cost files
        ("example.com/gpu/GPU-5a", "gpu5a"),
        ("a.com/nic/00000000:51:00.1", "0000:51:00.1"),
        ("a.com/nic/51:00.1", "0000:51:00.1"),
        ("gpu/0000_17_00.0", "0000:17:00.0"),
        ("a.com/nic/00010000_E1_1f.7", "10000:e1:1f.7"),
        ("a.com/nic/0001:51:00.1", "0001:51:00.1"),
    ],
)
def test_a_name_of_a_cost_file_tells_an_identity(name: str, tells: str) -> None:
    assert tells in told(name)


@pytest.mark.parametrize(
    "name",
    ["example.com/gpu/gpu0", "example.com/gpu/0", "nvidia.com/gpu/gpu00", "nvidia.com/gpu/nic0", "nic/mlx5_0", "gpu0"],
)
def test_a_name_of_its_own_is_no_number(name: str) -> None:
    assert not any(" " in identity for identity in told(name))
    assert name in told(name)


@pytest.mark.parametrize("name", ["nic/17_00.0", "nic/0000_17:00.0", "nic/0000_17_00_0", "nic/v0000_17_00.0"])
def test_a_name_with_underscores_is_an_address_as_a_whole_or_not_at_all(name: str) -> None:
    assert told(name) == {name}


def test_a_device_by_its_address_with_underscores_is_the_one_of_the_inventory() -> None:
    listed = InventoryDevice("gpu", 0, path=PciePath(bus="0000:17:00.0"))
    joined = JoinedDevices(DeviceInventory((listed,), costs=inventory("gpu/0000_17_00.0", "gpu/0000_98_00.0")))
    assert [str(piece) for piece in joined.pieces] == ["gpu 0", "gpu/0000_98_00.0"]
    assert [str(piece) for piece in joined.held(DeviceGrant("gpu", 0, 100))] == ["gpu 0"]
    assert [str(piece) for piece in joined.held(DeviceGrant("gpu", "0000_17_00.0", 100))] == ["gpu 0"]


def test_a_device_is_held_by_what_it_was_known_as() -> None:
    devices = (InventoryDevice("gpu", 0), InventoryDevice("gpu", 1, uuid="0000:51:00.0"), InventoryDevice("rdma", 1))
    joined = JoinedDevices(DeviceInventory(devices, costs=inventory("a.com/nic/eth0", "a.com/gpu/other")))
    gpu = DeviceGrant("gpu", 0, 100, listed_as="a.com/gpu/other", known_as=("0000:51:00.0",))
    assert {str(piece) for piece in joined.held(gpu)} == {"gpu 0", "gpu 1", "a.com/gpu/other"}
    assert [str(piece) for piece in joined.held(DeviceGrant("a.com/nic", "eth0", 100))] == ["a.com/nic/eth0"]
    assert joined.held(DeviceGrant("rdma", 1, 1, vf="0000:51:00.1")) == ()


@pytest.mark.parametrize(("vf", "bus"), [("00000000:61:00.1", "0000:61:00.1"), ("vf-b", "vf-b")])
def test_a_virtual_function_is_held_by_its_address_in_any_spelling(vf: str, bus: str) -> None:
    functions = VfGroup((VirtualFunction(0, "0000:61:00.1"), VirtualFunction(1, "vf-b")))
    joined = JoinedDevices(DeviceInventory((InventoryDevice("rdma", 2, vf_groups=(functions,)),)))
    assert [str(piece) for piece in joined.held(DeviceGrant("rdma", 9, 1, vf=vf))] == [f"VF {bus}"]


@pytest.mark.parametrize("text", ["51:00", "0000:51:00.8", "x51:00.0"])
def test_what_is_no_address_is_none(text: str) -> None:
    assert told(f"a.com/nic/{text}") == {f"a.com/nic/{text}"}


@pytest.mark.parametrize("resource", ["amd.com/gpu", "amd.com/cpx_nps4", "amd.com/dpx_nps1"])
def test_a_partition_is_known_by_the_name_that_amds_plugin_gives_it(resource: str) -> None:
    partition = InventoryDevice("gpu", 3, uuid="amdgpu_xcp_3", vendor="amd")
    gpu = InventoryDevice("gpu", 0, path=PciePath(bus="0000:05:00.0"), vendor="amd")
    known = JoinedDevices(DeviceInventory((gpu, partition)))
    for name, expected in (("amdgpu_xcp_3", partition), ("0000:05:00.0", gpu)):
        assert [piece.device for piece in known.meant(f"{resource}/{name}")] == [expected]
