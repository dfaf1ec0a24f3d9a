from itertools import combinations, product

from policies.device_grants import DeviceGrant, listed_only
from policies.devices import (
    DeviceInventory,
    HeldHardware,
    InventoryDevice,
    JoinedDevices,
    PciePath,
    VfGroup,
    VirtualFunction,
)
from tests.fakes.device_policy import inventory

BUS = "0000:51:00.0"
VFS = ("0000:51:00.1", "0000:51:00.2")
NIC = InventoryDevice(
    "rdma", 0, path=PciePath(bus=BUS), vf_groups=(VfGroup(tuple(map(VirtualFunction, range(2), VFS))),)
)
NAMES = ("nvidia.com/gpu/0", f"a.com/x/{VFS[0]}", f"a.com/x/{BUS}", "a.com/x/other")
GRANTS = (
    *map(listed_only, NAMES),
    DeviceGrant("gpu", 0, 100),
    DeviceGrant("gpu", 0, 1, "0:1"),
    DeviceGrant("gpu", 1, 100, known_as=("gpu 0",)),
    DeviceGrant("rdma", 0, 100),
    *(DeviceGrant("rdma", 0, 1, vf) for vf in VFS),
    DeviceGrant("rdma", 7, 1, VFS[1]),  # its NIC had another number
    DeviceGrant("rdma", 0, 1, "0000:99:00.1"),  # gone
    listed_only("a.com/x/gone"),
)


def is_same(joined: JoinedDevices, one: DeviceGrant, other: DeviceGrant) -> bool:
    """Compare every piece that the one may be with every piece that the other may be."""
    if (one.key, one.vf) == (other.key, other.vf):
        return True
    return any(here.overlaps(there) for here in joined.held(one) for there in joined.held(other))


def test_a_grant_overlaps_what_it_overlaps_one_by_one() -> None:
    listed = DeviceInventory((InventoryDevice("gpu", 0), NIC), costs=inventory(*NAMES))
    for joined in (JoinedDevices(listed), JoinedDevices()):
        pairs = list(combinations(GRANTS, 2))
        for grant, others in product(GRANTS, [(), *((each,) for each in GRANTS), *pairs]):
            one_by_one = any(is_same(joined, grant, other) for other in others)
            assert HeldHardware(joined, others).overlap(grant) == one_by_one, (grant, others)


def overlap(joined: JoinedDevices, one: DeviceGrant, other: DeviceGrant) -> bool:
    return HeldHardware(joined, (other,)).overlap(one)


def test_grants_of_one_device_overlap_under_whatever_names_they_were_given() -> None:
    names = inventory("nvidia.com/gpu/0", f"example.com/nic/{VFS[0]}")
    found = JoinedDevices(DeviceInventory((InventoryDevice("gpu", 0), NIC), costs=names))
    gpu, nic = DeviceGrant("gpu", 0, 100), DeviceGrant("rdma", 0, 100)
    assert overlap(found, gpu, listed_only("nvidia.com/gpu/0"))
    assert overlap(found, nic, listed_only(f"example.com/nic/{VFS[0]}"))
    assert not overlap(found, gpu, nic)
    gone = JoinedDevices()
    assert overlap(gone, listed_only("a.com/x/x0"), listed_only("a.com/x/x0"))
    assert not overlap(gone, listed_only("a.com/x/x0"), listed_only("a.com/x/x1"))
