"""What becomes of a container that no pool has the CPU time for, under ``onShortage: admit``."""

import pytest

from policies.base import Allocations, CpuKind, Decision, DeviceLocality, Request
from policies.preferences import BurstLevel
from policies.topology_aware.policy import TopologyAware
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import MemoryKind
from tests.unit.policies.build import BURSTABLE, before, fill, four_nodes, placed, rejected, request, topology_aware

POLICY = topology_aware(four_nodes(), "0")
OPEN = topology_aware(four_nodes())
NODE_2 = DeviceLocality("/dev/x", CpuSet.parse("8-11"), NodeSet())
FULL = fill(POLICY, *(request(f"{n}/c", 3900, BURSTABLE, burst_level=BurstLevel.NUMA) for n in range(3)))
FULL = fill(POLICY, request("3/c", 2900, BURSTABLE, burst_level=BurstLevel.NUMA), held=FULL)


def let_in(policy: TopologyAware, held: Allocations, asked: Request) -> Decision:
    return policy.overcommitted(held, asked, rejected(policy.decide(held, asked)))


def test_a_sharer_without_room_is_let_in_with_nothing_booked() -> None:
    asked = request("a/c", 500, BURSTABLE)
    decision = placed(let_in(POLICY, FULL, asked))
    grant = decision.grant
    assert grant.is_overcommitted
    assert (grant.request, grant.kind, grant.pool, grant.shared_mcpu) == (asked, CpuKind.SHARED, "root", 0)
    assert (str(decision.pinning.cpus), decision.updates, decision.moved) == ("1-15", (), ())
    text = "wanted 500m shared; free in root: 400m shared capacity"
    assert ([r.code for r in decision.reasons], decision.reasons[0].text.startswith(text)) == (["overcommitted"], True)
    assert [ranked.pool for ranked in decision.ranking if ranked.outcome == "chosen"] == ["root"]


def test_it_does_not_go_back_to_its_narrow_place() -> None:
    asked = request("a/c", 500, BURSTABLE, previous=before("NUMA node #1"))
    assert placed(let_in(POLICY, FULL, asked)).grant.pool == "root"


@pytest.mark.parametrize("mcpu", [1000, 1500])
def test_who_wants_cpus_of_its_own_stays_refused(mcpu: int) -> None:
    refusal = rejected(POLICY.decide(FULL, request("a/c", mcpu)))
    assert POLICY.overcommitted(FULL, request("a/c", mcpu), refusal) is refusal


def test_a_sharer_stays_near_its_devices_where_that_is_strict() -> None:
    asked = request("a/c", 500, BURSTABLE, localities=(NODE_2,), strict_locality=True)
    assert placed(let_in(POLICY, FULL, asked)).grant.pool == "NUMA node #2"


def test_a_strict_memory_kind_that_is_absent_refuses_as_before() -> None:
    asked = request("a/c", 500, BURSTABLE, memory_kinds=(MemoryKind.HBM,), strict_memory=True)
    assert rejected(let_in(POLICY, FULL, asked)).reason.code == "strict-memory"


def test_where_nothing_is_shared_it_runs_on_the_reserved_cpus_or_not_at_all() -> None:
    asked = request("a/c", 500, BURSTABLE)
    assert placed(let_in(POLICY, fill(POLICY, request("o/c", 15000)), asked)).pinning.cpus == CpuSet.parse("0")
    assert rejected(let_in(OPEN, fill(OPEN, request("o/c", 16000)), asked)).reason.code == "nothing-shared"


def test_once_there_is_room_it_gets_what_it_asked_for() -> None:
    asked = request("a/c", 500, BURSTABLE)
    held = FULL.with_grants(placed(let_in(POLICY, FULL, asked)).grant).without(FULL.grants[0].container)
    again = placed(POLICY.decide(held, asked)).grant
    assert (again.is_overcommitted, again.shared_mcpu) == (False, 500)
