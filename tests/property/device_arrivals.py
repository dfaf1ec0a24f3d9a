"""Containers with devices that others chose, at random: each sits on its device's node wherever that has room.

``python -m tests.property.device_arrivals --arrivals 1000`` plays ten machines with a thousand arrivals each, and
prints what was counted. A container that is elsewhere although there is room is printed with what makes it again; the
exit status is 1 then.

A container arrives as a CRI request, is read with made-up files of its devices (``tests.fakes.device_tree``), and
placed by the policy. Whether there is room is told by bookkeeping of its own: CPUs that no container owns, less what is
booked in each pool, without moving any container. What goes before devices is left as it is: a container that prefers
an isolated CPU and can have one has room where such CPUs are.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.placement_machines import ladder
from cri_proxy.config.model import Config
from cri_proxy.cri.device_names.names import ToldDevices
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec, create_request, guaranteed
from cri_proxy.intercept.locality import Found, LocalityLookup
from cri_proxy.intercept.reader import Reader
from cri_proxy.kubelet.pod_resources import told_devices
from cri_proxy.kubelet.proto import podresources_v1_pb2 as kubelet
from policies.base import Allocations, CpuKind, Grant, Placed, Request
from policies.builder import build_policy
from policies.hardware.reserve import choose_reserved
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import NodeSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.fakes.device_tree import NAMINGS, VISIBLE_ONCE, MadeUpDevice, MadeUpFiles, made_up_devices, write_devices
from tests.golden.machines.captures import ours

MEBIBYTE: Final = 1 << 20
FULL: Final = 0.75  # of the CPUs are asked for, on average
CAPTURED: Final = ("1s2n-l3", "2s2n", "2s2n-offline", "2s4n-isol", "2s8n", "4s4n")
DESCRIBED: Final[Mapping[str, dict[str, object]]] = {
    "2 sockets": {"packages": 2, "cores": 16, "threads": 2, "memory": "128Gi"},
    "2 sockets, 4 nodes each": {"packages": 2, "nodes": 4, "cores": 4, "threads": 2, "memory": "32Gi"},
    "8 sockets in a row": {"packages": 8, "cores": 4, "threads": 2, "memory": "32Gi", "distances": ladder(8)},
    "threads far apart": {"packages": 2, "nodes": 2, "cores": 8, "threads": 2, "numbering": "split", "memory": "64Gi"},
}
MACHINES: Final = (*CAPTURED, *DESCRIBED)


def machine_of(name: str) -> Machine:
    return describe(DESCRIBED[name]) if name in DESCRIBED else ours(name)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A container with devices: what names them, in its request and in what the kubelet says."""

    devices: tuple[MadeUpDevice, ...]
    namings: tuple[str, ...]
    message: pb.CreateContainerRequest
    told: ToldDevices


@dataclass
class Tally:
    """What came of the arrivals: counts by a word, and a sentence for each that broke a rule."""

    counts: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)


class Node:
    """A machine with made-up devices below ``root``, a policy, and what containers hold."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self.machine = machine_of(name)
        self.devices = made_up_devices(self.machine)
        self.lookup = LocalityLookup(root, MadeUpFiles(write_devices(root, self.machine, self.devices)))
        self.reserved = choose_reserved(self.machine, self.machine.online, 1000)
        self.policy = build_policy(
            "topology-aware", self.machine, TopologyAwareOptions(self.machine.online, self.reserved)
        )
        self.kubelet = KubeletNode(sum(node.memory_bytes for node in self.machine.nodes))
        self.pools = {pool.name: pool.cpus.mask for pool in self.policy.pools(Allocations())}
        self.sharable = (self.machine.online - self.reserved - self.machine.isolated).mask
        self.held = Allocations()

    @property
    def asked_mcpu(self) -> int:
        return sum(grant.request.cpu_request_mcpu for grant in self.held.grants)

    def leave(self, rng: random.Random) -> None:
        """Let one of the containers leave, if there is one."""
        if self.held.grants:
            self.held = self.held.without(rng.choice(self.held.grants).container)

    async def read(self, arrival: Arrival) -> Request:
        async def hints_of(config: pb.ContainerConfig, _: ToldDevices) -> Sequence[Found]:
            return await self.lookup.of(config, arrival.told)

        reader = Reader(self.kubelet.memory_capacity_bytes, Config(), hints_of)
        return (await reader.read_create(arrival.message, arrival.message.sandbox_config)).request

    def cpus_of(self, device: MadeUpDevice) -> int:
        return next(node.cpus.mask for node in self.machine.nodes if node.id == device.node)


def arrival(node: Node, spec: ContainerSpec, number: int, named: Sequence[tuple[MadeUpDevice, str]]) -> Arrival:
    """A container of its own pod with these devices, each named so."""
    pod = PodSpec(f"p{number}", (spec,))
    request = create_request(pod, spec, f"s{number}", node=node.kubelet)
    claims = [NAMINGS[device.kind][naming](device, request.config) for device, naming in named]
    resources = [claim for claim in claims if claim is not None]
    claim = kubelet.DynamicResource(claim_name="c", claim_resources=resources)
    held = kubelet.ContainerResources(name=spec.name, dynamic_resources=[claim])
    told = told_devices(kubelet.PodResources(containers=[held]), spec.name, NodeSet())
    devices = dict.fromkeys(device for device, _ in named)
    return Arrival(tuple(devices), tuple(naming for _, naming in named), request, told)


def random_arrival(node: Node, rng: random.Random, number: int) -> Arrival:
    """Most have a device, some two, and some devices have two names."""
    spec = _random_container(rng, max(2, len(node.machine.online) // 12))
    named: list[tuple[MadeUpDevice, str]] = []
    for device in rng.sample(node.devices, rng.choice((0, 1, 1, 1, 1, 2))):
        for _ in range(rng.choice((1, 1, 2))):
            named.append((device, rng.choice(_free_namings(device, named))))
    return arrival(node, spec, number, named)


def _free_namings(device: MadeUpDevice, named: Sequence[tuple[MadeUpDevice, str]]) -> list[str]:
    """The ways to name this device in a container that has these: one variable tells of all GPUs, and has one value."""
    names = sorted(NAMINGS[device.kind])
    sets_visible = {*VISIBLE_ONCE, "CDI variable"}
    if device.kind != "gpu" or not any(each.kind == "gpu" and naming in sets_visible for each, naming in named):
        return names
    return [name for name in names if name not in sets_visible]


def _random_container(rng: random.Random, most_cpus: int) -> ContainerSpec:
    """One with CPUs of its own, with a fraction beside them, or one that shares; one of eight asks for nothing."""
    memory_bytes = rng.choice((1, 4)) * MEBIBYTE
    match rng.randint(0, 7):
        case 0:
            return ContainerSpec("c")
        case 1:
            return ContainerSpec("c", cpu_request_mcpu=200, cpu_limit_mcpu=1000, memory_request_bytes=memory_bytes)
        case 2:
            return guaranteed("c", rng.choice((200, 500, 900)), memory_bytes=memory_bytes)
        case 3:
            return guaranteed("c", 1000 * rng.randint(1, most_cpus) + 500, memory_bytes=memory_bytes)
        case _:
            return guaranteed("c", 1000 * rng.randint(1, most_cpus), memory_bytes=memory_bytes)


class Room:
    """What there is room for, by the bookkeeping of CPUs that no container owns and of what is booked in the pools."""

    def __init__(self, node: Node, extra: Mapping[str, int]) -> None:
        """``extra`` is CPU time that is booked beside that of the containers, by pool."""
        owned = 0
        self._booked: Counter[str] = Counter(extra)
        self._used = set(extra)
        for grant in node.held.grants:
            owned |= grant.exclusive.mask
            if grant.kind in (CpuKind.SHARED, CpuKind.MIXED):
                self._booked[grant.pool] += grant.shared_mcpu
                self._used.add(grant.pool)
        self._pools = node.pools
        self._free = node.sharable & ~owned

    def owed(self, cpus: int) -> int:
        """How many CPUs must stay for what is booked inside these; a set in use keeps one."""
        inside = [name for name in self._used if not self._pools[name] & ~cpus]
        return max(-(-sum(self._booked[name] for name in inside) // 1000), bool(inside))

    def left(self, cpus: int) -> int:
        return (self._free & cpus).bit_count() - self.owed(cpus)

    def gives(self, cpus: int) -> int:
        """How many of these, the CPUs of a pool, a container may own; less than 0 where too much is booked."""
        inner = [mask for mask in self._pools.values() if not mask & ~cpus and mask != cpus]
        parts = [mask for mask in inner if not any(mask != other and not mask & ~other for other in inner)]
        rest = self._free & cpus & ~sum({*parts})
        outer = [mask for mask in self._pools.values() if not cpus & ~mask]
        return min(sum(self.gives(part) for part in {*parts}) + rest.bit_count(), *map(self.left, outer))

    def is_wide(self, node: Node, cpus: int, limit_mcpu: int | None) -> bool:
        """Whether a container that shares has as many CPUs as its limit, or half as many in proportion as anywhere."""
        here = (self._free & cpus).bit_count()
        if limit_mcpu is not None and 1000 * here >= limit_mcpu:
            return True
        return 2 * here * node.sharable.bit_count() >= self._free.bit_count() * (node.sharable & cpus).bit_count()


def has_room(node: Node, request: Request, cpus: int) -> bool:
    """Whether the NUMA node with these CPUs has room for the request beside all others, where these are."""
    home = next(name for name, mask in node.pools.items() if mask == cpus & node.pools["root"])
    mcpu = request.cpu_request_mcpu
    is_owner = request.cpu_limit_mcpu == mcpu >= 1000
    whole, shared_mcpu = divmod(mcpu, 1000) if is_owner else (0, mcpu)
    isolated = node.machine.isolated.mask & ~sum(grant.isolated.mask for grant in node.held.grants)
    if mcpu == 1000 and isolated:
        return bool(isolated & cpus)
    room = Room(node, {home: shared_mcpu} if shared_mcpu else {})
    if room.gives(node.pools[home]) < whole:
        return False
    return bool(whole) or room.is_wide(node, cpus, request.cpu_limit_mcpu)


async def play(name: str, seed: int, arrivals: int, tally: Tally) -> None:
    """Let so many containers arrive at this machine, and others leave where it is full."""
    rng = random.Random(f"{name} {seed}")
    with tempfile.TemporaryDirectory() as directory:
        node = Node(name, Path(directory))
        for number in range(arrivals):
            while node.asked_mcpu > FULL * 1000 * len(node.machine.online):
                node.leave(rng)
            container = random_arrival(node, rng, number)
            if not await arrive(node, container, tally, f"{name}, seed {seed}, arrival {number}"):
                node.leave(rng)  # a scheduler would have waited for that


async def arrive(node: Node, container: Arrival, tally: Tally, where: str) -> bool:
    """Place a container, judge its place, and return whether it has got one."""
    request = await node.read(container)
    places = {node.cpus_of(device) for device in container.devices}
    found = sorted(hint.cpus.mask for hint in request.localities)
    if found != sorted(node.cpus_of(device) for device in container.devices):
        tally.broken.append(f"{where}: {container.namings} give {request.localities}")
    rooms = {place: has_room(node, request, place) for place in places}
    decision = node.policy.decide(node.held, request)
    tally.counts["arrivals"] += 1
    tally.counts.update(f"by {naming}" for naming in container.namings)
    grant = None
    if isinstance(decision, Placed):
        grant = decision.grant
        node.held = node.held.with_grants(*decision.moved, grant)
    judge(node, grant, rooms, tally, f"{where}: {container.namings}, {request.cpu_request_mcpu}m")
    return grant is not None


def judge(node: Node, grant: Grant | None, rooms: Mapping[int, bool], tally: Tally, where: str) -> None:
    """Count what came of a container whose devices are on these nodes; ``rooms`` says which of them had room."""
    if len(rooms) != 1:
        tally.counts["with devices on two nodes" if rooms else "without devices"] += 1
        return
    ((place, has_place),) = rooms.items()
    tally.counts["with devices on one node"] += 1
    runs_on = 0
    if grant is not None:
        runs_on = (node.policy.pinnings(node.held)[grant.container].cpus or node.machine.online).mask
    is_there = bool(runs_on) and not runs_on & ~place
    outcome = "refused" if grant is None else "there" if is_there else "elsewhere"
    if grant is not None and not grant.request.cpu_request_mcpu:
        tally.counts[f"{outcome} without a request"] += 1  # as far as it is not crowded, of which Room knows nothing
        return
    tally.counts[f"{outcome} {'with' if has_place else 'without'} room"] += 1
    if has_place and not is_there:
        tally.broken.append(f"{where}: {outcome} ({grant and grant.pool}), though the node of its device has room")


def main(words: Sequence[str]) -> int:
    """Play every machine, and print what was counted; 1 when a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.device_arrivals", description=__doc__)
    parser.add_argument("--arrivals", type=int, default=1000, help="containers that arrive at each machine")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--machine", choices=MACHINES, help="one machine instead of all")
    arguments = parser.parse_args(words)
    in_all = Tally()
    for name in [arguments.machine] if arguments.machine else MACHINES:
        tally = Tally()
        asyncio.run(play(name, arguments.seed, arguments.arrivals, tally))
        print(f"{name}: {_text(tally)}", flush=True)
        in_all.counts += tally.counts
        in_all.broken += tally.broken
    print(f"in all: {_text(in_all)}")
    print("\n".join(in_all.broken[:20]))
    return min(1, len(in_all.broken))


def _text(tally: Tally) -> str:
    said = {word: count for word, count in sorted(tally.counts.items()) if not word.startswith("by ")}
    words = ", ".join(f"{count} {word}" for word, count in said.items())
    return f"{words}, {len(tally.broken)} broken"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
