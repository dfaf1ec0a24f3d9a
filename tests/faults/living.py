"""A node that lives a random history, and what a kill at any of its points would leave behind.

Nothing is killed here: at a chosen point all that would survive is copied (what is on the disk, what the runtime has
and was sent, what the kubelet knows), and the history goes on. ``afterlife`` starts a new daemon on each copy.
"""

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from cri_proxy.config.model import Config
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.intercept.interceptor import CriInterceptor
from cri_proxy.intercept.reader import Reader
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.node import Environment, Node
from cri_proxy.relay.inprocess import InProcessRelay
from cri_proxy.runtime.embedded.state import Container, Sandbox
from cri_proxy.state.rows import Saved
from policies.base import ContainerKey, Grant, Labels
from policies.hardware.reserve import choose_reserved
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.fakes.histories import DEADLINE_EXCEEDED, LivePod, World
from tests.fakes.machines import random_machine
from tests.fakes.node_checks import waiting_for_starts
from tests.fakes.rows import confirmed_cpus
from tests.fakes.site import KernelOf, Watched, no_hints
from tests.faults.observed import AS_THEY_ARE, Parts, PointedChannel, PointedInterceptor, PointedStore
from tests.testbed.pod_kubelet import PodKubelet

SLOW_MEMORY = {
    "packages": 2,
    "cores": 4,
    "threads": 2,
    "memory": "1Gi",
    "isolated": "6-7",
    "memory_nodes": [
        {"memory": "4Gi", "kind": "pmem", "near": {0: 17}},
        {"memory": "4Gi", "kind": "pmem", "near": {1: 17}},
    ],
}
COLD = (("cold-start.cri-proxy.io/pod", "duration: 60s"),)
# What the daemon does of its own accord is named with what it is done for.
ACCORDS = {
    "tamper": "drift: ",
    "slow_check": "slow check: ",
    "let_time_pass": "slow check: ",
    "reconfigure": "re-plan: ",
    "hotplug": "re-plan: ",
}


@dataclass(frozen=True, slots=True)
class Settled:
    """The node at the last moment at which nothing was under way."""

    recorded: Mapping[str, tuple[str, str]]
    grants: Mapping[str, Grant]  # by container id
    outcomes: Mapping[ContainerKey, str]  # of the decisions, as ``explain`` tells them
    waiting: frozenset[str]  # the containers that wait for a start that the next daemon may not know


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the next daemon will find on the node: its machine, options and rules."""

    policy: Policy
    options: TopologyAwareOptions
    rules: Config
    is_same: bool  # as for the one that was killed


@dataclass(frozen=True, slots=True)
class Death:
    """All that is left after a kill at a point; ``grants`` and ``alone`` are what the dead daemon knew."""

    point: str
    doing: str
    saved: Saved
    sandboxes: tuple[Sandbox, ...]
    containers: tuple[Container, ...]
    ids: object
    in_flight: tuple[tuple[str, bytes], ...]
    pods: tuple[LivePod, ...]
    now_seconds: float
    configurations: tuple[Configuration, ...]
    allowed: CpuSet
    whole: Machine
    modern: bool
    settled: Settled
    grants: Mapping[str, Grant]
    alone: Mapping[str, CpuSet]
    is_quiet: bool


class Living(World):
    """A life whose points are told to ``wants``; where it says so, a death is kept."""

    def __init__(
        self, machine: Machine, options: TopologyAwareOptions, seed: int, *, parts: Parts = AS_THEY_ARE
    ) -> None:
        super().__init__(machine, options, seed)
        self.parts = parts
        self.policy = parts.policy(self.policy)
        self.store: PointedStore = PointedStore()
        self.store.world = self
        self.reached: Counter[str] = Counter()
        self.wants: Callable[[str], bool] = lambda point: False
        self.deaths: list[Death] = []
        self._in_flight: dict[int, tuple[str, bytes]] = {}
        self._requests = 0
        self._is_recovering = False
        self._next: Configuration | None = None
        self._settled = Settled({}, {}, {}, frozenset())
        self._is_acting = False
        self._is_same = True

    async def open(self, look: Callable[[], None] = lambda: None) -> None:
        """As ``Site.open``, with points everywhere."""
        own = Watched(self.runtime, look)
        channel = self.parts.channel(PointedChannel(own, self, is_own=True))
        self.journal = Journal(self.log, self.clock)
        store = self.parts.store(self.store)
        environment = Environment(channel, store, self.clock, self.journal, cpusets=KernelOf(self.runtime))
        self.node = Node(self.policy, self.rules, environment)
        memory_bytes = sum(n.memory_bytes for n in self.policy.machine.nodes)
        self.interceptor = CriInterceptor(self.node, Reader(memory_bytes, self.rules, no_hints))
        pointed = PointedInterceptor(self.parts.interceptor(self.interceptor), self)
        onward = PointedChannel(Watched(self.runtime, look), self, is_own=False)
        self.relay = InProcessRelay(pointed, onward, lambda error: self.log.errors.append(repr(error)))
        self.kubelet = PodKubelet(self.relay, pods.KubeletNode(memory_bytes, log_directory=""))
        self._is_recovering = True
        await self.node.recover()
        await self.node.settle()
        self._is_recovering = False

    # What the surroundings tell.

    def point(self, name: str) -> None:
        self.reached[name] += 1
        if self.wants(name):
            self.deaths.append(self._death(name))

    def sent(self, method: str, message: bytes) -> Callable[[], None]:
        self._requests += 1
        number = self._requests
        self._in_flight[number] = (method, message)
        return lambda: self._in_flight.pop(number, None) and None

    def own(self, name: str) -> str:
        return ("start: " if self._is_recovering else ACCORDS.get(self.doing, "")) + name

    # The history.

    async def whole_life(self) -> None:
        """The whole history: every kind of move, in random order, after a few pods are there."""
        moves = [self.burst, self.burst, self.rush, self.rush, self.resize, self.resize, self.restart_container]
        moves += [self.stop_container, self.exit_container, self.update_sandbox, self.remove_pod, self.run_pod]
        moves += [self.tamper, self.tamper, self.reconfigure, self.reconfigure, self.hotplug, self.change_costs]
        moves += [self.restart_proxy, self.run_cold, self.slow_check, self.lose_a_create]
        moves += [self.never_start, self.never_start, self.start_after_all]
        self.random.shuffle(moves)
        # A daemon that starts with a container in the runtime that the kubelet got no id of, and does not stop.
        moves.insert(moves.index(self.lose_a_create) + 1, self.restart_proxy)
        await self.open(self.check)
        for move in (self.run_pod, self.run_cold, self.run_pod, *moves, self.let_time_pass, self.remove_pod):
            await self._perform(move)

    async def _perform(self, move: Callable[[], object]) -> None:
        self.doing = getattr(move, "__name__", "")
        self._settle_up()
        self._is_acting = True
        await move()  # type: ignore[misc]  # every move is a coroutine function
        await self.node.settle()
        self._is_acting = False
        self.check()
        self.check_settled()
        self._settle_up()
        self._next = None
        self.point("nothing under way")

    def _settle_up(self) -> None:
        ledger = self.node.context.ledger
        records = {row.key: self.journal.records.get(row.key) for row in ledger.active()}
        outcomes = {key: record.outcome.value for key, record in records.items() if record is not None}
        keys = waiting_for_starts(ledger)
        waiting = frozenset(row.container_id for row in ledger.active() if row.key in keys)
        self._settled = Settled(self.recorded(), self._grants(), outcomes, waiting)

    async def run_cold(self) -> None:
        """A pod that begins on slow memory, where there is some."""
        await self._run_owner(COLD)

    async def _run_owner(self, annotations: Labels = ()) -> None:
        """A pod whose container gets a CPU of its own, where there is room."""
        self._names += 1
        container = guaranteed("c0", 1000, memory_bytes=32 << 20)
        spec = self._perhaps_asking(PodSpec(f"p{self._names}", (container,), annotations=annotations))
        pod = LivePod(spec, await self.kubelet.run_sandbox(spec))
        self.pods[spec.name] = pod
        await self._create_and_start(pod, container)

    async def rush(self) -> None:
        await asyncio.gather(self.run_pod(), self.resize(), self.remove_pod(), self.resize())

    async def stop_container(self) -> None:
        pod, name = self._pick()
        if pod is not None:
            stopped = pod.ids.pop(name)
            await self.kubelet.stop(stopped)
            await self.kubelet.remove(stopped)

    async def update_sandbox(self) -> None:
        pod, _ = self._pick()
        if pod is None or not self.runtime.modern:
            return
        request = pb.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod.sandbox_id)
        request.resources.cpu_shares = 2048
        await self.kubelet.call("UpdatePodSandboxResources", request, pb.UpdatePodSandboxResourcesResponse)

    async def lose_a_create(self) -> None:
        """The runtime creates a container, or does not, and nobody learns: the kubelet knows no id to stop."""
        for run in (self._run_owner, self.run_pod):
            after = self.random.random() < 0.5
            self.runtime.faults.fail_next("CreateContainer", DEADLINE_EXCEEDED, "deadline exceeded", after=after)
            await run()

    async def let_time_pass(self) -> None:
        await self.clock.sleep(3700.0)
        await self.node.resync.check_all("slow check")
        self.node.cold_starts.look()

    async def _change(self, machine: Machine, options: TopologyAwareOptions, rules: Config, *, must_fit: bool) -> None:
        """The operator has written the new options already, and the machine is what it is. All is always pinned."""
        options = replace(options, pin_cpu=True, pin_memory=True)
        policy = self.parts.policy(self._policy(machine, options))
        self._next = Configuration(policy, options, rules, is_same=False)
        await super()._change(machine, options, rules, must_fit=must_fit)

    # What a kill would leave.

    def _death(self, point: str) -> Death:
        ledger = self.node.context.ledger
        containers = tuple(copy.copy(c) for c in self.runtime.node.containers.values())
        return Death(
            point=point,
            doing=self.doing,
            saved=self.store.load(),
            sandboxes=tuple(copied(s) for s in self.runtime.node.sandboxes.values()),
            containers=containers,
            ids=copy.copy(self.runtime.node._ids),
            in_flight=tuple(self._in_flight.values()),
            pods=tuple(replace(p, ids=dict(p.ids), attempts=dict(p.attempts)) for p in self.pods.values()),
            now_seconds=self.clock.now_seconds(),
            configurations=self._configurations(),
            allowed=self._allowed,
            whole=self.whole,
            modern=self.runtime.modern,
            settled=self._settled,
            grants=self._grants(),
            alone={c.id: self._alone(c) for c in containers if c.running},
            is_quiet=not (self._is_acting or self._is_recovering or ledger.unsettled() or waiting_for_starts(ledger)),
        )

    def _configurations(self) -> tuple[Configuration, ...]:
        """Those that the next daemon may find: after a hotplug the machine that is there now."""
        in_force = self.node.context.ledger.policy
        if self._next is not None and self._next.policy.machine is not in_force.machine:
            return (self._next,)
        present = Configuration(in_force, self.options, self.node.coordinator.config, is_same=self._is_same)
        if self._next is None or self._next.options == self.options:
            return (present,)
        return present, self._next

    def _grants(self) -> dict[str, Grant]:
        return {row.container_id: row.grant for row in self.node.context.ledger.active() if row.container_id}

    def _alone(self, container: Container) -> CpuSet:
        """What it has alone: by the daemon's belief, the kernel's word, and nobody else being there."""
        row = self.node.context.ledger.holder(container.id)
        if row is None:
            return CpuSet()
        cpus = confirmed_cpus(self.node.context.ledger, row.key) & self.runtime.effective(container.id)[0]
        others = (c for c in self.live() if c.running and c.id != container.id)
        return cpus - CpuSet.of_masks(self.runtime.effective(c.id)[0].mask for c in others)


def copied(sandbox: Sandbox) -> Sandbox:
    config = pb.PodSandboxConfig()
    config.CopyFrom(sandbox.config)
    return replace(sandbox, config=config)


def a_life(seed: int, parts: Parts = AS_THEY_ARE) -> Living:
    """A machine, most often one with slow memory and little of the other, and its history."""
    rng = Random(seed)
    machine = random_machine(rng, max_cpus=16, max_packages=2) if seed % 4 == 0 else describe(SLOW_MEMORY)
    reserved = choose_reserved(machine, machine.online, min(1000 * (len(machine.online) - 1), 750))
    return Living(machine, TopologyAwareOptions(machine.online, reserved), seed, parts=parts)
