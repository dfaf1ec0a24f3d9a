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


def test_a_grant_overlaps_what_it_overlaps_one_by_one() -> None:
    listed = DeviceInventory((InventoryDevice("gpu", 0), NIC), costs=inventory(*NAMES))
    for joined in (JoinedDevices(listed), JoinedDevices()):
        pairs = list(combinations(GRANTS, 2))
        for grant, others in product(GRANTS, [(), *((each,) for each in GRANTS), *pairs]):
            one_by_one = any(joined.overlap(grant, other) for other in others)
            assert HeldHardware(joined, others).overlap(grant) == one_by_one, (grant, others)
