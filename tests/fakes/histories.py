"""A node with a kubelet on the embedded runtime, played through random histories, checked after every runtime call.

What is checked is what the *runtime* holds, not what we believe: CPUs that a running container owns are in no
other running container's set, no set is empty, every set lies inside the available CPUs.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random

from cri_proxy.cri.annotations import DOMAINS
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed
from cri_proxy.node.context import Rules
from cri_proxy.node.journal import Journal
from cri_proxy.node.node import Node, Outside, build_node
from cri_proxy.node.reader import Reader, no_hints
from cri_proxy.relay.inprocess import InProcessRelay
from cri_proxy.relay.intercept import CriInterceptor
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.runtime.embedded import EmbeddedRuntime
from cri_proxy.runtime.embedded_state import Container
from cri_proxy.tryout import pods
from cri_proxy.tryout.image import IMAGE
from cri_proxy.tryout.kubelet import Kubelet
from cri_proxy.tryout.pods import ContainerSpec, PodSpec, guaranteed
from policies.base import CpuKind, Policy
from sysfs.cpuset import CpuSet
from tests.fakes.store import MemoryStore

GIB = 1 << 30


class InstantClock:
    """Time passes only by being waited for."""

    def __init__(self) -> None:
        self._now = 1_000_000.0

    def now_seconds(self) -> float:
        return self._now

    def monotonic_seconds(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds
        await asyncio.sleep(0)


class Silent:
    """A log that nobody reads; what must not happen is kept."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def info(self, event: str, **fields: object) -> None:
        pass

    def warning(self, event: str, **fields: object) -> None:
        pass

    def error(self, event: str, **fields: object) -> None:
        self.errors.append(f"{event} {fields}")


class Checked:
    """A channel that looks at the whole node after every call that goes through."""

    def __init__(self, inner: RuntimeChannel, world: "World") -> None:
        self._inner = inner
        self._world = world

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        try:
            return await self._inner.unary(method, message, timeout_seconds=timeout_seconds)
        finally:
            self._world.check()

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        return self._inner.stream(method, message)

    async def close(self) -> None:
        await self._inner.close()


@dataclass
class LivePod:
    """A pod that the kubelet runs: its sandbox, and the current id and attempt of each container."""

    spec: PodSpec
    sandbox_id: str
    ids: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)


class World:
    """One machine's life. ``play`` takes random steps; every step leaves the node settled and checked."""

    def __init__(self, policy: Policy, available: CpuSet, seed: int) -> None:
        self.policy = policy
        self.available = available
        self.random = Random(seed)
        self.runtime = EmbeddedRuntime(policy.machine, image_names=(IMAGE,), modern=seed % 2 == 0)
        self.store = MemoryStore()
        self.log = Silent()
        self.pods: dict[str, LivePod] = {}
        self.refused = 0
        self._names = 0
        self._busy = asyncio.Lock()

    async def open(self) -> None:
        """Start the proxy on what the store and the runtime hold."""
        clock = InstantClock()
        channel = Checked(self.runtime.channel(), self)
        journal = Journal(self.log, clock)
        self.node: Node = build_node(self.policy, Rules(), Outside(channel, self.store, clock, journal, DOMAINS))
        memory_bytes = sum(n.memory_bytes for n in self.policy.machine.nodes)
        reader = Reader(memory_bytes, DOMAINS, no_hints)
        relay = InProcessRelay(CriInterceptor(self.node, reader), channel, lambda error: self.log.error(repr(error)))
        self.kubelet = Kubelet(relay, pods.Node(memory_bytes, log_directory=""))
        await self.node.recover()
        await self.node.settle()

    def values(self) -> dict[str, tuple[str, str]]:
        """What the runtime has recorded for every container that is not exited."""
        return {c.id: (c.record.cpuset_cpus, c.record.cpuset_mems) for c in self._live()}

    def _live(self) -> list[Container]:
        return [c for c in self.runtime.node.containers.values() if c.state != pb.CONTAINER_EXITED]

    def check(self) -> None:
        """The invariants at this very moment, by what the kernel would let each running container use."""
        running = {c.id: self.runtime.effective(c.id)[0] for c in self._live() if c.running}
        ledger = self.node.context.ledger
        for container_id, cpus in running.items():
            assert cpus <= self.available, f"{container_id} is on {cpus}"
            row = ledger.holder(container_id)
            owned = ledger.held_alone(row.key) & cpus if row is not None else CpuSet()
            for other, theirs in running.items():
                clash = owned & theirs if other != container_id else CpuSet()
                assert not clash, f"CPUs {clash} of {container_id} are in the set of {other} ({theirs})"

    async def step(self) -> None:
        """One random thing that happens to a node."""
        moves = [self.run_pod] * 5 + [self.remove_pod] * 3 + [self.restart_container, self.exit_container] * 2
        await self.random.choice([*moves, self.restart_proxy, self.resize, self.fail_a_create])()
        await self.node.settle()
        self.check()
        self.check_ledger()

    def check_ledger(self) -> None:
        """What we believe is what the runtime has, and nothing is held for nobody."""
        live = {c.id for c in self._live()}
        for row in self.node.context.ledger.active():
            assert row.container_id in live, f"{row.key} holds CPUs for nobody"
        kinds = {row.grant.kind for row in self.node.context.ledger.active()}
        assert CpuKind.PRESERVE not in kinds
        assert not self.log.errors, self.log.errors

    async def run_pod(self) -> None:
        self._names += 1
        name = f"p{self._names}"
        containers = tuple(self._container(f"c{i}") for i in range(self.random.randint(1, 3)))
        namespace = self.random.choice(["default", "default", "default", "kube-system"])
        spec = PodSpec(name, containers, namespace, self._annotations())
        pod = LivePod(spec, await self.kubelet.run_sandbox(spec))
        self.pods[name] = pod
        for container in containers:
            await self._create_and_start(pod, container)

    async def remove_pod(self) -> None:
        if self.pods:
            pod = self.pods.pop(self.random.choice(sorted(self.pods)))
            await self.kubelet.remove_pod(pod.sandbox_id)

    async def restart_container(self) -> None:
        """The process ends, the kubelet makes the next attempt and collects the old one afterwards."""
        pod, name = self._pick()
        if pod is None:
            return
        old = pod.ids[name]
        self.runtime.exit(old)
        await self._create_and_start(pod, next(c for c in pod.spec.containers if c.name == name))
        await self.kubelet.remove(old)

    async def exit_container(self) -> None:
        pod, name = self._pick()
        if pod is not None:
            self.runtime.exit(pod.ids.pop(name))
            await self.node.resync.check_all("test")

    async def restart_proxy(self) -> None:
        """A new process on the same store: not one value changes."""
        await self.node.settle()
        before = self.values()
        await self.open()
        assert self.values() == before, "a restart changed a pinning"
        assert self.node.effects.sent == 0, "a restart sent updates"

    async def resize(self) -> None:
        pod, name = self._pick()
        if pod is None:
            return
        spec = next(c for c in pod.spec.containers if c.name == name)
        mcpu = self.random.choice([500, 1000, 2000])
        changed = guaranteed(name, mcpu) if spec.cpu_limit_mcpu else ContainerSpec(name, cpu_request_mcpu=mcpu)
        try:
            await self.kubelet.update(pod.ids[name], pods.resources(pod.spec, changed, self.kubelet.node))
        except CallFailed:
            self.refused += 1

    async def fail_a_create(self) -> None:
        self.runtime.faults.fail_next("CreateContainer", 2, "no such thing today")
        await self.run_pod()

    def _pick(self) -> tuple[LivePod | None, str]:
        choices = [(pod, name) for _, pod in sorted(self.pods.items()) for name in sorted(pod.ids)]
        return self.random.choice(choices) if choices else (None, "")

    async def _create_and_start(self, pod: LivePod, container: ContainerSpec) -> None:
        pod.ids.pop(container.name, None)
        attempt = pod.attempts.get(container.name, -1) + 1
        pod.attempts[container.name] = attempt
        try:
            new = await self.kubelet.create(pod.spec, container, pod.sandbox_id, attempt=attempt)
        except CallFailed:
            self.refused += 1
            return
        pod.ids[container.name] = new
        await self.kubelet.start(new)

    def _container(self, name: str) -> ContainerSpec:
        match self.random.randint(0, 5):
            case 0:
                return ContainerSpec(name)
            case 1:
                return ContainerSpec(name, cpu_request_mcpu=self.random.choice([100, 250, 900, 1500]))
            case _:
                mcpu = self.random.choice([500, 1000, 1000, 1500, 2000, 2500, 3000, 4000])
                return guaranteed(name, mcpu, memory_bytes=GIB // 8)

    def _annotations(self) -> tuple[tuple[str, str], ...]:
        domain = "cri-proxy.io"
        choices: list[tuple[tuple[str, str], ...]] = [
            (),
            (),
            ((f"prefer-shared-cpus.{domain}/pod", "true"),),
            ((f"{domain}/prefer-shared-cpus", '{"c0": -1, "c1": false}'),),
            ((f"prefer-isolated-cpus.{domain}/pod", "true"),),
            ((f"{domain}/affinity", "c1: [c0]"),),
            ((f"{domain}/anti-affinity", "c1: [c0]"),),
            ((f"prefer-reserved-cpus.{domain}/pod", "true"),),
        ]
        return self.random.choice(choices)
