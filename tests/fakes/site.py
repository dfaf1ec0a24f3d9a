"""A node with a kubelet on the embedded runtime, all in one process: what a test of the decision path stands on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from cri_proxy.config.model import Config
from cri_proxy.cri.device_names.names import ToldDevices
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import IMAGE, ContainerSpec, PodSpec
from cri_proxy.intercept.interceptor import CriInterceptor
from cri_proxy.intercept.reader import Reader
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.drift.cgroups import Enforced
from cri_proxy.node.node import Environment, Node
from cri_proxy.node.sync.claims import ClaimSources
from cri_proxy.relay.inprocess import InProcessRelay
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.runtime.embedded.state import Container
from cri_proxy.state.rows import Row
from policies.base import DeviceLocality
from policies.policy import Policy
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.grants import small_policy
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.fakes.store import MemoryStore
from tests.testbed.pod_kubelet import PodKubelet


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
        self.warnings: list[str] = []  # their names alone

    def debug(self, event: str, **fields: object) -> None:
        pass

    def info(self, event: str, **fields: object) -> None:
        pass

    def warning(self, event: str, **fields: object) -> None:
        self.warnings.append(event)

    def error(self, event: str, **fields: object) -> None:
        self.errors.append(f"{event} {fields}")


async def no_hints(config: pb.ContainerConfig, told: ToldDevices) -> Sequence[DeviceLocality]:
    return ()


class Watched:
    def __init__(self, inner: RuntimeChannel, look: Callable[[], None]) -> None:
        self._inner = inner
        self._look = look

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        try:
            return await self._inner.unary(method, message, timeout_seconds=timeout_seconds)
        finally:
            self._look()

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        return self._inner.stream(method, message)

    def losses(self) -> int:
        return self._inner.losses()

    async def close(self) -> None:
        await self._inner.close()


class KernelOf:
    """Implements ``cri_proxy.node.drift.cgroups.Cpusets`` for what runs on the embedded runtime."""

    def __init__(self, runtime: ScriptedRuntime) -> None:
        self._runtime = runtime

    def enforced(self, pid: int, container_id: str) -> Enforced | None:
        found = self._runtime.node.containers.get(container_id)
        if found is None or not found.running:
            return None
        cpus, mems = CpuSet.parse(found.kernel_cpus), NodeSet.parse(found.kernel_mems)
        effective = self._runtime.effective(container_id)
        return Enforced(f"/{container_id}", cpus or effective[0], mems or effective[1], inherits_cpus=not cpus)


class Site:
    """The proxy in front of the embedded runtime; ``open`` again is a new process on the same store.

    By default on a machine of 2 packages with 4 CPUs each, CPU 0 reserved.
    """

    def __init__(self, policy: Policy | None = None, *, rules: Config | None = None, modern: bool = True) -> None:
        self.policy = policy or small_policy()
        self.rules = rules or Config()
        self.runtime = ScriptedRuntime(self.policy.machine, now_ns=self._now_ns, image_names=(IMAGE,), modern=modern)
        self.store = MemoryStore()
        self.log = Silent()
        self.clock = InstantClock()
        self.last_ns = 0  # when the runtime did something last
        self.claims = ClaimSources()  # set it before ``open``
        self.files_root: Path | None = None  # set it before ``open``: containers are told their resources below it

    async def open(self, look: Callable[[], None] = lambda: None) -> None:
        """Start the proxy on what the store and the runtime hold; ``look`` is called after every runtime call."""
        channel = Watched(self.runtime, look)
        self.journal = Journal(self.log, self.clock)
        environment = Environment(channel, self.store, self.clock, self.journal, self.files_root)
        self.node = Node(self.policy, self.rules, environment)
        self.node.adoption.use_claims(self.claims)
        memory_bytes = sum(n.memory_bytes for n in self.policy.machine.nodes)
        reader = Reader(memory_bytes, self.rules, no_hints, cache=self.node.context.annotations)
        self.interceptor = CriInterceptor(self.node, reader)
        self.relay = InProcessRelay(self.interceptor, channel, lambda error: self.log.errors.append(repr(error)))
        self.kubelet = PodKubelet(self.relay, pods.KubeletNode(memory_bytes, log_directory=""))
        await self.node.recover()
        await self.node.settle()

    def _now_ns(self) -> int:
        """The time as the runtime tells it, which tells what it did earlier from what it did later."""
        self.last_ns = max(self.last_ns + 1, int(self.clock.now_seconds() * 1e9))
        return self.last_ns

    async def run(self, name: str, *containers: ContainerSpec, **pod: str) -> RunningPod:
        """Run a pod of these containers and let everything settle."""
        annotations = tuple(sorted((key, value) for key, value in pod.items() if key != "namespace"))
        return await self.run_spec(PodSpec(name, containers, pod.get("namespace", "default"), annotations))

    async def run_spec(self, spec: PodSpec) -> RunningPod:
        """Run this pod and let everything settle."""
        running = await self.kubelet.run_pod(spec)
        await self.node.settle()
        return running

    def live(self) -> list[Container]:
        return [c for c in self.runtime.node.containers.values() if c.state != pb.CONTAINER_EXITED]

    def recorded(self) -> dict[str, tuple[str, str]]:
        return {c.id: (c.record.cpuset_cpus, c.record.cpuset_mems) for c in self.live()}

    def row(self, container_id: str) -> Row:
        row = self.node.context.ledger.holder(container_id)
        assert row is not None
        return row

    def cpus(self, container_id: str) -> str:
        return str(self.runtime.effective(container_id)[0])


S = TypeVar("S", bound=Site)


@asynccontextmanager
async def opened(site: S) -> AsyncIterator[S]:
    """Open it; at the end no fault of ours may have been reported."""
    await site.open()
    yield site
    assert site.log.errors == []
