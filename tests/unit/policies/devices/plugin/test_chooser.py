from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.devices import (
    DeviceInventory,
    DeviceOffer,
    GpuPartition,
    InventoryDevice,
    KnownCloseness,
    OfferedDevices,
    OfferForm,
    chooser_of,
    offered_devices,
    partition_rule,
)
from policies.devices.costs import CostLine, CostListing, Inventory, compile_costs
from policies.devices.plugin.chooser import CostChooser, LinkChooser, PlaceChooser, VfChooser
from tests.unit.policies.devices.build import gpu, inventory, nic, pairs
from tests.unit.policies.devices.links.machines import kep_690, of_nvlinks

RESOURCE = "nvidia.com/gpu"
NAMES = tuple(f"GPU-{letter}" for letter in "hgfedcba")  # GPU-h is number 0
GPUS = {name: i for i, name in enumerate(NAMES)}


def gpus(devices: DeviceInventory, offer: DeviceOffer | None = None) -> OfferedDevices:
    return offered_devices(devices, "gpu", offer or DeviceOffer())


def nics() -> OfferedDevices:
    return offered_devices(inventory(nic(0), nic(1)), "rdma", DeviceOffer())


def ids(*minors: int) -> tuple[str, ...]:
    return tuple(f"gpu-{minor}" for minor in minors)


def costs_of(*lines: CostLine) -> Inventory:
    return Inventory(compile_costs(CostListing(lines)))


def test_devices_of_one_pcie_come_before_those_of_one_node_and_low_numbers_last() -> None:
    apart = [gpu(0, 0, "a"), gpu(1, 1, "b"), gpu(2, 1, "c"), gpu(4, 0, "d")]
    assert PlaceChooser(gpus(inventory(*apart, gpu(3, 1, "c")))).choose(ids(0, 1, 2, 3, 4), (), 2) == ids(2, 3)
    assert PlaceChooser(gpus(inventory(*apart))).choose(ids(0, 1, 2, 4), (), 2) == ids(0, 4)


def test_what_must_be_included_draws_the_others_to_it() -> None:
    chooser = PlaceChooser(gpus(pairs(4)))
    assert chooser.choose(ids(0, 1, 2, 3), ids(2), 2) == ids(2, 3)


def test_a_pcie_of_which_others_have_a_device_is_filled_first() -> None:
    chooser = PlaceChooser(gpus(inventory(*(gpu(minor, 0, f"p{minor // 2}") for minor in range(4)))))
    assert chooser.choose(ids(0, 1, 3), (), 1) == ids(3)


def test_a_numa_node_of_which_others_have_a_device_is_filled_first() -> None:
    chooser = PlaceChooser(gpus(inventory(*(gpu(minor, minor // 2) for minor in range(4)))))
    assert chooser.choose(ids(0, 1, 3), (), 1) == ids(3)


def test_the_order_of_names_does_not_matter_and_unknown_ones_are_not_chosen() -> None:
    chooser = PlaceChooser(gpus(pairs(4)))
    assert chooser.choose(("gpu-9", *ids(3, 1, 2)), (), 2) == chooser.choose(ids(1, 2, 3), (), 2) == ids(2, 3)


@pytest.mark.parametrize(
    ("available", "included", "size"), [((), (), 1), ((0, 1), (), 3), ((0, 1), (0, 1), 1), ((0,), (1,), 1), ((), (), 0)]
)
def test_what_cannot_be_had_has_no_preferred_set(
    available: tuple[int, ...], included: tuple[int, ...], size: int
) -> None:
    assert PlaceChooser(gpus(pairs(2))).choose(ids(*available), ids(*included), size) == ()


def test_shares_are_taken_of_few_devices_and_of_those_in_use_first() -> None:
    offered = offered_devices(inventory(nic(0, 0, "a"), nic(1, 0, "a")), "rdma", DeviceOffer(OfferForm.SHARES, 4))
    free = tuple(name for name in offered.devices if name != "rdma-1-share-0")
    chosen = PlaceChooser(offered).choose(free, (), 4)
    assert chosen == ("rdma-0-share-0", "rdma-1-share-1", "rdma-1-share-2", "rdma-1-share-3")


@pytest.mark.parametrize("pcie", [("a", "a"), ("a", "b"), (None, None)])
def test_virtual_functions_are_taken_of_many_devices(pcie: tuple[str | None, str | None]) -> None:
    offered = offered_devices(
        inventory(nic(0, 0, pcie[0], 2), nic(1, 0, pcie[1], 2)), "rdma", DeviceOffer(OfferForm.VFS)
    )
    chooser = VfChooser(offered)
    assert chooser.choose(tuple(offered.devices), (), 2) == ("0000:00:00.1", "0000:01:00.1")
    included = ("0000:01:00.2",)
    assert chooser.choose(tuple(offered.devices), included, 2) == ("0000:00:00.1", *included)


def test_a_second_function_comes_of_another_device_than_the_one_that_must_be_there() -> None:
    offered = offered_devices(inventory(nic(0, 0, "a", 2), nic(1, 0, "a", 2)), "rdma", DeviceOffer(OfferForm.VFS))
    included = ("0000:00:00.2",)
    chosen = VfChooser(offered).choose(tuple(offered.devices), included, 2)
    assert chosen == (*included, "0000:01:00.1")


def test_functions_that_must_be_there_come_first_also_of_one_device() -> None:
    offered = offered_devices(inventory(nic(0, 0, "a", 2), nic(1, 0, "a", 2)), "rdma", DeviceOffer(OfferForm.VFS))
    both = ("0000:00:00.1", "0000:00:00.2")
    assert VfChooser(offered).choose(tuple(offered.devices), both, 2) == both


def test_devices_may_have_different_numbers_of_functions() -> None:
    offered = offered_devices(inventory(nic(0, 0, "a", 1), nic(1, 0, "a", 3)), "rdma", DeviceOffer(OfferForm.VFS))
    assert VfChooser(offered).choose(tuple(offered.devices), (), 4) == tuple(offered.devices)


def vfs_of(*found: InventoryDevice, taken: Sequence[int] = ()) -> tuple[VfChooser, tuple[str, ...]]:
    """Return the chooser, and the ids without those of these NICs' first functions, which others have."""
    offered = offered_devices(inventory(*found), "rdma", DeviceOffer(OfferForm.VFS))
    gone = [next(name for name in offered.devices if name.startswith(f"0000:{number:02x}:")) for number in taken]
    return VfChooser(offered), tuple(name for name in offered.devices if name not in gone)


def of_nics(chosen: Sequence[str]) -> list[int]:
    return [int(address.split(":")[1], 16) for address in chosen]


def test_functions_are_on_one_node_and_there_of_many_devices() -> None:
    chooser, free = vfs_of(
        nic(0, 0, "a", 4), nic(1, 0, "b", 4), nic(2, 1, "c", 4), nic(3, 1, "d", 4), nic(4, 1, "e", 4)
    )
    assert of_nics(chooser.choose(free, (), 2)) == [0, 1]
    assert of_nics(chooser.choose(free, (), 3)) == [2, 3, 4]
    assert of_nics(chooser.choose(free, (), 5)) == [2, 2, 3, 3, 4]
    assert of_nics(chooser.choose(free, (free[0],), 3)) == [0, 0, 1]
    assert of_nics(chooser.choose(free, (), 13)) == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 2 + [4] * 2
    assert chooser.choose(free, (), 21) == ()


def test_a_function_is_one_of_the_device_of_which_others_have_the_fewest() -> None:
    chooser, free = vfs_of(*(nic(i, 0, "ab"[i // 2], 2) for i in range(4)), taken=(0, 1, 3))
    assert of_nics(chooser.choose(free, (), 1)) == [2]
    chooser, free = vfs_of(nic(0, 0, "a", 2), nic(1, 1, "b", 2), taken=(0,))
    assert of_nics(chooser.choose(free, (), 1)) == [1]
    sick = replace(nic(0, 0, "a", 2), is_healthy=False)
    chooser, free = vfs_of(sick, nic(1, 0, "a", 2), taken=(1,))
    assert of_nics(chooser.choose(free[2:], (), 1)) == [1]


def test_devices_of_unknown_node_are_many_too_and_no_function_comes_from_nowhere() -> None:
    chooser, free = vfs_of(nic(0, None, "a", 2), nic(1, None, None, 2))
    assert of_nics(chooser.choose(free, (), 2)) == [0, 1]
    assert chooser.choose(free[:2], free[2:3], 2) == ()
    assert chooser.choose((*free[:1], "0000:09:00.1"), (), 1) == free[:1]


def test_shares_join_those_that_must_be_there() -> None:
    offered = offered_devices(inventory(nic(0, 0, "a"), nic(1, 0, "a")), "rdma", DeviceOffer(OfferForm.SHARES, 4))
    chooser = PlaceChooser(offered)
    assert chooser.choose(tuple(offered.devices), ("rdma-1-share-3",), 2) == ("rdma-1-share-0", "rdma-1-share-3")


def test_a_device_of_unknown_node_is_near_no_other() -> None:
    apart = [gpu(0, 0, "a"), gpu(1, None, "b"), gpu(2, None, "c"), gpu(3, 1, "d")]
    assert PlaceChooser(gpus(inventory(*apart))).choose(ids(0, 1, 2, 3), (), 2) == ids(0, 3)
    assert PlaceChooser(gpus(inventory(*apart[:3]))).choose(ids(0, 1, 2), (), 2) == ids(0, 1)


def test_an_unhealthy_device_is_in_nobodys_use() -> None:
    devices = [gpu(0, 0, "a"), gpu(1, 0, "b"), replace(gpu(2, 0, "b"), is_healthy=False)]
    assert PlaceChooser(gpus(inventory(*devices))).choose(ids(0, 1), (), 1) == ids(0)


def test_gpus_come_as_a_partition_where_one_is_free() -> None:
    table = [GpuPartition((0, 2), 1), GpuPartition((3, 1), 2)]
    devices = inventory(*(gpu(minor) for minor in range(5)), partitions=table)
    rule = partition_rule(devices, {"gpu-partition-policy": "Honor"}, None)
    chooser = chooser_of(gpus(devices), RESOURCE, KnownCloseness(kep_690(), partitions=rule))
    assert chooser.choose(ids(0, 1, 2, 3), (), 2) == ids(1, 3)
    assert chooser.choose(ids(0, 1, 2, 3), ids(0), 2) == ids(0, 2)
    assert chooser.choose(ids(2, 0), ids(0, 2), 2) == ids(0, 2)
    assert chooser.choose((*ids(0, 1, 4), "gpu-9"), (), 2) == ids(0, 4)
    assert isinstance(chooser_of(nics(), "x.io/rdma", KnownCloseness(kep_690(), partitions=rule)), PlaceChooser)


places = st.lists(st.tuples(st.sampled_from([0, 1, None]), st.sampled_from(["a", "b", "c", None])), max_size=6)


@given(places, st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)), st.integers(0, 6))
def test_the_chosen_set_is_the_best_of_all(
    found: list[tuple[int | None, str | None]], free: set[int], must: set[int], size: int
) -> None:
    """A PCIe of unknown node is not told from one of a known node by its name alone, so each has a node in its name."""
    offered = gpus(inventory(*(gpu(minor, node, pcie and f"{node}{pcie}") for minor, (node, pcie) in enumerate(found))))
    free &= set(range(len(found)))
    must &= free
    sets = [frozenset(chosen) for chosen in combinations(sorted(free), size) if must <= set(chosen)]
    chosen = PlaceChooser(offered).choose(ids(*free), ids(*must), size)
    if not sets or not size:
        assert chosen == ()
        return
    taken = {minor for minor in range(len(found)) if minor not in free}
    best = min(sets, key=lambda one: cost(offered, one, taken | must))
    assert cost(offered, frozenset(offered.devices[name].part.number for name in chosen), taken | must) == cost(
        offered, best, taken | must
    )
    assert must <= {offered.devices[name].part.number for name in chosen}


def cost(offered: OfferedDevices, minors: frozenset[int], used: set[int]) -> tuple[int, int, int]:
    """NUMA nodes, PCIe groups, and those of them that are idle."""
    groups = {offered.devices[f"gpu-{minor}"].group for minor in minors}
    in_use = {offered.devices[f"gpu-{minor}"].group for minor in used}
    nodes = {-1 - group if offered.groups[group].numa is None else offered.groups[group].numa for group in groups}
    return len(nodes), len(groups), len(groups - in_use)


def test_links_decide_before_costs_and_costs_before_places() -> None:
    offered = gpus(pairs(8))
    costs = costs_of(CostLine((f"{RESOURCE}/gpu0",), 9, (f"{RESOURCE}/gpu1",)))
    both = KnownCloseness(kep_690(), costs)
    assert isinstance(chooser_of(offered, RESOURCE, both), LinkChooser)
    assert isinstance(chooser_of(offered, RESOURCE, KnownCloseness(costs=costs)), CostChooser)
    assert isinstance(chooser_of(offered, "other.com/gpu", KnownCloseness(costs=costs)), PlaceChooser)
    assert isinstance(chooser_of(offered, RESOURCE, KnownCloseness(of_nvlinks([]), costs)), CostChooser)
    assert isinstance(chooser_of(offered, RESOURCE, KnownCloseness()), PlaceChooser)
    silent = Inventory(compile_costs(CostListing(present=(f"{RESOURCE}/gpu0",))))
    assert isinstance(chooser_of(offered, RESOURCE, KnownCloseness(costs=silent)), PlaceChooser)


def test_costs_decide_between_gpus_with_as_good_links() -> None:
    far = [CostLine((f"{RESOURCE}/gpu{gpu}",), 9, tuple(f"{RESOURCE}/gpu{i}" for i in range(gpu))) for gpu in range(8)]
    near = replace(far[5], targets=far[5].targets[1:])  # from GPU 5 to GPU 0 it costs nothing
    costs = costs_of(*far[1:5], near, *far[6:])
    alike = of_nvlinks([[int(a != b) for b in range(8)] for a in range(8)])
    chooser = chooser_of(gpus(pairs(8)), RESOURCE, KnownCloseness(alike, costs))
    assert chooser.choose(ids(*range(8)), (), 2) == ids(0, 5)
    assert chooser.choose(ids(*range(8)), ids(3), 2) == ids(2, 3)
    assert chooser.choose(ids(*range(8)), ids(3), 3) == ids(0, 3, 5)
    assert chooser.choose(ids(*range(1, 8)), (), 1) == ids(1)
    linked = chooser_of(gpus(pairs(8)), RESOURCE, KnownCloseness(kep_690(), costs))
    assert linked.choose(ids(*range(8)), (), 2) == ids(0, 3)


def test_there_is_no_cheapest_set_where_there_is_none() -> None:
    costs = costs_of(CostLine((f"{RESOURCE}/gpu0",), 9, tuple(f"{RESOURCE}/gpu{i}" for i in range(1, 8))))
    chooser = chooser_of(gpus(pairs(8)), RESOURCE, KnownCloseness(kep_690(), costs))
    assert chooser.choose(ids(0, 1), (), 3) == ()


def test_links_and_costs_are_those_of_whole_devices() -> None:
    offered = offered_devices(pairs(2, vfs=2), "rdma", DeviceOffer(OfferForm.VFS))
    costs = costs_of(CostLine(("x.io/rdma/rdma0",), 9, ("x.io/rdma/rdma1",)))
    assert isinstance(chooser_of(offered, "x.io/rdma", KnownCloseness(kep_690(), costs)), VfChooser)


def test_the_cheapest_devices_are_chosen_by_their_names_in_cost_files() -> None:
    far = [CostLine((f"{RESOURCE}/gpu{one}",), 50, (f"{RESOURCE}/gpu{one + 1}",)) for one in (0, 1)]
    near = CostLine((f"{RESOURCE}/gpu0",), 5, (f"{RESOURCE}/gpu2",))
    chooser = chooser_of(gpus(pairs(4)), RESOURCE, KnownCloseness(costs=costs_of(*far, near)))
    assert set(chooser.choose(ids(2, 1, 0), (), 2)) == set(ids(0, 2))
    assert set(chooser.choose(ids(2, 1, 0), ids(1), 2)) in ({"gpu-0", "gpu-1"}, {"gpu-1", "gpu-2"})
    assert chooser.choose(ids(0, 1), ids(2), 2) == ()
    assert set(chooser.choose((*ids(0, 1), "gpu-9"), ids(0, 1), 2)) == set(ids(0, 1))


def test_every_pair_of_a_dgx1_has_two_links() -> None:
    """The pairs of seed 000 that its machine really has: (2, 6) and (3, 7) have a single link."""
    double = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
    chooser = chooser_of(gpus(pairs(8)), RESOURCE, KnownCloseness(kep_690()))
    free = list(ids(*range(8)))
    while free:
        pair = chooser.choose(tuple(free), (), 2)
        assert tuple(sorted(int(name[-1]) for name in pair)) in double
        free = [name for name in free if name not in pair]


def test_devices_are_chosen_by_their_numbers_whatever_they_are_called() -> None:
    chooser = LinkChooser(kep_690(), GPUS)
    assert chooser.choose(NAMES, (), 2) == ("GPU-h", "GPU-e")
    assert chooser.choose(tuple(reversed(NAMES)), (), 2) == ("GPU-h", "GPU-e")
    assert chooser.choose(NAMES, ("GPU-g",), 2) == ("GPU-g", "GPU-f")


def test_there_may_be_no_set() -> None:
    chooser = LinkChooser(kep_690(), GPUS)
    assert chooser.choose(NAMES, (), 9) == ()
    assert chooser.choose(NAMES[:2], NAMES[2:3], 2) == ()
    assert chooser.choose((), (), 1) == ()


def test_a_device_without_a_number_comes_last() -> None:
    chooser = LinkChooser(kep_690(), GPUS)
    assert chooser.choose(("new", "GPU-h", "GPU-e"), (), 2) == ("GPU-h", "GPU-e")
    assert chooser.choose(("new", "GPU-h", "GPU-e"), ("new",), 3) == ("GPU-h", "GPU-e", "new")


def test_parts_of_one_gpu_have_no_preferred_set() -> None:
    assert LinkChooser(kep_690(), {"a": 0, "b": 0, "c": 1}).choose(("a", "b", "c"), (), 2) == ()


def test_one_device_breaks_no_linked_pair() -> None:
    """Peer defect: a request of one takes the first GPU, here half of the only linked pair."""
    matrix = of_nvlinks([[0, 4, 0], [4, 0, 0], [0, 0, 0]])
    assert LinkChooser(matrix, {"a": 0, "b": 1, "c": 2}).choose(("a", "b", "c"), (), 1) == ("c",)


def test_devices_without_numbers_follow_in_their_order() -> None:
    chooser = LinkChooser(kep_690(), GPUS)
    everything = ("new1", *NAMES, "new0", "new2")
    assert chooser.choose(everything, everything, 11) == (*NAMES, "new1", "new0", "new2")
    assert chooser.choose(everything, ("new0",), 9) == (*NAMES, "new0")
    assert chooser.choose(everything, (), 10) == (*NAMES, "new1", "new0")


def test_without_any_matrix_the_first_devices_are_chosen() -> None:
    assert LinkChooser(of_nvlinks([]), {}).choose(("b", "a", "c"), (), 2) == ("b", "a")
    assert LinkChooser(of_nvlinks([]), {"a": 0}).choose(("b", "a", "c"), ("a",), 2) == ("b", "a")
