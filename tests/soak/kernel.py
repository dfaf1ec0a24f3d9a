"""The embedded runtime with cgroups: what its kernel enforces stands in files, where the daemon looks for drift."""

import shutil
from pathlib import Path

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import IMAGE
from cri_proxy.runtime.embedded.state import Container
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.scripted_runtime import ScriptedRuntime


class KernelRuntime(ScriptedRuntime):
    """Writes ``proc`` and ``sys/fs/cgroup`` (v2) below a directory. Forgets what it was asked: a soak asks for ever."""

    def __init__(self, machine: Machine, root: Path) -> None:
        super().__init__(machine, image_names=(IMAGE,))
        self._root = root
        self._pids: dict[str, int] = {}

    async def call(self, method: str, message: bytes) -> bytes:
        try:
            return await super().call(method, message)
        finally:
            self.updates = ()
            match method.rpartition("/")[2]:
                case "StartContainer":
                    self._show(pb.StartContainerRequest.FromString(message).container_id)
                case "UpdateContainerResources":
                    self._show(pb.UpdateContainerResourcesRequest.FromString(message).container_id)
                case "StopContainer" | "RemoveContainer" | "StopPodSandbox" | "RemovePodSandbox":
                    self._sweep()

    def exit(self, container_id: str, exit_code: int = 0) -> None:
        """The container's process ends by itself, and its cgroup with it."""
        super().exit(container_id, exit_code)
        self._sweep()

    def running(self) -> tuple[Container, ...]:
        return tuple(container for container in self.node.containers.values() if container.running)

    def tamper(self, container_id: str, cpus: CpuSet) -> None:
        self.node.containers[container_id].kernel_cpus = str(cpus)
        self._show(container_id)

    def _cgroup(self, container_id: str) -> Path:
        return self._root / "sys/fs/cgroup/kubepods" / container_id

    def _show(self, container_id: str) -> None:
        container = self.node.containers.get(container_id)
        if container is None or not container.running:
            return
        cpus, mems = self.node.effective(container)
        directory, process = self._cgroup(container_id), self._root / "proc" / str(container.pid)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cpuset.cpus").write_text(f"{cpus}\n")
        (directory / "cpuset.mems").write_text(f"{mems}\n")
        if container_id not in self._pids:
            process.mkdir(parents=True, exist_ok=True)
            (process / "cgroup").write_text(f"0::/kubepods/{container_id}\n")
            self._pids[container_id] = container.pid

    def _sweep(self) -> None:
        live = {container.id for container in self.running()}
        for container_id in self._pids.keys() - live:
            shutil.rmtree(self._root / "proc" / str(self._pids.pop(container_id)), ignore_errors=True)
            shutil.rmtree(self._cgroup(container_id), ignore_errors=True)
