"""The daemon as a process of its own is killed with SIGKILL while a runtime that lives on has a call in hand.

The runtime is the embedded one, in this process, behind a socket; the relay is the splice, the store a file. What the
kill interrupts is told by a seed: the n-th call of a random kind, before or after the runtime has acted, or a moment
some milliseconds later, which may fall into a save.
"""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.http.view import StatusView
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded import EmbeddedRuntime
from cri_proxy.runtime.embedded_state import Container
from cri_proxy.runtime.server import RuntimeServer
from cri_proxy.state.store import Store
from cri_proxy.tryout import pods
from cri_proxy.tryout.daemon import DaemonProcess
from cri_proxy.tryout.image import IMAGE
from cri_proxy.tryout.kubelet import Kubelet, RunningPod
from cri_proxy.tryout.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.tryout.waiting import until
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine
from tests.fakes.sysfs_tree import write_tree

SEEDS = range(24)
KINDS = ("CreateContainer", "StartContainer", "UpdateContainerResources", "StopPodSandbox", "RemovePodSandbox")
MACHINE = small_machine(cores=4)
BYSTANDERS = (PodSpec("alone", (guaranteed("c", 2000),)), PodSpec("sharing", (ContainerSpec("c", 500),)))


class Deadly(EmbeddedRuntime):
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

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = Random(seed)
        self.directory = directory
        self.runtime = Deadly()
        self.server = RuntimeServer(self.runtime, f"unix://{directory}/runtime.sock")
        root = write_tree(directory / "root", MACHINE)
        options = ("--sysfs-root", str(root), "--reserved-resources", "cpu=cpuset:0", "--relay", "splice")
        self.daemon = DaemonProcess(directory, runtime_endpoint=f"unix://{directory}/runtime.sock", options=options)
        self.channel = RuntimeClient(self.daemon.endpoint)
        self.kubelet = Kubelet(self.channel, pods.Node(4 << 30, log_directory=""))

    def live(self) -> list[Container]:
        return [c for c in self.runtime.node.containers.values() if c.state != pb.CONTAINER_EXITED]

    def records(self, running: RunningPod) -> list[tuple[str, str]]:
        found = [self.runtime.node.containers[container_id].record for _, container_id in running.containers]
        return [(record.cpuset_cpus, record.cpuset_mems) for record in found]

    def plan(self) -> str:
        """Choose when to kill; gives it in words."""
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

        return await until("what is on record is what is believed", agrees, seconds=20)


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
    return wrong


def clashes(status: StatusView, runtime: EmbeddedRuntime) -> list[str]:
    """Running containers on CPUs that another owns."""
    owned = {view.container_id: view.exclusive | view.isolated for view in status.containers}
    running = {c.id: runtime.effective(c.id)[0] for c in runtime.node.containers.values() if c.running}
    return [
        f"{one} is on CPUs {cpus & theirs} of {other}"
        for one, cpus in running.items()
        for other, theirs in owned.items()
        if one != other and cpus & theirs
    ]


async def live_through(scene: Scene) -> None:
    await scene.server.start()
    await scene.daemon.start()
    bystanders = [await scene.kubelet.run_pod(spec) for spec in BYSTANDERS]
    alone = scene.records(bystanders[0])
    words = scene.plan()
    try:
        async with asyncio.timeout(30):
            await scene.act()
    except (CallFailed, RuntimeUnavailable):
        pass  # the kubelet's calls end with the daemon
    scene.runtime.plan = None
    await scene.daemon.stop(signal.SIGKILL)
    before = {c.id: CpuSet.parse(c.record.cpuset_cpus) for c in scene.live()}
    await scene.daemon.start()
    status = await scene.settled()
    assert clashes(status, scene.runtime) == [], words
    assert scene.records(bystanders[0]) == alone, words
    for view in status.containers:
        if view.kind in ("exclusive", "isolated") and view.pod != "first":
            assert view.cpus == before[view.container_id], words
        assert (await scene.daemon.admin.explain(view.pod_uid)).decisions, words
    await scene.kubelet.run_pod(PodSpec("last", (guaranteed("c", 1000),)))
    assert clashes(await scene.settled(), scene.runtime) == [], words
    for sandbox_id in list(scene.runtime.node.sandboxes):
        await scene.kubelet.remove_pod(sandbox_id)
    assert (await scene.settled()).containers == ()
    await scene.daemon.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_daemon_loses_nothing(seed: int) -> None:
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-kill-", dir="/tmp"))  # a socket's path has at most 107 bytes

    async def run() -> None:
        scene = Scene(directory, seed)
        try:
            await live_through(scene)
        finally:
            await scene.daemon.stop(signal.SIGKILL)
            await scene.channel.close()
            await scene.server.stop()

    try:
        asyncio.run(run())
        store = Store.open(directory / "state" / "state.db")
        assert (store.recovered, store.load().rows, store.load().sandboxes) == (None, (), ())
        asyncio.run(store.close())
    finally:
        shutil.rmtree(directory)
