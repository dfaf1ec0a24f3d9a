"""Recorded histories of nodes with devices: asks for devices, huge pages and claims under every topology policy.

``python -m tests.golden.device_histories`` records them again after a change on purpose; ``tests.golden.histories``
tells what the lines and their marks are.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Final

from policies.alignment import PodSums, TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import HugePageLimit, Previous, QosClass, Request
from policies.device_grants import DeviceGrant
from policies.device_requests import DeviceAsk
from policies.devices import DeviceInventory, GpuPartition, InventoryDevice
from policies.devices.costs import CostLine, CostListing, Inventory, Missing, compile_costs
from policies.devices.links import LinkMatrix, matrix_of
from policies.preferences import HugePageNodes, PoolStrategy, Preferences
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.fakes.random_claims import random_claim
from tests.fakes.random_devices import random_amounts, random_ask, random_devices, random_listing
from tests.golden.histories import lines
from tests.property.policy_events import Create, Event, Reconfigure, Release, World, on
from tests.property.policy_history import random_event, random_options

FOLDER: Final = Path(__file__).with_suffix("")
STEPS: Final = 120
_CROWD: Final = 7
MIB: Final = 1 << 20
MACHINES: Final[dict[str, dict[str, object]]] = {
    "1s1n": {"packages": 1, "cores": 6, "threads": 2},
    "1s2n": {"packages": 1, "nodes": 2, "cores": 4, "threads": 2},
    "2s2n": {"packages": 2, "nodes": 2, "cores": 3, "threads": 2},
    "2s2n-isolated": {"packages": 2, "nodes": 2, "cores": 4, "threads": 2, "isolated": "6-7,14-15"},
    "2s4n": {"packages": 2, "nodes": 4, "cores": 4},
    "1s4n": {"packages": 1, "nodes": 4, "cores": 2, "threads": 2},
    "2s-cxl": {"packages": 2, "cores": 4, "threads": 2, "memory_nodes": [{"memory": "4Gi", "near": {1: 14}}]},
    "9s": {"packages": 9, "cores": 2},  # more nodes than sets of them are listed for
}
POLICIES: Final = (*TopologyPolicy, TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED)


def told(name: str) -> str:
    """The history of this machine, one line for each step."""
    rng = random.Random(f"devices {name}")
    machine = machine_of(rng, MACHINES[name])
    rules = TopologyOptions(
        POLICIES[1 + list(MACHINES).index(name) % 5],
        rng.choice(tuple(TopologyScope)),
        prefers_closest=rng.random() < 0.5,
        prefers_chosen_sets=rng.random() < 0.3,
    )
    options = replace(
        random_options(machine, rng, machine.online),
        topology=rules,
        pool_choice=rng.choice(tuple(PoolStrategy)),
        moves_per_check=rng.choice((0, 2, 2, 4)),
    )
    world = on(machine, options, devices_of(rng, machine))
    return "".join(f"{line}\n" for line in lines(f"devices {name}", world, STEPS, event_at))


def machine_of(rng: random.Random, shape: dict[str, object]) -> Machine:
    """Of this shape, with huge pages, and nodes at distances of their own."""
    nodes = int(str(shape["packages"])) * int(str(shape.get("nodes", 1)))
    far = {pair: rng.choice((12, 17, 21, 30)) for pair in combinations(range(nodes), 2)}
    return describe(
        {
            **shape,
            "memory": "4Gi",
            "hugepages": {"2Mi": [rng.choice((0, 128, 256)) for _ in range(nodes)]},
            "distances": [[10 if a == b else far[min(a, b), max(a, b)] for b in range(nodes)] for a in range(nodes)],
        }
    )


def devices_of(rng: random.Random, machine: Machine) -> DeviceInventory:
    """GPUs and NICs of an inventory, some with costs and links too, and others that cost files alone list."""
    plain = random_devices(rng, machine)
    gpus = plain.of("gpu")
    listing = random_listing(rng, machine)
    costs = Inventory(
        compile_costs(CostListing((*listing.lines, *_costs_of(rng, machine, gpus)), listing.present)),
        rng.choice(tuple(Missing)),
    )
    return replace(
        plain,
        costs=costs,
        links=_links(rng, len(gpus)) if gpus and rng.random() < 0.7 else None,
        partitions=_partitions(rng, gpus) if rng.random() < 0.3 else None,
    )


def _costs_of(rng: random.Random, machine: Machine, gpus: tuple[InventoryDevice, ...]) -> Iterator[CostLine]:
    """Costs of GPUs of the inventory to CPUs, as a cost file has them beside it."""
    for gpu in gpus if rng.random() < 0.6 else ():
        for node in machine.nodes:
            cost = 5 if node.id == gpu.numa else rng.choice((10, 20, 40))
            yield CostLine((f"nvidia.com/gpu/{gpu.minor}",), cost, tuple(f"cpu/cpu{cpu}" for cpu in node.cpus))


def _links(rng: random.Random, count: int) -> LinkMatrix:
    nvlinks = [[0] * count for _ in range(count)]
    for a, b in combinations(range(count), 2):
        nvlinks[a][b] = nvlinks[b][a] = rng.choice((0, 0, 1, 2, 18))
    return matrix_of(nvlinks, ())


def _partitions(rng: random.Random, gpus: tuple[InventoryDevice, ...]) -> tuple[GpuPartition, ...]:
    minors = [gpu.minor for gpu in gpus]
    pairs = [pair for pair in combinations(minors, 2) if rng.random() < 0.6]
    return (*(GpuPartition((minor,)) for minor in minors), *(GpuPartition(pair, rng.randint(1, 9)) for pair in pairs))


def event_at(world: World, rng: random.Random, number: int) -> Event:
    """An event of chance. Most containers that come ask for devices, huge pages, or have CPUs that others chose."""
    event = random_event(world, rng, number)
    while isinstance(event, Release) and len(world.held.grants) < _CROWD:
        event = random_event(world, rng, number)
    match event:
        case Create(request):
            return Create(_asking(world, rng, request))
        case Reconfigure(options):
            return replace(event, options=replace(options, topology=world.options.topology))
    return event


def _asking(world: World, rng: random.Random, plain: Request) -> Request:
    """The request with what came later than the plain histories."""
    pages = HugePageLimit(2 * MIB, rng.randint(1, 160) * 2 * MIB)
    wishes = replace(
        plain.preferences if rng.random() < 0.5 else Preferences(),
        devices=_devices(rng),
        topology_policy=rng.choice(POLICIES) if rng.random() < 0.2 else None,
        topology_scope=rng.choice(tuple(TopologyScope)) if rng.random() < 0.2 else None,
        huge_pages=rng.choice((None, *HugePageNodes)),
        strict_huge_pages=rng.random() < 0.1,
    )
    request = replace(
        plain,
        pod=replace(plain.pod, namespace="default"),
        preferences=wishes,
        huge_pages=(pages,) if rng.random() < 0.3 else (),
    )
    if rng.random() < 0.3 and request.pod.qos is QosClass.GUARANTEED:
        others = rng.choice((0, 1000, 2000))
        sums = PodSums(request.cpu_request_mcpu + others, 2 * request.memory_request_bytes, (wishes.devices,))
        request = replace(request, pod_sums=sums)
    match rng.randrange(12):
        case 0:
            return replace(
                request, claim=random_claim(world.whole, rng, request.pod.uid), preferences=plain.preferences
            )
        case 1 if world.policy.devices.devices:
            device = rng.choice(world.policy.devices.devices)
            given = DeviceGrant(device.kind, device.minor, rng.choice((1, 50, 100)), is_given=True)
            return replace(request, given=(given,))
        case 2:
            return replace(request, previous=Previous("NUMA node #1", CpuSet(), devices=()))
    return request


def _devices(rng: random.Random) -> DeviceAsk:
    match rng.randrange(5):
        case 0 | 1:
            return random_ask(rng)
        case 2:
            return DeviceAsk(random_amounts(rng))
        case 3:
            return replace(random_ask(rng), counts=random_amounts(rng))
    return DeviceAsk()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for machine in MACHINES:
        (FOLDER / f"{machine}.txt").write_text(told(machine))
