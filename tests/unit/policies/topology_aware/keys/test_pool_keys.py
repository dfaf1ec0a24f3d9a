from dataclasses import replace

import pytest

from policies.base import CpuKind, Grant, Request
from policies.hardware.pools import PoolTree
from policies.preferences import BurstLevel, CpuPriority, PoolStrategy
from policies.topology_aware.cpus.offer import offers_of
from policies.topology_aware.keys.pool_keys import FixedScores, PoolKeys, burst_rank
from policies.topology_aware.keys.score import Key
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.supply import room_of
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.machines import small_machine
from tests.unit.policies.build import BURSTABLE, before, context_of, four_nodes, request, supply_of, tree_of

TREE = tree_of(four_nodes(), "0")


def keys_in(context: PlacementContext) -> PoolKeys:
    """The keys in the first pass of a search."""
    room = room_of(context.supply, keep_busy=True)
    return PoolKeys(context, room, offers_of(context, room, room), FixedScores(context))


def keys_of(machine: Machine, wanted: Request, withheld: str = "") -> dict[str, Key]:
    """The keys of all pools on a machine where others hold nothing but the withheld CPUs."""
    tree = tree_of(machine)
    context = replace(context_of(tree, wanted), supply=supply_of(tree, withheld=withheld))
    keys = keys_in(context)
    return {pool.name: keys[pool.index] for pool in tree.pools}


def test_a_key_is_made_when_it_is_looked_up_and_kept_as_it_was_changed() -> None:
    keys = keys_in(context_of(TREE, request(mcpu=2000)))
    assert not keys
    assert keys[1].depth == 1
    keys[1] = keys[1]._replace(pod=7)
    keys.look_at((0, 1))
    assert (sorted(keys), keys[1].pod) == ([0, 1], 7)


def test_the_head_is_the_beginning_of_the_key() -> None:
    context = context_of(TREE, request(mcpu=2000))
    keys = keys_in(context)
    assert [keys.head(pool) for pool in TREE.pools] == [keys[pool.index][:6] for pool in TREE.pools]


Filling = tuple[tuple[int, ...], int, tuple[int, ...]]


def filling_of(asked: int, strategy: PoolStrategy, *owned: str) -> Filling:
    """The fields by which NUMA node #1 of four fills up where others own these CPUs."""
    tree = tree_of(four_nodes())
    others = [
        Grant(request(f"{n}/c"), "root", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse(o)) for n, o in enumerate(owned)
    ]
    key = keys_in(context_of(tree, request(mcpu=asked, pool_choice=strategy), *others))[
        tree.named("NUMA node #1").index
    ]
    return key.used, key.full, key.left


def test_what_is_in_use_counts_from_the_package_down_until_half_of_the_machine_is() -> None:
    assert filling_of(2000, PoolStrategy.SPREAD, "4-5") == ((-2000, -2000), 0, (4,))
    assert filling_of(4000, PoolStrategy.SPREAD, "4-5", "12-15") == ((), -2000, (6000,))
    assert filling_of(4000, PoolStrategy.BALANCED, "4-5", "12-15") == ((), -2000, (6000,))


def test_packing_looks_at_what_is_left_around_a_pool() -> None:
    assert filling_of(2000, PoolStrategy.PACK, "4-5") == ((), -6000, ())


def test_of_isolated_cpus_it_counts_what_is_left() -> None:
    key = keys_of(four_nodes(isolated="6-7"), request(mcpu=1000))["NUMA node #1"]
    assert (key.used, key.full, key.left) == ((), 0, (2, 2))


def test_cpus_of_the_preferred_priority_count_if_they_can_be_owned() -> None:
    machine = small_machine(cores=4, threads=1, efficiency="4-7", isolated="6-7")
    wanted = request(mcpu=4000, priority=CpuPriority.LOW)
    assert keys_of(machine, wanted)["socket #1"].priority == 1
    assert keys_of(machine, wanted, withheld="4")["socket #1"].priority == 0


def test_an_isolated_cpu_that_is_kept_is_no_merit_where_none_is_wanted() -> None:
    wanted = request(mcpu=1000, prefer_isolated=False, previous=before("NUMA node #1", "7"))
    assert keys_of(four_nodes(isolated="7"), wanted)["NUMA node #1"].isolated == 0


DIES = tree_of(small_machine(dies=2, nodes=2))  # root, sockets, dies, NUMA nodes


def ranks_of(tree: PoolTree, level: BurstLevel | None) -> list[int]:
    return [burst_rank(tree, pool, level) for pool in tree.pools]


def best(level: BurstLevel) -> set[str]:
    ranks = ranks_of(DIES, level)
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
    by_kind = {p.kind: r for p, r in zip(DIES.pools, ranks_of(DIES, BurstLevel.PACKAGE), strict=True)}
    assert by_kind["package"] > by_kind["die"] > by_kind["node"] > by_kind["root"]


def test_a_level_that_was_left_out_is_the_pool_that_has_its_cpus() -> None:
    assert ranks_of(tree_of(small_machine(packages=1, nodes=2)), BurstLevel.PACKAGE)[0] == 0
    assert ranks_of(tree_of(four_nodes()), BurstLevel.DIE)[1] == 0


def test_where_l3_domains_are_pools_a_wider_one_is_second_to_them() -> None:
    tree = tree_of(small_machine(cores=4, threads=1, l3=["0-1", "2-3", "4-5", "6-7"]))
    ranks = ranks_of(tree, BurstLevel.L3_CACHE)
    assert {p.kind for p, rank in zip(tree.pools, ranks, strict=True) if rank == 0} == {"l3"}


def test_without_a_level_no_pool_is_better() -> None:
    assert set(ranks_of(DIES, None)) == {0}


def widths(limit_mcpu: int | None, *grants: Grant) -> dict[str, int]:
    """How much of its limit a container that shares has in each pool, where CPU 0 is reserved."""
    context = context_of(TREE, request("a/c", 500, BURSTABLE, cpu_limit_mcpu=limit_mcpu), *grants, reserved="0")
    keys = keys_in(context)
    return {pool.name: keys[pool.index].width for pool in TREE.pools}


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
