"""How many CPUs each node could give, on four nodes of four CPUs, the first of which is reserved."""

from dataclasses import replace

import pytest

from policies.alignment import Alignment
from policies.base import CpuKind, Grant, QosClass
from policies.preferences import Threads
from policies.topology_aware.devices.supply import MOST_CPUS, CpuRoom, cpu_room
from policies.topology_aware.supply.context import PlacementContext
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from tests.unit.policies.build import BEST_EFFORT, BURSTABLE, context_of, four_nodes, request, tree_of

PARTS = (0x000F, 0x00F0, 0x0F00, 0xF000)
TREE = tree_of(four_nodes(), "0")


def context(mcpu: int, *grants: Grant, **keys: object) -> PlacementContext:
    qos = keys.pop("qos", QosClass.GUARANTEED)
    return context_of(TREE, request("new/c", mcpu, qos, **keys), *grants, reserved="0")  # type: ignore[arg-type]  # by name


def test_an_owner_counts_the_cpus_that_it_may_own() -> None:
    other = Grant(request("a/c", 2000), "NUMA node #1", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("4-5"))
    assert cpu_room(context(3000, other), PARTS) == CpuRoom(3, 3, (3, 2, 4, 4))


def test_a_sharer_counts_what_is_left_of_whole_cpus_and_at_least_one() -> None:
    other = Grant(request("a/c", 2500, BURSTABLE), "NUMA node #1", CpuKind.SHARED, shared_mcpu=2500)
    assert cpu_room(context(1100, other, qos=BURSTABLE), PARTS) == CpuRoom(2, 2, (3, 1, 4, 4))
    assert cpu_room(context(0, other, qos=BEST_EFFORT), PARTS) == CpuRoom(1, 1, (3, 4, 4, 4))


def test_where_there_is_no_room_for_all_it_counts_what_there_is() -> None:
    assert cpu_room(context(20_000), PARTS) == CpuRoom(15, 20, (3, 4, 4, 4))


def test_whole_cores_count_where_they_are_wanted_and_there_are_enough() -> None:
    other = Grant(request("a/c", 1000), "NUMA node #1", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("4"))
    assert cpu_room(context(2000, other, threads=Threads.OWN_CORE), PARTS).parts == (2, 2, 4, 4)


def test_only_the_nodes_that_it_is_kept_within_count() -> None:
    nodes = Alignment(NodeSet.of([2]), NodeSet.of([2]))
    inside = context(2000)
    inside = replace(inside, request=replace(inside.request, alignment=nodes))
    assert cpu_room(inside, PARTS) == CpuRoom(2, 2, (0, 0, 4, 0))


@pytest.mark.parametrize(("isolated", "parts"), [("8-9", (0, 0, 2, 0)), ("8", (3, 4, 3, 4))])
def test_isolated_cpus_count_alone_where_they_are_preferred_and_enough(isolated: str, parts: tuple[int, ...]) -> None:
    tree = tree_of(four_nodes(isolated=isolated), "0")
    assert cpu_room(context_of(tree, request("new/c", 2000, prefer_isolated=True), reserved="0"), PARTS).parts == parts


def test_required_isolated_cpus_count_alone() -> None:
    tree = tree_of(four_nodes(isolated="8"), "0")
    wanted = request("new/c", 2000, require_isolated=True)
    assert cpu_room(context_of(tree, wanted, reserved="0"), PARTS) == CpuRoom(1, 2, (0, 0, 1, 0))


def test_a_reserved_container_is_on_the_reserved_cpus_and_a_preserved_one_anywhere() -> None:
    assert cpu_room(context(100, namespace="kube-system"), PARTS) == CpuRoom(1, 1, (1, 0, 0, 0))
    assert cpu_room(context(1000, preserve_cpu=True), PARTS) == CpuRoom(0, 0, (0, 0, 0, 0))


def test_of_a_large_request_the_same_share_counts_everywhere() -> None:
    machine = describe({"packages": 2, "cores": 100, "threads": 1, "memory": "1Gi"})
    tree = tree_of(machine)
    parts = tuple(package.cpus.mask for package in machine.packages)
    assert cpu_room(context_of(tree, request("new/c", 128_000)), parts) == CpuRoom(MOST_CPUS, 128, (50, 50))
