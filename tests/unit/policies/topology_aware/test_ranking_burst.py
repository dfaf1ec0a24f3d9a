"""How wide a pool suits unlimited burst."""

import pytest

from policies.base import BurstLevel
from policies.topology_aware.ranking import burst_ranks
from tests.fakes.machines import small_machine
from tests.unit.policies.build import four_nodes, tree_of

DIES = tree_of(small_machine(dies=2, nodes=2))  # root, sockets, dies, NUMA nodes


def best(level: BurstLevel) -> set[str]:
    """The pools of the best rank."""
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
