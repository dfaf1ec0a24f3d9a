"""Random placements beside the schedulers' filter: it admits what the node takes, and nothing that the node refuses."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from cri_proxy.node_topology.document import TopologySnapshot, node_resource_topology
from policies.alignment import PodSums, TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import Allocations, ContainerKey, Grant, HugePageLimit, Pod, QosClass, Rejected, Request
from policies.policy import Policy
from policies.topology_aware import TopologyAware, TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.property.numa_filter import admits

MI, GI = 1 << 20, 1 << 30
PAGE = 2 * MI
SHAPES: Sequence[Mapping[str, object]] = (
    {"packages": 2, "nodes": 1, "cores": 6, "threads": 2},
    {"packages": 2, "nodes": 2, "cores": 3, "threads": 2},
    {"packages": 1, "nodes": 3, "cores": 4, "threads": 1},
    {"packages": 2, "nodes": 1, "cores": 4, "threads": 2, "isolated": "6-7,12-15"},
    {"packages": 2, "nodes": 5, "cores": 2, "threads": 2},
    {"packages": 1, "nodes": 1, "cores": 8, "threads": 2},
)
STEPS = 60


def policy_of(rng: random.Random, rules: TopologyOptions) -> Policy:
    """A policy on a random machine. Isolated CPUs are told for one container alone, so that pods have none."""
    shapes = [shape for shape in SHAPES if rules.scope is TopologyScope.CONTAINER or "isolated" not in shape]
    shape = rng.choice(shapes)
    machine = describe({**shape, "memory": "8Gi"})
    return TopologyAware(machine, TopologyAwareOptions(machine.online, CpuSet.of([0]), topology=rules))


def object_of(policy: Policy, held: Allocations, rules: TopologyOptions) -> Mapping[str, object]:
    pods = tuple({(g.request.pod.namespace, g.request.pod.name): None for g in held.grants})
    snapshot = TopologySnapshot("node", policy, held, rules, False, pods, "", "")
    return node_resource_topology(snapshot, policy.node_free(held))


def pod_of(rng: random.Random, number: int, count: int) -> tuple[Request, ...]:
    qos = rng.choice((QosClass.GUARANTEED,) * 4 + (QosClass.BURSTABLE, QosClass.BEST_EFFORT))
    pod = Pod(f"uid-{number}", f"pod-{number}", "default", qos)
    containers = []
    for place in range(count):
        mcpu, memory_bytes = rng.choice((250, 500, 1000, 1000, 2000, 2500, 3000, 5000, 6000)), 64 * MI
        if rng.random() < 0.5:
            memory_bytes = rng.randrange(1, 6 * 1024) * MI
        if qos is QosClass.BEST_EFFORT:
            mcpu = memory_bytes = 0
        limit = memory_bytes if qos is QosClass.GUARANTEED else None
        key = ContainerKey(pod.uid, f"c{place}")
        containers.append(Request(key, pod, mcpu, memory_request_bytes=memory_bytes, memory_limit_bytes=limit))
    sums = PodSums(sum(c.cpu_request_mcpu for c in containers), sum(c.memory_request_bytes for c in containers))
    return tuple(replace(container, pod_sums=sums) for container in containers)


def asked(container: Request) -> Mapping[str, Fraction]:
    cpu = Fraction(container.cpu_request_mcpu, 1000)
    return {"cpu": cpu, "memory": Fraction(container.memory_request_bytes)}


def fits_the_node(policy: Policy, held: Allocations, pod: Sequence[Request]) -> bool:
    """Whether the scheduler's own filter would send the pod: all requests fit, whatever their NUMA node."""
    every = [*pod, *(grant.request for grant in held.grants)]
    allocatable = 1000 * len(policy.available - policy.reserved)
    memory_bytes = sum(node.memory_bytes for node in policy.machine.nodes)
    fits = sum(each.memory_request_bytes for each in every) <= memory_bytes
    return fits and sum(each.cpu_request_mcpu for each in every) <= allocatable


def taken(policy: Policy, held: Allocations, pod: Sequence[Request]) -> Allocations | None:
    """The grants with all containers of the pod; None where the node refuses one."""
    for container in pod:
        decision = policy.decide(held, container)
        if isinstance(decision, Rejected):
            decision = policy.overcommitted(held, container, decision)  # as ``onShortage: admit`` has it
        if isinstance(decision, Rejected):
            return None
        held = held.with_grants(*decision.moved, decision.grant)
    return held


def is_whole(policy: Policy, held: Allocations, pod: Sequence[Request]) -> bool:
    """Whether each container has CPUs and memory of one NUMA node."""
    pools = {pool.name: pool.cpus for pool in policy.pools(held)}
    grants = [grant for grant in held.grants if grant.request.pod == pod[0].pod]
    return all(_on_one(policy.machine, grant, pools[grant.pool]) for grant in grants)


def _on_one(machine: Machine, grant: Grant, pool: CpuSet) -> bool:
    cpus = grant.owned | (pool if grant.shared_mcpu or not grant.owned else CpuSet())
    return sum(bool(node.cpus & cpus) for node in machine.nodes) == len(grant.mems) == 1


@pytest.mark.parametrize("scope", TopologyScope)
@pytest.mark.parametrize("seed", [*range(16), 88])  # a thousand placements in all; 88: ten nodes, full memory
def test_the_filter_admits_what_the_node_takes_whole_and_nothing_that_it_refuses(
    seed: int, scope: TopologyScope
) -> None:
    rng, rules = random.Random(seed), TopologyOptions(TopologyPolicy.SINGLE_NUMA_NODE, scope)
    policy, held, outcomes = policy_of(rng, rules), Allocations(), set()
    for number in range(STEPS):
        if held.grants and rng.random() < 0.3:
            gone = rng.choice(held.grants).request.pod
            for grant in held.grants:
                held = held.without(grant.container) if grant.request.pod == gone else held
            continue
        pod = pod_of(rng, number, rng.randrange(1, 4) if scope is TopologyScope.POD else 1)
        if not fits_the_node(policy, held, pod):
            continue
        is_admitted = admits(object_of(policy, held, rules), pod[0].pod.qos, [asked(each) for each in pod])
        after = taken(policy, held, pod)
        outcomes.add(is_admitted)
        if is_admitted:
            assert after is not None
        elif after is not None:
            assert not is_whole(policy, after, pod)
        held = after if after is not None else held
    assert True in outcomes


@pytest.mark.parametrize("policy_name", [TopologyPolicy.NONE, TopologyPolicy.BEST_EFFORT, TopologyPolicy.RESTRICTED])
def test_under_other_policies_the_filter_admits_all_that_the_node_has_room_for(policy_name: TopologyPolicy) -> None:
    rules = TopologyOptions(policy_name)
    policy = policy_of(random.Random(1), rules)
    pod = pod_of(random.Random(2), 0, 3)
    assert admits(object_of(policy, Allocations(), rules), pod[0].pod.qos, [asked(each) for each in pod])


@pytest.mark.parametrize("seed", range(8))
def test_huge_pages_are_available_up_to_what_the_node_grants(seed: int) -> None:
    rng, rules = random.Random(seed), TopologyOptions(TopologyPolicy.SINGLE_NUMA_NODE)
    machine = describe({"packages": 2, "nodes": 1, "cores": 8, "memory": "8Gi", "hugepages": {"2Mi": [200, 100]}})
    policy = TopologyAware(machine, TopologyAwareOptions(machine.online, CpuSet.of([0]), topology=rules))
    held, outcomes = Allocations(), set()
    for number in range(12):
        count = rng.randrange(1, 120)
        plain = replace(pod_of(rng, number, 1)[0], pod=Pod("u", f"p{number}", "default", QosClass.GUARANTEED))
        key = ContainerKey(f"uid-{number}", "c")
        wanted = replace(plain, container=key, cpu_request_mcpu=1000, memory_request_bytes=MI, memory_limit_bytes=MI)
        wanted = replace(wanted, huge_pages=(HugePageLimit(PAGE, count * PAGE),))
        amounts = {**asked(wanted), "hugepages-2Mi": Fraction(count * PAGE)}
        is_admitted = admits(object_of(policy, held, rules), QosClass.GUARANTEED, [amounts])
        after = taken(policy, held, (wanted,))
        assert is_admitted == (after is not None)
        outcomes.add(is_admitted)
        held = after if after is not None else held
    assert outcomes == {True, False}
