from dataclasses import replace

import pytest

from policies.base import Allocations, CpuKind, DeviceLocality, Grant
from policies.preferences import Threads
from policies.topology_aware.explain import deciding_field, shown_fields, strict_locality_unmet, why_not_near
from policies.topology_aware.keys.score import Key
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.supply import room_of
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import (
    BEST_EFFORT,
    context_of,
    fill,
    four_nodes,
    placed,
    rejected,
    request,
    supply_of,
    topology_aware,
    tree_of,
)
from tests.unit.policies.giving import owned

POLICY = topology_aware(four_nodes(), "0")
EQUAL = Key(1, 0, 0, 0.0, 0.0, 0, 2, 2, 3, 0, 0, -1, 1, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, (-3000,), 0, (4,), -3)


def test_every_pool_is_told_with_what_came_of_it() -> None:
    decision = placed(POLICY.decide(Allocations(), request("a/c", 5000)))
    assert {r.pool: r.outcome for r in decision.ranking} == {
        "root": "not tried",
        "socket #0": "not tried",
        "socket #1": "chosen",
        **{f"NUMA node #{n}": "too small: 4000m free, of which 4 CPUs can be owned" for n in (1, 2, 3)},
        "NUMA node #0": "too small: 3000m free, of which 3 CPUs can be owned",
    }
    assert [r.pool for r in decision.ranking][:3] == ["socket #1", "socket #0", "root"]


def test_the_first_difference_of_two_keys_decides() -> None:
    assert deciding_field(EQUAL, EQUAL._replace(depth=1, left=(9,))) == "depth"


def test_a_field_of_several_levels_is_shown_in_one_text() -> None:
    fields = [dict(shown_fields(key)) for key in (EQUAL, EQUAL._replace(used=(-4000, -20)))]
    assert [each["used"] for each in fields] == ["-3000", "-4000/-20"]
    assert list(fields[0]) == list(Key._fields)


def test_the_best_pool_below_a_displaced_container_is_told_as_such() -> None:
    decision = placed(POLICY.decide(Allocations(), request("a/c", 1000, levels_up=1)))
    outcomes = {r.pool: r.outcome for r in decision.ranking}
    assert outcomes["NUMA node #1"] == "best; socket #0 is above it, as requested"


def test_a_shared_set_that_is_used_up_is_told() -> None:
    held = fill(POLICY, *(request(f"idle-{n}/c", 0, BEST_EFFORT) for n in range(4)))
    decision = placed(POLICY.decide(held, request("big/c", 15000)))
    assert "shared-emptied" in [r.code for r in decision.reasons]


def test_of_the_shared_sets_those_that_are_used_up_now_and_have_users_without_a_request_are_told() -> None:
    idle = Grant(request("idle/c", 0, BEST_EFFORT), "NUMA node #1", CpuKind.SHARED)
    busy = Grant(request("busy/c", 0, BEST_EFFORT), "NUMA node #2", CpuKind.SHARED)
    held = Allocations((busy, idle, owned("other/c", "NUMA node #2", "8-11")))

    def told(mcpu: int) -> list[str]:
        decision = placed(POLICY.decide(held, request("big/c", mcpu)))
        return [reason.text for reason in decision.reasons if reason.code == "shared-emptied"]

    assert told(1000) == []  # one CPU of a node that nobody shares
    assert told(10000) == []
    assert told(11000) == [
        "the shared set of NUMA node #1 is used up: containers without a CPU request use a wider one"
    ]


@pytest.mark.parametrize(
    ("isolated", "prefers", "mcpu", "expected"),
    [
        ("", None, 1000, []),
        ("", True, 1000, ["isolated-short"]),
        ("7", None, 2000, []),
        ("7", True, 2000, ["isolated-short"]),
    ],
)
def test_isolated_cpus_are_told_to_be_missing_where_they_are_preferred(
    isolated: str, prefers: bool | None, mcpu: int, expected: list[str]
) -> None:
    policy = topology_aware(four_nodes(isolated=isolated), "0")
    decision = placed(policy.decide(Allocations(), request("a/c", mcpu, prefer_isolated=prefers)))
    assert [reason.code for reason in decision.reasons if reason.code == "isolated-short"] == expected


def test_isolated_cpus_that_are_taken_are_told() -> None:
    decision = placed(topology_aware(four_nodes(isolated="7"), "0").decide(Allocations(), request("a/c", 1000)))
    assert [reason.text for reason in decision.reasons if reason.code == "cpus-picked"] == [
        "CPU 7: 1 thread of a core that was whole in NUMA node #1"
    ]


@pytest.mark.parametrize(
    ("mcpu", "expected"),
    [
        (4000, "short of CPUs on cores that are wholly free"),
        (4500, "too small: 4000m free, of which 4 CPUs can be owned"),
    ],
)
def test_a_pool_that_lacks_whole_cores_only_is_told_from_one_that_is_too_small(mcpu: int, expected: str) -> None:
    held = Allocations((owned("a/c", "socket #1", "8,10,12,14"),))
    wanted = request("b/c", mcpu, threads=Threads.OWN_CORE)
    outcomes = {each.pool: each.outcome for each in placed(POLICY.decide(held, wanted)).ranking}
    assert outcomes["socket #1"] == expected


def test_a_pool_that_owes_more_than_it_has_is_told_to_have_nothing_free() -> None:
    over = Grant(request("over/c", 5000), "NUMA node #1", CpuKind.SHARED, shared_mcpu=5000)
    decision = placed(POLICY.decide(Allocations((over,)), request("a/c", 500)))
    outcomes = {each.pool: each.outcome for each in decision.ranking}
    assert outcomes["NUMA node #1"] == "too small: 0m free, of which 0 CPUs can be owned"


def test_a_refusal_ranks_all_pools_and_tells_what_was_free() -> None:
    refusal = rejected(POLICY.decide(Allocations(), request("a/c", 16000)))
    assert len(refusal.ranking) == 7
    assert "free in root: 15000m shared capacity, 15 CPUs to own" in refusal.reason.text


TREE = tree_of(four_nodes(isolated="7"))

NIC = DeviceLocality("0000:3b:00.0", CpuSet.parse("4-7"), NodeSet())

GPU = DeviceLocality("/dev/gpu", CpuSet.parse("8-9"), NodeSet())

FULL = owned("o/c", "NUMA node #1", "4-6")


def context(
    mcpu: int, *grants: Grant, localities: tuple[DeviceLocality, ...] = (NIC,), **keys: object
) -> PlacementContext:
    return context_of(TREE, request("a/c", mcpu, strict_locality=True, localities=localities, **keys), *grants)  # type: ignore[arg-type]  # fields


def refusal(asked: PlacementContext) -> str:
    reason = strict_locality_unmet(asked, room_of(asked.supply, keep_busy=False))
    return "" if reason is None else f"{reason.code}: {reason.text}"


def test_the_refusal_names_the_devices_where_they_are_and_what_is_free_there() -> None:
    assert refusal(context(3000, FULL, localities=(NIC, GPU))) == (
        "strict-hints: wanted 3 exclusive CPUs near its devices and nowhere else, at least one near each; "
        "near 0000:3b:00.0 (NUMA node #1) 0 CPUs free to own; near /dev/gpu (CPUs 8-9) 2 CPUs free to own"
    )


def test_cpus_that_must_stay_for_those_who_share_there_are_not_said_to_be_free() -> None:
    share = Grant(request("o/c", 500), "NUMA node #1", CpuKind.SHARED, shared_mcpu=500)
    assert refusal(context(3000, share)).endswith("near 0000:3b:00.0 (NUMA node #1) 2 CPUs free to own")


def test_a_pool_near_the_devices_that_is_full_is_named_all_the_same() -> None:
    full = Grant(request("o/c", 3000), "NUMA node #1", CpuKind.SHARED, shared_mcpu=3000)
    assert refusal(context(500, full)).endswith("most shared capacity near all of them in NUMA node #1: 0m")


def test_isolated_cpus_are_not_said_to_be_free_for_who_gets_ordinary_ones() -> None:
    assert refusal(context(4000)).endswith("near 0000:3b:00.0 (NUMA node #1) 3 CPUs free to own")
    assert refusal(context(2000, FULL, prefer_isolated=True)).endswith("(NUMA node #1) 1 CPU free to own")


def test_for_a_share_the_best_pool_near_all_devices_is_named() -> None:
    assert refusal(context(3500, localities=(NIC, GPU))).endswith("2 CPUs free to own; no pool is near all of them")
    assert refusal(context(3500)).endswith("most shared capacity near all of them in NUMA node #1: 3000m")


def test_of_the_pools_near_all_devices_the_one_with_most_left_is_named() -> None:
    middle = DeviceLocality("/dev/middle", CpuSet.parse("4-11"), NodeSet())
    share = Grant(request("o/c", 2000), "NUMA node #2", CpuKind.SHARED, shared_mcpu=2000)
    assert refusal(context(3500, share, localities=(middle,))).endswith("in NUMA node #1: 3000m")


def test_cpus_that_are_withheld_are_not_said_to_be_free() -> None:
    asked = context(3000, FULL, localities=(GPU,))
    withheld = replace(asked, supply=supply_of(TREE, FULL, withheld="8"))
    assert "near /dev/gpu (CPUs 8-9) 1 CPU free to own" in refusal(withheld)
    assert why_not_near(withheld, TREE.root) == "too few CPUs near its devices: 1 free"


def test_isolated_cpus_of_every_package_count_where_they_are_required() -> None:
    tree = tree_of(four_nodes(isolated="8,12"))
    wanted = request("a/c", 2000, strict_locality=True, localities=(GPU,), require_isolated=True)
    assert "near /dev/gpu (CPUs 8-9) 1 CPU free to own" in refusal(context_of(tree, wanted))


def test_as_many_cpus_near_the_devices_as_are_wanted_are_enough() -> None:
    assert why_not_near(context(2000, localities=(GPU,)), TREE.root) == ""


def test_isolated_cpus_that_are_free_but_far_from_a_device_are_not_the_reason() -> None:
    policy = topology_aware(four_nodes(isolated="7"), "0")
    far = DeviceLocality("/dev/x", CpuSet.parse("8-9"), NodeSet())
    wanted = request("a/c", 1000, require_isolated=True, strict_locality=True, localities=(far,))
    assert rejected(policy.decide(Allocations(), wanted)).reason.code == "strict-hints"


def test_an_isolated_cpu_counts_alone_where_one_is_required() -> None:
    assert "near /dev/gpu (CPUs 8-9) 0 CPUs free to own" in refusal(
        context(1000, localities=(GPU,), require_isolated=True)
    )


def test_a_device_without_a_cpu_that_is_online_is_said_to_be_near_none() -> None:
    assert "near /dev/x (no CPU of this machine) 0" in refusal(
        context(1000, localities=(DeviceLocality("/dev/x", CpuSet.parse("99"), NodeSet()),))
    )


def test_hints_are_not_the_reason_where_the_machine_is_full_or_nothing_is_strict() -> None:
    assert refusal(context(16000)) == ""
    assert refusal(context_of(TREE, request("a/c", 3000, localities=(NIC,)), FULL)) == ""


@pytest.mark.parametrize(
    ("mcpu", "pool", "expected"),
    [
        (500, "NUMA node #0", "not near each of its devices"),
        (2000, "root", "too few CPUs near its devices: 1 free"),
        (2000, "NUMA node #1", ""),
    ],
)
def test_a_refused_pool_is_told_from_one_that_is_full(mcpu: int, pool: str, expected: str) -> None:
    assert why_not_near(context(mcpu, FULL), TREE.named(pool)) == expected


def test_a_pool_with_isolated_cpus_is_refused_for_its_distance_and_not_for_them() -> None:
    policy = topology_aware(four_nodes(isolated="3,7,11"), "0")
    hint = DeviceLocality("/dev/x", CpuSet.parse("4-7"), NodeSet())
    wanted = request("a/c", 1000, require_isolated=True, strict_locality=True, localities=(hint,))
    decision = placed(policy.decide(Allocations(), wanted))
    assert str(decision.grant.isolated) == "7"
    outcomes = {ranked.pool: ranked.outcome for ranked in decision.ranking}
    assert outcomes["NUMA node #0"] == "not near each of its devices"
    assert outcomes["socket #0"] == "not tried"  # it has CPU 7 too
