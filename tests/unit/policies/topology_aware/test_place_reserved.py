"""Containers of reserved namespaces: on the reserved CPUs while these have room, else on shared ones."""

import pytest

from policies.base import Allocations, CpuKind, DeviceLocality, Grant, Request
from policies.preferences import Threads
from sysfs.cpuset import CpuSet, NodeSet
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


@pytest.mark.parametrize(("own", "back"), [(11, ""), (12, "e"), (13, "e"), (14, "de"), (15, "bde")])
def test_as_few_go_back_as_suffice_those_with_the_largest_requests(own: int, back: str) -> None:
    asked = {"a": 900, "b": 600, "d": 1100, "e": 1900}
    held = fill(POLICY, *(system(f"{name}/c", mcpu) for name, mcpu in asked.items()))
    decision = placed(POLICY.decide(held, request("own/c", 1000 * own)))
    returned = [grant for grant in decision.moved if grant.kind is CpuKind.RESERVED]
    assert "".join(grant.container.pod_uid for grant in returned) == back
    assert ("reserved-returned" in {reason.code for reason in decision.reasons}) == bool(back)


def test_only_those_go_back_that_are_where_room_lacks() -> None:
    near = (DeviceLocality("/dev/a", CpuSet.parse("4-7"), NodeSet()),)
    away = {"NUMA node #0": 1000, "NUMA node #1": 1500, "NUMA node #2": 2000}
    held = Allocations(
        tuple(
            Grant(system(f"{i}/c", mcpu), pool, CpuKind.SHARED, shared_mcpu=mcpu, reserved_mcpu=mcpu)
            for i, (pool, mcpu) in enumerate(away.items())
        )
    )
    still = topology_aware(four_nodes(), "0", moves_per_check=0)
    held = fill(still, request("own/c", 2500, localities=near, strict_locality=True), held=held)
    decision = placed(POLICY.decide(held, request("new/c", 500, BURSTABLE, localities=near, strict_locality=True)))
    assert [(grant.container.pod_uid, grant.kind) for grant in decision.moved] == [("1", CpuKind.RESERVED)]


def test_one_that_would_hide_its_siblings_overflows_without_that_where_cores_are_too_few() -> None:
    wanted = system("a/c", 14000, threads=Threads.HIDE)
    decision = placed(POLICY.decide(NOTHING, wanted))
    assert (decision.grant.kind, decision.grant.shared_mcpu) == (CpuKind.SHARED, 14000)
    assert {"reserved-full", "too-few-cores"} <= {reason.code for reason in decision.reasons}


def test_an_owner_that_cannot_be_placed_at_all_is_refused_with_what_is_free_now() -> None:
    held = fill(POLICY, system("a/c", 900), system("b/c", 900))
    assert "14100m" in rejected(POLICY.decide(held, request("own/c", 16000))).reason.text
