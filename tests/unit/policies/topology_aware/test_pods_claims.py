"""Claimed CPUs in pods of several containers: the same claim is owned together, the rest of the pod shares the rest."""

from dataclasses import replace
from itertools import permutations

import pytest

from policies.base import Allocations, Rejected, Request
from policies.claims import CpuClaim
from policies.pod_share import PodTotals
from policies.topology_aware.policy import TopologyAware
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import BURSTABLE, GUARANTEED, four_nodes, options, request
from tests.unit.policies.pods import POLICY, fill, owned

STATUS = "scheduling.koordinator.sh/resource-status"
GIB = 1 << 30


def claimed(name: str, listed: str, mcpu: int = 1000, source: str = STATUS, **keys: object) -> Request:
    return request(name, mcpu, GUARANTEED, claim=CpuClaim(CpuSet.parse(listed), source), **keys)


def test_containers_of_a_pod_with_the_same_claim_own_its_cpus_together() -> None:
    held = fill(claimed("p/a", "4-7"), claimed("p/b", "4-7", 3000), claimed("p/c", "4-7", 0))
    assert set(owned(held).values()) == {"4-7"}
    assert {str(pinning.cpus) for pinning in POLICY.pinnings(held).values()} == {"4-7"}


def test_the_cpus_stay_until_the_last_container_of_the_claim_is_gone() -> None:
    held = fill(request("s/c", 1500, BURSTABLE), claimed("p/a", "9-11"), claimed("p/b", "9-11"))
    a, b, s = held.grants
    assert POLICY.release(held, a.container) == ()
    left = held.without(a.container)
    assert [update.container for update in POLICY.release(left, b.container)] == [s.container]


def test_containers_of_a_claim_are_each_promised_their_memory() -> None:
    two = (claimed(f"p/{n}", "4-7", memory_request_bytes=GIB, memory_limit_bytes=GIB) for n in "ab")
    held = fill(*two)
    assert {view.name: view.memory_free_bytes for view in POLICY.pools(held)}["NUMA node #1"] == 0


def test_another_pod_with_the_same_claim_is_refused() -> None:
    held = fill(claimed("p/a", "4-7", source="DRA_CPUSET_x"))
    decision = POLICY.decide(held, claimed("q/a", "4-7", source="DRA_CPUSET_x"))
    assert isinstance(decision, Rejected)
    assert "owned by p/a (by DRA_CPUSET_x)" in decision.reason.text


def test_a_new_container_of_a_claim_that_lost_a_cpu_is_refused_as_it_would_be_alone() -> None:
    machine = four_nodes(offline="5")
    policy = TopologyAware(machine, options(machine, "0"))
    held = policy.reinstate(fill(claimed("p/a", "4-7"), claimed("p/b", "4-7"))).allocations
    assert owned(held) == {"a": "4,6-7", "b": "4,6-7"}
    decision = policy.decide(held, claimed("p/c", "4-7"))
    assert isinstance(decision, Rejected)
    assert "of which CPU 5 is offline" in decision.reason.text
    assert isinstance(policy.overcommitted(held, claimed("p/c", "4-7"), decision), Rejected)


def test_containers_that_run_share_what_is_left_of_their_claim() -> None:
    machine = four_nodes(offline="5")
    found = TopologyAware(machine, options(machine, "0")).reinstate(
        Allocations(), [claimed("p/a", "4-7"), claimed("p/b", "4-7")]
    )
    assert owned(found.allocations) == {"a": "4,6-7", "b": "4,6-7"}


def test_two_claims_of_a_pod_are_each_owned_together_by_its_own_containers() -> None:
    held = fill(
        *(claimed(f"p/{name}", listed) for name, listed in zip("abcd", ("4-5", "8-9", "4-5", "8-9"), strict=True))
    )
    assert owned(held) == {"a": "4-5", "b": "8-9", "c": "4-5", "d": "8-9"}
    assert POLICY.reinstate(held).allocations == held
    assert [update.container.name for update in POLICY.release(held, held.grants[0].container)] == []


@pytest.mark.parametrize("order", tuple(permutations(range(4))))
def test_containers_of_a_claim_and_those_that_share_the_rest_of_the_pod_stay_apart(order: tuple[int, ...]) -> None:
    totals = PodTotals(6000, 6000, GIB, shares_cpu=True, shares_memory=True)
    plain = [
        request(f"p/{name}", 6000, cpu_limit_mcpu=6000, pod_totals=totals, memory_limit_bytes=GIB) for name in "abcd"
    ]
    claim = CpuClaim(CpuSet.parse("4-5"), "DRA_CPUSET_1")
    four = (*(replace(each, claim=claim) for each in plain[:2]), *plain[2:])
    held = fill(*(four[i] for i in order))
    found = owned(held)
    assert (found["a"], found["b"], found["c"] == found["d"]) == ("4-5", "4-5", True)
    assert len(CpuSet.parse(found["c"])) == 4 and CpuSet.parse(found["c"]).isdisjoint(CpuSet.parse("4-5"))
    assert POLICY.reinstate(held).allocations == held


def of_pod(name: str, mcpu: int, claim: CpuClaim | None = None) -> Request:
    """One of those that share all that a pod of this size has."""
    totals = PodTotals(mcpu, mcpu, GIB, shares_cpu=True, shares_memory=True)
    return request(name, mcpu, cpu_limit_mcpu=mcpu, pod_totals=totals, memory_limit_bytes=GIB, claim=claim)


@pytest.mark.parametrize("which", [slice(0, 2), slice(1, 3), slice(2, 4)])
@pytest.mark.parametrize("mcpu", [6000, 7000, 8000])
def test_those_that_share_give_a_claim_of_their_pod_its_cpus_and_keep_their_others(which: slice, mcpu: int) -> None:
    held = fill(of_pod("p/b", 6000), of_pod("p/c", 6000))
    had = CpuSet.parse(owned(held)["b"])
    taken = CpuSet.of(list(had)[which])
    found = owned(fill(of_pod("p/a", mcpu, claim=CpuClaim(taken, "DRA_CPUSET_1")), held=held))
    now = CpuSet.parse(found["b"])
    assert (found["a"], found["c"], 1000 * len(now)) == (str(taken), found["b"], mcpu - 2000)
    assert now & had == had - taken


def test_a_resize_changes_none_of_the_cpus_that_are_owned_together() -> None:
    held = fill(claimed("p/a", "4-7"), claimed("p/b", "4-7"))
    own = held.grants[1]
    held = fill(claimed("p/b", "4-7", 2000, previous=own.as_running), held=held)
    assert owned(held) == {"a": "4-7", "b": "4-7"}


def test_a_restart_changes_nothing_of_a_claim_that_is_owned_together() -> None:
    held = fill(claimed("p/a", "4-7"), claimed("p/b", "4-7"))
    assert POLICY.reinstate(held).allocations == held


def test_containers_without_grants_come_together_on_the_cpus_of_their_claim() -> None:
    found = POLICY.reinstate(Allocations(), [request("o/c", 11000), claimed("p/a", "4-7"), claimed("p/b", "4-7")])
    assert owned(found.allocations) == {"a": "4-7", "b": "4-7", "c": "1-3,8-15"}


@pytest.mark.parametrize("order", tuple(permutations(range(3))))
def test_the_rest_of_a_pod_shares_what_its_claims_leave(order: tuple[int, ...]) -> None:
    """The pod's own request is the sum of its claims and of what the others need (the driver's recommendation)."""
    totals = PodTotals(7000, 7000, shares_cpu=True)
    three = (
        claimed("p/one", "4-5", 7000, "DRA_CPUSET_1", cpu_limit_mcpu=7000, pod_totals=totals),
        claimed("p/two", "12-14", 7000, "DRA_CPUSET_2", cpu_limit_mcpu=7000, pod_totals=totals),
        request("p/rest", 7000, cpu_limit_mcpu=7000, pod_totals=totals),
    )
    found = owned(fill(*(three[i] for i in order)))
    rest = CpuSet.parse(found["rest"])
    assert (found["one"], found["two"], len(rest)) == ("4-5", "12-14", 2)
    assert rest.isdisjoint(CpuSet.parse("4-5,12-14"))
