"""Whole cores and single threads of cores: what is done without, what is refused, what a running container keeps."""

from dataclasses import replace

from policies.base import Allocations, Placed, Request, Threads
from tests.unit.policies.build import BURSTABLE, before, fill, four_nodes, placed, rejected, request, topology_aware

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
    assert outcomes["NUMA node #0"] == "too few cores for one thread of each: 2"


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
