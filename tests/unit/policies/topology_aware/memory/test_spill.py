from dataclasses import replace

import pytest

from policies.base import Allocations, Grant
from policies.topology_aware.memory.spill import respilled, spill_of, spilling
from policies.topology_aware.narrow import NARROWINGS
from policies.topology_aware.supply.memory_nodes import memory_nodes_of
from sysfs.cpuset import NodeSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import BEST_EFFORT, fill, four_nodes, options, placed, request, topology_aware
from tests.unit.policies.memory.build import DRAM, GIB, HBM, PMEM, at, tiered, wanting

TIERED = memory_nodes_of(tiered())  # DRAM 0-1, PMEM 2-3, HBM 4
SPILL, STRICT = options(tiered()), options(tiered(), unlimited_memory="strict")
FOUR = topology_aware(four_nodes(), "0")
BOUND = topology_aware(four_nodes(), "0", unlimited_memory="strict")
NOTHING = Allocations()


def written(grant: Grant) -> NodeSet:
    return grant.mems | grant.spill


IDLE = request("a/c", qos=BEST_EFFORT)


@pytest.mark.parametrize(
    ("grant", "spill"),
    [
        (at("socket #0", wanting("a", 1), "0,2"), "0-3"),
        (at("socket #0", wanting("a", 0, BEST_EFFORT), "0,2"), "0-3"),
        (at("socket #0", wanting("a", memory_kinds=(DRAM,)), "0"), "0-1"),
        (at("socket #0", wanting("a", memory_kinds=(PMEM,)), "2"), "2-3"),
        (at("socket #0", wanting("a", memory_kinds=(HBM,)), "4"), ""),
        (at("socket #0", wanting("a", memory_kinds=(HBM,)), "0,4"), "0,4"),
        (at("socket #0", wanting("a", cold_start_seconds=9), "2", is_cold=True), "2-3"),
        (at("socket #0", replace(wanting("a", 1), memory_limit_bytes=GIB), "0,2"), ""),
        (at("socket #0", wanting("a", preserve_memory=True), ""), ""),
    ],
)
def test_a_container_without_a_limit_may_spill_to_all_nodes_of_its_kinds(grant: Grant, spill: str) -> None:
    assert str(spill_of(TIERED, grant, SPILL)) == spill
    assert not spill_of(TIERED, grant, STRICT)


def test_where_there_is_one_node_there_is_nothing_to_spill_to() -> None:
    one = small_machine(packages=1)
    assert not spill_of(memory_nodes_of(one), at("root", wanting("a"), "0"), options(one))


def test_its_zone_is_planned_as_if_it_did_not_spill() -> None:
    """What it is promised is its request, at its CPUs; what it may use besides counts nowhere."""
    for wanted in (IDLE, wanting("a", 1)):
        spills, stays = (placed(policy.decide(NOTHING, wanted)).grant for policy in (FOUR, BOUND))
        assert (spills.pool, spills.mems) == (stays.pool, stays.mems)
        assert (str(written(spills)), written(stays)) == ("0-3", stays.mems)


def test_the_explanation_says_which_rule_decided() -> None:
    spills, stays = (placed(policy.decide(NOTHING, IDLE)).reasons for policy in (FOUR, BOUND))
    assert (spills[0].code, stays[0].code) == ("memory-spills", "memory-stays")
    assert spills[0].text.endswith("memory nodes 2-3 are full, the kernel takes memory nodes 0-1, the nearest first")
    assert "UnlimitedMemory=strict" in stays[0].text


def test_what_is_promised_to_others_is_not_less_for_one_that_spills() -> None:
    held = fill(FOUR, *(request(f"{n}/c", qos=BEST_EFFORT) for n in range(4)))
    full = [request(f"g{n}/c", 1000, memory_limit_bytes=2 * GIB) for n in range(4)]
    after = fill(FOUR, *full, held=held)
    assert sorted(str(g.mems) for g in after.grants if g.owned) == ["0", "1", "2", "3"]


def test_a_zone_that_grows_or_narrows_within_the_spill_is_no_update() -> None:
    first = request("a/c", 100, BEST_EFFORT)
    held = fill(FOUR, first)
    grant = held.grants[0]
    wide = held.with_grants(replace(grant, mems=NodeSet.parse("0-3")))
    (narrow,) = FOUR.narrowed(wide)
    assert narrow.mems == grant.mems
    assert FOUR.pinnings(wide)[grant.container] == FOUR.pinnings(wide.with_grants(narrow))[grant.container]


@pytest.mark.parametrize(("policy", "mems"), [(FOUR, "0-3"), (BOUND, "1")])
def test_a_changed_option_takes_effect_a_few_at_a_time_and_not_at_a_start(policy: object, mems: str) -> None:
    assert policy in (FOUR, BOUND)
    chosen, former = (FOUR, BOUND) if policy is FOUR else (BOUND, FOUR)
    held = NOTHING
    for number in range(NARROWINGS + 1):
        wanted = wanting(f"{number}", 0.1)
        decision = placed(former.decide(NOTHING, wanted))
        held = held.with_grants(replace(decision.grant, pool="NUMA node #1", mems=NodeSet.parse("1")))
    assert chosen.reinstate(held).allocations == held
    found = chosen.narrowed(held)
    assert len(found) == NARROWINGS
    held = held.with_grants(*found)
    held = held.with_grants(*chosen.narrowed(held))
    assert {str(pinning.mems) for pinning in chosen.pinnings(held).values()} == {mems}
    assert chosen.narrowed(held) == ()


def test_a_limit_that_comes_by_a_resize_narrows_only_later() -> None:
    held = fill(FOUR, wanting("a", 0.5))
    own = held.grants[0]
    limited = replace(own.request, memory_limit_bytes=GIB, previous=own.as_previous)
    decision = placed(FOUR.decide(held, limited))
    assert written(decision.grant) == written(own)
    (narrow,) = FOUR.narrowed(held.with_grants(decision.grant))
    assert written(narrow) == narrow.mems


def test_nodes_that_are_gone_are_spilled_to_no_longer() -> None:
    held = fill(FOUR, IDLE)
    smaller = topology_aware(small_machine(packages=1, nodes=2), "0")
    kept = smaller.reinstate(held.with_grants(replace(held.grants[0], pool="root", mems=NodeSet.parse("0-1"))))
    assert [str(written(grant)) for grant in kept.allocations.grants] == ["0-1"]


def test_the_end_of_a_cold_start_lets_it_spill_to_dram() -> None:
    policy = topology_aware(tiered())
    held = fill(policy, wanting("a", 1, cold_start_seconds=60))
    (warm,) = policy.after_cold_start(held, held.grants[0].container)
    assert (str(written(held.grants[0])), str(written(warm))) == ("2-3", "0-3")


def test_what_is_as_it_should_be_is_left_alone() -> None:
    grant = at("socket #0", wanting("a", 1), "0,2")
    now = spilling(TIERED, grant, SPILL)
    assert list(respilled(TIERED, [now], SPILL)) == []
    assert list(respilled(TIERED, [now], STRICT)) == [grant]
    assert list(respilled(TIERED, [grant], SPILL)) == [now]
