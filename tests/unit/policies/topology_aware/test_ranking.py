"""The pools as one pass sees them."""

from policies.topology_aware.ranking import fixed_scores_of, rank
from policies.topology_aware.supply.supply import room_of
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
