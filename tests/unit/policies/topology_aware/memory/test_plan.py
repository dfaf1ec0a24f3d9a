import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.base import Allocations, CpuKind, Grant, Reason, Request
from policies.hardware.pools import PoolTree
from policies.topology_aware.memory.home import LocalMemory
from policies.topology_aware.memory.plan import MemoryOffer, MemoryPlan, memory_offers, plan_memory
from policies.topology_aware.supply.demand import demand_of
from policies.topology_aware.supply.memory_nodes import memory_nodes_of
from sysfs.cpuset import NodeSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import BURSTABLE, GUARANTEED, four_nodes, options, supply_of, tree_of
from tests.unit.policies.memory.build import (
    DRAM,
    FEW,
    GIB,
    HBM,
    PMEM,
    after,
    at,
    keeps,
    mask,
    movable_server,
    plan,
    planned,
    random_tree,
    random_wanting,
    supply_for,
    tiered,
    wanting,
)

FOUR = tree_of(four_nodes())  # nodes of 2 GiB
TIERED = tree_of(tiered())
NODE0, NODE1 = "NUMA node #0", "NUMA node #1"


def offers(tree: PoolTree, wanted: Request, *grants: Grant) -> dict[str, MemoryOffer]:
    found = memory_offers(supply_of(tree, *grants), wanted, demand_of(wanted, options(tree.machine)), tree.pools)
    return {pool.name: offer for pool, offer in zip(tree.pools, found, strict=True)}


def rooms(tree: PoolTree, wanted: Request, *grants: Grant) -> list[int]:
    return [offer.room for offer in offers(tree, wanted, *grants).values()]


def told(found: MemoryPlan) -> list[str]:
    return [reason.text for reason in found.reasons]


FULL0 = at(NODE0, wanting("full", 2, GUARANTEED), "0")


def test_a_pool_offers_its_home_zone_and_says_whether_it_fits() -> None:
    found = offers(FOUR, wanting("a", 1), FULL0)
    assert found[NODE0] == MemoryOffer(mask("0"), 1, 0, 1, 1)
    assert found[NODE1] == MemoryOffer(mask("1"), 2, 1, 1, 1)
    assert found["socket #0"] == MemoryOffer(mask("0-1"), 2, 1, 1, 1)


def test_a_zone_that_less_important_containers_would_leave_has_room() -> None:
    burstable = at(NODE0, wanting("b", 2, BURSTABLE), "0")
    assert offers(FOUR, wanting("g", 1, GUARANTEED), burstable)[NODE0] == MemoryOffer(mask("0"), 2, 0, 1, 1)
    assert offers(FOUR, wanting("c", 1, BURSTABLE), burstable)[NODE0] == MemoryOffer(mask("0"), 1, 0, 1, 1)


def test_a_zone_with_room_for_itself_may_have_none_beside_those_that_cross_it() -> None:
    others = (at("socket #0", wanting("b", 3), "0-1"), at(NODE0, wanting("c", 0.5), "0"))
    assert offers(FOUR, wanting("a", 1), *others)[NODE0].as_is == 0


def test_on_a_machine_without_memory_none_is_planned() -> None:
    bare = tree_of(small_machine(memory=0))
    assert set(offers(bare, wanting("a", 1)).values()) == {MemoryOffer(0, 2, 1, 1, 1)}
    assert plan(bare, wanting("a", 1), "root") == MemoryPlan(NodeSet())


def test_more_than_the_machine_has_left_fits_nowhere() -> None:
    assert rooms(FOUR, wanting("a", 6), FULL0) == [2, 1, 1, 1, 2, 2, 2]
    assert rooms(FOUR, wanting("a", 6.5), FULL0) == [0] * 7


def test_who_is_promised_nothing_fits_everywhere() -> None:
    assert rooms(FOUR, wanting("a"), *(replace(FULL0, request=wanting(str(n), 4)) for n in range(3))) == [2] * 7


def test_the_kinds_and_the_limit_are_looked_at_apart() -> None:
    wanted = replace(wanting("a", 1, memory_kinds=(DRAM, HBM)), memory_limit_bytes=5 * GIB)
    found = offers(TIERED, wanted)
    assert [(o.kinds, o.holds_limit) for o in found.values()] == [(1, 1), (1, 1), (0, 1)]
    assert [o.holds_limit for o in offers(TIERED, replace(wanted, memory_limit_bytes=6 * GIB)).values()] == [1, 0, 0]


def test_memory_that_is_not_ours_chooses_no_pool() -> None:
    assert set(offers(TIERED, wanting("a", 99, preserve_memory=True)).values()) == {MemoryOffer(0, 2, 1, 1, 1)}


def test_a_strict_wish_counts_only_the_room_in_its_kinds() -> None:
    wanted = wanting("a", 5, memory_kinds=(HBM,), strict_memory=True)
    assert rooms(TIERED, wanted) == [0, 0, 0]
    assert rooms(TIERED, replace(wanted, memory_request_bytes=GIB)) == [2, 2, 2]
    assert {o.zone for o in offers(FOUR, wanted).values()} == {0}


def test_a_container_gets_its_home_zone_and_nothing_is_told_of_it() -> None:
    assert plan(FOUR, wanting("a", 2), NODE1, FULL0) == MemoryPlan(NodeSet.parse("1"))
    assert plan(TIERED, wanting("a", 2), "socket #1") == MemoryPlan(NodeSet.parse("1,3"))


def test_a_zone_that_is_too_small_is_widened_to_the_nearest_nodes() -> None:
    found = planned(plan(FOUR, wanting("a", 1), NODE0, FULL0))
    assert str(found.mems) == "0-1"
    assert told(found) == [
        "1 GiB do not fit in memory node 0 beside what others are promised: it gets memory nodes 0-1"
    ]


def test_less_important_containers_make_room() -> None:
    other = at(NODE0, wanting("other", 2), "0")
    found = planned(plan(FOUR, wanting("a", 1, GUARANTEED), NODE0, other))
    assert (str(found.mems), found.widened) == ("0", (replace(other, mems=NodeSet.parse("0-1")),))
    assert told(found) == ["1 container gets more memory nodes to make room: other/c now 0-1"]


def test_reserved_containers_and_those_left_alone_never_make_room() -> None:
    alone = Grant(wanting("p", 3, preserve_cpu=True), "", CpuKind.PRESERVE)
    reserved = at("root", wanting("r", 3), "0-3", kind=CpuKind.RESERVED)
    found = planned(plan(FOUR, wanting("a", 2, GUARANTEED), NODE0, alone, reserved))
    assert (str(found.mems), found.widened) == ("0", ())


def test_where_the_machine_has_too_little_it_gets_all_nodes_and_nobody_moves() -> None:
    found = planned(plan(FOUR, wanting("a", 7), NODE0, FULL0))
    assert (str(found.mems), found.widened) == ("0-3", ())
    assert told(found)[-1].startswith("this machine does not have 7 GiB of memory left")


def test_a_running_container_keeps_its_zone_and_grows_from_it() -> None:
    assert str(planned(plan(FOUR, wanting("a", 1), NODE0, held="0-1")).mems) == "0-1"
    assert str(planned(plan(FOUR, wanting("a", 1), NODE1, held="0")).mems) == "0-1"
    assert str(planned(plan(FOUR, wanting("a", 3), NODE0, FULL0, held="0")).mems) == "0-2"
    assert str(planned(plan(FOUR, wanting("a", 1), NODE0, held="0,9")).mems) == "0"


def test_memory_that_is_not_ours_is_not_written() -> None:
    assert plan(FOUR, wanting("a", 99, preserve_memory=True), NODE0) == MemoryPlan(NodeSet())


@pytest.mark.parametrize(
    ("tree", "wanted", "why"),
    [
        (FOUR, wanting("a", 1, memory_kinds=(PMEM,), strict_memory=True), "this machine has no PMEM"),
        (TIERED, wanting("a", 2, memory_kinds=(HBM,), strict_memory=True), "memory node 4 does not have 2 GiB left"),
        (tree_of(tiered(movable=True)), wanting("a", memory_kinds=(PMEM,), strict_memory=True), "all of it is movable"),
    ],
)
def test_only_a_strict_wish_is_refused(tree: PoolTree, wanted: Request, why: str) -> None:
    found = plan(tree, wanted, "root")
    assert isinstance(found, Reason)
    assert found.code == "strict-memory"
    assert why in found.text
    lenient = replace(wanted, preferences=replace(wanted.preferences, strict_memory=False))
    assert isinstance(plan(tree, lenient, "root"), MemoryPlan)


def test_others_make_room_for_a_strict_wish() -> None:
    other = at("socket #0", wanting("b", 10), "0,2")
    wanted = wanting("a", 15, GUARANTEED, memory_kinds=(PMEM,), strict_memory=True)
    found = planned(plan(TIERED, wanted, "socket #0", other))
    assert (str(found.mems), [str(g.mems) for g in found.widened]) == ("2", ["0-3"])


def test_what_a_kind_is_replaced_by_is_told() -> None:
    assert told(planned(plan(FOUR, wanting("a", memory_kinds=(PMEM,)), NODE1))) == [
        "this machine has no PMEM: it gets memory node 1"
    ]
    movable = tree_of(tiered(movable=True))
    assert told(planned(plan(movable, wanting("a", memory_kinds=(PMEM,)), "socket #1")))[0].endswith(
        "in which the kernel cannot keep its part: memory node 1 comes with it"
    )


def test_normal_memory_beside_movable_memory_is_told_only_where_the_kinds_were_chosen() -> None:
    far = {"memory": "16Gi", "kind": "pmem", "near": {0: 17}, "movable": True}
    tree = tree_of(small_machine(memory=[0, "4Gi"], memory_nodes=[far]))
    assert planned(plan(tree, wanting("a", 1), "socket #0")) == MemoryPlan(NodeSet.parse("1-2"))


def test_a_cold_start_withholds_dram() -> None:
    found = planned(plan(TIERED, wanting("a", 1, cold_start_seconds=60), "socket #1"))
    assert (str(found.mems), found.is_cold) == ("3", True)
    assert told(found) == ["starts cold in memory node 3: memory node 1 comes after 60 s"]


def test_a_cold_start_takes_more_pmem_where_the_nearest_is_too_small() -> None:
    found = planned(plan(TIERED, wanting("a", 17, cold_start_seconds=60), "socket #0"))
    assert (str(found.mems), found.is_cold) == ("2-3", True)


def test_one_that_runs_already_is_not_told_why_it_did_not_start_cold() -> None:
    assert planned(plan(FOUR, wanting("a", 1, cold_start_seconds=60), NODE0, held="0")) == MemoryPlan(
        NodeSet.parse("0")
    )


def test_a_cold_start_without_room_in_pmem_does_not_happen() -> None:
    found = planned(plan(TIERED, wanting("a", 33, cold_start_seconds=60), "root"))
    assert (str(found.mems), found.is_cold) == ("0-3", False)
    assert told(found)[0] == "no cold start: PMEM does not have 33 GiB left"


def test_a_cold_start_that_is_over_does_not_begin_again() -> None:
    cold = wanting("a", 1, cold_start_seconds=60)
    assert planned(plan(TIERED, cold, "socket #1", held="3")).is_cold
    assert planned(plan(TIERED, cold, "socket #1", held="1,3")) == MemoryPlan(NodeSet.parse("1,3"))


def test_a_real_server_with_movable_pmem_starts_nobody_cold() -> None:
    found = planned(plan(tree_of(movable_server()), wanting("a", 1, cold_start_seconds=60), "socket #0"))
    assert (str(found.mems), found.is_cold) == ("0,2,4-5", False)
    assert told(found)[0].startswith("no cold start: the PMEM is movable memory")


def test_a_real_server_spills_to_its_pmem_when_dram_is_used_up() -> None:
    tree = tree_of(movable_server())
    held = Allocations()
    for n in range(4):
        wanted = wanting(str(n), 28, GUARANTEED, memory_kinds=(DRAM,))
        held = after(held, planned(plan(tree, wanted, f"NUMA node #{n}", *held.grants)), at("root", wanted, ""))
    assert [str(g.mems) for g in held.grants] == ["0", "1", "2", "3"]
    wanted = wanting("x", 30, GUARANTEED, memory_kinds=(DRAM,))
    found = planned(plan(tree, wanted, "NUMA node #0", *held.grants))
    assert (str(found.mems), found.widened) == ("0-4", ())
    assert keeps(tree, after(held, found, at("root", wanted, "")).grants)


def history(seed: int) -> tuple[PoolTree, list[tuple[Allocations, Request, str, MemoryPlan | Reason]]]:
    """A machine, and for each container that came: the grants before it, its request, its pool and its plan."""
    rng = random.Random(seed)
    tree = random_tree(rng)
    held = Allocations()
    steps = []
    for number in range(20):
        if held.grants and rng.random() < 0.35:
            held = held.without(rng.choice(held.grants).container)
            continue
        wanted, pool = random_wanting(rng, number), rng.choice(tree.pools)
        found = plan_memory(supply_for(tree, held), held.grants, wanted, LocalMemory(pool.mems))
        steps.append((held, wanted, pool.name, found))
        if isinstance(found, MemoryPlan):
            held = after(held, found, Grant(wanted, pool.name, CpuKind.SHARED))
    return tree, steps


@FEW
@given(st.integers(0, 1 << 32))
def test_every_promise_can_be_kept_whenever_the_machine_has_room(seed: int) -> None:
    tree, steps = history(seed)
    for held, wanted, pool, found in steps:
        if isinstance(found, Reason) or not found.mems:
            continue
        grants = after(held, found, Grant(wanted, pool, CpuKind.SHARED)).grants
        assert keeps(tree, grants) == keeps(tree, grants, at_widest=True)
        assert keeps(tree, grants) or "memory-short" in [r.code for r in found.reasons] or not keeps(tree, held.grants)


@FEW
@given(st.integers(0, 1 << 32))
def test_zones_only_grow_and_stay_within_strict_wishes(seed: int) -> None:
    tree, steps = history(seed)
    nodes = memory_nodes_of(tree.machine)
    for held, wanted, _, found in steps:
        if isinstance(found, Reason):
            assert wanted.preferences.strict_memory
            continue
        for new in (*found.widened, Grant(wanted, "", CpuKind.SHARED, mems=found.mems)):
            old = held.get(new.container)
            assert old is None or (old.mems <= new.mems and replace(new, mems=old.mems) == old)
            if new.request.preferences.strict_memory:
                assert not new.mems.mask & ~nodes.of_kinds(new.request.preferences.memory_kinds or (DRAM, PMEM))
            assert new.mems or new.request.preferences.preserve_memory


@FEW
@given(st.integers(0, 1 << 32))
def test_an_offer_says_what_the_plan_will_do(seed: int) -> None:
    tree, steps = history(seed)
    for held, wanted, pool, found in steps:
        if wanted.preferences.preserve_memory or wanted.preferences.cold_start_seconds or not keeps(tree, held.grants):
            continue
        offer = offers(tree, wanted, *held.grants)[pool]
        if isinstance(found, Reason):
            assert offer.room == 0
        else:
            codes = {r.code for r in found.reasons} & {"memory-widened", "memory-others-widened", "memory-short"}
            assert offer.as_is == (not codes)
            assert (offer.room == 0) == ("memory-short" in codes)
            assert offer.room < 2 or "memory-widened" not in codes
            assert (found.mems.mask == offer.zone) == ("memory-widened" not in codes) or "memory-short" in codes


@FEW
@given(st.integers(0, 1 << 32))
def test_the_order_in_which_others_are_given_does_not_matter(seed: int) -> None:
    tree, steps = history(seed)
    for held, wanted, pool, found in steps[-3:]:
        shuffled = list(held.grants)
        random.Random(seed).shuffle(shuffled)
        again = plan_memory(supply_of(tree, *shuffled), shuffled, wanted, LocalMemory(tree.named(pool).mems))
        assert _sorted(again) == _sorted(found)


def _sorted(found: MemoryPlan | Reason) -> tuple[object, ...]:
    if isinstance(found, Reason):
        return (found,)
    return found.mems, found.is_cold, sorted((g.container, g.mems.mask) for g in found.widened)
