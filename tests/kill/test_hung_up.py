"""The kubelet's connection breaks while the runtime has its call: with a daemon in a process of its own.

The runtime is the embedded one, in this process, which keeps the call in hand until the daemon has let go of it too: it
has acted by then and its answer reaches nobody, or it never acts.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path

import pytest

from cri_proxy.cri_client import pods
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import RuntimeUnavailable
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.server import RuntimeServer
from sysfs.cpuset import CpuSet
from tests.fakes.scripted_runtime import Gate
from tests.kill.scene import Deadly, Scene, clashes
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

pytestmark = pytest.mark.timeout(300)

SECONDS = 60.0
SMALL, LARGE = guaranteed("c", 1000), guaranteed("c", 2000)
VICTIM = PodSpec("victim", (SMALL,))
BYSTANDERS = (PodSpec("alone", (guaranteed("c", 2000),)), PodSpec("sharing", (ContainerSpec("c", 500),)))
METHODS = ("CreateContainer", "StartContainer", "UpdateContainerResources")


class Holding(Deadly):
    """Keeps the next call of one method in hand, after it has acted or before, until the caller has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.held = ""
        self.acts = False
        self.gate = Gate()
        self.was_left = asyncio.Event()

    def hold(self, method: str, *, acts: bool) -> None:
        self.held, self.acts, self.gate = method, acts, Gate()
        self.was_left.clear()

    async def call(self, method: str, message: bytes) -> bytes:
        if not self.held or not method.endswith(f"/{self.held}"):
            return await super().call(method, message)
        self.held = ""
        reply = await super().call(method, message) if self.acts else b""
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.was_left.set()
            raise
        return reply


class HangingUp(Scene):
    """A scene with such a runtime."""

    def __init__(self, directory: Path, relay: str) -> None:
        super().__init__(directory, 0, relay=relay)
        self.holding = Holding()
        self.runtime = self.holding
        self.server = RuntimeServer(self.holding, f"unix://{directory}/runtime.sock")

    async def hung_up_on(self, method: str, sandbox_id: str, container_id: str, *, acts: bool) -> None:
        """The victim's call of this kind, on a connection that is closed while the runtime has it."""
        self.holding.hold(method, acts=acts)
        channel = RuntimeClient(self.daemon.endpoint)
        call = asyncio.get_running_loop().create_task(
            self.call_of(method, PodKubelet(channel, self.kubelet.node), sandbox_id, container_id)
        )
        await self.holding.gate.entered()
        await channel.close()
        with pytest.raises(RuntimeUnavailable):
            await call
        await self.holding.was_left.wait()

    def call_of(
        self, method: str, kubelet: PodKubelet, sandbox_id: str, container_id: str
    ) -> Coroutine[object, object, object]:
        if method == "CreateContainer":
            return kubelet.create(VICTIM, SMALL, sandbox_id)
        if method == "StartContainer":
            return kubelet.start(container_id)
        return kubelet.update(container_id, pods.resources(VICTIM, LARGE, kubelet.node))

    async def made_run(self, sandbox_id: str) -> None:
        """What the kubelet does on its next connection: create what is not there, start it, ask for its new size."""
        there = [c for c in self.live() if c.sandbox_id == sandbox_id]
        container_id = there[0].id if there else await self.kubelet.create(VICTIM, SMALL, sandbox_id, attempt=1)
        if not self.runtime.node.containers[container_id].running:
            await self.kubelet.start(container_id)
        await self.kubelet.update(container_id, pods.resources(VICTIM, LARGE, self.kubelet.node))

    async def pending(self) -> CpuSet:
        """The CPUs that are held for the container of which nobody knows whether it was created."""

        async def held() -> CpuSet | None:
            views = (await self.daemon.admin.status()).containers
            return next((view.exclusive for view in views if view.state == "pending"), None)

        return await until("its place is held", held, seconds=SECONDS)


async def hang_up(scene: HangingUp, method: str, bystanders: list[RunningPod], *, acts: bool) -> None:
    words = f"{method} that {'acts' if acts else 'does not act'}"
    before = [scene.records(pod) for pod in bystanders]
    sandbox_id = await scene.kubelet.run_sandbox(VICTIM)
    container_id = ""
    if method != "CreateContainer":
        container_id = await scene.kubelet.create(VICTIM, SMALL, sandbox_id)
    if method == "UpdateContainerResources":
        await scene.kubelet.start(container_id)
    await scene.hung_up_on(method, sandbox_id, container_id, acts=acts)
    there = len([c for c in scene.live() if c.sandbox_id == sandbox_id])
    assert there == int(acts or method != "CreateContainer"), words
    status = await scene.settled()
    assert len(status.containers) == len(bystanders) + there, words
    assert scene.records(bystanders[0]) == before[0], words
    await scene.made_run(sandbox_id)
    status = await scene.settled()
    assert clashes(status, scene.runtime) == [], words
    assert [len(view.exclusive) for view in status.containers if view.pod == "victim"] == [2], words
    await scene.kubelet.remove_pod(sandbox_id)
    assert len((await scene.settled()).containers) == len(bystanders), words
    assert [scene.records(pod) for pod in bystanders] == before, words


async def hold_what_nobody_knows(scene: HangingUp) -> None:
    """While the runtime cannot be asked what became of a create, its CPUs are given to nobody else."""
    sandbox_id = await scene.kubelet.run_sandbox(VICTIM)
    lists = scene.runtime.faults.block("ListContainers")
    await scene.hung_up_on("CreateContainer", sandbox_id, "", acts=False)
    held = await scene.pending()
    other = await scene.kubelet.run_pod(PodSpec("other", (SMALL,)))
    cpus = CpuSet.parse(scene.records(other)[0][0])
    assert (len(held), len(cpus), held.isdisjoint(cpus)) == (1, 1, True)
    lists.release()
    scene.runtime.faults.clear()
    assert "victim" not in [view.pod for view in (await scene.settled()).containers]
    for one in (sandbox_id, other.sandbox_id):
        await scene.kubelet.remove_pod(one)


async def played(relay: str) -> None:
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-hung-", dir="/tmp"))  # a socket's path has at most 107 bytes
    scene = HangingUp(directory, relay)
    try:
        await scene.server.start()
        await scene.daemon.start()
        bystanders = [await scene.kubelet.run_pod(spec) for spec in BYSTANDERS]
        for method in METHODS:
            for acts in (True, False):
                await hang_up(scene, method, bystanders, acts=acts)
        await hold_what_nobody_knows(scene)
        assert len((await scene.settled()).containers) == len(bystanders)
    except Exception as error:
        error.add_note(f"relay {relay}")
        raise
    finally:
        await scene.close()
        shutil.rmtree(directory)


async def test_a_connection_that_breaks_in_the_middle_of_a_call_loses_nothing() -> None:
    """Behind either relay, both at once: most of it is waiting for a daemon to ask again."""
    async with asyncio.timeout(4 * SECONDS), asyncio.TaskGroup() as group:
        for relay in ("splice", "grpc"):
            group.create_task(played(relay))
