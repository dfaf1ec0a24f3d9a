#!/usr/bin/python3
"""Time the allocation of devices: jointly on 16 PCIe groups, with scopes that are tried one by one, and NUMA hints.

And whole decisions about a container with devices on 256 CPUs, beside 250 others.

    benchmarks/devices.py [ROUNDS]

Each round draws what other containers hold. CPU time of the answer alone, in milliseconds, and in parts of a fixed loop
of integer arithmetic, so that machines can be compared. A bar is kept when the median of the rounds is below it.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from policies.alignment import TopologyOptions, TopologyPolicy
from policies.base import Allocations, ContainerKey, Placed, Pod, QosClass, Request
from policies.builder import build_policy
from policies.device_grants import DeviceGrant
from policies.device_requests import NOTHING_ASKED, DeviceAsk
from policies.devices import (
    ALLOCATE_HINT,
    GPU,
    JOINT_ALLOCATE,
    RDMA,
    CannotAllocate,
    DeviceAllocator,
    DeviceInventory,
    DeviceQuestion,
    InventoryDevice,
    VfGroup,
    VirtualFunction,
    device_hints,
    read_annotations,
)
from policies.policy import Policy
from policies.preferences import Preferences
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe

REFERENCE_STEPS = 1_000_000
GROUPS = 16
PCIE: Mapping[str, object] = {"requiredTopologyScope": "PCIe"}


@dataclass(frozen=True, slots=True)
class Load:
    """A request on a node: GPUs and NICs of each PCIe group, NUMA nodes, GPUs asked for, the hints for both types."""

    title: str
    gpus: int
    nics: int
    nodes: int
    count: int
    bar_ms: float
    scope: str = ""
    hints: Mapping[str, object] | None = None
    answer: Callable[[DeviceAllocator, DeviceQuestion, Sequence[DeviceGrant]], object] = DeviceAllocator.allocate


LOADS = (
    Load("joint: a GPU and a NIC in each group, 4 GPUs", 1, 1, 2, 4, 20),
    Load("joint: a GPU and a NIC in each group, 8 GPUs, SamePCIe", 1, 1, 2, 8, 20, "SamePCIe"),
    Load("joint: 4 GPUs and 4 NICs with VFs in each group, 16 GPUs", 4, 4, 4, 16, 20, hints={RDMA: {"vfSelector": {}}}),
    Load("joint: 4 GPUs and 4 NICs in each group, both types on one PCIe", 4, 4, 4, 2, 20, "", {GPU: PCIE, RDMA: PCIE}),
    Load("joint: 64 GPUs, all that can be given may be too few, SamePCIe", 4, 1, 4, 40, 20, "SamePCIe"),
    Load("hints: 4 NUMA nodes, 8 GPUs", 2, 1, 4, 8, 20, answer=device_hints),
    Load("hints: 16 NUMA nodes, 6 GPUs", 1, 1, 16, 6, 1000, answer=device_hints),
    Load("hints: 8 NUMA nodes, 4 GPUs, SamePCIe", 1, 1, 8, 4, 200, "SamePCIe", answer=device_hints),
)


@dataclass(frozen=True, slots=True)
class DecisionLoad:
    """A decision: PCIe groups with a GPU and a NIC each, GPUs that are asked for with a NIC each, the policy."""

    title: str
    groups: int
    count: int
    policy: TopologyPolicy
    bar_ms: float


DECISIONS = (
    DecisionLoad("decision: 256 CPUs, without devices", 8, 0, TopologyPolicy.NONE, 5),
    DecisionLoad("decision: a GPU and a NIC of 8", 8, 1, TopologyPolicy.NONE, 10),
    DecisionLoad("decision: 8 GPUs and 8 NICs jointly, all of them", 8, 8, TopologyPolicy.NONE, 15),
    DecisionLoad("decision: 8 GPUs and 8 NICs jointly, of 16", 16, 8, TopologyPolicy.NONE, 30),
    DecisionLoad("decision: 2 GPUs and 2 NICs of 16, single-numa-node", 16, 2, TopologyPolicy.SINGLE_NUMA_NODE, 30),
    DecisionLoad("decision: 8 GPUs and 8 NICs jointly, of 16, best-effort", 16, 8, TopologyPolicy.BEST_EFFORT, 100),
)


def node(load: Load) -> DeviceInventory:
    """The devices of a load's node, 64 VFs for each NIC."""
    devices = []
    for group in range(GROUPS):
        numa, pcie = group * load.nodes // GROUPS, f"p{group}"
        devices += [InventoryDevice(GPU, group * load.gpus + i, numa, pcie) for i in range(load.gpus)]
        for i in range(load.nics):
            minor = group * load.nics + i
            vfs = tuple(VirtualFunction(n, f"0000:{minor:02x}:{n // 8:02x}.{n % 8}") for n in range(64))
            devices.append(InventoryDevice(RDMA, minor, numa, pcie, vf_groups=(VfGroup(vfs),)))
    return DeviceInventory(tuple(devices))


def drawn(inventory: DeviceInventory, rng: random.Random) -> list[DeviceGrant]:
    """What others hold: a tenth of the devices as a whole, shares of another tenth."""
    held = []
    for device in inventory.devices:
        part = rng.random()
        if part < 0.2:
            held.append(DeviceGrant(device.kind, device.minor, 100 if part < 0.1 else 30))
    return held


def reference_ms() -> float:
    """The time of a fixed loop of integer arithmetic."""
    start = time.process_time()
    total = 0
    for i in range(REFERENCE_STEPS):
        total = (total + i * i) & 0xFFFF
    return 1000 * (time.process_time() - start)


def measure(load: Load, rounds: int) -> bool:
    """Print the figures of one load; whether its bar is kept."""
    joint = {"deviceTypes": [GPU, RDMA]} | ({"requiredScope": load.scope} if load.scope else {})
    texts = {JOINT_ALLOCATE: json.dumps(joint), ALLOCATE_HINT: json.dumps(load.hints or {})}
    asked = DeviceQuestion({"nvidia.com/gpu": load.count, "koordinator.sh/rdma": 1}, read_annotations(texts))
    inventory, rng = node(load), random.Random(1)
    times, refused = [], 0
    for _ in range(rounds):
        held = drawn(inventory, rng)
        start = time.process_time()
        answer = load.answer(DeviceAllocator(inventory), asked, held)
        times.append(1000 * (time.process_time() - start))
        refused += isinstance(answer, CannotAllocate)
    middle = median(times)
    print(load.title)
    print(
        f"  median {middle:.2f} ms (bar {load.bar_ms:g}), most {max(times):.2f} ms,"
        f" {middle / reference_ms():.4f} of a loop of {REFERENCE_STEPS} additions; {refused} of {rounds} refused",
        flush=True,
    )
    return middle <= load.bar_ms


def decider(load: DecisionLoad) -> tuple[Policy, Request]:
    """The policy, and the container that asks for four CPUs and, with its devices, jointly."""
    machine = describe({"packages": 2, "nodes": 4, "cores": 16, "threads": 2, "memory": "64Gi"})
    devices = [
        InventoryDevice(kind, i, i * 8 // load.groups, f"p{i}") for kind in (GPU, RDMA) for i in range(load.groups)
    ]
    options = TopologyAwareOptions(machine.online, CpuSet.of([0]), topology=TopologyOptions(load.policy))
    policy = build_policy("topology-aware", machine, options, devices=DeviceInventory(tuple(devices)))
    joint = ((JOINT_ALLOCATE, json.dumps({"deviceTypes": [GPU, RDMA]})),)
    amounts = (("koordinator.sh/rdma", 1), ("nvidia.com/gpu", load.count))
    asked = DeviceAsk((), amounts, joint) if load.count else NOTHING_ASKED
    return policy, container("new", QosClass.GUARANTEED, 4000, asked)


def container(name: str, qos: QosClass, mcpu: int, asked: DeviceAsk = NOTHING_ASKED) -> Request:
    """A container that is alone in its pod."""
    pod, asks = Pod(name, name, "default", qos), Preferences(devices=asked)
    return Request(ContainerKey(name, "c"), pod, mcpu, mcpu, 1 << 28, 1 << 28, preferences=asks)


def measure_decisions(load: DecisionLoad, rounds: int) -> bool:
    """Print the figures of whole decisions; whether their bar is kept."""
    policy, asking = decider(load)
    rng, held = random.Random(1), Allocations()
    for i in range(250):
        owns = rng.random() < 0.3
        qos = QosClass.GUARANTEED if owns else QosClass.BURSTABLE
        decision = policy.decide(held, container(f"p{i:03}", qos, rng.choice((1000, 2000)) if owns else 100))
        held = held.with_grants(*decision.moved, decision.grant) if isinstance(decision, Placed) else held
    times, placed = [], 0
    for i in range(rounds):
        some = held.without(rng.choice(held.grants).container)
        policy.pinnings(some)  # what the daemon has of the last decision
        start = time.process_time()
        decision = policy.decide(some, replace(asking, container=ContainerKey(f"new-{i}", "c")))
        times.append(1000 * (time.process_time() - start))
        placed += isinstance(decision, Placed)
    middle = median(times)
    print(load.title)
    print(f"  median {middle:.2f} ms (bar {load.bar_ms:g}), most {max(times):.2f} ms; {placed} of {rounds} placed")
    return middle <= load.bar_ms


def main(rounds: int) -> int:
    """Print the figures; 1 when a bar is missed."""
    kept = [measure(load, rounds) for load in LOADS] + [measure_decisions(load, rounds) for load in DECISIONS]
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 51))
