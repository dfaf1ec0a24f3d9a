import pytest

from policies.device_grants import DeviceGrant
from policies.devices import InventoryDevice, PciePath
from policies.devices.identity import address_in, identities_held, identities_named, identities_of

UUID = "GPU-5a12b7cd-0011-2233-4455-66778899aabb"
BARE = "gpu5a12b7cd00112233445566778899aabb"


def test_a_device_is_known_by_address_identifier_and_number() -> None:
    device = InventoryDevice("gpu", 3, path=PciePath(bus="0000:51:00.0"), uuid=UUID)
    assert identities_of(device) == ("0000:51:00.0", BARE, "gpu 3")
    assert identities_of(InventoryDevice("rdma", 1, uuid="0000:51:00.0")) == ("0000:51:00.0", "rdma 1")
    assert identities_of(InventoryDevice("fpga", 0, uuid="Card-7")) == ("fpga=card7", "fpga 0")


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
        ("a.com/nic/0001:51:00.1", "0001:51:00.1"),
    ],
)
def test_a_name_of_a_cost_file_tells_an_identity(name: str, tells: str) -> None:
    assert tells in identities_named(name)


@pytest.mark.parametrize(
    "name",
    ["example.com/gpu/gpu0", "example.com/gpu/0", "nvidia.com/gpu/gpu00", "nvidia.com/gpu/nic0", "nic/mlx5_0", "gpu0"],
)
def test_a_name_of_its_own_is_no_number(name: str) -> None:
    assert not any(" " in identity for identity in identities_named(name))
    assert identities_named(name)[-1] == name


def test_a_device_is_held_by_what_it_was_known_as() -> None:
    gpu = DeviceGrant("gpu", 0, 100, listed_as="nvidia.com/gpu/gpu0", known_as=("0000:51:00.0",))
    assert {"gpu 0", "0000:51:00.0", "nvidia.com/gpu/gpu0"} <= set(identities_held(gpu))
    assert identities_held(DeviceGrant("a.com/nic", "eth0", 100)) == ("a.com/nic/eth0",)
    assert identities_held(DeviceGrant("rdma", 1, 1, vf="0000:51:00.1")) == ("0000:51:00.1",)


def test_what_is_no_address_is_none() -> None:
    assert [address_in(text) for text in ("", "51:00", "0000:51:00.8", "x51:00.0")] == [""] * 4
