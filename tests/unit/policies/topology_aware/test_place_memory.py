"""Where a container goes by its memory, on two packages of two nodes of four CPUs and 2 GiB."""

from dataclasses import replace

import pytest

from policies.base import Allocations, ContainerKey, Grant, QosClass, Request
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine, MemoryKind
from tests.fakes.machines import small_machine
from tests.unit.policies.build import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    before,
    fill,
    four_nodes,
    placed,
    rejected,
    request,
    topology_aware,
    wish_for,
)

POLICY = topology_aware(four_nodes(), "0")
NOTHING = Allocations()


def loads(machine: Machine, wanted: Request) -> list[int]:
    """How many of eight such containers run on the CPUs of each node, the lowest first."""
    policy = topology_aware(machine)
    held = fill(policy, *(replace(wanted, container=ContainerKey(f"{n}", "c")) for n in range(8)))
    used = [pinning.cpus or CpuSet() for pinning in policy.pinnings(held).values()]
    return [sum(1 for cpus in used if cpus <= node.cpus) for node in machine.nodes if node.cpus]


CXL = {"memory": "64Gi", "near": {0: 14}}
KINDS = {
    "expander": small_machine(cores=4, memory_nodes=[CXL]),
    "PMEM": small_machine(cores=4, memory_nodes=[{**CXL, "kind": "pmem"}]),
    "movable PMEM": small_machine(cores=4, memory_nodes=[{**CXL, "kind": "pmem", "movable": True}]),
    "HBM": small_machine(cores=4, memory_nodes=[{**CXL, "kind": "hbm"}]),
    "no memory": small_machine(cores=4, memory=["2Gi", 0]),
    "less memory": small_machine(cores=4, memory=["2Gi", "1Gi"]),
    "two expanders": small_machine(cores=4, memory_nodes=[CXL, CXL]),
}
SIZES = {
    "owner": request(mcpu=1000, memory_limit_bytes=1 << 20),
    "Guaranteed share": request(mcpu=500, memory_limit_bytes=1 << 20),
    "Burstable": request(mcpu=500, qos=BURSTABLE, memory_request_bytes=1 << 20),
    "best effort": request(qos=BEST_EFFORT),
}


@pytest.mark.parametrize("wanted", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("machine", KINDS.values(), ids=KINDS)
def test_what_kind_of_memory_a_socket_has_besides_does_not_tilt_the_load(machine: Machine, wanted: Request) -> None:
    assert loads(machine, wanted) == [4, 4]


def test_nodes_without_memory_take_their_share_of_the_load() -> None:
    assert loads(small_machine(nodes=2, memory=["2Gi", "2Gi", 0, 0]), SIZES["owner"]) == [2, 2, 2, 2]


def test_memory_that_is_promised_already_is_as_far_as_what_is_left() -> None:
    """Socket 0 has 2 GiB and an expander: once the 2 GiB are promised, its memory is farther than that of socket 1."""
    policy = topology_aware(KINDS["expander"], "0")
    full = request("full/c", 1000, memory_limit_bytes=2 << 30, previous=before("socket #0"))
    held = fill(policy, full)
    assert held.grants[0].pool == "socket #0"
    one, two = (request(f"{n}/c", 1000, memory_limit_bytes=1 << 30) for n in range(2))
    decision = placed(policy.decide(held, one))
    assert decision.grant.pool == "socket #1"
    keys = {ranked.pool: dict(ranked.key)["near_memory"] for ranked in decision.ranking}
    assert (keys["socket #0"], keys["socket #1"]) == (-4, 0)
    held = fill(policy, one, two, held=held)
    third = placed(policy.decide(held, replace(one, container=ContainerKey("third", "c"))))
    assert third.grant.pool == "socket #0"  # socket 1 has no room


def test_a_pool_whose_memory_is_promised_already_is_not_preferred() -> None:
    held = fill(POLICY, request("a/c", 100, BURSTABLE, memory_request_bytes=2 << 30))
    decision = placed(POLICY.decide(held, request("b/c", 100, BURSTABLE, memory_request_bytes=1 << 30, affinities=())))
    assert decision.grant.pool != held.grants[0].pool


def test_more_memory_than_a_node_has_comes_from_it_and_the_nearest() -> None:
    decision = placed(POLICY.decide(NOTHING, request(mcpu=1000, memory_request_bytes=3 << 30)))
    assert (decision.grant.pool, str(decision.grant.mems)) == ("NUMA node #1", "0-1")
    assert "memory-beyond-node" in [reason.code for reason in decision.reasons]
    assert dict(decision.ranking[0].key)["memory"] == 2


@pytest.mark.parametrize(("mcpu", "keys"), [(1500, {}), (1500, {"prefer_shared": False})], ids=["shares", "owns one"])
def test_where_a_wish_draws_it_to_less_memory_than_its_limit_the_nearest_comes_too(
    mcpu: int, keys: dict[str, object]
) -> None:
    there = request("p/there", 1000)
    wanted = request(
        "p/c", mcpu, BURSTABLE, memory_request_bytes=1, memory_limit_bytes=3 << 30, affinities=wish_for("there"), **keys
    )
    grant = placed(POLICY.decide(fill(POLICY, there), wanted)).grant
    assert (grant.pool, str(grant.mems)) == ("NUMA node #1", "0-1")


def test_more_memory_than_the_machine_has_is_no_reason_to_refuse() -> None:
    decision = placed(POLICY.decide(NOTHING, request(mcpu=1000, memory_request_bytes=1 << 50)))
    assert str(decision.grant.mems) == "0-3"


def test_a_strict_wish_for_a_kind_of_memory_refuses_and_says_what_is_missing() -> None:
    wish = request(mcpu=1000, memory_kinds=(MemoryKind.HBM,), strict_memory=True)
    refusal = rejected(POLICY.decide(NOTHING, wish))
    assert refusal.reason.code == "strict-memory"
    assert refusal.reason.text == "wanted memory of kind HBM and no other; this machine has no HBM"
    assert {r.outcome for r in refusal.ranking} == {"without the memory that is strictly wanted"}


def test_where_only_moving_others_makes_room_a_strict_wish_for_memory_refuses_as_well() -> None:
    held = fill(POLICY, *(request(f"{n}/c", 500, BURSTABLE, cpu_limit_mcpu=500) for n in range(4)))
    wish = request(mcpu=13000, memory_kinds=(MemoryKind.HBM,), strict_memory=True)
    assert rejected(POLICY.decide(held, wish)).reason.code == "strict-memory"


def test_less_important_containers_get_more_memory_nodes_so_that_an_important_one_stays_local() -> None:
    sizes = {"memory_request_bytes": 3 << 29, "memory_limit_bytes": 3 << 29, "cpu_limit_mcpu": 100}
    filling = (request(f"{n}/c", 100, BURSTABLE, **sizes) for n in range(4))
    decision = placed(POLICY.decide(fill(POLICY, *filling), request("g/c", 1000, memory_request_bytes=1 << 30)))
    assert (len(decision.grant.mems), [len(g.mems) for g in decision.moved]) == (1, [2])
    assert [u.pinning.mems for u in decision.updates] == [g.mems for g in decision.moved]


def test_a_system_pod_under_a_strict_wish_for_memory_can_be_refused_too() -> None:
    system = request("s/c", 100, namespace="kube-system", memory_kinds=(MemoryKind.PMEM,), strict_memory=True)
    assert rejected(POLICY.decide(NOTHING, system)).reason.code == "strict-memory"


def test_memory_follows_the_pool_unless_it_is_preserved() -> None:
    assert str(placed(POLICY.decide(NOTHING, request(mcpu=5000, memory_limit_bytes=1))).pinning.mems) == "2-3"
    preserved = placed(POLICY.decide(NOTHING, request(mcpu=5000, preserve_memory=True)))
    assert (preserved.pinning.mems, preserved.grant.mems) == (None, NodeSet())


EIGHT = small_machine(nodes=4, cores=4, memory="32Gi")  # of two packages


def owned_nodes(machine: Machine, grant: Grant) -> str:
    return str(NodeSet.of(node.id for node in machine.nodes if node.cpus & grant.owned))


@pytest.mark.parametrize(("whole", "nodes"), [(8, 1), (12, 2), (24, 3), (40, 5)])
def test_a_container_that_owns_all_its_cpus_has_the_memory_of_their_nodes_and_no_other(whole: int, nodes: int) -> None:
    grant = placed(topology_aware(EIGHT).decide(NOTHING, request(mcpu=1000 * whole))).grant
    assert (len(grant.mems), str(grant.mems)) == (nodes, owned_nodes(EIGHT, grant))


def test_one_that_shares_cpus_too_has_the_memory_of_its_pool() -> None:
    grant = placed(topology_aware(EIGHT).decide(NOTHING, request(mcpu=12500))).grant
    assert (grant.pool, str(grant.mems)) == ("socket #0", "0-3")


def test_an_owners_memory_beside_devices_in_a_wide_pool_follows_its_cpus() -> None:
    grant = placed(topology_aware(EIGHT).decide(NOTHING, request(mcpu=40000, spread_by_locality=False))).grant
    assert str(grant.mems) == owned_nodes(EIGHT, grant)


@pytest.mark.parametrize("packages", [4, 8])
@pytest.mark.parametrize("qos", [GUARANTEED, BURSTABLE])
def test_where_all_nodes_are_as_far_only_as_many_come_as_are_needed(packages: int, qos: QosClass) -> None:
    machine = small_machine(packages=packages)
    wanted = request(mcpu=1000, qos=qos, cpu_limit_mcpu=1000, memory_request_bytes=3 << 30)
    grant = placed(topology_aware(machine).decide(NOTHING, wanted)).grant
    assert len(grant.mems) == 2


def test_the_next_one_that_is_larger_than_a_node_has_other_nodes_beside_its_own() -> None:
    policy = topology_aware(small_machine(packages=4))
    wanted = [request(f"{n}/c", 1000, memory_limit_bytes=3 << 30) for n in range(2)]
    held = fill(policy, *wanted)
    assert not held.grants[0].mems & held.grants[1].mems


def test_an_owner_keeps_its_nodes_over_a_growth_and_gives_them_back_when_it_shrinks() -> None:
    policy = topology_aware(EIGHT)
    held = fill(policy, request("a/c", 4000))
    for whole, nodes in ((12, 2), (4, 2)):
        own = held.grants[0]
        held = fill(policy, replace(own.request, cpu_request_mcpu=1000 * whole, previous=own.as_previous), held=held)
        assert len(held.grants[0].mems) == nodes
    (narrow,) = policy.narrowed(held)
    assert str(narrow.mems) == owned_nodes(EIGHT, narrow)


def test_a_saved_owner_with_the_nodes_of_its_pool_keeps_them_over_a_restart_and_narrows_later() -> None:
    """As a former version left it."""
    policy = topology_aware(EIGHT)
    grant = placed(policy.decide(NOTHING, request(mcpu=12000))).grant
    wide = Allocations((replace(grant, pool="socket #0", mems=NodeSet.parse("0-3")),))
    assert policy.reinstate(wide).allocations == wide
    assert [str(narrow.mems) for narrow in policy.narrowed(wide)] == [str(grant.mems)]
