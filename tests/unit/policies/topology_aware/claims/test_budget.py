"""What a pod says of CPUs takes no more than the pod requests, whatever its containers have beside it."""

import pytest

from policies.base import ContainerKey, CpuKind, Rejected, Request
from policies.claims import CpuClaim
from policies.pod_share import PodTotals
from policies.topology_aware.claims.budget import paid_for, unpaid_claims
from policies.topology_aware.reason_codes import ReasonCode
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import BURSTABLE, placed, rejected, request
from tests.unit.policies.pods import POLICY, fill, owned

SOURCE = "koordinator"


def says(name: str, listed: str, mcpu: int = 1000, pod_mcpu: int = 3000, **keys: object) -> Request:
    """A container of a pod that requests so much, and whose annotation names these CPUs."""
    claim = CpuClaim(CpuSet.parse(listed), SOURCE, by_pod=True) if listed else None
    return request(name, mcpu, BURSTABLE, claim=claim, pod_request_mcpu=pod_mcpu, **keys)


def test_containers_of_a_pod_own_together_what_the_pod_pays_for() -> None:
    held = fill(says("p/a", "4-6", 2000), says("p/b", "4-6"))
    assert owned(held) == {"a": "4-6", "b": "4-6"}


def test_a_claim_for_which_the_other_containers_leave_too_little_does_not_count() -> None:
    held = fill(says("p/a", "", 500))
    found = placed(POLICY.decide(held, says("p/b", "4-6", 2000)))
    assert (found.grant.kind, found.grant.shared_mcpu, found.grant.request.claim) == (CpuKind.SHARED, 2000, None)
    (why,) = (reason.text for reason in found.reasons if reason.code == ReasonCode.CLAIM_UNPAID)
    assert "names CPUs 4-6, which do not count: the pod requests 3000m, of which its other containers have 500m" in why


def test_a_claim_beside_which_the_pod_pays_for_its_other_containers_counts() -> None:
    held = fill(says("p/a", "", 500), says("p/b", "4-5", 2000), says("p/c", "", 500))
    assert owned(held) == {"a": "", "b": "4-5", "c": ""}


def test_a_container_for_which_a_claim_leaves_too_little_runs_there_with_the_others() -> None:
    held = fill(says("p/a", "4-6", 2000))
    found = placed(POLICY.decide(held, says("p/b", "", 500)))
    assert str(found.grant.owned) == "4-6"
    (why,) = (reason.text for reason in found.reasons if reason.code == ReasonCode.CLAIM_UNPAID)
    assert why.startswith("its pod requests 3000m, and has CPUs 4-6 of that by koordinator: it runs there")


def test_other_cpus_for_a_second_container_do_not_count_beside_those_of_the_first() -> None:
    assert owned(fill(says("p/a", "4-6"), says("p/b", "8-10"))) == {"a": "4-6", "b": "4-6"}
    assert owned(fill(says("p/a", "4-5"), says("p/b", "8"))) == {"a": "4-5", "b": "8"}


def test_another_pod_has_a_budget_of_its_own() -> None:
    assert owned(fill(says("p/a", "4-6"), says("q/b", "8-10"))) == {"a": "4-6", "b": "8-10"}


def test_what_root_has_written_counts_beside_any_request() -> None:
    proven = request("p/b", 500, BURSTABLE, claim=CpuClaim(CpuSet.parse("8-9"), "DRA"), pod_request_mcpu=1000)
    assert owned(fill(says("p/a", "4", pod_mcpu=1000), proven)) == {"a": "4", "b": "8-9"}


def test_a_container_that_is_placed_again_keeps_its_claim() -> None:
    held = fill(says("p/a", "4-6", 2000), says("p/b", "4-6"))
    again = says("p/a", "4-6", 10, 10, previous=held.grants[0].as_running)
    assert paid_for(held, again).request is again


def test_where_the_request_of_the_pod_is_not_known_containers_pay_for_themselves() -> None:
    assert owned(fill(says("p/a", "4", pod_mcpu=0), says("p/b", "8", pod_mcpu=0))) == {"a": "4", "b": "8"}


@pytest.mark.parametrize("position", range(3))
def test_what_containers_share_of_their_pod_gives_way_to_a_claim(position: int) -> None:
    totals = PodTotals(3000, 6000, shares_cpu=True)
    listed = ["4-5" if number == position else "" for number in range(3)]
    asks = (says(f"p/c{n}", cpus, 6000, cpu_limit_mcpu=6000, pod_totals=totals) for n, cpus in enumerate(listed))
    held = fill(*asks)
    assert list(owned(held).values()) == listed
    assert {grant.shared_mcpu for grant in held.grants if not grant.owned} == {1000}


def test_a_refusal_is_told_as_it_is() -> None:
    held = fill(request("o/c", 3000, claim=CpuClaim(CpuSet.parse("4-6"), "DRA")))
    refusal = rejected(POLICY.decide(held, says("p/a", "4-6")))
    assert "owned by o/c" in refusal.reason.text
    assert isinstance(paid_for(held, says("p/a", "4-6")).told(refusal), Rejected)


@pytest.mark.parametrize(("pod_mcpu", "lost"), [(3500, ""), (3000, "ab"), (10, "ab")])
def test_a_pod_that_requests_less_than_it_has_loses_its_claim(pod_mcpu: int, lost: str) -> None:
    held = fill(says("p/a", "4-6", 2000, 3500), says("p/b", "4-6", 1000, 3500), says("p/c", "", 500, 3500))
    assert "".join(grant.container.name for grant in unpaid_claims(held, "p", pod_mcpu)) == lost
    assert unpaid_claims(held, "q", 0) == ()


def test_what_root_has_written_is_not_lost_to_a_resize() -> None:
    held = fill(request("p/a", 2000, claim=CpuClaim(CpuSet.parse("4-5"), "DRA")))
    assert unpaid_claims(held, "p", 10) == ()
    assert held.get(ContainerKey("p", "a")) is not None
