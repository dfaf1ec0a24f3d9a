"""Recorded histories of pods with resources of their own: containers share CPUs, memory, devices, claims and nodes.

``python -m tests.golden.pod_histories`` records them again after a change on purpose; ``tests.golden.histories`` tells
what the lines and their marks are.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from cri_proxy.cri.read_request import read_create
from cri_proxy.cri_client.pods import KubeletNode, PodSpec, create_request
from policies.alignment import PodSums, TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import ContainerKey, HugePageLimit, QosClass, Request
from policies.topology_aware.options import AVOID, IGNORE
from sysfs.cpuset import NodeSet
from tests.fakes.random_claims import random_claim
from tests.fakes.random_devices import random_ask
from tests.golden.device_histories import MIB, devices_of, machine_of
from tests.golden.histories import lines
from tests.property.policy_events import Create, Event, Reconfigure, Release, Step, World, decided, on
from tests.property.policy_history import random_event, random_options
from tests.property.random_requests import random_request
from tests.property.test_pod_resources import random_pod

FOLDER: Final = Path(__file__).with_suffix("")
STEPS: Final = 120
_CROWD: Final = 9
_PODS: Final = 7
MACHINES: Final[Mapping[str, dict[str, object]]] = {
    "1s-12c": {"packages": 1, "cores": 12},
    "1s2n-isolated": {"packages": 1, "nodes": 2, "cores": 4, "threads": 2, "isolated": "4-5,12-13"},
    "2s2n": {"packages": 2, "cores": 4, "threads": 2},
    "2s4n": {"packages": 2, "nodes": 2, "cores": 4},
    "2s-hbm": {"packages": 2, "cores": 6, "memory_nodes": [{"memory": "2Gi", "near": {0: 13}, "kind": "hbm"}]},
    "4s": {"packages": 4, "cores": 4},
}
_RULES: Final = (
    TopologyOptions(),
    TopologyOptions(TopologyPolicy.RESTRICTED, TopologyScope.POD),
    TopologyOptions(TopologyPolicy.BEST_EFFORT),
    TopologyOptions(TopologyPolicy.SINGLE_NUMA_NODE, TopologyScope.POD, prefers_closest=True),
    TopologyOptions(),
    TopologyOptions(TopologyPolicy.BEST_EFFORT, TopologyScope.POD),
)


@dataclass(frozen=True, slots=True)
class ResizePod:
    """A pod gets other amounts: its containers, those that run, ask for them one after the other."""

    requests: tuple[Request, ...]

    def __str__(self) -> str:
        return f"resize pod {self.requests[0].pod.name} to {self.requests[0].pod_request_mcpu}m"

    def happen(self, world: World) -> Step:
        step = Step(self, world, world)
        for request in self.requests:
            grant = step.after.held.get(request.container)
            if grant is not None:
                kept = replace(request, preferences=grant.request.preferences, claim=grant.request.claim)
                step = decided(self, step.after, replace(kept, previous=grant.as_running))
        return replace(step, before=world)


@dataclass(frozen=True, slots=True)
class RunPod:
    """A pod comes, before its containers: is there room for it on the nodes that its hints would be merged to?"""

    request: Request

    def __str__(self) -> str:
        return f"run pod {self.request.pod.name}"

    def happen(self, world: World) -> Step:
        return Step(self, world, world, self.request, world.policy.refused_pod(world.held, self.request))


def told(name: str) -> str:
    """The history of this machine, one line for each step."""
    rng = random.Random(f"pods {name}")
    number = list(MACHINES).index(name)
    machine = machine_of(rng, MACHINES[name])
    options = replace(
        random_options(machine, rng, machine.online),
        topology=_RULES[number],
        colocate_pods=number % 2 == 0,
        colocate_namespaces=number % 3 == 0,
        device_cpus=(AVOID, IGNORE, "keep=2")[number % 3],
        moves_per_check=rng.choice((2, 4)),
    )
    world = replace(on(machine, options, devices_of(rng, machine)), admits=number % 2 == 1)
    return "".join(f"{line}\n" for line in lines(f"pods {name}", world, STEPS, event_at))


def event_at(world: World, rng: random.Random, number: int) -> Event:
    """An event of chance. Most containers that come are of a few pods, which have resources of their own."""
    event = random_event(world, rng, number)
    while isinstance(event, Release) and len(world.held.grants) < _CROWD:
        event = random_event(world, rng, number)
    match event:
        case Create() if rng.random() < 0.9:
            return _of_a_pod(world, rng)
        case Reconfigure(options):
            kept = replace(options, topology=world.options.topology, moves_per_check=world.options.moves_per_check)
            return replace(event, options=kept)
    return event


@cache
def pod_of(number: int) -> PodSpec:
    return random_pod(random.Random(f"pod {number}"), number)


def _of_a_pod(world: World, rng: random.Random) -> Event:
    """One of its containers comes or comes again, the pod as a whole comes, or it gets another size."""
    pod = pod_of(rng.randrange(_PODS))
    match rng.randrange(9):
        case 0 if pod.amounts.are_given:
            return ResizePod(_requests_of(world, _resized(pod, rng)))
        case 1:
            return RunPod(_asked_as_a_whole(_requests_of(world, pod)[0], pod, rng))
    plain = rng.choice(_requests_of(world, pod))
    earlier = world.held.get(plain.container)
    return Create(_with_wishes(world, rng, replace(plain, previous=earlier.as_previous if earlier else None)))


def _resized(pod: PodSpec, rng: random.Random) -> PodSpec:
    mcpu = rng.choice((1000, 1500, 2000, 3000, 4000))
    amounts = replace(pod.amounts, cpu_request_mcpu=mcpu, cpu_limit_mcpu=max(mcpu, pod.amounts.cpu_limit_mcpu))
    return replace(pod, amounts=replace(amounts, memory_limit_bytes=rng.choice((512, 1024, 1536)) * MIB))


def _requests_of(world: World, pod: PodSpec) -> tuple[Request, ...]:
    """The requests of its containers, as they would be read from CRI."""
    capacity = sum(node.memory_bytes for node in world.whole.nodes)
    messages = [create_request(pod, each, "sandbox", node=KubeletNode(capacity)) for each in pod.containers]
    return tuple(read_create(m, m.sandbox_config, node_memory_bytes=capacity).request for m in messages)


def _with_wishes(world: World, rng: random.Random, plain: Request) -> Request:
    """The request, now and then with devices, CPUs that others chose, affinities, or preferences."""
    any_other = random_request(world.whole, rng, 0)
    wishes = any_other.preferences if rng.random() < 0.25 else plain.preferences
    request = replace(
        plain,
        preferences=replace(wishes, devices=random_ask(rng)) if rng.random() < 0.25 else wishes,
        affinities=any_other.affinities,
        localities=any_other.localities if rng.random() < 0.3 else (),
    )
    if rng.random() < 0.3:
        claim = random_claim(world.whole, rng, request.pod.uid)
        nodes = NodeSet.of([world.whole.nodes[0].id]) if rng.random() < 0.2 else NodeSet()
        request = replace(request, claim=replace(claim, mems=nodes))
    if rng.random() < 0.2:
        request = replace(request, huge_pages=(HugePageLimit(2 * MIB, rng.randint(1, 100) * 2 * MIB),))
    if world.options.topology.scope is TopologyScope.POD:
        request = replace(request, pod_sums=_sums_of(pod_of(_number_of(request)), request))
    return request


def _number_of(request: Request) -> int:
    return next(number for number in range(_PODS) if pod_of(number).pod_uid == request.pod.uid)


def _sums_of(pod: PodSpec, request: Request) -> PodSums:
    return PodSums(pod.cpu_request_mcpu, pod.memory_request_bytes, (request.preferences.devices,))


def _asked_as_a_whole(first: Request, pod: PodSpec, rng: random.Random) -> Request:
    """The pod's request, as large as it is or larger, so that it does not always fit."""
    asked = replace(first.preferences, devices=random_ask(rng)) if rng.random() < 0.5 else first.preferences
    qos = rng.choice((first.pod.qos, QosClass.GUARANTEED))
    uid = rng.choice((first.pod.uid, "another"))  # one that runs has its nodes
    plain = Request(ContainerKey(uid, ""), replace(first.pod, uid=uid, qos=qos), 0, preferences=asked)
    sums = _sums_of(pod, plain)
    larger = replace(sums, cpu_mcpu=1000 * rng.choice((1, 4, 7)))
    return replace(plain, pod_request_mcpu=pod.cpu_request_mcpu, pod_sums=larger)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for machine in MACHINES:
        (FOLDER / f"{machine}.txt").write_text(told(machine))
