"""Whole cores and single threads of cores: what is done without, what is refused, what a running container keeps."""

from dataclasses import replace

import pytest

from policies.base import Allocations, CpuKind, Grant, Placed, Request
from policies.preferences import CpuDistribution, Threads
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import (
    BURSTABLE,
    before,
    fill,
    four_nodes,
    placed,
    rejected,
    request,
    topology_aware,
    wish_for,
)

OPEN = topology_aware(four_nodes())
NOTHING = Allocations()


def codes(decision: Placed) -> list[str]:
    return [r.code for r in decision.reasons]


def test_a_running_container_keeps_its_cpus_rather_than_move_to_whole_cores() -> None:
    """It owns a thread whose sibling another container owns, and asks for a second CPU."""
    other = request("other/c", 1000, previous=before("NUMA node #1", "5"))
    held = fill(OPEN, other, request("own/c", 1000, threads=Threads.OWN_CORE, previous=before("NUMA node #1", "4")))
    grant = next(g for g in held.grants if g.container.pod_uid == "own")
    more = request("own/c", 2000, threads=Threads.OWN_CORE, previous=grant.as_previous)
    decision = placed(OPEN.decide(held, more))
    assert (str(decision.grant.owned), decision.reasons[0].code) == ("4,6", "no-whole-cores")
    fresh = placed(OPEN.decide(held.without(more.container), replace(more, previous=None)))
    assert len(fresh.grant.owned) == 2
    assert "no-whole-cores" not in codes(fresh)


def test_strictly_whole_cores_are_not_done_without() -> None:
    held = fill(OPEN, *(request(f"{n}/c", 1000, previous=before("root", str(n))) for n in range(0, 16, 2)))
    wanted = request("own/c", 1000, threads=Threads.OWN_CORE)
    assert "no-whole-cores" in codes(placed(OPEN.decide(held, wanted)))
    strict = request("own/c", 1000, threads=Threads.OWN_CORE, strict_threads=True)
    refusal = rejected(OPEN.decide(held, strict)).reason
    assert (refusal.code, "wanted 1 exclusive CPU on whole cores" in refusal.text) == ("strict-cores", True)
    by_option = topology_aware(four_nodes(), threads=Threads.OWN_CORE, strict_threads=True)
    assert rejected(by_option.decide(held, request("own/c", 1000))).reason.code == "strict-cores"
    assert placed(by_option.decide(held, request("own/c", 1000, strict_threads=False))).grant.owned


def test_a_strict_container_that_fits_nowhere_is_refused_as_any_other() -> None:
    big = request("own/c", 17000, threads=Threads.OWN_CORE, strict_threads=True)
    assert rejected(OPEN.decide(NOTHING, big)).reason.code == "cpu-full"


def hiding(mcpu: int, **keys: object) -> Request:
    return request("hides/c", mcpu, BURSTABLE, cpu_limit_mcpu=mcpu, threads=Threads.HIDE, **keys)


def test_who_shares_one_thread_of_each_core_gets_a_pool_with_a_core_for_each_cpu() -> None:
    assert placed(OPEN.decide(NOTHING, hiding(2000))).grant.pool == "NUMA node #0"
    decision = placed(OPEN.decide(NOTHING, hiding(3000)))
    assert decision.grant.pool == "socket #0"
    assert len(decision.pinning.cpus or ()) == 4
    outcomes = {ranked.pool: ranked.outcome for ranked in decision.ranking}
    assert outcomes["NUMA node #0"] == "short of cores for one thread of each: 2"


def test_where_no_pool_has_so_many_cores_it_runs_on_fewer_unless_that_is_refused() -> None:
    decision = placed(OPEN.decide(NOTHING, hiding(9000)))
    assert (len(decision.pinning.cpus or ()), codes(decision)[0]) == (8, "too-few-cores")
    assert rejected(OPEN.decide(NOTHING, hiding(9000, strict_threads=True))).reason.text.endswith(
        "cores to share in root: 8, most in socket #0: 4"
    )


def test_who_shares_one_thread_of_each_core_stays_until_it_asks_for_more() -> None:
    there = before("NUMA node #3")
    assert placed(OPEN.decide(NOTHING, hiding(3000, previous=there))).grant.pool == "NUMA node #3"
    held = fill(OPEN, hiding(2000, previous=there))
    assert placed(OPEN.decide(held, hiding(3000, previous=held.grants[0].as_previous))).grant.pool == "socket #1"


def test_one_thread_of_each_core_is_beside_those_that_it_has() -> None:
    apart = request("apart/c", 2000, distribution=CpuDistribution.ACROSS_CORES)
    held = fill(OPEN, apart)
    more = replace(apart, cpu_request_mcpu=3000, previous=held.grants[0].as_previous)
    grant = placed(OPEN.decide(held, more)).grant
    assert held.grants[0].owned <= grant.owned
    assert all(len(core.cpus & grant.owned) <= 1 for core in four_nodes().cores)


def test_isolated_cpus_stand_in_for_others_but_not_in_a_container_that_runs_on_others() -> None:
    policy = topology_aware(four_nodes(isolated="2-15"))
    decision = placed(policy.decide(NOTHING, request("a/c", 3000)))
    assert (len(decision.grant.isolated), codes(decision)[0]) == (3, "isolated-instead")
    held = fill(policy, request("own/c", 2000))
    more = request("own/c", 3000, previous=held.grants[0].as_previous)
    assert str(held.grants[0].exclusive) == "0-1"
    assert rejected(policy.decide(held, more)).reason.code == "cpu-full"
    declined = topology_aware(four_nodes(isolated="2-15"), prefer_isolated=False)
    assert rejected(declined.decide(NOTHING, request("a/c", 3000))).reason.code == "cpu-full"


def test_a_share_for_a_single_node_is_not_moved_to_make_room() -> None:
    def is_placed(*, strict: bool) -> bool:
        shares = [
            request(f"s{n}/c", 500, BURSTABLE, previous=before(f"NUMA node #{n}"), single_node=strict or None)
            for n in range(4)
        ]
        return isinstance(OPEN.decide(fill(OPEN, *shares), request("big/c", 14000)), Placed)

    assert is_placed(strict=False)
    assert not is_placed(strict=True)


def test_what_a_single_node_cannot_give_is_refused_with_the_best_node() -> None:
    strict = request("a/c", 5000, single_node=True)
    decision = rejected(OPEN.decide(NOTHING, strict))
    assert decision.reason.text == (
        "wanted 5 exclusive CPUs in one NUMA node and no more; most free in NUMA node #0: 4 CPUs to own"
    )
    assert {r.outcome for r in decision.ranking if r.pool == "root"} == {"wider than one NUMA node"}


@pytest.mark.parametrize("threads", [Threads.OWN_CORE, Threads.HIDE])
@pytest.mark.parametrize("strict", [True, False])
def test_who_lost_the_sibling_of_its_cpu_gets_a_whole_core_beside_it(*, threads: Threads, strict: bool) -> None:
    own = request("own/c", 1000, threads=threads, strict_threads=strict, previous=before("NUMA node #1", "4-5"))
    held = fill(OPEN, own)
    found = topology_aware(four_nodes(), "5").reinstate(held)
    assert [(str(g.owned), g.pool) for g in found.allocations.grants] == [("6-7", "NUMA node #1")]


def test_who_lost_the_sibling_of_its_cpu_keeps_it_where_no_core_is_whole_unless_that_is_refused() -> None:
    others = [request(f"{n}/c", 1000, previous=before("root", str(n))) for n in (0, 2, 6, 8, 10, 12, 14)]
    for strict, owned in ((False, "4"), (True, "")):
        own = request("own/c", 1000, threads=Threads.OWN_CORE, strict_threads=strict, previous=before("root", "4-5"))
        found = topology_aware(four_nodes(), "5").reinstate(fill(OPEN, *others, own))
        assert {g.container.pod_uid: str(g.owned) for g in found.allocations.grants}["own"] == owned
        assert [reason.code for _, reason in found.unplaced] == ["strict-cores"] * strict


def test_who_has_nothing_left_to_keep_of_a_pool_that_is_gone_is_placed_as_a_new_one() -> None:
    db = request("own/db", 500, BURSTABLE, previous=before("socket #1"))
    own = request("own/c", 1000, threads=Threads.OWN_CORE, affinities=wish_for("db"))
    gone = Grant(own, "die #7", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("4-5"))
    found = topology_aware(four_nodes(), "5").reinstate(fill(OPEN, db).with_grants(gone))
    assert {g.container.name: g.pool for g in found.allocations.grants}["c"] == "socket #1"


def test_strictness_that_came_later_counts_for_the_next_attempt() -> None:
    """It has done without: it keeps its thread while it runs, and gets a whole core or nothing once it comes back."""
    held = fill(OPEN, request("other/c", 1000, previous=before("NUMA node #1", "5")))
    own = request("own/c", 1000, threads=Threads.OWN_CORE, previous=before("NUMA node #1", "4"))
    running = fill(OPEN, own, held=held)
    by_option = topology_aware(four_nodes(), strict_threads=True)
    assert str(placed(by_option.decide(running, own)).grant.owned) == "4"
    assert len(placed(by_option.decide(held, own)).grant.owned) == 2
