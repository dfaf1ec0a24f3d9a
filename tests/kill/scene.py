"""A daemon in a process of its own, a kubelet, and an embedded runtime in ours that can be told when to kill it."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import IMAGE, ContainerSpec, PodSpec, guaranteed
from cri_proxy.node.status.model import StatusView
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.server import RuntimeServer
from cri_proxy.runtime.embedded.state import Container
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.fakes.sysfs_tree import write_tree
from tests.testbed.daemon import DaemonProcess
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

KINDS = (
    *("CreateContainer", "StartContainer", "UpdateContainerResources"),
    *("StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"),
)
MACHINE = small_machine(cores=4)


class Deadly(ScriptedRuntime):
    """Tells ``kill`` when a call of this kind is about to take effect, or has."""

    def __init__(self) -> None:
        super().__init__(MACHINE, image_names=(IMAGE,))
        self.plan: tuple[str, int, bool, Callable[[], None]] | None = None

    async def call(self, method: str, message: bytes) -> bytes:
        self._tell(method, after=False)
        reply = await super().call(method, message)
        self._tell(method, after=True)
        return reply

    def _tell(self, method: str, *, after: bool) -> None:
        if self.plan is None:
            return
        kind, left, is_after, kill = self.plan
        if method.endswith(f"/{kind}") and after == is_after:
            self.plan = (kind, left - 1, is_after, kill) if left > 1 else None
            if left <= 1:
                kill()


class Scene:
    """A runtime, a daemon in front of it, and a kubelet."""

    def __init__(self, directory: Path, seed: int, *, relay: str = "splice") -> None:
        self.seed = seed
        self.random = Random(seed)
        self.directory = directory
        self.runtime = Deadly()
        self.server = RuntimeServer(self.runtime, f"unix://{directory}/runtime.sock")
        root = write_tree(directory / "root", MACHINE)
        options = ("--sysfs-root", str(root), "--reserved-resources", "cpu=cpuset:0", "--relay", relay)
        self.daemon = DaemonProcess(directory, runtime_endpoint=f"unix://{directory}/runtime.sock", options=options)
        self.channel = RuntimeClient(self.daemon.endpoint)
        self.kubelet = PodKubelet(self.channel, pods.KubeletNode(4 << 30, log_directory=""))

    async def close(self) -> None:
        await self.daemon.stop(signal.SIGKILL)
        await self.channel.close()
        await self.server.stop()

    async def ended(self, seconds: float) -> str:
        """What the daemon ends with by itself, within this long."""

        async def exit_status() -> str | None:
            status = self.daemon.exit_status
            return None if status is None else f"status {status}"

        return await until("it ends", exit_status, seconds=seconds)

    def live(self) -> list[Container]:
        return [c for c in self.runtime.node.containers.values() if c.state != pb.CONTAINER_EXITED]

    def records(self, running: RunningPod) -> list[tuple[str, str]]:
        found = [self.runtime.node.containers[container_id].record for _, container_id in running.containers]
        return [(record.cpuset_cpus, record.cpuset_mems) for record in found]

    def plan(self) -> str:
        kind, number, after = self.random.choice(KINDS), self.random.randint(1, 2), self.random.random() < 0.5
        late_seconds = self.random.choice((0.0, 0.0, self.random.random() * 0.02))
        pid = self.daemon.pid
        loop = asyncio.get_running_loop()

        def strike() -> None:
            with suppress(ProcessLookupError):  # it was faster to end by itself
                os.kill(pid, signal.SIGKILL)

        def strike_late() -> None:
            loop.call_later(late_seconds, strike)

        self.runtime.plan = (kind, number, after, strike_late if late_seconds else strike)
        return f"{kind} {number} {'after' if after else 'before'}, {1000 * late_seconds:.0f} ms later"

    async def act(self) -> None:
        """What is going on when the daemon dies; the kubelet sees calls fail."""
        first = await self.kubelet.run_pod(PodSpec("first", (guaranteed("c", 1000), ContainerSpec("d", 200))))
        grown = pods.resources(first.spec, guaranteed("c", 2000), self.kubelet.node)
        await asyncio.gather(
            self.kubelet.run_pod(PodSpec("second", (guaranteed("c", 2000),))),
            self.kubelet.update(first.container_id("c"), grown),
            self.kubelet.run_pod(PodSpec("third", (ContainerSpec("c", 700),))),
        )
        await self.kubelet.remove_pod(first.sandbox_id)
        await self.kubelet.run_pod(PodSpec("fourth", (guaranteed("c", 1000),)))

    async def settled(self) -> StatusView:
        """The daemon's word, once it agrees with what the runtime has on record."""

        async def agrees() -> StatusView | None:
            status = await self.daemon.admin.status()
            return status if status.is_ready and not disagreements(status, self.live()) else None

        return await until("what is on record is what is believed", agrees, seconds=60)


def disagreements(status: StatusView, live: list[Container]) -> list[str]:
    """Containers that one side has and the other has not, or elsewhere."""
    known = {view.container_id: view for view in status.containers}
    wrong = [f"{c.name} is not known" for c in live if c.id not in known]
    there = {c.id: c for c in live}
    for container_id, view in known.items():
        container = there.get(container_id)
        if container is None:
            wrong.append(f"{view.pod}/{view.name} holds CPUs for nobody")
        elif view.cpus is not None and str(view.cpus) != container.record.cpuset_cpus:
            wrong.append(f"{view.pod}/{view.name} is on {container.record.cpuset_cpus}, not {view.cpus}")
        elif view.mems is not None and str(view.mems) != container.record.cpuset_mems:
            wrong.append(f"{view.pod}/{view.name} is on nodes {container.record.cpuset_mems}, not {view.mems}")
    return wrong


def clashes(status: StatusView, runtime: ScriptedRuntime) -> list[str]:
    """Running containers on CPUs that another owns."""
    owned = {view.container_id: view.exclusive | view.isolated for view in status.containers}
    running = {c.id: runtime.effective(c.id)[0] for c in runtime.node.containers.values() if c.running}
    return [
        f"{one} is on CPUs {cpus & theirs} of {other}"
        for one, cpus in running.items()
        for other, theirs in owned.items()
        if one != other and cpus & theirs
    ]
