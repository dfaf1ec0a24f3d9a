import pytest

from policies.base import BurstLevel
from policies.topology_aware.ranking import burst_ranks, fixed_scores_of, rank
from policies.topology_aware.supply.supply import room_of
from tests.fakes.machines import small_machine
from tests.unit.policies.build import BURSTABLE, context_of, four_nodes, request, tree_of

TREE = tree_of(four_nodes(), "0")


def best_of(mcpu: int, **keys: object) -> tuple[str, bool]:
    """The pool that ranks first for this request on an empty machine, and whether it fits."""
    context = context_of(TREE, request("a/c", mcpu, **keys))  # type: ignore[arg-type]  # qos and fields
    room = room_of(context.supply, keep_busy=True)
    ranking = rank(context, fixed_scores_of(context), room, room)
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


def test_without_a_level_no_pool_is_better() -> None:
    assert set(burst_ranks(DIES, None)) == {0}
