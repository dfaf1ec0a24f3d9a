"""Where a soak takes place: a runtime, the daemon in front of it, and a look past both at what the kernel enforces."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec, guaranteed
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.server import RuntimeServer
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.sysfs_tree import write_tree
from tests.soak.kernel import KernelRuntime
from tests.testbed.cgroups import hierarchies
from tests.testbed.containerd import PrivateContainerd
from tests.testbed.daemon import DaemonProcess
from tests.testbed.kernel import Allowed, own_allowed, read_allowed
from tests.testbed.pod_kubelet import PodKubelet

ROOT = Path(__file__).resolve().parent.parent.parent
MACHINE = describe({"packages": 2, "nodes": 4, "cores": 16, "threads": 2, "memory": "64Gi"})
# The daemon compares the cgroups this often: an option of the configuration, so each variant of it carries the line.
LOOK = "driftCheckSeconds: 2\n"


@dataclass(frozen=True, slots=True)
class Wanted:
    """How the daemon is to be started: its kind of relay, and the module that is run, with its own arguments."""

    relay: str = "splice"
    module: tuple[str, ...] = ("tests.soak.daemon",)


class Ground(ABC):
    """A daemon in front of a runtime; ``slots`` containers live at any time, and at rest no others."""

    slots: int
    node: KubeletNode

    def __init__(self, directory: Path, wanted: Wanted, endpoint: str, options: Sequence[str]) -> None:
        self.directory = directory
        self.endpoint = endpoint
        self.config = directory / "cri-proxy.yaml"
        self.config.write_text(self.configurations()[0])
        self.daemon = DaemonProcess(
            directory,
            runtime_endpoint=endpoint,
            options=("--config", str(self.config), "--relay", wanted.relay, *options),
            environment={"PYTHONPATH": str(ROOT)},
            command=(sys.executable, "-m", *wanted.module),
        )

    @abstractmethod
    def spec(self, number: int, name: str) -> PodSpec:
        """The pod of this slot, under a name of its own."""

    @abstractmethod
    def passing(self, name: str) -> PodSpec:
        """A pod that is gone soon, and takes nothing that a slot's pod may need meanwhile."""

    @abstractmethod
    def configurations(self) -> tuple[str, ...]:
        """Configurations to change to and fro, the ordinary one first."""

    @abstractmethod
    async def running(self) -> tuple[str, ...]:
        """Ids of the containers whose process runs."""

    @abstractmethod
    async def allowed(self, container_id: str) -> Allowed | None:
        """What the kernel lets a container use; None for one that is gone."""

    async def enforced(self) -> Mapping[str, Allowed]:
        found = {container_id: await self.allowed(container_id) for container_id in await self.running()}
        return {container_id: allowed for container_id, allowed in found.items() if allowed is not None}

    @abstractmethod
    async def tamper(self, container_id: str) -> None:
        """Somebody else writes a cpuset."""

    @abstractmethod
    async def exit(self, container_id: str) -> None:
        """A container ends by itself; one that is gone is no error."""

    async def end_tasks(self, sandbox_id: str) -> None:  # noqa: B027 - most runtimes leave none
        """End what the runtime has left running of a pod and does not remove."""

    @abstractmethod
    def listeners(self) -> int | None:
        """How many follow the runtime's events; None where that cannot be told."""

    @abstractmethod
    async def restart_runtime(self) -> None:
        """End the runtime and start it again; its containers run on."""


class EmbeddedGround(Ground):
    """256 CPUs and 117 containers, none of which exists: the runtime lives in this process."""

    slots = 100
    node = KubeletNode(256 << 30, log_directory="")

    def __init__(self, directory: Path, wanted: Wanted) -> None:
        root = write_tree(directory / "machine", MACHINE)
        super().__init__(directory, wanted, f"unix://{directory}/runtime.sock", ("--sysfs-root", str(root)))
        self.runtime = KernelRuntime(MACHINE, root)
        self._server = RuntimeServer(self.runtime, self.endpoint)

    def spec(self, number: int, name: str) -> PodSpec:
        """Of six pods one has CPUs for itself, one a fraction, two share by a request, two ask for nothing."""
        kinds = (
            (guaranteed("c", 1000 + number % 12 * 1000 // 6),),
            (ContainerSpec("c", cpu_request_mcpu=100),),
            (guaranteed("c", 500), ContainerSpec("d")),
            (ContainerSpec("c", cpu_request_mcpu=250, memory_request_bytes=64 << 20),),
            (ContainerSpec("c"),),
            (ContainerSpec("c"),),
        )
        return PodSpec(name, kinds[number % len(kinds)])

    def passing(self, name: str) -> PodSpec:
        """With a CPU for itself: there are plenty."""
        return PodSpec(name, (guaranteed("c", 1000),))

    def configurations(self) -> tuple[str, ...]:
        """Two that only change rules, and one by which every pool is another."""
        base = f"{LOOK}reservedResources: {{cpu: 2}}\n"
        return base, f"{base}strictAnnotations: true\n", f"{LOOK}reservedResources: {{cpu: 4}}\n"

    async def start(self) -> None:
        await self._server.start()
        await self.daemon.start()

    async def stop(self) -> None:
        await self.daemon.stop()
        await self._server.stop()

    async def running(self) -> tuple[str, ...]:
        return tuple(container.id for container in self.runtime.running())

    async def allowed(self, container_id: str) -> Allowed | None:
        container = self.runtime.node.containers.get(container_id)
        return Allowed(*self.runtime.node.effective(container)) if container is not None else None

    async def tamper(self, container_id: str) -> None:
        self.runtime.tamper(container_id, CpuSet.parse("0-7"))

    async def exit(self, container_id: str) -> None:
        container = self.runtime.node.containers.get(container_id)
        if container is not None and container.running:
            self.runtime.exit(container_id, 137)

    def listeners(self) -> int | None:
        """The daemon's own among them."""
        return self.runtime.listeners()

    async def restart_runtime(self) -> None:
        """It listens anew, and knows what it knew."""
        await self._server.stop()
        self._server = RuntimeServer(self.runtime, self.endpoint)
        await self._server.start()


class ContainerdGround(Ground):
    """A private containerd on two CPUs of this machine, with a dozen containers that do exist."""

    slots = 12

    def __init__(self, directory: Path, wanted: Wanted, containerd: PrivateContainerd) -> None:
        self.cpus = CpuSet.of(tuple(own_allowed().cpus)[:2])
        options = ("--available-resources", f"cpu=cpuset:{self.cpus}")
        super().__init__(directory, wanted, containerd.endpoint, options)
        self.containerd = containerd
        self.node = containerd.node
        self._client = RuntimeClient(containerd.endpoint)
        self._kubelet = PodKubelet(self._client, containerd.node)

    def spec(self, number: int, name: str) -> PodSpec:
        """One has a CPU for itself; the others share what is left."""
        if number == 0:
            return PodSpec(name, (guaranteed("c", 1000),))
        return PodSpec(name, (ContainerSpec("c", cpu_request_mcpu=20 * (number % 2)),))

    def passing(self, name: str) -> PodSpec:
        """One that shares: the only CPU that one may own is the first slot's, also while its pods change."""
        return PodSpec(name, (ContainerSpec("c"),))

    def configurations(self) -> tuple[str, ...]:
        """Rules alone: with two CPUs there is nothing else to give."""
        return LOOK, f"{LOOK}strictAnnotations: true\n", f"{LOOK}onStoreError: reject\n"

    async def start(self) -> None:
        await self.daemon.start()

    async def stop(self) -> None:
        await self._client.close()
        await self.daemon.stop()

    async def running(self) -> tuple[str, ...]:
        state = pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)
        request = pb.ListContainersRequest(filter=pb.ContainerFilter(state=state))
        reply = await self._kubelet.call("ListContainers", request, pb.ListContainersResponse)
        return tuple(container.id for container in reply.containers)

    async def allowed(self, container_id: str) -> Allowed | None:
        """As the kernel says of the container's first process."""
        try:
            pid = await self._kubelet.pid(container_id)
            return read_allowed(_text(pid, "status")) if pid else None
        except (CallFailed, OSError):
            return None

    async def tamper(self, container_id: str) -> None:
        pid = await self._kubelet.pid(container_id)
        lines = [line.split(":", 2) for line in _text(pid, "cgroup").splitlines()]
        path = next((p for _, names, p in lines if "cpuset" in names.split(",")), lines[-1][2])
        files = (mount / path.lstrip("/") / "cpuset.cpus" for mount in hierarchies())
        next(file for file in files if file.exists()).write_text(f"{self.cpus}\n")

    async def exit(self, container_id: str) -> None:
        """Killed, as the kernel does when memory runs out."""
        with contextlib.suppress(CallFailed, RuntimeUnavailable, ProcessLookupError):
            if pid := await self._kubelet.pid(container_id):
                os.kill(pid, signal.SIGKILL)

    async def end_tasks(self, sandbox_id: str) -> None:
        await self.containerd.end_tasks(sandbox_id)

    def listeners(self) -> int | None:
        """containerd does not tell."""
        return None

    async def restart_runtime(self) -> None:
        await self.containerd.halt()
        await self.containerd.launch()


def _text(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


@contextlib.asynccontextmanager
async def ground(runtime: str, wanted: Wanted) -> AsyncIterator[Ground]:
    """Runtime and daemon, up, in a new directory below /tmp: a socket's path has at most 107 characters."""
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-soak-", dir="/tmp"))
    try:
        async with contextlib.AsyncExitStack() as stack:
            place: EmbeddedGround | ContainerdGround
            if runtime == "embedded":
                place = EmbeddedGround(directory, wanted)
            else:
                containerd = await stack.enter_async_context(
                    PrivateContainerd(directory / "runtime", name=directory.name)
                )
                place = ContainerdGround(directory, wanted, containerd)
            stack.push_async_callback(place.stop)
            await place.start()
            yield place
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
