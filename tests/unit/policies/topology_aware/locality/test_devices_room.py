"""Whether a pool that reaches beyond the CPUs near a device has room near it: on four nodes of four CPUs."""

import random
from dataclasses import replace

import pytest

from policies.base import CpuKind, DeviceLocality, Grant, QosClass, Request
from policies.hardware.pools import PoolTree
from policies.topology_aware.locality.devices import NearnessNow, at_devices, far_devices
from policies.topology_aware.supply.load import load_of
from policies.topology_aware.supply.supply import room_of
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    context_of,
    four_nodes,
    request,
    supply_of,
    tree_of,
)

TREE = tree_of(four_nodes())
PARTLY, WHOLLY = (tree_of(four_nodes(isolated=cpus)) for cpus in ("2-3", "0-3"))  # isolated CPUs of node 0


def owner(cpus: str, *, isolated: str = "") -> Grant:
    return Grant(request("o/c"), "root", CpuKind.EXCLUSIVE, CpuSet.parse(cpus), CpuSet.parse(isolated))


def sharer(mcpu: int, node: int = 0) -> Grant:
    return Grant(request("s/c", mcpu, BURSTABLE), f"NUMA node #{node}", CpuKind.SHARED, shared_mcpu=mcpu)


def devices(places: str) -> tuple[DeviceLocality, ...]:
    return tuple(DeviceLocality(f"/dev/{cpus}", CpuSet.parse(cpus), NodeSet()) for cpus in places.split())


def found_at(
    places: str,
    mcpu: int,
    *grants: Grant,
    pool: str = "root",
    qos: QosClass = GUARANTEED,
    tree: PoolTree = TREE,
    withheld: str = "",
    **keys: object,
) -> tuple[float, int]:
    """The nearness of the pool to devices at these CPUs, and minus its distance from those that it is not near."""
    wanted = request("a/c", mcpu, qos, localities=devices(places), **keys)
    context = replace(context_of(tree, wanted, *grants), supply=supply_of(tree, *grants, withheld=withheld))
    near = NearnessNow(context, room_of(context.supply, keep_busy=True), load_of(context.supply))
    return near.of(tree.named(pool))


def near(places: str, mcpu: int, *grants: Grant, **keys: object) -> float:
    return found_at(places, mcpu, *grants, **keys)[0]  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("mcpu", "owned", "nearness"),
    [
        (2000, "0-1", 1),
        (2000, "0-2", 0),
        (1000, "0-2", 1),
        (1000, "0-3", 0),
        (8000, "", 1),  # all of the four is enough of a request that is larger
        (8000, "0", 0),
    ],
)
def test_there_is_room_for_the_cpus_to_own_where_so_many_are_left(mcpu: int, owned: str, nearness: float) -> None:
    assert near("0-3", mcpu, owner(owned)) == nearness


@pytest.mark.parametrize(
    ("mcpu", "owned", "nearness"),
    [
        (4000, "0-1", 1),
        (4000, "0-2", 0.5),
        (4000, "0-2,8-10", 0),
        (1000, "0-2,8-10", 1),  # at least one each
        (1000, "0-3", 0.5),
    ],
)
def test_the_request_is_divided_to_the_places_of_its_devices(mcpu: int, owned: str, nearness: float) -> None:
    assert near("0-3 8-11", mcpu, owner(owned)) == nearness
    assert near("0-3 8-11 8-11", mcpu, owner(owned)) == pytest.approx(
        {1: 1, 0: 0, 0.5: 2 / 3}[nearness], abs=1e-6
    )  # the third is in no place of its own


@pytest.mark.parametrize(
    ("mcpu", "others_mcpu", "nearness"),
    [
        (1500, 2500, 1),
        (1500, 2501, 0),
        (6000, 0, 1),
        (6000, 1, 0),
    ],
)
def test_there_is_room_to_share_where_so_much_cpu_time_is_left(mcpu: int, others_mcpu: int, nearness: float) -> None:
    assert near("0-3", mcpu, sharer(others_mcpu), qos=BURSTABLE) == nearness
    assert near("0-3 8-11", 2 * mcpu, sharer(others_mcpu), sharer(others_mcpu, 2), qos=BURSTABLE) == nearness


def test_isolated_cpus_are_no_room_to_share() -> None:
    assert near("0-3", 1500, sharer(501), qos=BURSTABLE, tree=PARTLY, prefer_isolated=True) == 0
    assert near("0-3", 1500, sharer(500), qos=BURSTABLE, tree=PARTLY, prefer_isolated=True) == 1


def test_a_fraction_beside_the_cpus_to_own_has_room_with_them() -> None:
    assert [near("0-3", 2500, sharer(mcpu)) for mcpu in (1500, 1501)] == [1, 0]
    assert [near("0-3 8-11", 2500, sharer(mcpu)) for mcpu in (2750, 2751)] == [1, 0.5]


def test_a_cpu_stays_for_those_that_share_without_a_request() -> None:
    idle = Grant(request("s/c", 0, BEST_EFFORT), "NUMA node #0", CpuKind.SHARED)
    assert near("0-3", 1000, owner("0-2")) == 1
    assert near("0-3", 1000, owner("0-2"), idle) == 0


def test_withheld_cpus_are_no_room() -> None:
    assert near("0-1", 1000) == 1
    assert near("0-1", 1000, withheld="0") == 1
    assert near("0-1", 1000, withheld="0-1") == 0
    assert near("0", 1000) == 1


@pytest.mark.parametrize(
    ("owned", "isolated", "prefers", "nearness"),
    [
        ("0-1", "", True, 1),
        ("0-1", "", False, 0),
        ("0-1", "2", True, 0),
        ("", "2", True, 1),  # ordinary ones would do
        ("", "2-3", False, 1),
    ],
)
def test_isolated_cpus_are_room_for_one_that_prefers_them(
    owned: str, isolated: str, prefers: bool, nearness: float
) -> None:
    held = owner(owned, isolated=isolated)
    assert near("0-3", 2000, held, tree=PARTLY, prefer_isolated=prefers) == nearness


def test_isolated_cpus_near_another_device_are_no_room() -> None:
    assert near("4-7", 2000, owner("4-6"), tree=PARTLY, prefer_isolated=True) == 0


@pytest.mark.parametrize(("mcpu", "qos"), [(0, BEST_EFFORT), (500, BURSTABLE)])
def test_one_that_shares_has_no_room_among_isolated_cpus(mcpu: int, qos: QosClass) -> None:
    assert near("0-3", mcpu, qos=qos, tree=WHOLLY) == 0
    assert near("4-7", mcpu, qos=qos, tree=WHOLLY) == 1


def test_one_without_a_request_has_room_on_each_package() -> None:
    assert [near(cpus, 0, qos=BEST_EFFORT) for cpus in ("0-3", "8-11")] == [1, 1]


def test_room_near_a_device_outside_the_pool_does_not_count() -> None:
    spread = {"pool": "socket #0"}
    assert near("0-3,8-11", 1000, **spread) == 0.5
    assert near("0-3,8-11", 1000, owner("0-3"), **spread) == 0
    assert near("0-3,8-11", 1000, owner("0-3"), pool="root") == 1


def test_under_a_strict_preference_nearness_does_not_depend_on_room() -> None:
    assert near("0-3", 2000, owner("0-2"), strict_locality=True) == 1


def test_a_pool_is_only_far_from_devices_that_it_has_no_room_near() -> None:
    assert found_at("0-3", 2000) == (1, 0)
    nearness, distance = found_at("0-3", 2000, owner("0-2"))
    assert (nearness, distance) == (0, -max(TREE.machine.nodes[0].distance_to(node.id) for node in TREE.machine.nodes))
    assert found_at("0-3 8-11", 4000, owner("0-2")) == (0.5, distance)


def test_a_device_near_every_cpu_tells_no_pools_apart() -> None:
    assert [found_at("0-15", 1000, pool=pool.name) for pool in TREE.pools] == [(0, 0)] * len(TREE.pools)


@pytest.mark.parametrize(
    ("places", "owned", "pool", "distance"),
    [
        ("4-7", "", "NUMA node #0", -11),
        ("4-7,8-11", "", "NUMA node #0", -11),  # of the nodes at the device, the closest
        ("4-7 8-11", "", "NUMA node #0", -32),
        ("0-3", "0-2,8-15", "root", -11),  # no CPU is left on the far nodes
        ("0-3", "8-15", "socket #1", -21),  # none is left in the pool: it is as far as its hardware
    ],
)
def test_a_pool_is_as_far_from_a_device_as_the_farthest_cpu_that_it_gives(
    places: str, owned: str, pool: str, distance: int
) -> None:
    assert found_at(places, 2000, owner(owned), pool=pool) == (0, distance)


def test_a_pool_is_at_as_many_devices_as_are_near_all_of_it() -> None:
    context = context_of(TREE, request("a/c", 1000, localities=devices("0-7 0-3 8-11 0-15")))
    assert [at_devices(context, TREE.named(name)) for name in ("NUMA node #0", "socket #0", "root")] == [0.5, 0.25, 0]
    assert at_devices(context_of(TREE, request("a/c", 1000)), TREE.root) == 0


@pytest.mark.parametrize(
    ("places", "pool", "owned", "far"),
    [
        ("0-7 8-11", "NUMA node #0", "", {"/dev/8-11": False}),
        ("0-3", "root", "8-9", {"/dev/0-3": True}),  # there is room, and its own CPUs are elsewhere
        ("0-3", "root", "0,8", {}),
        ("0-3", "root", "", {}),
        ("0-15", "root", "0", {}),
    ],
)
def test_a_device_is_far_without_room_near_it_or_where_no_cpu_to_own_is_near(
    places: str, pool: str, owned: str, far: dict[str, bool]
) -> None:
    assert far_from(pool, request("a/c", 2000, localities=devices(places)), owned=owned) == far


def test_no_device_is_far_that_the_whole_pool_is_near_however_few_cpus_are_left() -> None:
    wanted = request("a/c", 500, BURSTABLE, localities=devices("0-7"))
    assert far_from("NUMA node #0", wanted, owner("0-2")) == {}
    assert far_from("NUMA node #2", wanted, owner("0-2")) == {"/dev/0-7": False}


def far_from(pool: str, wanted: Request, *grants: Grant, owned: str = "") -> dict[str, bool]:
    """The devices that the container is far from in this pool, and whether there is room near them."""
    context = context_of(TREE, wanted, *grants)
    room = room_of(context.supply, keep_busy=True)
    found = far_devices(context, room, load_of(context.supply), TREE.named(pool), CpuSet.parse(owned).mask)
    return {device.source: device.has_room for device in found}


@pytest.mark.parametrize("seed", range(30))
def test_what_parts_of_a_node_have_is_what_they_have_when_asked_for_alone(seed: int) -> None:
    """L3 domains of a node are as near as it, for CPUs to own: that is looked up once, and must not differ."""
    rng = random.Random(seed)
    tree = tree_of(small_machine(packages=2, nodes=2, cores=4, threads=1, l3=[f"{n}-{n + 1}" for n in range(0, 16, 2)]))
    places = " ".join(rng.sample(("0-3", "4-7", "0-1", "2-5", "8-15", "3"), k=rng.choice((1, 2))))
    wanted = request("a/c", rng.choice((500, 1000, 2500)), GUARANTEED, localities=devices(places))
    held = Grant(request("o/c"), "root", CpuKind.EXCLUSIVE, CpuSet.parse(rng.choice(("0-1", "0-6", "2,9"))))
    context = context_of(tree, wanted, held)
    room, load = room_of(context.supply, keep_busy=True), load_of(context.supply)
    together = NearnessNow(context, room, load)
    assert [together.of(pool) for pool in tree.pools] == [NearnessNow(context, room, load).of(p) for p in tree.pools]
