"""Containers of reserved namespaces: on the reserved CPUs while these have room, else on shared ones."""

from policies.base import Allocations, CpuKind, Request
from tests.unit.policies.build import (
    BEST_EFFORT,
    BURSTABLE,
    fill,
    four_nodes,
    placed,
    rejected,
    request,
    topology_aware,
)

POLICY = topology_aware(four_nodes(), "0")
OPEN = topology_aware(four_nodes())
NOTHING = Allocations()


def system(name: str, mcpu: int, **keys: object) -> Request:
    return request(name, mcpu, BURSTABLE if mcpu else BEST_EFFORT, namespace="kube-system", **keys)


def test_what_the_reserved_cpus_cannot_hold_shares_others_with_its_request_booked() -> None:
    held = fill(POLICY, system("a/c", 700))
    decision = placed(POLICY.decide(held, system("b/c", 301)))
    grant = decision.grant
    assert (grant.kind, grant.shared_mcpu, grant.reserved_mcpu, str(grant.owned)) == (CpuKind.SHARED, 301, 301, "")
    assert decision.reasons[0].text == (
        "the reserved CPU 0 has 1000m, of which 700m are booked: too few for 301m, so it shares other CPUs until there "
        "is room"
    )
    assert placed(POLICY.decide(held, system("b/c", 300))).grant.kind is CpuKind.RESERVED


def test_a_system_container_that_overflows_owns_no_cpu_whatever_its_class() -> None:
    grant = placed(POLICY.decide(NOTHING, request("a/c", 2000, namespace="kube-system"))).grant
    assert (grant.kind, grant.shared_mcpu, str(grant.owned)) == (CpuKind.SHARED, 2000, "")


def test_the_system_without_a_request_stays_on_reserved_cpus_that_are_full() -> None:
    held = fill(POLICY, system("a/c", 1000))
    assert placed(POLICY.decide(held, system("b/c", 0))).grant.kind is CpuKind.RESERVED


def test_none_overflows_where_no_cpu_is_reserved() -> None:
    assert placed(OPEN.decide(NOTHING, system("a/c", 9000))).grant.kind is CpuKind.RESERVED


def test_no_owner_is_refused_for_system_containers_that_overflowed() -> None:
    held = fill(POLICY, system("a/c", 900), system("b/c", 900), system("d/c", 900))
    decision = placed(POLICY.decide(held, request("own/c", 15000)))
    assert {(g.container.pod_uid, g.kind, g.shared_mcpu) for g in decision.moved} == {
        ("b", CpuKind.RESERVED, 0), ("d", CpuKind.RESERVED, 0),
    }  # fmt: skip
    assert decision.reasons[0].code == "reserved-returned"
    assert not placed(POLICY.decide(held, request("own/c", 13000))).moved


def test_an_owner_that_cannot_be_placed_at_all_is_refused_with_what_is_free_now() -> None:
    held = fill(POLICY, system("a/c", 900), system("b/c", 900))
    assert "14100m" in rejected(POLICY.decide(held, request("own/c", 16000))).reason.text
