from dataclasses import replace

from policies.base import Grant
from policies.device_grants import DeviceGrant
from policies.devices import DeviceAllocator, DeviceInventory, InventoryDevice
from policies.topology_aware.devices.held import claims_of, rivals, with_claims_counted
from tests.unit.policies.allocations import DEVICE, PCIE, holding, whole

ALLOCATOR = DeviceAllocator(DeviceInventory(tuple(InventoryDevice("gpu", i, 0, "one") for i in range(3))))
HALF = DeviceGrant("gpu", 0, 50)


def holders(device: DeviceGrant, *others: Grant, pod: str = "mine", groups: bool = True) -> list[str]:
    found = rivals(ALLOCATOR, device, claims_of(others, ALLOCATOR.joined), pod, groups=groups)
    return [claim.pod_uid for claim in found]


def test_shares_stand_beside_each_other_up_to_a_whole_device() -> None:
    assert holders(HALF, holding("a/c", HALF)) == []
    assert holders(HALF, holding("a/c", HALF), holding("b/c", DeviceGrant("gpu", 0, 1))) == ["a", "b"]
    assert holders(whole(1), holding("a/c", HALF)) == []


def test_a_virtual_function_has_one_holder() -> None:
    vf = DeviceGrant("gpu", 0, 1, vf="0000:11:00.1")
    assert holders(vf, holding("a/c", vf), holding("b/c", replace(vf, vf="0000:11:00.2"))) == ["a"]


def test_a_device_that_one_has_alone_is_no_others() -> None:
    alone = replace(HALF, exclusive=DEVICE)
    assert holders(DeviceGrant("gpu", 0, 1), holding("a/c", alone)) == ["a"]
    assert holders(alone, holding("a/c", DeviceGrant("gpu", 0, 1))) == ["a"]


def test_a_pcie_that_one_has_alone_is_no_others() -> None:
    alone = replace(DeviceGrant("gpu", 1, 1), exclusive=PCIE)
    assert holders(HALF, holding("a/c", alone)) == ["a"]
    assert holders(alone, holding("a/c", HALF)) == ["a"]
    assert holders(HALF, holding("a/c", alone), groups=False) == []


def test_containers_of_one_pod_share_the_pcie_that_they_have_alone() -> None:
    alone = replace(DeviceGrant("gpu", 1, 1), exclusive=PCIE)
    mine = replace(HALF, exclusive=PCIE)
    assert holders(mine, holding("a/c", alone, mine), pod="a") == []
    assert holders(mine, holding("a/c", alone, mine)) == ["a", "a"]
    device = replace(HALF, exclusive=DEVICE)
    assert holders(HALF, holding("a/c", device), pod="a") == ["a"]


def test_a_device_that_the_inventory_lacks_has_no_rivals() -> None:
    assert holders(whole(7), holding("a/c", whole(7))) == []


def test_a_second_claim_stays_counted_as_one_that_others_chose() -> None:
    claims = claims_of([holding("a/c", whole(0))], ALLOCATOR.joined)
    kept, lost = with_claims_counted(ALLOCATOR, (whole(0), whole(1)), claims, "mine")
    assert kept == (replace(whole(0), is_given=True), whole(1))
    assert lost == {whole(0): claims}
    assert with_claims_counted(ALLOCATOR, kept, claims, "mine") == (kept, {})
    given = claims_of([holding("a/c", replace(whole(0), is_given=True))], ALLOCATOR.joined)
    assert with_claims_counted(ALLOCATOR, (whole(0),), given, "mine") == ((whole(0),), {})
