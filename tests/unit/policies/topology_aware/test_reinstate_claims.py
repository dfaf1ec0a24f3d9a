"""Claimed CPUs over restarts, other options and CPUs that come and go: they stay, and are never swapped for others."""

from dataclasses import replace

from policies.base import Allocations, CpuKind, Grant, Reinstated, Request
from policies.claims import CpuClaim
from policies.topology_aware.policy import TopologyAware
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import BURSTABLE, GUARANTEED, fill, four_nodes, rejected, request, topology_aware

POLICY = topology_aware(four_nodes(), "0")


def claimed(name: str, listed: str, **keys: object) -> Request:
    cpus = CpuSet.parse(listed)
    return request(name, 1000 * len(cpus), GUARANTEED, claim=CpuClaim(cpus, f"DRA_CPUSET_{name[0]}"), **keys)


HELD = fill(POLICY, claimed("a/c", "4-7"), request("o/c", 2000), request("s/c", 500, BURSTABLE))


def owned(held: Allocations) -> dict[str, str]:
    return {grant.container.pod_uid: str(grant.owned) for grant in held.grants}


def without(cpus: str) -> TopologyAware:
    return topology_aware(four_nodes(offline=cpus), "0")


def said(found: Reinstated) -> list[tuple[str, str]]:
    return [(key.pod_uid, str(reason.code)) for key, reason in found.unplaced]


def test_a_restart_keeps_a_claim_verbatim() -> None:
    found = POLICY.reinstate(HELD)
    assert (found.allocations, found.replaced, found.unplaced) == (HELD, (), ())


def test_a_claimed_cpu_that_goes_offline_leaves_the_others_to_it() -> None:
    found = without("7").reinstate(HELD)
    assert (owned(found.allocations)["a"], said(found)) == ("4-6", [("a", "claim-cut")])
    assert found.allocations.grants[0].request.claim == HELD.grants[0].request.claim


def test_it_gets_its_cpu_back_when_that_returns() -> None:
    short = without("7").reinstate(HELD).allocations
    assert without("7").reinstate(short).allocations == short
    assert owned(POLICY.reinstate(short).allocations)["a"] == "4-7"


def test_what_another_one_owns_meanwhile_stays_lost_and_changes_nothing_more() -> None:
    short = without("7").reinstate(HELD).allocations
    taker = Grant(request("t/c", 1000), "NUMA node #1", CpuKind.EXCLUSIVE, CpuSet.parse("7"), mems=NodeSet.parse("1"))
    held = short.with_grants(taker)
    found = POLICY.reinstate(held)
    assert (found.allocations, found.replaced, found.unplaced) == (held, (), ())


def test_a_claim_that_lost_a_cpu_keeps_the_others_though_sharers_lack_cpus_then() -> None:
    sharers = [request(f"{n}/c", 3000, BURSTABLE) for n in range(3)]
    held = fill(POLICY, claimed("a/c", "4-7"), *sharers)
    found = without("7-9").reinstate(held)
    assert owned(found.allocations)["a"] == "4-6"
    assert len(found.allocations.grants) == 4


def test_with_none_of_its_cpus_left_it_shares_and_waits_for_them() -> None:
    found = without("4-7").reinstate(HELD)
    grant = found.allocations.grants[0]
    assert (grant.kind, grant.is_overcommitted, said(found)) == (CpuKind.SHARED, True, [("a", "claim-refused")])
    assert "CPUs 4-7, which are offline" in found.unplaced[0][1].text


def test_a_claim_is_placed_before_containers_that_may_have_any_cpus() -> None:
    none = HELD.grants
    found = POLICY.reinstate(Allocations(), [request("o/c", 15000), *(g.request for g in none[:1])])
    assert owned(found.allocations)["a"] == "4-7"


def test_of_two_saved_claims_of_one_cpu_the_first_has_it() -> None:
    rival = replace(HELD.grants[0], request=claimed("b/c", "4-7"))
    found = POLICY.reinstate(HELD.with_grants(rival))
    assert (owned(found.allocations)["a"], owned(found.allocations)["b"]) == ("4-7", "")


def test_a_resize_while_a_cpu_is_gone_keeps_what_is_left() -> None:
    policy = without("7")
    short = policy.reinstate(HELD).allocations
    own = short.grants[0]
    held = fill(policy, replace(own.request, cpu_request_mcpu=6000, previous=own.as_running), held=short)
    assert owned(held)["a"] == "4-6"
    assert "offline" in rejected(policy.decide(Allocations(), own.request)).reason.text


def test_a_grant_of_the_policy_none_becomes_that_of_its_claim() -> None:
    preserved = replace(HELD.grants[0], kind=CpuKind.PRESERVE, pool="", exclusive=CpuSet())
    found = POLICY.reinstate(HELD.with_grants(preserved))
    assert owned(found.allocations)["a"] == "4-7"
