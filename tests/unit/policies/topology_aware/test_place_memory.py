"""Where a container goes by its memory, on two packages of two nodes of four CPUs and 2 GiB."""

from policies.base import Allocations
from sysfs.cpuset import NodeSet
from sysfs.model import MemoryKind
from tests.fakes.machines import small_machine
from tests.unit.policies.build import BURSTABLE, fill, four_nodes, placed, rejected, request, topology_aware

POLICY = topology_aware(four_nodes(), "0")
NOTHING = Allocations()


def test_a_node_with_memory_of_its_own_goes_before_one_without() -> None:
    policy = topology_aware(small_machine(packages=1, nodes=3, memory=["2Gi", "2Gi", 0]))
    held = fill(policy, *(request(f"{n}/c", 1000) for n in range(3)))
    assert [grant.pool for grant in held.grants] == ["NUMA node #0", "NUMA node #1", "NUMA node #0"]


def test_a_pool_whose_memory_is_promised_already_is_not_preferred() -> None:
    held = fill(POLICY, request("a/c", 100, BURSTABLE, memory_request_bytes=2 << 30))
    decision = placed(POLICY.decide(held, request("b/c", 100, BURSTABLE, memory_request_bytes=1 << 30, affinities=())))
    assert decision.grant.pool != held.grants[0].pool


def test_memory_beyond_the_best_pools_goes_to_a_pool_that_has_it() -> None:
    decision = placed(POLICY.decide(NOTHING, request(mcpu=1000, memory_request_bytes=3 << 30)))
    assert (decision.grant.pool, str(decision.grant.mems)) == ("socket #1", "2-3")
    assert dict(decision.ranking[0].key)["memory"] == 2


def test_more_memory_than_the_machine_has_is_no_reason_to_refuse() -> None:
    decision = placed(POLICY.decide(NOTHING, request(mcpu=1000, memory_request_bytes=1 << 50)))
    assert str(decision.grant.mems) == "0-3"


def test_a_strict_wish_for_a_kind_of_memory_refuses_and_says_what_is_missing() -> None:
    wish = request(mcpu=1000, memory_kinds=(MemoryKind.HBM,), strict_memory=True)
    refusal = rejected(POLICY.decide(NOTHING, wish))
    assert refusal.reason.code == "strict-memory"
    assert refusal.reason.text == "wanted memory of kind HBM and no other; this machine has no HBM"
    assert {r.outcome for r in refusal.ranking} == {"does not have the memory that is strictly wanted"}


def test_where_only_moving_others_makes_room_a_strict_wish_for_memory_refuses_as_well() -> None:
    held = fill(POLICY, *(request(f"{n}/c", 500, BURSTABLE, cpu_limit_mcpu=500) for n in range(4)))
    wish = request(mcpu=13000, memory_kinds=(MemoryKind.HBM,), strict_memory=True)
    assert rejected(POLICY.decide(held, wish)).reason.code == "strict-memory"


def test_less_important_containers_get_more_memory_nodes_so_that_an_important_one_stays_local() -> None:
    filling = (request(f"{n}/c", 100, BURSTABLE, memory_request_bytes=3 << 29, cpu_limit_mcpu=100) for n in range(4))
    decision = placed(POLICY.decide(fill(POLICY, *filling), request("g/c", 1000, memory_request_bytes=1 << 30)))
    assert (len(decision.grant.mems), [len(g.mems) for g in decision.moved]) == (1, [2])
    assert [u.pinning.mems for u in decision.updates] == [g.mems for g in decision.moved]


def test_a_system_pod_under_a_strict_wish_for_memory_can_be_refused_too() -> None:
    system = request("s/c", 100, namespace="kube-system", memory_kinds=(MemoryKind.PMEM,), strict_memory=True)
    assert rejected(POLICY.decide(NOTHING, system)).reason.code == "strict-memory"


def test_memory_follows_the_pool_unless_it_is_preserved() -> None:
    assert str(placed(POLICY.decide(NOTHING, request(mcpu=5000))).pinning.mems) == "2-3"
    preserved = placed(POLICY.decide(NOTHING, request(mcpu=5000, preserve_memory=True)))
    assert (preserved.pinning.mems, preserved.grant.mems) == (None, NodeSet())
