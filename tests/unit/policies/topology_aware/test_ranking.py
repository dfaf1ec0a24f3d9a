import random

import pytest

from policies.base import Affinity, CpuKind, DeviceLocality, Expression, Grant
from policies.topology_aware.keys.pool_keys import FixedScores
from policies.topology_aware.ranking import best_pool, rank
from policies.topology_aware.supply.supply import room_of
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import (
    BURSTABLE,
    GUARANTEED,
    context_of,
    four_nodes,
    request,
    tree_of,
    wish_for,
)

TREE = tree_of(four_nodes(), "0")


def best_of(mcpu: int, **keys: object) -> tuple[str, bool]:
    """The pool that ranks first for this request on an empty machine, and whether it fits."""
    context = context_of(TREE, request("a/c", mcpu, **keys))  # type: ignore[arg-type]  # qos and fields
    room = room_of(context.supply, keep_busy=True)
    ranking = rank(context, FixedScores(context), room, room)
    first = ranking.order[0]
    return TREE.pools[first].name, bool(ranking.keys[first].fits)


def test_a_pool_that_can_give_what_is_asked_ranks_before_all_that_cannot() -> None:
    assert best_of(4000) == ("NUMA node #1", True)
    assert best_of(15000) == ("root", True)


def test_the_best_of_pools_that_cannot_is_said_not_to_fit() -> None:
    assert best_of(16000)[1] is False


def test_the_burst_level_ranks_before_depth() -> None:
    assert best_of(100, qos=BURSTABLE) == ("socket #1", True)
    assert best_of(100, qos=BURSTABLE, cpu_limit_mcpu=100) == ("NUMA node #1", True)


def test_of_packages_that_have_the_cpus_that_with_them_on_fewer_nodes_is_best() -> None:
    """Four CPUs are on three nodes of socket 0, and on two of socket 1."""
    tree = tree_of(small_machine(packages=2, nodes=3, cores=2, threads=1))
    others = Grant(request("o/c"), "root", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("0,2"))
    context = context_of(tree, request("a/c", 4000), others)
    room = room_of(context.supply, keep_busy=True)
    ranking = rank(context, FixedScores(context), room, room)
    sockets = [tree.named(f"socket #{n}").index for n in (0, 1)]
    assert ranking.order[0] == sockets[1]
    assert [round(ranking.keys[i].cpu_domains) for i in sockets] == [-3, -2]


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
    full, here = rank(context, FixedScores(context), room, room), rng.randrange(len(pools))
    best = best_pool(context, room, beside=here)
    assert best.index == full.order[0]
    assert [best.keys[i] for i in (best.index, here)] == [full.keys[i] for i in (best.index, here)]


@pytest.mark.parametrize("seed", range(20))
def test_keys_that_nobody_looks_at_are_not_made_and_the_order_is_that_of_all(seed: int) -> None:
    """Most pools of a large machine are told apart by what the container should be near."""
    rng = random.Random(seed)
    tree = tree_of(small_machine(packages=2, nodes=4, cores=8, threads=1, l3=[f"{n}-{n + 1}" for n in range(0, 64, 2)]))
    pools = [pool.name for pool in tree.pools]
    others = [
        Grant(request(f"p{n}/c", 100, BURSTABLE), rng.choice(pools), CpuKind.SHARED, shared_mcpu=100) for n in range(20)
    ]
    wish = Affinity(Expression("name", "Equals", ("c",)), rng.choice((3, -3)), Expression("name", "AlwaysTrue"))
    wanted = request("q/c", rng.choice((500, 3000)), GUARANTEED, affinities=(wish,))
    context = context_of(tree, wanted, *sorted(others, key=lambda grant: grant.container))
    room = room_of(context.supply, keep_busy=True)
    ranking = rank(context, FixedScores(context), room, room)
    assert 16 <= len(ranking.keys) < len(pools)
    order = list(ranking.best_first())
    assert order == sorted(range(len(pools)), key=ranking.keys.__getitem__, reverse=True)
    assert [ranking.fits(i) for i in order] == [bool(ranking.keys[i].fits) for i in order]
