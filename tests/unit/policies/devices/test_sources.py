from dataclasses import replace

import pytest

from policies.device_grants import DeviceGrant, listed_only
from policies.devices import DeviceInventory, InventoryDevice, JoinedDevices, PciePath, VfGroup, VirtualFunction
from policies.devices.costs import CostLine, CostListing, Inventory, compile_costs
from sysfs.cpuset import CpuSet
from tests.fakes.device_policy import inventory

BUS, VF, UUID = "0000:51:00.0", "0000:61:00.1", "GPU-5a"
GPU = InventoryDevice("gpu", 0, path=PciePath(bus=BUS), uuid=UUID)
NIC = InventoryDevice("rdma", 0, vf_groups=(VfGroup((VirtualFunction(0, VF),)),))


def joined(*names: str, devices: tuple[InventoryDevice, ...] = (GPU, NIC)) -> JoinedDevices:
    return JoinedDevices(DeviceInventory(devices, costs=inventory(*names)))


def test_a_name_is_the_device_that_it_names_by_any_identity() -> None:
    names = (f"a.com/x/{BUS}", f"a.com/x/{UUID}", "nvidia.com/gpu/gpu0", f"a.com/x/{VF}", "a.com/x/other")
    found = joined(*names)
    assert [str(found.named(name)) for name in names] == ["gpu 0", "gpu 0", "gpu 0", f"VF {VF}", "a.com/x/other"]


def test_the_strongest_identity_counts_and_the_other_one_is_a_finding() -> None:
    """The name is the identifier of one GPU and, without its dash, the number of another one."""
    other = InventoryDevice("gpu", 1, uuid="gpu-0")
    found = joined("nvidia.com/gpu/gpu0", devices=(GPU, other))
    assert str(found.named("nvidia.com/gpu/gpu0")) == "gpu 1"
    assert found.disagreements == ("nvidia.com/gpu/gpu0 of the cost files names gpu 1 and gpu 0: it counts as gpu 1",)


def test_two_devices_with_one_identifier_are_a_finding() -> None:
    (problem,) = joined(devices=(GPU, InventoryDevice("gpu", 1, uuid=UUID))).disagreements
    assert problem == "gpu 0 and gpu 1 are both listed as gpu5a: it counts as gpu 0"


def test_a_grant_keeps_the_identities_of_its_device() -> None:
    found = joined("nvidia.com/gpu/gpu0", "a.com/x/other")
    grant = found.granted("nvidia.com/gpu/gpu0")
    assert (grant.key, grant.cost_name, grant.amount) == (("gpu", 0), "nvidia.com/gpu/gpu0", 100)
    assert {BUS, "gpu5a"} <= set(grant.known_as)
    assert {BUS, "gpu5a", "nvidia.com/gpu/gpu0"} <= set(found.identified(DeviceGrant("gpu", 0, 50)).known_as)
    assert found.granted("a.com/x/other") == listed_only("a.com/x/other")


def test_the_identities_of_a_grant_are_in_order_so_that_equal_nodes_write_equal_records() -> None:
    names = [f"{vendor}.com/x/{BUS}" for vendor in "gdacbfe"]
    known_as = joined(*names).identified(DeviceGrant("gpu", 0, 50)).known_as
    assert known_as == (BUS, *(f"{vendor}.com/x/{BUS}" for vendor in "abcdefg"), "gpu5a")


def test_the_names_of_gpus_are_those_of_no_other_type() -> None:
    found = joined("koordinator.sh/rdma/1", "nvidia.com/gpu/gpu0", devices=(GPU, InventoryDevice("rdma", 1)))
    assert found.gpu_names == {0: "nvidia.com/gpu/gpu0"}


def test_what_was_known_under_another_number_is_held_under_both_and_likely_by_its_address() -> None:
    held = DeviceGrant("gpu", 1, 50, known_as=(BUS,))
    found = joined(devices=(GPU, InventoryDevice("gpu", 1, path=PciePath(bus="0000:52:00.0"))))
    assert [str(grant) for grant in found.of_inventory([held])] == ["gpu 1", "gpu 0"]
    assert str(found.likely_here(held)) == "gpu 0"


def test_a_number_is_not_likely_that_of_a_device_at_another_address() -> None:
    held = DeviceGrant("gpu", 0, 50, known_as=("0000:99:00.0",))
    assert joined().likely_here(held) is None
    assert str(joined(devices=(InventoryDevice("gpu", 0),)).likely_here(held)) == "gpu 0"


def test_what_only_cost_files_list_any_more_is_likely_held_under_its_name_there() -> None:
    held = DeviceGrant("gpu", 3, 50, known_as=("0000:71:00.0",))
    assert joined("a.com/x/0000:71:00.0").likely_here(held) == replace(listed_only("a.com/x/0000:71:00.0"), amount=50)


@pytest.mark.parametrize("known_as", [(), (BUS,)])
def test_a_device_that_had_another_type_is_held_by_those_who_had_it(known_as: tuple[str, ...]) -> None:
    now = InventoryDevice("gpu", 0, path=PciePath(bus=BUS), formerly=(("fpga", 3),))
    held = DeviceGrant("fpga", 3, 100, resources=(("koordinator.sh/fpga", 100),), known_as=known_as)
    node = joined(devices=(now, InventoryDevice("fpga", 0)))
    assert node.of_inventory([held]) == (DeviceGrant("gpu", 0, 100),)
    assert str(node.likely_here(held)) == "gpu 0"
    assert node.disagreements == ()


def test_a_virtual_function_of_a_device_that_had_another_type_is_one_of_it() -> None:
    now = InventoryDevice("nic", 0, formerly=(("rdma", 3),))
    (found,) = joined(devices=(now,)).of_inventory([DeviceGrant("rdma", 3, 50, vf=VF)])
    assert (found.key, found.vf, found.amount) == (("nic", 0), VF, 50)


def test_a_virtual_function_by_cost_takes_what_one_takes_of_its_device() -> None:
    (grant,) = joined(f"a.com/x/{VF}").of_inventory([listed_only(f"a.com/x/{VF}")])
    assert (grant.key, grant.vf, grant.amount) == (("rdma", 0), VF, 1)


def test_a_virtual_function_that_its_device_does_not_list_is_one_of_it() -> None:
    unlisted = DeviceGrant("rdma", 0, 1, vf="0000:61:00.7")
    assert joined().likely_here(unlisted) == unlisted
    assert joined(devices=(GPU,)).likely_here(unlisted) is None


def test_a_virtual_function_is_found_by_its_address_whatever_the_number_of_its_device() -> None:
    (grant,) = joined().of_inventory([DeviceGrant("rdma", 7, 1, vf=VF)])
    assert (grant.key, grant.vf) == (("rdma", 0), VF)


def test_a_virtual_function_is_found_however_its_address_is_written() -> None:
    for address in ("61:00.1", "00000000:61:00.1"):
        (grant,) = joined().of_inventory([DeviceGrant("rdma", 7, 1, vf=address)])
        assert grant.key == ("rdma", 0)


def test_names_are_one_to_one_where_each_has_a_device_of_its_own() -> None:
    assert joined("nvidia.com/gpu/gpu0", f"a.com/x/{VF}", "a.com/x/other").is_one_to_one
    assert not joined("nvidia.com/gpu/gpu0", "nvidia.com/gpu/0").is_one_to_one
    assert not joined("nvidia.com/gpu/gpu0", "nvidia.com/gpu/0", "a.com/x/other").is_one_to_one
    assert not joined("koordinator.sh/rdma/0", f"a.com/x/{VF}").is_one_to_one


def test_only_a_device_and_its_functions_overlap() -> None:
    names = (f"a.com/x/{VF}", "koordinator.sh/rdma/0", "nvidia.com/gpu/0")
    vf, nic, gpu = map(joined(*names).named, names)
    assert (vf.overlaps(nic), nic.overlaps(vf), nic.overlaps(gpu), vf.overlaps(vf)) == (True, True, False, True)


def stated(near: dict[str, int], *devices: InventoryDevice, cpus: tuple[int, ...] = (0, 1)) -> tuple[str, ...]:
    """What disagrees where each of these names costs little from one CPU; there is one on each of these nodes."""
    lines = [CostLine((name,), 1 if n == at else 9, (f"cpu/cpu{n}",)) for name, at in near.items() for n in cpus]
    costs = Inventory(compile_costs(CostListing(tuple(lines), tuple(near))))
    return JoinedDevices(DeviceInventory(devices, costs=costs), {n: CpuSet.of([n]) for n in cpus}).disagreements


def test_costs_that_put_a_device_at_another_node_are_a_finding() -> None:
    placed = replace(GPU, numa=0).stated_by("devices.yaml line 2")
    for name in ("nvidia.com/gpu/0", f"a.com/x/{BUS}", f"a.com/x/{UUID}", "nvidia.com/gpu/gpu0"):
        assert stated({name: 0}, placed) == stated({name: 1}, GPU) == ()
        assert stated({name: 1}, placed) == (
            f"gpu 0: devices.yaml line 2 puts it at NUMA node 0, {name} of the cost files at NUMA node 1; "
            "the former counts",
        )


def test_a_virtual_function_is_at_the_place_of_its_device() -> None:
    (found,) = stated({f"a.com/x/{VF}": 1}, replace(NIC, numa=0))
    assert found.startswith(f"VF {VF}: the inventory puts it at NUMA node 0, a.com/x/{VF} of the cost files at")


def test_costs_state_nothing_of_a_node_without_cpus() -> None:
    assert stated({"nvidia.com/gpu/0": 1}, replace(GPU, numa=2)) == ()
    (found,) = stated({"nvidia.com/gpu/0": 1, f"a.com/x/{BUS}": 0}, replace(GPU, numa=2))
    assert found.startswith(f"gpu 0: a.com/x/{BUS} of the cost files puts it at NUMA node 0, nvidia.com/gpu/0 of")


def test_two_names_of_one_device_at_two_places_are_a_finding() -> None:
    for identity in (BUS, UUID):
        names = {f"a.com/x/{identity}": 0, f"b.com/y/{identity}": 1}
        (found,) = stated(names)
        assert found == (
            f"a.com/x/{identity}: a.com/x/{identity} of the cost files puts it at NUMA node 0, "
            f"b.com/y/{identity} of the cost files at NUMA node 1; each counts under its name"
        )
        assert stated(dict.fromkeys(names, 1)) == ()


def test_sources_of_a_device_that_disagree_are_a_finding_of_the_device_alone() -> None:
    scan = replace(NIC, numa=1).stated_by("the scan").statements
    both = replace(NIC, statements=(*replace(NIC, numa=0).stated_by("devices.yaml line 2").statements, *scan))
    (found,) = joined(devices=(both,)).disagreements
    assert found == "rdma 0: devices.yaml line 2 puts it at NUMA node 0, the scan at NUMA node 1; the former counts"
