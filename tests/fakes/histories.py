"""Random lives of a node, checked after every runtime call.

What is checked is what the *runtime* holds, not what we believe: CPUs that a running container owns are in no
other running container's set, every set lies inside the available CPUs.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random

from cri_proxy.errors import CallFailed
from cri_proxy.tryout import pods
from cri_proxy.tryout.pods import ContainerSpec, PodSpec, guaranteed
from policies.base import CpuKind, Policy
from sysfs.cpuset import CpuSet
from tests.fakes.site import Site

GIB = 1 << 30


@dataclass
class LivePod:
    """A pod that the kubelet runs: its sandbox, and the current id and attempt of each container."""

    spec: PodSpec
    sandbox_id: str
    ids: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)


class World(Site):
    """One machine's life. Every step leaves the node settled and checked."""

    def __init__(self, policy: Policy, available: CpuSet, seed: int) -> None:
        super().__init__(policy, modern=seed % 2 == 0)
        self.available = available
        self.random = Random(seed)
        self.pods: dict[str, LivePod] = {}
        self.refused = 0
        self._names = 0

    def check(self) -> None:
        """The invariants at this very moment, by what the kernel would let each running container use."""
        running = {c.id: self.runtime.effective(c.id)[0] for c in self.live() if c.running}
        ledger = self.node.context.ledger
        rows = {container_id: ledger.holder(container_id) for container_id in running}
        alone = {i: ledger.held_alone(row.key) & running[i] for i, row in rows.items() if row is not None}
        everyones = CpuSet.of_masks(cpus.mask for cpus in alone.values())
        assert len(everyones) == sum(len(cpus) for cpus in alone.values()), f"owned twice: {alone}"
        for container_id, cpus in running.items():
            assert cpus <= self.available, f"{container_id} is on {cpus}"
            clash = cpus & everyones - alone.get(container_id, CpuSet())
            assert not clash, f"{container_id} ({cpus}) is on {clash}, which others own"

    async def step(self) -> None:
        """One random thing that happens to a node."""
        often = [self.run_pod] * 4 + [self.remove_pod] * 3 + [self.restart_container, self.exit_container] * 2
        moves = [*often, self.burst, self.restart_proxy, self.resize, self.fail_a_create]
        await self.random.choice(moves)()
        await self.node.settle()
        self.check()
        self.check_ledger()

    def check_ledger(self) -> None:
        """What we believe is what the runtime has, and nothing is held for nobody."""
        live = {c.id for c in self.live()}
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

    async def burst(self) -> None:
        """Several pods come and one goes at the same time."""
        leaving = self.pods.pop(self.random.choice(sorted(self.pods))) if self.pods else None
        removal = self.kubelet.remove_pod(leaving.sandbox_id if leaving is not None else "none")
        await asyncio.gather(self.run_pod(), self.run_pod(), removal, self.run_pod())

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
        before = self.recorded()
        await self.open(self.check)
        assert self.recorded() == before, "a restart changed a pinning"
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
