"""Random histories with topology hints: containers lie within their nodes, and none is refused that a kubelet admits.

The kubelet's rule is restated here by its cross product of hints, for nodes whose memory belongs to single nodes.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import pytest

from policies.alignment import PodSums, TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import Allocations, ContainerKey, DeviceLocality, Grant, Placed, Pod, QosClass, Request
from policies.builder import build_policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine, NumaNode
from tests.property.invariants import check
from tests.property.policy_events import on
from tests.property.policy_history import play, random_options

GI = 1 << 30
STEPS = 30
STRICT = (TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE)


@dataclass(frozen=True)
class Kubelet:
    """What a kubelet with static managers would find on this node."""

    machine: Machine
    available: CpuSet
    held: Allocations

    def nodes(self) -> Iterator[tuple[NumaNode, ...]]:
        """Yield every set of nodes, small ones first."""
        for size in range(1, len(self.machine.nodes) + 1):
            yield from combinations(self.machine.nodes, size)

    def admits(self, request: Request, policy: TopologyPolicy) -> bool:
        """Return whether one set of nodes is preferred by all."""
        lists = [self.cpu(request), self.memory(request), *map(self.device, request.localities)]
        most = 1 if policy is TopologyPolicy.SINGLE_NUMA_NODE else len(self.machine.nodes)
        wanted = [{mask for mask in found if mask.bit_count() <= most} for found in lists if found is not None]
        return not wanted or bool(set.intersection(*wanted))

    def cpu(self, request: Request) -> set[int] | None:
        if request.pod.qos is not QosClass.GUARANTEED or request.cpu_request_mcpu % 1000:
            return None
        count = request.cpu_request_mcpu // 1000
        free = self.available - CpuSet.of_masks(g.owned.mask for g in self.held.grants)
        return self.preferred(
            lambda some: sum(len(n.cpus & self.available) for n in some) >= count,
            lambda some: sum(len(n.cpus & free) for n in some) >= count,
        )

    def memory(self, request: Request) -> set[int] | None:
        if request.pod.qos is not QosClass.GUARANTEED:
            return None
        wanted = request.memory_limit_bytes or 0
        return self.preferred(
            lambda some: sum(n.memory_bytes for n in some) >= wanted,
            lambda some: sum(n.memory_bytes for n in some) - self.taken(some) >= wanted,
        )

    def taken(self, some: tuple[NumaNode, ...]) -> int:
        """The bytes of Guaranteed containers that may use a node of these; all of them are on single nodes."""
        mask = sum(1 << n.id for n in some)
        grants = (g for g in self.held.grants if g.request.pod.qos is QosClass.GUARANTEED and g.mems.mask & mask)
        return sum(g.request.memory_limit_bytes or 0 for g in grants)

    def device(self, place: DeviceLocality) -> set[int]:
        return {1 << node for node in place.nodes}

    def preferred(self, could: object, can: object) -> set[int]:
        assert callable(could) and callable(can)
        size = next((len(some) for some in self.nodes() if could(some)), len(self.machine.nodes))
        return {sum(1 << n.id for n in some) for some in self.nodes() if len(some) == size and can(some)}


def machine_of(rng: random.Random) -> Machine:
    shape = rng.choice(({"packages": 2, "nodes": 1}, {"packages": 2, "nodes": 2}, {"packages": 1, "nodes": 3}))
    return describe({**shape, "cores": rng.choice((2, 3)), "threads": rng.choice((1, 2)), "memory": "8Gi"})


def request_of(rng: random.Random, number: int, machine: Machine, *, memory_bytes: int) -> Request:
    qos = rng.choice((QosClass.GUARANTEED, QosClass.GUARANTEED, QosClass.BURSTABLE))
    mcpu = rng.choice((500, 1000, 2000, 3000, 5000)) if qos is QosClass.GUARANTEED else rng.choice((0, 100, 700))
    key = ContainerKey(f"uid-{number}", "c")
    near = rng.choice(machine.nodes)
    places = (DeviceLocality("/dev/x0", near.cpus, NodeSet.of([near.id])),) if rng.random() < 0.3 else ()
    pod = Pod(key.pod_uid, f"pod-{number}", "default", qos)
    limit = memory_bytes if qos is QosClass.GUARANTEED else None
    return Request(key, pod, mcpu, memory_request_bytes=memory_bytes, memory_limit_bytes=limit, localities=places)


def near_several(rng: random.Random, request: Request, machine: Machine) -> Request:
    """The request with up to three devices that lie near a row of nodes each, as those of a socket do."""
    ids, places = [node.id for node in machine.nodes], []
    for kind in range(rng.choice((0, 1, 2, 3))):
        first, count = rng.randrange(len(ids)), rng.randrange(1, len(ids) - 1)
        near = [node for node in machine.nodes if (node.id - first) % len(ids) < count]
        cpus = CpuSet.of_masks(node.cpus.mask for node in near)
        places.append(DeviceLocality(f"/dev/{'xyz'[kind]}0", cpus, NodeSet.of(node.id for node in near)))
    return replace(request, localities=tuple(places))


def has_room(machine: Machine, available: CpuSet, held: Allocations, request: Request) -> bool:
    """Return whether a scheduler would send it: the requests of all fit, and a CPU is left for those without one."""
    requests = [request, *(grant.request for grant in held.grants)]
    fits = sum(each.memory_request_bytes for each in requests) <= sum(node.memory_bytes for node in machine.nodes)
    return fits and sum(each.cpu_request_mcpu for each in requests) <= 1000 * len(available) - 1000


def is_within(machine: Machine, grant: Grant) -> bool:
    """Return whether what a container owns and is promised lies on its nodes."""
    alignment = grant.request.alignment
    if alignment is None:
        return True
    cpus = CpuSet.of_masks(node.cpus.mask for node in machine.nodes if node.id in alignment.nodes)
    is_promised = grant.request.pod.qos is QosClass.GUARANTEED
    return grant.owned <= cpus and (not is_promised or grant.mems <= alignment.nodes)


@pytest.mark.parametrize("seed", range(24))
def test_containers_lie_within_their_nodes_and_none_is_refused_that_the_kubelet_admits(seed: int) -> None:
    rng = random.Random(seed)
    machine, wanted = machine_of(rng), STRICT[seed % 2]
    options = TopologyAwareOptions(machine.online, CpuSet.of([0]), topology=TopologyOptions(wanted))
    policy, available = build_policy("topology-aware", machine, options), machine.online - CpuSet.of([0])
    held, admitted = Allocations(), 0
    for number in range(STEPS):
        if held.grants and rng.random() < 0.3:
            held = held.without(rng.choice(held.grants).container)
            continue
        # Under restricted a zone may be of several nodes: then how much of each is taken is a matter of the kernel.
        memory_bytes = rng.randrange(1, 5) * GI if wanted is TopologyPolicy.SINGLE_NUMA_NODE else 1 << 20
        request = request_of(rng, number, machine, memory_bytes=memory_bytes)
        if not has_room(machine, available, held, request):
            continue
        decision = policy.decide(held, request)
        if Kubelet(machine, available, held).admits(request, wanted):
            admitted += 1
            assert isinstance(decision, Placed), decision
        if not isinstance(decision, Placed):
            assert decision.reason.code == "strict-topology", decision.reason
            continue
        held = held.with_grants(*decision.moved, decision.grant)
        assert all(is_within(machine, grant) for grant in held.grants)
        assert policy.reinstate(held).kept == tuple(grant.container for grant in held.grants)
    assert admitted


@pytest.mark.parametrize("seed", range(16))
def test_on_nine_to_sixteen_nodes_with_devices_near_several_a_policy_is_as_strict_as_the_kubelets(seed: int) -> None:
    rng, wanted = random.Random(seed), STRICT[seed % 2]
    nodes = 9 + seed // 2
    machine = describe({"packages": 1, "nodes": nodes, "cores": 2, "memory": "8Gi"})
    options = TopologyAwareOptions(machine.online, CpuSet.of([0]), topology=TopologyOptions(wanted))
    policy, available = build_policy("topology-aware", machine, options), machine.online - CpuSet.of([0])
    held, admitted, refused = Allocations(), 0, 0
    for number in range(STEPS if nodes <= 12 else STEPS // 3):
        plain = request_of(rng, number, machine, memory_bytes=1 << 20)
        request = near_several(rng, replace(plain, cpu_request_mcpu=rng.choice((1000, 2000, 3000))), machine)
        if request.pod.qos is not QosClass.GUARANTEED or not has_room(machine, available, held, request):
            continue
        decision = policy.decide(held, request)
        is_admitted = Kubelet(machine, available, held).admits(request, wanted)
        assert isinstance(decision, Placed) == is_admitted, (request, decision)
        admitted, refused = admitted + is_admitted, refused + (not is_admitted)
        if isinstance(decision, Placed):
            held = held.with_grants(*decision.moved, decision.grant)
            assert all(is_within(machine, grant) for grant in held.grants)
    assert admitted and refused


@pytest.mark.parametrize("seed", range(16))
def test_pods_stay_on_one_set_of_nodes_through_resizes_and_restarts(seed: int) -> None:
    rng = random.Random(seed)
    machine, wanted = machine_of(rng), STRICT[seed % 2]
    rules = TopologyOptions(wanted, TopologyScope.POD)
    options = TopologyAwareOptions(machine.online, CpuSet.of([0]), topology=rules)
    policy, held, grown = build_policy("topology-aware", machine, options), Allocations(), 0
    for number in range(STEPS):
        grant = rng.choice(held.grants) if held.grants else None
        if grant is not None and rng.random() < 0.2:
            held = held.without(grant.container)
        elif grant is not None and rng.random() < 0.4:  # resized, or created again
            mcpu = grant.request.cpu_request_mcpu + rng.choice((-1000, 0, 1000))
            request = replace(grant.request, cpu_request_mcpu=max(500, mcpu), previous=grant.as_previous)
            if rng.random() < 0.5:
                held, request = held.without(grant.container), replace(request, alignment=None)
            decision = policy.decide(held, request)
            grown += isinstance(decision, Placed)
            if isinstance(decision, Placed):
                held = held.with_grants(*decision.moved, decision.grant)
        else:
            for request in pod_of(rng, number, machine):
                decision = policy.decide(held, request)
                if isinstance(decision, Placed):
                    held = held.with_grants(*decision.moved, decision.grant)
        assert all(is_within(machine, each) for each in held.grants)
        assert all(len(masks) == 1 for masks in nodes_of_pods(held).values())
        assert policy.reinstate(held).kept == tuple(each.container for each in held.grants)
    assert grown


def pod_of(rng: random.Random, number: int, machine: Machine) -> Iterator[Request]:
    """Yield the containers of a Guaranteed pod, with its sums."""
    sizes = [rng.choice((500, 1000, 2000)) for _ in range(rng.randrange(1, 4))]
    limit = rng.randrange(1, 3) * GI
    sums = PodSums(sum(sizes), limit * len(sizes))
    for i, mcpu in enumerate(sizes):
        plain = request_of(rng, number, machine, memory_bytes=limit)
        pod = replace(plain.pod, qos=QosClass.GUARANTEED)
        key = ContainerKey(pod.uid, f"c{i}")
        yield replace(
            plain, container=key, pod=pod, cpu_request_mcpu=mcpu, memory_limit_bytes=limit, pod_sums=sums, localities=()
        )


def nodes_of_pods(held: Allocations) -> dict[str, set[int]]:
    """The nodes that the containers of each pod are kept within, each set once."""
    found: dict[str, set[int]] = {}
    for grant in held.grants:
        alignment = grant.request.alignment
        found.setdefault(grant.container.pod_uid, set()).add(0 if alignment is None else alignment.nodes.mask)
    return found


@pytest.mark.parametrize("seed", range(16))
def test_what_always_holds_also_holds_for_any_wishes_under_any_topology_policy(seed: int) -> None:
    rng = random.Random(seed)
    machine = machine_of(rng)
    plain = random_options(machine, rng, machine.online)
    policies, scopes = list(TopologyPolicy)[1:], list(TopologyScope)
    rules = TopologyOptions(policies[seed % len(policies)], rng.choice(scopes), prefers_closest=rng.random() < 0.5)
    world = on(machine, replace(plain, topology=rules))
    for step in play(world, rng, 3 * STEPS, reconfigure=False):
        check(step)
