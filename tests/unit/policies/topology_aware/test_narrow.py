import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.base import Allocations, CpuKind, DeviceLocality, Grant
from policies.hardware.pools import PoolTree
from policies.topology_aware.memory.home import LocalMemory, home_zone
from policies.topology_aware.memory.plan import MemoryPlan, plan_memory
from policies.topology_aware.narrow import NARROWINGS, with_fewer_nodes
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import GUARANTEED, four_nodes, supply_of, tree_of
from tests.unit.policies.memory.build import (
    DRAM,
    FEW,
    PMEM,
    after,
    at,
    keeps,
    random_tree,
    random_wanting,
    supply_for,
    tiered,
    wanting,
)

FOUR = tree_of(four_nodes())  # nodes of 2 GiB
TIERED = tree_of(tiered())
NODE0 = "NUMA node #0"


def back(tree: PoolTree, *grants: Grant) -> dict[str, str]:
    return {g.container.pod_uid: str(g.mems) for g in with_fewer_nodes(supply_of(tree, *grants), grants)}


def test_who_is_home_stays() -> None:
    assert back(FOUR, at(NODE0, wanting("a", 1), "0"), at("root", wanting("b", 1), "0-3")) == {}


def test_a_wide_zone_comes_home_when_it_fits() -> None:
    wide = at(NODE0, wanting("a", 1), "0-3")
    assert back(FOUR, wide) == {"a": "0"}
    assert back(FOUR, wide, at(NODE0, wanting("b", 1), "0")) == {"a": "0"}


def test_it_comes_half_way_where_home_has_no_room() -> None:
    assert back(FOUR, at(NODE0, wanting("a", 1), "0-3"), at(NODE0, wanting("b", 1.5), "0")) == {"a": "0-1"}


def test_it_comes_only_so_far_that_others_can_still_be_kept() -> None:
    """Home has 2 GiB and is promised less, but those who may only use both nodes need all that is left of them."""
    others = (at("socket #0", wanting("b", 3), "0-1"), at(NODE0, wanting("c", 0.5), "0"))
    assert back(FOUR, at(NODE0, wanting("a", 1), "0-3"), *others) == {"a": "0-2"}
    assert back(FOUR, at(NODE0, wanting("a", 1), "0-2"), *others) == {}


def test_the_fewest_bytes_come_first_and_only_so_many_at_a_time() -> None:
    wide = [at(NODE0, wanting(f"{n}", 0.1 * n), "0-1") for n in range(6, 0, -1)]
    found = with_fewer_nodes(supply_of(FOUR, *wide), wide)
    assert [g.container.pod_uid for g in found] == ["1", "2", "3", "4"]
    assert len(found) == NARROWINGS


def test_nobody_comes_home_while_more_is_promised_than_there_is() -> None:
    assert back(FOUR, at(NODE0, wanting("a", 1), "0-1"), at("root", wanting("b", 8), "0-3")) == {}


def test_room_that_returned_is_first_for_those_who_share_too_little() -> None:
    full = (at(NODE0, wanting("b", 1.5), "0"), at(NODE0, wanting("c", 1), "0"))
    assert back(FOUR, at("NUMA node #3", wanting("a", 1), "2-3"), *full) == {"c": "0-1"}


@pytest.mark.parametrize(
    "grant",
    [
        Grant(wanting("a", 1, preserve_cpu=True), "", CpuKind.PRESERVE),
        at(NODE0, wanting("a", 1, preserve_memory=True), "0-1"),
        at("root", wanting("a", 1), "0-4", kind=CpuKind.RESERVED),
    ],
)
def test_what_is_not_ours_and_what_is_reserved_stays(grant: Grant) -> None:
    assert back(TIERED, grant) == {}


def test_a_cold_container_comes_home_to_pmem_only() -> None:
    assert back(TIERED, at("socket #0", wanting("a", 1, cold_start_seconds=9), "2-3", is_cold=True)) == {"a": "2"}


def test_a_zone_that_does_not_hold_home_is_left_as_it_is() -> None:
    assert back(FOUR, at("NUMA node #3", wanting("a", 1), "0-1")) == {}


def test_under_a_strict_wish_that_cannot_be_met_any_more_nothing_is_given_back() -> None:
    assert back(FOUR, at(NODE0, wanting("a", 1, memory_kinds=(PMEM,), strict_memory=True), "0-1")) == {}


def test_a_zone_with_nodes_that_are_gone_is_left_as_it_is() -> None:
    assert back(FOUR, at(NODE0, wanting("a", 1), "0,9")) == {}


def test_other_kinds_are_given_back_first() -> None:
    full = at("socket #0", wanting("b", 3.5, GUARANTEED, memory_kinds=(DRAM,)), "0")
    wide = at("socket #0", wanting("a", 4, memory_kinds=(DRAM,)), "0-4")
    assert back(TIERED, full, wide) == {"a": "0-1"}
    assert back(TIERED, full, at("socket #0", wanting("a", 9, memory_kinds=(DRAM, PMEM)), "0-4")) == {"a": "0,2"}


def widened_history(seed: int) -> tuple[PoolTree, Allocations]:
    """A machine on which containers came until it was full, and some of them went."""
    rng = random.Random(seed)
    tree, held = random_tree(rng), Allocations()
    for number in range(16):
        wanted, pool = random_wanting(rng, number), rng.choice(tree.pools)
        found = plan_memory(supply_for(tree, held), held.grants, wanted, LocalMemory(pool.mems))
        if isinstance(found, MemoryPlan):
            held = after(held, found, Grant(wanted, pool.name, CpuKind.SHARED))
    for grant in held.grants:
        if rng.random() < 0.4:
            held = held.without(grant.container)
    return tree, held


@FEW
@given(st.integers(0, 1 << 32))
def test_narrowing_breaks_no_promise_on_the_way_and_ends(seed: int) -> None:
    tree, held = widened_history(seed)
    while found := with_fewer_nodes(supply_for(tree, held), held.grants):
        assert len(found) <= NARROWINGS
        for grant in found:
            old = held.get(grant.container)
            assert old is not None
            assert grant.mems <= old.mems
            assert grant.mems != old.mems
            held = held.with_grants(grant)
            assert keeps(tree, held.grants)


@FEW
@given(st.integers(0, 1 << 32))
def test_who_stays_away_from_home_at_the_end_does_not_fit_there(seed: int) -> None:
    tree, held = widened_history(seed)
    while found := with_fewer_nodes(supply_for(tree, held), held.grants):
        held = held.with_grants(*found)
    for grant in held.grants:
        home = home_zone(supply_for(tree, held), grant)
        if home and not home & ~grant.mems.mask and home != grant.mems.mask:
            there = at(grant.pool, grant.request, "", mems=type(grant.mems)(home), is_cold=grant.is_cold)
            assert not keeps(tree, held.with_grants(there).grants)


@FEW
@given(st.integers(0, 1 << 32))
def test_the_order_of_the_grants_does_not_matter(seed: int) -> None:
    tree, held = widened_history(seed)
    shuffled = list(held.grants)
    random.Random(seed).shuffle(shuffled)
    assert with_fewer_nodes(supply_of(tree, *shuffled), shuffled) == with_fewer_nodes(
        supply_for(tree, held), held.grants
    )


def test_each_comes_home_to_the_memory_of_its_own_devices() -> None:
    def near(name: str, cpus: str, *nodes: str) -> Grant:
        hints = tuple(DeviceLocality(f"/dev/{node}", CpuSet(), NodeSet.parse(node)) for node in nodes)
        wanted = replace(wanting(name, 0.5), localities=hints)
        return at("root", wanted, "0-3", kind=CpuKind.EXCLUSIVE, exclusive=CpuSet.parse(cpus))

    grants = (near("a", "0,4", "0", "1"), near("b", "8,12", "2", "3"))
    assert back(FOUR, *grants) == {"a": "0-1", "b": "2-3"}
