"""How long it takes to place and to release one container. Run: python benchmarks/decision.py [ROUNDS].

A round decides on a container, takes the grant over, and works out its release again: what the daemon does under its
lock. Each round has allocations of its own, as every change makes new ones. Every container asks for memory, and half
of the machine's is promised, or nearly all. Prints medians and 99th percentiles of CPU time, and the median's ratio to
a fixed pure-Python loop of the same process, by which machines can be compared; and how full the memory is.

All rounds are played several times, and the shortest time of each counts: what others do on the machine makes CPU time
longer, never shorter. Between two plays of a round lie all others, so that it finds nothing prepared for it.
"""

import random
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from policies.alignment import TopologyOptions, TopologyPolicy
from policies.base import (
    Affinity,
    Allocations,
    ContainerKey,
    DeviceLocality,
    Expression,
    Placed,
    Pod,
    QosClass,
    Request,
)
from policies.builder import build_policy
from policies.device_requests import DeviceAmount, DeviceAsk
from policies.devices import DeviceInventory
from policies.devices.costs import CPU_TYPE, NO_DEVICES, CostLine, CostListing, Inventory, compile_costs
from policies.hardware.reserve import choose_reserved
from policies.policy import Policy
from policies.preferences import Preferences
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine, MemoryKind

MEBIBYTE = 1 << 20
GPU, NIC = "example.com/gpu", "example.com/nic"
MEDIUM = {"packages": 2, "nodes": 4, "cores": 16, "threads": 2, "memory": "64Gi"}
PMEM = [{"memory": "256Gi", "kind": "pmem", "near": {first: 17, first + 1: 17}} for first in (0, 2, 4, 6)]
LARGE = {"packages": 8, "nodes": 4, "cores": 28, "threads": 2, "numbering": "split", "memory": "64Gi"}
L3_DOMAINS = [f"{first}-{first + 6},{first + 896}-{first + 902}" for first in range(0, 896, 7)]  # four to a node
REFERENCE_STEPS = 1_000_000
PLAYS = 3  # of all rounds
SIZES_MCPU = {QosClass.GUARANTEED: (500, 1000, 2000, 2500), QosClass.BURSTABLE: (50, 100, 250, 500)}
MEMORY_PARTS = (0.2, 0.5, 1.0, 1.0, 2.3)  # of the mean of all containers, which is theirs
WISH = (Affinity(Expression("pod/labels/app", "In", ("a",)), -5, Expression("namespace", "Equals", ("default",))),)
KINDS = ((), (), (), (MemoryKind.DRAM,), (MemoryKind.PMEM,), (MemoryKind.DRAM, MemoryKind.PMEM))


@dataclass(frozen=True, slots=True)
class Load:
    """A machine with containers on it, and the bars of a round: median and 99th percentile, None = no bar."""

    title: str
    machine: dict[str, object]
    containers: int
    median_ms: float | None = None
    p99_ms: float | None = None
    affinities: bool = False
    localities: bool = False  # two devices each, mostly on different nodes
    promised: float = 0.5  # of the machine's memory
    merged: TopologyPolicy = TopologyPolicy.NONE  # what is done with topology hints
    full: bool = False  # the last CPUs are asked for, so that every pass of the decision runs
    devices: bool = False  # the container of a round owns 4 CPUs, and asks for two of a GPU per node and a NIC


LOADS = (
    Load("256 CPUs, 8 nodes, 250 containers", dict(MEDIUM), 250, 2.0, 10.0),
    Load("the same, 500 containers", dict(MEDIUM), 500),
    Load("the same, 1000 containers", dict(MEDIUM), 1000),
    Load("the same, 250 containers, every one with an affinity", dict(MEDIUM), 250, affinities=True),
    Load("the same, 250 containers, every one with two devices", dict(MEDIUM), 250, localities=True),
    Load("the same, 250 containers, nearly all memory promised", dict(MEDIUM), 250, promised=0.97),
    Load(
        "the same with PMEM, 250 containers, of all kinds of memory", MEDIUM | {"memory_nodes": PMEM}, 250, promised=0.9
    ),
    Load("the same, 250 containers, asking for all that is left", dict(MEDIUM), 250, full=True),
    Load("the same, 250 containers, hints merged", dict(MEDIUM), 250, merged=TopologyPolicy.BEST_EFFORT),
    Load("the same, 250 containers, asking for devices of cost files", dict(MEDIUM), 250, devices=True),
    Load("1792 CPUs, 32 nodes, 1000 containers", dict(LARGE), 1000, 10.0, None),
    Load("the same, asking for devices of cost files", dict(LARGE), 1000, devices=True),
    Load(
        "the same, with affinities, devices, and nearly all memory promised",
        dict(LARGE),
        1000,
        5.0,
        8.0,
        affinities=True,
        localities=True,
        promised=0.97,
    ),
    Load(
        "the same with 128 L3 domains",
        LARGE | {"l3": L3_DOMAINS},
        1000,
        6.0,
        8.0,
        affinities=True,
        localities=True,
        promised=0.97,
    ),
)


def reference_seconds() -> float:
    """The time of a fixed loop of integer arithmetic."""
    start = time.process_time()
    total = 0
    for i in range(REFERENCE_STEPS):
        total = (total + i * i) & 0xFFFF
    return time.process_time() - start


def some_request(machine: Machine, load: Load, rng: random.Random, number: int) -> Request:
    """A container of any class, in a pod of its own."""
    qos = rng.choice(list(QosClass))
    uid = f"{rng.randrange(1 << 40):010x}-{number}"
    mcpu = rng.choice(SIZES_MCPU.get(qos, (0,)))
    mean_bytes = load.promised * sum(node.memory_bytes for node in machine.nodes) / load.containers
    memory_bytes = int(mean_bytes * rng.choice(MEMORY_PARTS)) // MEBIBYTE * MEBIBYTE
    return Request(
        ContainerKey(uid, "c"),
        Pod(uid, uid, "default", qos, (("app", rng.choice("ab")),)),
        mcpu,
        cpu_limit_mcpu=mcpu if qos is QosClass.GUARANTEED else None,
        memory_request_bytes=memory_bytes,
        memory_limit_bytes=memory_bytes if qos is QosClass.GUARANTEED else 2 * memory_bytes,
        affinities=WISH if load.affinities else (),
        localities=some_hints(machine, rng) if load.localities else (),
        preferences=Preferences(memory_kinds=rng.choice(KINDS) if "memory_nodes" in load.machine else ()),
    )


def some_hints(machine: Machine, rng: random.Random) -> tuple[DeviceLocality, ...]:
    """Two devices, each at one node."""
    nodes = rng.choices([node for node in machine.nodes if node.cpus], k=2)
    return tuple(DeviceLocality(f"/dev/sim{n}", CpuSet(), NodeSet.of([node.id])) for n, node in enumerate(nodes))


def some_devices(machine: Machine, rng: random.Random) -> Inventory:
    """A GPU and a NIC at each node, farther from the others; no two GPUs are alike to each other."""
    nodes = [node for node in machine.nodes if node.cpus]
    cpus = {node.id: tuple(f"{CPU_TYPE}/cpu{cpu}" for cpu in node.cpus) for node in nodes}
    gpus = [f"{GPU}/{i}" for i in range(len(nodes))]
    lines = [
        CostLine((f"{kind}/{i}",), 5 if node is home else 50, cpus[node.id])
        for kind in (GPU, NIC)
        for i, home in enumerate(nodes)
        for node in nodes
    ]
    lines += [CostLine((one,), rng.randint(1, 40), (other,)) for one in gpus for other in gpus if one != other]
    return Inventory(compile_costs(CostListing(tuple(lines))))


def filled(policy: Policy, load: Load, rng: random.Random) -> Allocations:
    """So many containers placed; owners take at most half of the machine, so that all find a place."""
    held, owned = Allocations(), 0
    most = len(policy.machine.online) // 2
    while len(held.grants) < load.containers:
        request = some_request(policy.machine, load, rng, len(held.grants))
        decision = policy.decide(held, request)
        if isinstance(decision, Placed) and owned + len(decision.grant.owned) <= most:
            owned += len(decision.grant.owned)
            held = held.with_grants(*decision.moved, decision.grant)
    return held


def asked(policy: Policy, held: Allocations, load: Load, rng: random.Random, number: int) -> Request:
    """The container of one round."""
    request = some_request(policy.machine, load, rng, number)
    if load.devices:
        pod = replace(request.pod, qos=QosClass.GUARANTEED)
        wanted = replace(request.preferences, devices=DeviceAsk((DeviceAmount(GPU, 2), DeviceAmount(NIC, 1))))
        return replace(request, pod=pod, cpu_request_mcpu=4000, cpu_limit_mcpu=4000, preferences=wanted)
    if not load.full:
        return request
    left = policy.pools(held)[0].shared_free_mcpu // 1000 - rng.randrange(3)
    pod = Pod(request.pod.uid, request.pod.name, "default", QosClass.GUARANTEED)
    return Request(request.container, pod, 1000 * left)


def round_milliseconds(policy: Policy, held: Allocations, request: Request) -> float:
    """CPU time of placing and releasing this container."""
    mine = Allocations(held.grants, held.withheld)
    start = time.process_time()
    decision = policy.decide(mine, request)
    if isinstance(decision, Placed):
        policy.release(mine.with_grants(*decision.moved, decision.grant), request.container)
    return 1000 * (time.process_time() - start)


def measure(load: Load, rounds: int) -> bool:
    """Print the figures of one load; whether its bars are kept."""
    rng = random.Random(1)
    machine = describe(load.machine)
    reserved = choose_reserved(machine, machine.online, 2000)
    options = TopologyAwareOptions(machine.online, reserved, topology=TopologyOptions(load.merged))
    inventory = some_devices(machine, rng) if load.devices else NO_DEVICES
    policy = build_policy("topology-aware", machine, options, DeviceInventory((), costs=inventory))
    held = filled(policy, load, rng)
    requests = [asked(policy, held, load, rng, load.containers + n) for n in range(rounds)]
    plays, references = [], []
    for _ in range(PLAYS):
        references.append(reference_seconds())
        plays.append([round_milliseconds(policy, held, request) for request in requests])
    times = [min(each) for each in zip(*plays, strict=True)]
    middle, p99 = median(times), quantiles(times, n=100)[98]
    ratio = middle / 1000 / min(references)
    bars = f"   (bars {load.median_ms} ms, {load.p99_ms or '-'} ms)" if load.median_ms else ""
    print(load.title)
    print(f"  median {middle:.2f} ms, p99 {p99:.2f} ms, {ratio:.4f} of a loop of {REFERENCE_STEPS} additions{bars}")
    print(f"  {memory_of(held, machine)}", flush=True)
    kept = load.median_ms is None or middle <= load.median_ms
    return kept and (load.p99_ms is None or p99 <= load.p99_ms)


def memory_of(held: Allocations, machine: Machine) -> str:
    """How much memory is promised, and how far the containers are spread over nodes."""
    promised = sum(g.request.memory_request_bytes for g in held.grants)
    part = promised / sum(node.memory_bytes for node in machine.nodes)
    wide = sum(1 for g in held.grants if len(g.mems) > 1)
    return f"{part:.0%} of the memory promised, {wide} of {len(held.grants)} containers on several nodes"


def main(rounds: int) -> int:
    """Print the figures; 1 when a bar is missed."""
    kept = [measure(load, rounds) for load in LOADS]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
