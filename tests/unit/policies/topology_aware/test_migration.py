import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from policies.base import CpuKind, DeviceLocality, Grant
from policies.preferences import Threads
from policies.topology_aware.migration import Clearing, plan_migrations, with_shares_in_root
from policies.topology_aware.supply.supply import room_of
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import context_of, four_nodes, request, supply_of, tree_of

TREE = tree_of(four_nodes())


def share(name: str, node: int, mcpu: int) -> Grant:
    return Grant(request(name, mcpu), f"NUMA node #{node}", CpuKind.SHARED, shared_mcpu=mcpu, mems=NodeSet.of([node]))


def owner(name: str, cpus: str) -> Grant:
    return Grant(request(name, 1000), "root", CpuKind.EXCLUSIVE, CpuSet.parse(cpus))


def lifted(count: int, *grants: Grant, pool: str = "root") -> dict[str, str] | None:
    context = context_of(TREE, request("new/c", 1000 * count), *grants)
    moved = plan_migrations(context, TREE.named(pool), count)
    return None if moved is None else {g.container.pod_uid: g.pool for g in moved}


def test_nothing_moves_when_there_is_room() -> None:
    assert lifted(15, share("a/c", 0, 500)) == {}


def test_fractions_of_four_nodes_are_put_together() -> None:
    grants = [share(f"{n}/c", n, 500) for n in range(4)]
    assert lifted(12, *grants) == {}
    assert lifted(13, *grants) == {"0": "socket #0"}
    assert lifted(14, *grants) == {"0": "root", "1": "root"}


def test_no_lift_makes_more_room_than_the_pool_has() -> None:
    assert lifted(17, share("a/c", 0, 500)) is None


def test_the_smallest_grant_that_frees_a_cpu_moves() -> None:
    grants = [share("a/c", 0, 600), share("b/c", 0, 500), share("c/c", 0, 150)]
    assert lifted(15, *grants) == {"b": "root"}


def test_where_none_frees_a_cpu_alone_several_move_together() -> None:
    assert lifted(16, share("a/c", 0, 400), share("b/c", 0, 400)) == {"a": "root", "b": "root"}


def test_where_none_frees_a_cpu_alone_the_pool_moves_that_needs_least_of_its_last_cpu() -> None:
    whole = [share("a/c", 0, 400), share("b/c", 0, 300), share("c/c", 0, 300)]  # all of a CPU
    assert lifted(15, *whole, share("d/c", 1, 350), share("e/c", 1, 350)) == {"d": "root", "e": "root"}
    few = [share("a/c", 0, 390), share("b/c", 0, 410)]
    assert lifted(15, *few, *(share(f"{name}/c", 1, 300) for name in "cde")) == {"a": "root", "b": "root"}
    assert lifted(14, *few, *(share(f"{name}/c", 1, 600) for name in "cde")) == {"a": "root", "b": "root"}


def test_those_that_move_are_told_in_the_order_of_containers() -> None:
    found = lifted(16, share("a/c", 0, 390), share("b/c", 0, 410))
    assert found is not None
    assert list(found) == ["a", "b"]


def test_a_container_that_would_like_to_be_near_its_devices_moves_all_the_same() -> None:
    hint = DeviceLocality("/dev/x", CpuSet.parse("0-3"), NodeSet())
    wishing = replace(share("a/c", 0, 500), request=request("a/c", 500, localities=(hint,)))
    assert lifted(15, share("b/c", 1, 500), wishing) == {"a": "socket #0"}


def test_what_moves_goes_no_higher_than_it_must() -> None:
    assert lifted(15, share("a/c", 0, 400), share("b/c", 0, 800)) == {"a": "root"}
    assert lifted(14, share("a/c", 0, 400), share("b/c", 0, 800), share("c/c", 1, 200)) == {"c": "socket #0"}


def test_what_is_lifted_keeps_its_memory_nodes_and_gets_those_of_the_wider_pool() -> None:
    grants = [share(f"{n}/c", n, 500) for n in range(4)]
    moved = plan_migrations(context_of(TREE, request("new/c", 13000), *grants), TREE.named("root"), 13)
    assert moved is not None
    assert [(g.pool, str(g.mems)) for g in moved] == [("socket #0", "0-1")]


@given(st.integers(0, 1 << 32))
def test_lifts_make_the_room_and_none_of_them_is_needless(seed: int) -> None:
    rng = random.Random(seed)
    grants = [share(f"{i}/c", rng.randrange(4), rng.randrange(1, 16) * 100) for i in range(8)]
    count = 16 - -(-sum(g.shared_mcpu for g in grants) // 1000)
    moved = plan_migrations(context_of(TREE, request(mcpu=1000), *grants), TREE.root, count)
    assert moved is not None
    assert gives(grants, *moved) >= count
    assert all(gives(grants, *(g for g in moved if g is not spared)) < count for spared in moved)


def gives(grants: list[Grant], *moved: Grant) -> int:
    after = {g.container: g for g in (*grants, *moved)}
    return room_of(supply_of(TREE, *after.values()), keep_busy=False).inner[0]


def test_a_grant_that_must_be_near_its_devices_stays() -> None:
    hint = DeviceLocality("/dev/x", CpuSet.parse("0-3"), NodeSet())
    strict = replace(share("a/c", 0, 500), request=request("a/c", 500, strict_locality=True, localities=(hint,)))
    assert lifted(15, share("b/c", 1, 500), strict) == {"b": "socket #0"}
    assert lifted(16, share("b/c", 1, 500), strict) is None


def test_a_strict_wish_without_devices_keeps_a_grant_nowhere() -> None:
    free = replace(share("a/c", 0, 500), request=request("a/c", 500, strict_locality=True))
    assert lifted(15, share("b/c", 1, 500), free) == {"a": "socket #0"}


def test_a_grant_without_cpu_time_does_not_move() -> None:
    assert lifted(15, share("a/c", 0, 0), share("b/c", 0, 500), share("c/c", 1, 500)) == {"b": "socket #0"}


def test_the_pool_below_which_room_is_made_bounds_the_move() -> None:
    grants = [share("a/c", 0, 500), share("b/c", 1, 500)]
    assert lifted(7, *grants, pool="socket #0") == {"a": "socket #0"}


def test_a_moved_grant_has_the_memory_of_its_new_pool_and_keeps_its_own_cpus() -> None:
    mixed = Grant(request("m/c", 1500), "NUMA node #0", CpuKind.MIXED, CpuSet.parse("0"), shared_mcpu=500)
    context = context_of(TREE, request("new/c", 14000), mixed, share("b/c", 1, 500))
    moved = plan_migrations(context, TREE.root, 14)
    assert moved is not None
    assert [(g.container.pod_uid, str(g.exclusive), str(g.mems)) for g in moved] == [("b", "", "0-1")]


def test_only_cpus_that_the_container_may_own_are_worth_a_lift() -> None:
    """Every node has a fraction in it; the device is at node 2, so nobody else moves."""
    grants = [share(f"{n}/c", n, 500) for n in range(4)]
    hints = (DeviceLocality("/dev/x", CpuSet.parse("8-11"), NodeSet()),)
    context = context_of(TREE, request("new/c", 4000, strict_locality=True, localities=hints), *grants)
    moved = plan_migrations(context, TREE.root, 4)
    assert moved is not None
    assert [(g.container.pod_uid, g.pool) for g in moved] == [("2", "socket #1")]


def test_cpus_on_broken_cores_do_not_count_where_whole_ones_are_wished_for() -> None:
    machine = small_machine()  # packages of two cores with two threads: 0-1, 2-3 and 4-5, 6-7
    tree = tree_of(machine)
    grants = (
        Grant(request("a/c", 1500), "socket #0", CpuKind.SHARED, shared_mcpu=1500),
        owner("b/c", "0"),
        owner("c/c", "4"),
    )
    context = context_of(tree, request("new/c", 4000, threads=Threads.OWN_CORE), *grants)
    moved = plan_migrations(context, tree.root, 4)
    assert moved is not None
    assert [g.container.pod_uid for g in moved] == ["a"]
    assert plan_migrations(context, tree.root, 5) is None


def cleared(taken: str, *grants: Grant, pool: str = "root", mcpu: int = 1000) -> dict[str, str] | None:
    context = context_of(TREE, request("new/c", mcpu), *grants)
    moves = Clearing(context).moves(TREE.named(pool), CpuSet.parse(taken).mask)
    return None if moves is None else {move[0].container.pod_uid: move[1] for move in moves}


def test_those_leave_that_have_too_little_left_and_go_no_higher_than_they_must() -> None:
    assert cleared("0-3", share("a/c", 0, 500), share("b/c", 1, 500), pool="NUMA node #0") == {"a": "socket #0"}
    assert cleared("0-7", share("a/c", 0, 500), share("b/c", 2, 500)) == {"a": "root"}


def test_of_a_node_that_keeps_a_cpu_those_leave_that_are_too_many_for_it() -> None:
    grants = [share("a/c", 0, 700), share("b/c", 0, 200), share("c/c", 0, 400)]
    assert cleared("0-2", *grants, pool="NUMA node #0") == {"c": "socket #0"}


def test_those_that_move_in_any_case_make_room_above_and_those_that_shrink_before_others() -> None:
    grants = [share("a/c", 0, 600), share("b/c", 1, 500), share("d/c", 1, 400)]
    assert cleared("0-3,5-7", *grants) == {"a": "root"}
    package = replace(share("p/c", 0, 500), pool="socket #0")
    assert cleared("0-3,5-7", package, share("b/c", 1, 600)) == {"p": "root"}
    untouched = [share("b/c", 3, 3500), replace(share("p/c", 2, 900), pool="socket #1")]
    assert cleared("8-11", *untouched) == {"p": "root"}


def test_a_fraction_of_the_container_itself_takes_its_room_in_the_pool() -> None:
    assert cleared("0-2", share("a/c", 0, 500), pool="NUMA node #0", mcpu=3500) == {}
    assert cleared("0-2", share("a/c", 0, 600), pool="NUMA node #0", mcpu=3500) == {"a": "socket #0"}


def test_cpus_are_not_cleared_of_a_grant_that_must_be_near_its_devices() -> None:
    hint = DeviceLocality("/dev/x", CpuSet.parse("0-3"), NodeSet())
    strict = replace(share("a/c", 0, 500), request=request("a/c", 500, strict_locality=True, localities=(hint,)))
    assert cleared("0-3", strict, pool="NUMA node #0") is None
    assert cleared("0-3", replace(strict, shared_mcpu=1), pool="NUMA node #0") is None
    ideal = with_shares_in_root(context_of(TREE, request("new/c", 4000), strict, share("b/c", 1, 300)))
    assert [ideal.supply.granted_mcpu[TREE.named(name).index] for name in ("root", "socket #0", "NUMA node #1")] == [
        800,
        500,
        0,
    ]
