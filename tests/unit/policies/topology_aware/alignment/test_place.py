"""Where a container goes under a topology policy: one rule a test, on two packages of two nodes of four CPUs."""

from dataclasses import replace

import pytest

from policies.alignment import Alignment, PodSums, TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import Allocations, CpuKind, DeviceLocality, Grant, Placed, Request
from policies.topology_aware.policy import TopologyAware
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from tests.unit.policies.build import BURSTABLE, fill, four_nodes, placed, rejected, request, topology_aware

GI = 1 << 30
NOTHING = Allocations()
POD = TopologyScope.POD


def policy_of(policy: str = "none", scope: str = "container", *, prefers_closest: bool = False) -> TopologyAware:
    rules = TopologyOptions(TopologyPolicy(policy), TopologyScope(scope), prefers_closest)
    return topology_aware(four_nodes(), "0", topology=rules)


PLAIN, SINGLE, RESTRICTED, LENIENT = map(policy_of, ("none", "single-numa-node", "restricted", "best-effort"))
WHOLE = policy_of("single-numa-node", "pod")


def within(decision: Placed) -> str:
    alignment = decision.grant.request.alignment
    return "" if alignment is None else str(alignment.nodes)


def at(node: int) -> tuple[DeviceLocality, ...]:
    return (DeviceLocality("/dev/x0", CpuSet(), NodeSet.of([node])),)


def codes(decision: Placed) -> list[str]:
    return [reason.code for reason in decision.reasons]


def test_without_a_policy_nothing_is_merged() -> None:
    decision = placed(PLAIN.decide(NOTHING, request("a/c", 2000, memory_limit_bytes=GI)))
    assert decision.grant.request.alignment is None
    assert not any(code.startswith("topology") for code in codes(decision))


def test_cpus_and_memory_lie_on_the_node_that_all_prefer() -> None:
    grant = placed(SINGLE.decide(NOTHING, request("a/c", 4000, memory_limit_bytes=GI))).grant
    assert (str(grant.owned), str(grant.mems), grant.pool) == ("4-7", "1", "NUMA node #1")


def test_the_device_that_a_container_has_decides() -> None:
    decision = placed(SINGLE.decide(NOTHING, request("a/c", 2000, memory_limit_bytes=GI, localities=at(3))))
    assert (within(decision), str(decision.grant.mems)) == ("3", "3")


def test_a_container_of_the_pod_that_was_aligned_for_itself_alone_does_not_bind_the_pod() -> None:
    later = request("p/b", 2000, localities=at(1), pod_sums=PodSums(2000, 0))
    for earlier in (SINGLE, PLAIN):  # PLAIN aligns nothing
        held = fill(earlier, request("p/a", 2000, localities=at(3)))
        assert within(placed(WHOLE.decide(held, later))) == "1"


def test_a_container_that_no_node_can_hold_is_refused_with_what_was_free() -> None:
    refused = rejected(SINGLE.decide(NOTHING, request("a/c", 5000))).reason
    assert refused.code == "strict-topology"
    assert refused.text == (
        "topology policy single-numa-node (topologyManager.policy): no NUMA node has all that the container asks for; "
        "cpu: wanted 5 CPUs to own, free 3 on node 0, 4 on node 1, 4 on node 2, 4 on node 3"
    )


def test_resources_that_fit_on_different_nodes_are_all_named() -> None:
    held = fill(SINGLE, request("b/c", 4000, localities=at(1)), request("d/c", 4000, localities=at(2)))
    text = rejected(SINGLE.decide(held, request("a/c", 4000, localities=at(1)))).reason.text
    assert "; cpu: wanted 4 CPUs to own, free 3 on node 0, 0 on node 1" in text
    assert text.endswith("/dev/x: /dev/x0 on NUMA node 1")


def test_restricted_spans_as_many_nodes_as_are_needed_on_an_idle_machine_and_no_more() -> None:
    wide = placed(RESTRICTED.decide(NOTHING, request("a/c", 6000)))
    assert within(wide) == "0-1"
    held = fill(RESTRICTED, *(request(f"{n}/c", 2000, localities=at(n)) for n in range(4)))
    assert rejected(RESTRICTED.decide(held, request("a/c", 3000))).reason.code == "strict-topology"
    assert within(placed(LENIENT.decide(held, request("a/c", 3000)))) == "0-1"


def test_own_cpus_may_be_on_nodes_of_two_packages_and_no_others() -> None:
    held = fill(RESTRICTED, request("b/c", 3000, localities=at(1)), request("d/c", 3000, localities=at(3)))
    grant = placed(RESTRICTED.decide(held, request("a/c", 7000))).grant
    assert (grant.pool, str(grant.owned), str(grant.mems)) == ("root", "1-3,8-11", "0,2")


def test_of_equally_many_nodes_the_closest_are_taken_where_the_operator_asks() -> None:
    held = fill(RESTRICTED, request("b/c", 3000, localities=at(1)))
    wanted = request("a/c", 7000)
    assert within(placed(RESTRICTED.decide(held, wanted))) == "0,2"
    assert within(placed(policy_of("restricted", prefers_closest=True).decide(held, wanted))) == "2-3"


def test_without_numa_nodes_there_is_nothing_to_merge() -> None:
    policy = topology_aware(replace(four_nodes(), nodes=()), topology=TopologyOptions(TopologyPolicy.RESTRICTED))
    assert within(placed(policy.decide(NOTHING, request("a/c", 2000)))) == ""


def test_an_annotation_beats_the_options() -> None:
    strict = request("a/c", 5000, topology_policy=TopologyPolicy.SINGLE_NUMA_NODE)
    origin = ("topology_policy", "cri-proxy.io/topology-policy")
    text = rejected(PLAIN.decide(NOTHING, replace(strict, origins=(origin,)))).reason.text
    assert text.startswith("topology policy single-numa-node (cri-proxy.io/topology-policy)")
    assert placed(SINGLE.decide(NOTHING, request("a/c", 5000, topology_policy=TopologyPolicy.NONE)))


def test_shared_cpus_are_beyond_the_nodes_rather_than_refused_and_the_memory_stays() -> None:
    held = fill(SINGLE, request("b/c", 4000, localities=at(1)))
    decision = placed(SINGLE.decide(held, request("a/c", 500, memory_limit_bytes=GI, localities=at(1))))
    assert (decision.grant.kind, str(decision.grant.mems)) == (CpuKind.SHARED, "1")
    assert "topology-beyond" in codes(decision)


def test_of_nodes_that_all_prefer_one_with_cpus_to_share_is_taken() -> None:
    held = fill(SINGLE, request("b/c", 3000, localities=at(0)))
    assert within(placed(SINGLE.decide(held, request("a/c", 500, memory_limit_bytes=GI)))) == "1"


def test_a_container_that_nothing_has_hints_for_goes_where_it_would_without() -> None:
    wanted = request("a/c", 100, BURSTABLE)
    merged, plain = (placed(policy.decide(NOTHING, wanted)) for policy in (SINGLE, PLAIN))
    assert (merged.grant, "topology-merged" in codes(merged)) == (plain.grant, True)


def test_best_effort_refuses_nothing() -> None:
    held = fill(LENIENT, request("b/c", 4000, localities=at(1)))
    decision = placed(LENIENT.decide(held, request("a/c", 4000, localities=at(1))))
    assert (codes(decision)[-1], "topology-beyond" in codes(decision)) == ("pool", True)


def in_pod(container: str, mcpu: int, memory_bytes: int | None = None) -> Request:
    return request(f"a/{container}", mcpu, pod_sums=PodSums(4000, 2 * GI), memory_limit_bytes=memory_bytes)


def test_the_first_container_of_a_pod_finds_the_nodes_for_all_and_the_others_follow_it() -> None:
    held = fill(WHOLE, request("b/c", 1000, localities=at(1)))
    held = fill(WHOLE, in_pod("c0", 1000), held=held)
    first = held.grants[0].request.alignment
    assert first is not None
    assert (str(first.nodes), first.scope) == ("2", POD)
    follows = placed(WHOLE.decide(held, in_pod("c1", 3000, GI)))
    assert (within(follows), str(follows.grant.mems), codes(follows)[0]) == ("2", "2", "topology-kept")
    full = held.with_grants(follows.grant)
    assert "keeps it within NUMA node 2" in rejected(WHOLE.decide(full, in_pod("c2", 1000))).reason.text


def test_a_pod_whose_sums_no_node_can_hold_is_refused_before_its_first_container() -> None:
    pod = replace(request("a/", 0), pod_sums=PodSums(5000, GI))
    refused = WHOLE.refused_pod(NOTHING, pod)
    assert refused is not None
    assert "the pod asks for; cpu: wanted 5 CPUs to own" in refused.reason.text
    assert WHOLE.refused_pod(NOTHING, replace(pod, pod_sums=PodSums(4000, GI))) is None
    assert policy_of("best-effort", "pod").refused_pod(NOTHING, pod) is None
    assert SINGLE.refused_pod(NOTHING, pod) is None


def test_a_container_that_is_created_again_keeps_its_nodes() -> None:
    first = placed(SINGLE.decide(NOTHING, request("a/c", 2000, localities=at(2)))).grant
    again = placed(SINGLE.decide(NOTHING, request("a/c", 2000, previous=first.as_previous)))
    assert (within(again), again.grant.owned == first.owned, codes(again)[0]) == ("2", True, "topology-kept")


def test_a_size_that_its_nodes_cannot_give_is_refused_under_a_strict_policy_alone() -> None:
    for policy, fits in ((SINGLE, False), (LENIENT, True)):
        held = fill(policy, request("a/c", 2000, localities=at(2)))
        wanted = request("a/c", 5000, localities=at(2), alignment=held.grants[0].request.alignment)
        decision = policy.decide(held, replace(wanted, previous=held.grants[0].as_previous))
        assert isinstance(decision, Placed) is fits


def test_a_resize_beyond_its_nodes_is_refused_with_what_is_free_in_these() -> None:
    held = fill(SINGLE, request("a/c", 2000, localities=at(2)), request("o/c", 1000, localities=at(2)))
    own = held.grants[0]
    refusal = rejected(SINGLE.decide(held, request("a/c", 4000, localities=at(2), previous=own.as_previous)))
    assert refusal.reason.text == (
        "topology policy single-numa-node (topologyManager.policy) keeps it within NUMA node 2: "
        "wanted 4 exclusive CPUs, free 3 on node 2"
    )
    outcomes = {ranked.pool: ranked.outcome for ranked in refusal.ranking}
    assert outcomes["NUMA node #0"] == "not within the NUMA nodes of its topology hints"
    assert outcomes["root"] == "too few CPUs within the NUMA nodes of its topology hints: 3 free"


def test_a_changed_policy_moves_no_container_and_none_is_refused_that_runs() -> None:
    held = fill(SINGLE, request("a/c", 3000, localities=at(0), memory_limit_bytes=GI))
    assert RESTRICTED.reinstate(held).kept == PLAIN.reinstate(held).kept == (held.grants[0].container,)
    adopted = RESTRICTED.reinstate(NOTHING, (request("a/c", 3000, localities=(*at(0), *at_nic(3))),))
    assert adopted.unplaced == ()
    assert len(adopted.allocations.grants[0].owned) == 3


def at_nic(node: int) -> tuple[DeviceLocality, ...]:
    return (DeviceLocality("/dev/nic0", CpuSet(), NodeSet.of([node])),)


@pytest.mark.parametrize("policy", ["restricted", "best-effort"])
def test_more_nodes_than_hints_list_refuse_a_container_under_a_strict_policy_only(policy: str) -> None:
    rules = TopologyOptions(TopologyPolicy(policy), POD)
    many = topology_aware(describe({"packages": 2, "nodes": 10, "cores": 2}), topology=rules)
    wanted = request("a/c", 6000, pod_sums=PodSums(6000))
    decision = many.decide(NOTHING, wanted)
    if policy == "best-effort":
        assert (within(placed(decision)), codes(placed(decision))[0]) == ("", "topology-beyond")
        return
    assert rejected(decision).reason.code == "strict-topology"
    assert rejected(decision).reason.text.startswith(
        "topology policy restricted (topologyManager.policy) cannot be kept: hints list the sets of at most 16 "
        "NUMA nodes, and there are 20; give it the topology policy best-effort"
    )
    assert many.refused_pod(NOTHING, wanted) is not None


def test_a_pod_that_asks_for_a_policy_on_more_nodes_than_are_allowed_is_told() -> None:
    """The configuration's own policy is refused together with the limit."""
    machine = describe({"packages": 1, "nodes": 9, "cores": 2})
    limited = topology_aware(machine, topology=TopologyOptions(most_nodes=8))
    wanted = request("a/c", 1000)
    for policy in TopologyPolicy:
        asked = replace(wanted, preferences=replace(wanted.preferences, topology_policy=policy))
        decision = limited.decide(NOTHING, asked)
        if policy in (TopologyPolicy.NONE, TopologyPolicy.BEST_EFFORT):
            assert ("topology-beyond" in codes(placed(decision))) is (policy is TopologyPolicy.BEST_EFFORT)
        else:
            assert "cannot use '8': the machine has 9 NUMA nodes" in rejected(decision).reason.text


@pytest.mark.parametrize("policy", [SINGLE, RESTRICTED])
def test_for_want_of_cpu_time_a_container_that_shares_is_still_let_in(policy: TopologyAware) -> None:
    held = fill(policy, *(request(f"{n}/c", 4000 if n else 3000, localities=at(n)) for n in (0, 1, 2)))
    held = fill(policy, request("s/c", 3900, BURSTABLE), held=held)
    wanted = request("a/c", 500, memory_limit_bytes=GI, localities=at(1))
    refused = rejected(policy.decide(held, wanted))
    assert refused.reason.code == "cpu-full"
    decision = placed(policy.overcommitted(held, wanted, refused))
    assert (decision.grant.is_overcommitted, str(decision.grant.mems)) == (True, "1")
    assert isinstance(decision.grant.request.alignment, Alignment)


def test_shared_cpus_come_back_to_the_nodes_when_there_is_room() -> None:
    held = fill(SINGLE, request("b/c", 4000, localities=at(1)))
    held = fill(SINGLE, request("a/c", 500, memory_limit_bytes=GI, localities=at(1)), held=held)
    beyond = held.grants[0]
    held = held.without(held.grants[1].container)
    (home,) = SINGLE.better_places(held).grants
    assert (beyond.pool != home.pool, home.pool, str(home.mems)) == (True, "NUMA node #1", "1")


def test_of_nodes_that_all_prefer_one_is_taken_that_no_share_has_to_leave() -> None:
    held = fill(PLAIN, request("s/c", 900, BURSTABLE, localities=at(1)))
    decision = placed(SINGLE.decide(held, request("a/c", 4000)))
    assert (within(decision), decision.moved) == ("2", ())
    full = fill(SINGLE, *(request(f"{n}/c", 1000, localities=at(n)) for n in (2, 3)), held=held)
    assert within(placed(SINGLE.decide(full, request("a/c", 4000)))) == "1"


def test_memory_comes_back_to_the_nodes_of_each_container_of_a_pool() -> None:
    """Both share the CPUs of the socket, as after a lift; their memory had hints for different nodes of it."""
    grants = [
        Grant(
            request(f"{pod}/c", 500, memory_limit_bytes=GI, alignment=Alignment(nodes, nodes, is_strict=True)),
            "socket #0",
            CpuKind.SHARED,
            shared_mcpu=500,
            mems=NodeSet.parse("0-1"),
        )
        for pod, nodes in (("a", NodeSet.of([0])), ("b", NodeSet.of([1])))
    ]
    narrowed = SINGLE.narrowed(Allocations(tuple(grants)))
    assert {g.container.pod_uid: str(g.mems) for g in narrowed} == {"a": "0", "b": "1"}
