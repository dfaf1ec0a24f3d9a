"""Random pods with resources of their own, as the kubelet words them: what they are granted is what they request.

Containers come, end and come again in any order, beside pods that ask container by container.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.cri.read_request import read_create
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodAmounts, PodSpec, create_request
from policies.base import Allocations, ContainerKey, Grant, Placed, QosClass
from policies.builder import build_policy
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine

STEPS = 40
MIB = 1 << 20
SHAPES: tuple[dict[str, object], ...] = (
    {"packages": 2, "nodes": 2, "cores": 4, "threads": 2, "memory": "8Gi"},
    {"packages": 1, "cores": 16, "memory": "16Gi"},
    {"packages": 4, "cores": 4, "threads": 2, "memory": "8Gi"},
)


@dataclass
class Node:
    """A machine, its policy, the pods that a kubelet runs there, and what is granted."""

    machine: Machine
    policy: Policy
    pods: list[PodSpec] = field(default_factory=list)
    held: Allocations = field(default_factory=Allocations)
    refused: set[ContainerKey] = field(default_factory=set)

    def create(self, pod: PodSpec, container: ContainerSpec) -> None:
        """Create a container of a pod, as it would be read from CRI."""
        capacity = sum(node.memory_bytes for node in self.machine.nodes)
        message = create_request(pod, container, "sandbox", node=KubeletNode(capacity))
        request = read_create(message, message.sandbox_config, node_memory_bytes=capacity).request
        decision = self.policy.decide(self.held, request)
        self.refused.discard(request.container)
        if not isinstance(decision, Placed):
            self.refused.add(request.container)
            return
        before = self.policy.pinnings(self.held)
        self.held = self.held.with_grants(*decision.moved, decision.grant)
        after = self.policy.pinnings(self.held)
        assert after[request.container] == decision.pinning
        changed = {key for key, pinning in after.items() if key in before and before[key] != pinning}
        assert {update.container for update in decision.updates} == changed - {request.container}


def start(shape: dict[str, object]) -> Node:
    machine = describe(shape)
    options = TopologyAwareOptions(machine.online, CpuSet.parse("0"))
    return Node(machine, build_policy("topology-aware", machine, options))


def random_pod(rng: random.Random, number: int) -> PodSpec:
    """A pod whose resources are its own, or those of its containers."""
    count = rng.randint(1, 4)
    mcpu = rng.choice((1000, 2000, 3000, 4000, 2500, 6000))
    if rng.random() < 0.3:
        each = [rng.choice((0, 500, 1000)) for _ in range(count)]
        containers = [
            ContainerSpec(f"c{i}", mcpu, mcpu, 64 * MIB if mcpu else 0, 64 * MIB if mcpu else 0)
            for i, mcpu in enumerate(each)
        ]
        return PodSpec(f"p{number:03}", tuple(containers))
    limit = mcpu * rng.choice((1, 1, 2, 4))
    left, containers = mcpu, []
    for i in range(count):
        own = rng.choice((0, 0, 500, 1000))
        own = own if i and own < left else 0
        left -= own
        containers.append(ContainerSpec(f"c{i}", own, rng.choice((own, 0)), 16 * MIB if own else 0))
    rng.shuffle(containers)
    amounts = PodAmounts(mcpu, limit, 512 * MIB, rng.choice((512 * MIB, 1024 * MIB)))
    return PodSpec(f"p{number:03}", tuple(containers), amounts=amounts)


def grants_of(node: Node, pod: PodSpec) -> list[Grant]:
    return [grant for grant in node.held.grants if grant.container.pod_uid == pod.pod_uid]


def granted_mcpu(grants: list[Grant]) -> int:
    """What is owned and booked, once for the containers that share it."""
    shared = [grant for grant in grants if grant.shares_cpus][:1]
    own = [grant for grant in grants if not grant.shares_cpus]
    return sum(1000 * len(grant.owned) + grant.shared_mcpu for grant in (*shared, *own))


def check(node: Node) -> None:
    """Owners have their CPUs alone, those that share have the same, complete pods have what they request."""
    owners: dict[ContainerKey, CpuSet] = {}
    for pod in node.pods:
        grants = grants_of(node, pod)
        sharing = [grant for grant in grants if grant.shares_cpus]
        assert len({(g.pool, g.owned, g.shared_mcpu, g.mems, g.share) for g in sharing}) <= 1, pod
        for grant in (*sharing[:1], *(g for g in grants if not g.shares_cpus)):
            owners[grant.container] = grant.owned
        is_complete = len(grants) == len(pod.containers) and not any(g.container in node.refused for g in grants)
        if is_complete and pod.qos is not QosClass.BEST_EFFORT:
            assert granted_mcpu(grants) == pod.cpu_request_mcpu, (pod, grants)
    assert sum(map(len, owners.values())) == len(CpuSet.of_masks(cpus.mask for cpus in owners.values()))
    for key, pinning in node.policy.pinnings(node.held).items():
        others = CpuSet.of_masks(cpus.mask for owner, cpus in owners.items() if owner != _owner(node, key))
        assert pinning.cpus, key
        assert pinning.cpus.isdisjoint(others), key
    for view in node.policy.pools(node.held):
        assert view.shared_granted_mcpu <= 1000 * len(view.shared), view.name


def _owner(node: Node, key: ContainerKey) -> ContainerKey:
    grant = next(g for g in node.held.grants if g.container == key)
    return next(g.container for g in node.held.grants if g is grant or g.shares_cpus_with(grant))


def history(node: Node, rng: random.Random) -> Iterator[None]:
    for number in range(STEPS):
        kind = rng.random()
        if kind < 0.5 or not node.pods:
            pod = random_pod(rng, number)
            node.pods.append(pod)
            for container in pod.containers:
                node.create(pod, container)
        elif kind < 0.75:  # a container ends, and is created again
            pod = rng.choice(node.pods)
            container = rng.choice(pod.containers)
            node.held = node.held.without(ContainerKey(pod.pod_uid, container.name))
            check(node)
            node.create(pod, container)
        elif kind < 0.9:
            pod = node.pods.pop(rng.randrange(len(node.pods)))
            for container in rng.sample(pod.containers, len(pod.containers)):
                node.held = node.held.without(ContainerKey(pod.pod_uid, container.name))
        else:
            again = node.policy.reinstate(node.held)
            assert (again.allocations, again.replaced, again.unplaced) == (node.held, (), ())
        yield


@settings(max_examples=settings().max_examples // 6)
@given(st.sampled_from(SHAPES), st.integers(0, 1 << 32))
def test_pods_are_granted_what_they_request_whatever_comes_and_goes(shape: dict[str, object], seed: int) -> None:
    node = start(shape)
    for _ in history(node, random.Random(seed)):
        check(node)
    for grant in node.held.grants:
        node.held = node.held.without(grant.container)
    assert node.policy.pools(node.held) == node.policy.pools(Allocations())


def test_the_requests_of_one_history_are_read_as_the_pods() -> None:
    """The histories are about something: most of their containers share with others of their pod."""
    node = start(SHAPES[0])
    for _ in history(node, random.Random(1)):
        pass
    assert sum(grant.shares_cpus for grant in node.held.grants) > len(node.held.grants) // 3
