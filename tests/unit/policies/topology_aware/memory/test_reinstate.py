import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from policies.alignment import Alignment
from policies.base import Allocations, CpuKind, Grant
from policies.topology_aware.memory.home import LocalMemory
from policies.topology_aware.memory.plan import MemoryPlan, plan_memory
from policies.topology_aware.memory.reinstate import (
    keeping_zone,
    missing_nodes,
    plan_leniently,
    rezoned,
    widened_for_promises,
)
from sysfs.cpuset import NodeSet
from tests.unit.policies.build import GUARANTEED, four_nodes, supply_of, tree_of
from tests.unit.policies.memory.build import (
    FEW,
    HBM,
    after,
    at,
    mask,
    random_tree,
    random_wanting,
    supply_for,
    tiered,
    wanting,
)

FOUR = tree_of(four_nodes())  # nodes of 2 GiB
TIERED = tree_of(tiered())
NODE0 = "NUMA node #0"


def again(grant: Grant, *others: Grant) -> list[str]:
    return [str(g.mems) for g in rezoned(supply_of(FOUR, *others), others, grant)]


def test_a_cold_start_that_lasts_goes_on_where_the_container_is_placed_again() -> None:
    cold = at("socket #0", wanting("a", 1, cold_start_seconds=60), "2", is_cold=True)
    moved = replace(cold, pool="socket #1", mems=NodeSet.parse("3"))
    kept = keeping_zone(supply_of(TIERED), cold, moved)
    assert (str(kept.mems), kept.is_cold) == ("2-3", True)


def test_nodes_that_are_gone_are_found_where_memory_is_ours() -> None:
    supply = supply_of(FOUR)
    assert missing_nodes(supply, at(NODE0, wanting("a"), "0,7")) == mask("7")
    assert missing_nodes(supply, at(NODE0, wanting("a", preserve_memory=True), "7")) == 0


def test_what_is_left_of_a_zone_is_kept_and_its_home_added() -> None:
    assert again(at(NODE0, wanting("a", 1), "0,7")) == ["0"]
    assert again(at(NODE0, wanting("a", 1), "1,7")) == ["0-1"]
    assert again(at(NODE0, wanting("a", 1), "7")) == ["0"]


def test_memory_that_topology_hints_kept_on_nodes_too_small_now_goes_to_the_nearest_others() -> None:
    kept = wanting("a", 3, GUARANTEED, alignment=Alignment(NodeSet.of([0]), NodeSet.of([0]), is_strict=True))
    assert again(at(NODE0, kept, "0,7")) == ["0-1"]


def test_others_make_room_for_it_as_for_a_new_one() -> None:
    assert again(at(NODE0, wanting("a", 2), "7"), at(NODE0, wanting("b", 1), "0")) == ["0-1"]


def test_a_cold_start_that_is_over_stays_over() -> None:
    request = wanting("a", 1, cold_start_seconds=60)
    warm, cold = (at("socket #0", request, "9", is_cold=is_cold) for is_cold in (False, True))
    found = [rezoned(supply_of(TIERED), (), grant)[-1] for grant in (warm, cold)]
    assert [(str(g.mems), g.is_cold) for g in found] == [("0,2", False), ("2", True)]


def test_who_runs_is_somewhere_whatever_its_wish() -> None:
    strict = wanting("a", 5, memory_kinds=(HBM,), strict_memory=True)
    assert str(plan_leniently(supply_of(TIERED), (), strict, LocalMemory(TIERED.root.mems)).mems) == "0,4"
    assert str(plan_leniently(supply_of(FOUR), (), strict, LocalMemory(FOUR.root.mems)).mems) == "0-3"


def test_a_new_place_comes_with_the_memory_of_the_old_one() -> None:
    supply = supply_of(TIERED)
    old = at("socket #0", wanting("a", 1, cold_start_seconds=60), "0,9")
    new = replace(old, pool="socket #1", mems=NodeSet.parse("3"), is_cold=True)
    assert keeping_zone(supply, old, new) == replace(new, mems=NodeSet.parse("0-1,3"), is_cold=False)
    alone = replace(new, mems=NodeSet())
    assert keeping_zone(supply, old, alone) == alone


def test_zones_that_became_too_small_are_widened() -> None:
    grants = (at(NODE0, wanting("a", 1.5), "0"), at(NODE0, wanting("b", 1), "0"))
    assert [(g.container.pod_uid, str(g.mems)) for g in widened_for_promises(supply_of(FOUR, *grants), grants)] == [
        ("b", "0-1")
    ]
    assert widened_for_promises(supply_of(FOUR, grants[0]), grants[:1]) == ()


@FEW
@given(st.integers(0, 1 << 32))
def test_after_any_history_there_is_nothing_to_relieve(seed: int) -> None:
    """A restart on the same machine changes no zone, also where more is promised than there is, and after releases."""
    rng = random.Random(seed)
    tree, held = random_tree(rng), Allocations()
    for number in range(24):
        if held.grants and rng.random() < 0.35:
            held = held.without(rng.choice(held.grants).container)
        else:
            wanted, kind = random_wanting(rng, number), rng.choice((CpuKind.SHARED, CpuKind.SHARED, CpuKind.RESERVED))
            pool = tree.root if kind is CpuKind.RESERVED else rng.choice(tree.pools)
            found = plan_memory(supply_for(tree, held), held.grants, wanted, LocalMemory(pool.mems))
            if isinstance(found, MemoryPlan):
                held = after(held, found, Grant(wanted, pool.name, kind))
        assert widened_for_promises(supply_for(tree, held), held.grants) == ()
