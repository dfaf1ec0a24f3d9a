import random
from dataclasses import replace

import pytest

from policies.base import CpuKind, DeviceLocality, Grant, Request
from policies.preferences import BurstLevel, CpuPriority
from policies.topology_aware.ranking import best_pool, burst_ranks, fixed_scores_of, rank
from policies.topology_aware.score import Key
from policies.topology_aware.supply.supply import room_of
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine
from tests.fakes.machines import small_machine
from tests.unit.policies.build import (
    BURSTABLE,
    GUARANTEED,
    before,
    context_of,
    four_nodes,
    request,
    supply_of,
    tree_of,
    wish_for,
)

TREE = tree_of(four_nodes(), "0")


def best_of(mcpu: int, **keys: object) -> tuple[str, bool]:
    """The pool that ranks first for this request on an empty machine, and whether it fits."""
    context = context_of(TREE, request("a/c", mcpu, **keys))  # type: ignore[arg-type]  # qos and fields
    room = room_of(context.supply, keep_busy=True)
    ranking = rank(context, fixed_scores_of(context), room, room)
    first = ranking.order[0]
    return TREE.pools[first].name, bool(ranking.keys[first].fits)


def keys_of(machine: Machine, wanted: Request, withheld: str = "") -> dict[str, Key]:
    """The keys of all pools on a machine where others hold nothing but the withheld CPUs."""
    tree = tree_of(machine)
    context = replace(context_of(tree, wanted), supply=supply_of(tree, withheld=withheld))
    room = room_of(context.supply, keep_busy=True)
    ranking = rank(context, fixed_scores_of(context), room, room)
    return {pool.name: key for pool, key in zip(tree.pools, ranking.keys, strict=True)}


def test_what_is_in_use_counts_from_the_package_down_until_half_of_the_machine_is() -> None:
    tree = tree_of(four_nodes())
    for owned, asked, left in (("4-5", 2000, (-2000, -2000, 4)), ("4-5,12-15", 4000, (-2000, 6000))):
        other = Grant(request("o/c"), "root", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse(owned))
        context = context_of(tree, request(mcpu=asked), other)
        room = room_of(context.supply, keep_busy=True)
        keys = rank(context, fixed_scores_of(context), room, room).keys
        assert keys[tree.named("NUMA node #1").index].left == left


def test_of_isolated_cpus_it_counts_what_is_left() -> None:
    assert keys_of(four_nodes(isolated="6-7"), request(mcpu=1000))["NUMA node #1"].left == (2, 2)


def test_cpus_of_the_preferred_priority_count_if_they_can_be_owned() -> None:
    machine = small_machine(cores=4, threads=1, efficiency="4-7", isolated="6-7")
    wanted = request(mcpu=4000, priority=CpuPriority.LOW)
    assert keys_of(machine, wanted)["socket #1"].priority == 1
    assert keys_of(machine, wanted, withheld="4")["socket #1"].priority == 0


def test_an_isolated_cpu_that_is_kept_is_no_merit_where_none_is_wanted() -> None:
    wanted = request(mcpu=1000, prefer_isolated=False, previous=before("NUMA node #1", "7"))
    assert keys_of(four_nodes(isolated="7"), wanted)["NUMA node #1"].isolated == 0


def test_a_pool_that_can_give_what_is_asked_ranks_before_all_that_cannot() -> None:
    assert best_of(4000) == ("NUMA node #1", True)
    assert best_of(15000) == ("root", True)


def test_the_best_of_pools_that_cannot_is_said_not_to_fit() -> None:
    assert best_of(16000)[1] is False


def test_the_burst_level_ranks_before_depth() -> None:
    assert best_of(100, qos=BURSTABLE) == ("socket #1", True)
    assert best_of(100, qos=BURSTABLE, cpu_limit_mcpu=100) == ("NUMA node #1", True)


DIES = tree_of(small_machine(dies=2, nodes=2))  # root, sockets, dies, NUMA nodes


def best(level: BurstLevel) -> set[str]:
    ranks = burst_ranks(DIES, level)
    return {p.kind for p, rank in zip(DIES.pools, ranks, strict=True) if rank == max(ranks)}


@pytest.mark.parametrize(
    ("level", "kind"),
    [
        (BurstLevel.SYSTEM, "root"),
        (BurstLevel.PACKAGE, "package"),
        (BurstLevel.DIE, "die"),
        (BurstLevel.NUMA, "node"),
        (BurstLevel.L3_CACHE, "node"),  # no pools inside: the node is its L3 domain too
    ],
)
def test_pools_at_the_wanted_level_come_first(level: BurstLevel, kind: str) -> None:
    assert best(level) == {kind}


def test_a_narrower_pool_is_better_than_a_wider_one_and_a_near_level_than_a_far_one() -> None:
    by_kind = {p.kind: r for p, r in zip(DIES.pools, burst_ranks(DIES, BurstLevel.PACKAGE), strict=True)}
    assert by_kind["package"] > by_kind["die"] > by_kind["node"] > by_kind["root"]


def test_a_level_that_was_left_out_is_the_pool_that_has_its_cpus() -> None:
    assert burst_ranks(tree_of(small_machine(packages=1, nodes=2)), BurstLevel.PACKAGE)[0] == 0
    assert burst_ranks(tree_of(four_nodes()), BurstLevel.DIE)[1] == 0


def test_where_l3_domains_are_pools_a_wider_one_is_second_to_them() -> None:
    tree = tree_of(small_machine(cores=4, threads=1, l3=["0-1", "2-3", "4-5", "6-7"]))
    ranks = burst_ranks(tree, BurstLevel.L3_CACHE)
    assert {p.kind for p, rank in zip(tree.pools, ranks, strict=True) if rank == 0} == {"l3"}


def test_without_a_level_no_pool_is_better() -> None:
    assert set(burst_ranks(DIES, None)) == {0}


def test_of_packages_that_have_the_cpus_that_with_them_on_fewer_nodes_is_best() -> None:
    """Four CPUs are on three nodes of socket 0, and on two of socket 1."""
    tree = tree_of(small_machine(packages=2, nodes=3, cores=2, threads=1))
    others = Grant(request("o/c"), "root", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("0,2"))
    context = context_of(tree, request("a/c", 4000), others)
    room = room_of(context.supply, keep_busy=True)
    ranking = rank(context, fixed_scores_of(context), room, room)
    sockets = [tree.named(f"socket #{n}").index for n in (0, 1)]
    assert ranking.order[0] == sockets[1]
    assert [round(ranking.keys[i].cpu_domains) for i in sockets] == [-3, -2]


def widths(limit_mcpu: int | None, *grants: Grant) -> dict[str, int]:
    """How much of its limit a container that shares has in each pool, where CPU 0 is reserved."""
    context = context_of(TREE, request("a/c", 500, BURSTABLE, cpu_limit_mcpu=limit_mcpu), *grants, reserved="0")
    room = room_of(context.supply, keep_busy=True)
    keys = rank(context, fixed_scores_of(context), room, room).keys
    return {pool.name: key.width for pool, key in zip(TREE.pools, keys, strict=True)}


def sharers(mcpu: int, *nodes: int) -> tuple[Grant, ...]:
    return tuple(
        Grant(request(f"s{node}/c", mcpu, BURSTABLE), f"NUMA node #{node}", CpuKind.SHARED, shared_mcpu=mcpu)
        for node in nodes
    )


@pytest.mark.parametrize(("limit_mcpu", "width"), [(6000, 6000), (8000, 8000), (8001, 7000), (20000, 7000)])
def test_seven_eighths_of_the_limit_are_as_good_as_all_of_it(limit_mcpu: int, width: int) -> None:
    assert widths(limit_mcpu)["socket #0"] == width


def test_without_a_limit_the_width_is_that_of_the_level_however_busy_the_pools_are() -> None:
    busy = widths(None, *sharers(3900, 1, 2, 3))
    assert busy == widths(None)
    assert max(busy.values()) == 0


@pytest.mark.parametrize(
    ("busy_mcpu", "nodes", "limit_mcpu", "width"),
    [
        (0, (1, 2, 3), 4000, 3000),
        (3900, (1, 2, 3), 4000, 4000),
        (3900, (1, 2), 4000, 3000),  # node 3 is wide enough, and idle
        (999, (1, 2, 3), 4000, 3000),
        (1000, (1, 2, 3), 4000, 4000),  # as much is idle there
        (3900, (1, 2, 3), 4572, 3000),  # no node is wide enough
    ],
)
def test_a_pool_that_reserved_cpus_make_narrow_is_as_good_where_as_much_is_idle_as_in_any_wide_one(
    busy_mcpu: int, nodes: tuple[int, ...], limit_mcpu: int, width: int
) -> None:
    assert widths(limit_mcpu, *sharers(busy_mcpu, *nodes))["NUMA node #0"] == width


def test_a_pool_that_owners_make_narrow_is_narrow_however_busy_the_others_are() -> None:
    owner = Grant(request("o/c"), "NUMA node #1", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("4"))
    found = widths(4000, owner, *sharers(3900, 2, 3))
    assert (found["NUMA node #0"], found["NUMA node #1"]) == (4000, 3000)


@pytest.mark.parametrize("seed", range(40))
def test_the_best_pool_by_itself_is_the_first_of_the_ranking_with_the_same_keys(seed: int) -> None:
    rng = random.Random(seed)
    tree = tree_of(four_nodes(isolated="7") if seed % 3 else four_nodes(), rng.choice(("", "0")))
    pools = [pool.name for pool in tree.pools]
    others = [
        Grant(request(f"p{n}/c", cpu_limit_mcpu=rng.choice((None, 4000))), rng.choice(pools), CpuKind.SHARED)
        for n in range(5)
    ]
    if rng.random() < 0.5:
        owner = request("o/c", 2000, affinities=wish_for("c", rng.choice((5, -5))))
        others.append(Grant(owner, "NUMA node #1", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("4-5")))
    wanted = request(
        rng.choice(("p0/d", "q/c")),
        rng.choice((0, 500, 3000)),
        rng.choice((BURSTABLE, GUARANTEED)),
        cpu_limit_mcpu=rng.choice((None, 4000)),
        localities=rng.choice(((), (DeviceLocality("dev", CpuSet(), NodeSet.parse("2")),))),
        affinities=rng.choice(((), wish_for("c", 3))),
        memory_request_bytes=rng.choice((0, 1 << 40)),
        strict_memory=rng.random() < 0.3,
    )
    context = context_of(tree, wanted, *sorted(others, key=lambda grant: grant.container))
    room = room_of(context.supply, keep_busy=True)
    full, here = rank(context, fixed_scores_of(context), room, room), rng.randrange(len(pools))
    best = best_pool(context, room, beside=here)
    assert best.index == full.order[0]
    assert [best.keys[i] for i in (best.index, here)] == [full.keys[i] for i in (best.index, here)]
