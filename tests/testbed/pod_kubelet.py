"""``PodKubelet``: a kubelet that runs whole pods with their log directories, and reads what the runtime has of them."""

import json
from pathlib import Path

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.kubelet import Kubelet, RunningPod


class PodKubelet(Kubelet):
    """Beside what the simulation does: ``run_pod``, its steps one by one, lists and statuses."""

    async def run_pod(self, spec: pods.PodSpec) -> RunningPod:
        """Run a sandbox, then create and start each container, one after the other as the kubelet does."""
        sandbox_id = await self.run_sandbox(spec)
        ids = []
        for container in spec.containers:
            container_id = await self.create(spec, container, sandbox_id)
            await self.start(container_id)
            ids.append((container.name, container_id))
        return RunningPod(spec, sandbox_id, tuple(ids))

    async def run_sandbox(self, spec: pods.PodSpec) -> str:
        """Run a sandbox and return its id. Creates the log directories, as the kubelet does."""
        config = pods.sandbox_config(spec, self.node)
        for container in spec.containers if config.log_directory else ():
            (Path(config.log_directory) / container.name).mkdir(parents=True, exist_ok=True)
        return await self.run_sandbox_as(config)

    async def create(
        self, spec: pods.PodSpec, container: pods.ContainerSpec, sandbox_id: str, *, attempt: int = 0
    ) -> str:
        """Create a container in this sandbox and return its id."""
        return await self.create_as(pods.create_request(spec, container, sandbox_id, node=self.node, attempt=attempt))

    async def sandboxes(self, labels: dict[str, str] | None = None) -> tuple[str, ...]:
        """Return the ids of all sandboxes with these labels, stopped ones too."""
        request = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(label_selector=labels or {}))
        reply = await self.call("ListPodSandbox", request, pb.ListPodSandboxResponse)
        return tuple(item.id for item in reply.items)

    async def status(self, container_id: str) -> pb.ContainerStatusResponse:
        """Return the verbose status of a container."""
        request = pb.ContainerStatusRequest(container_id=container_id, verbose=True)
        return await self.call("ContainerStatus", request, pb.ContainerStatusResponse)

    async def pid(self, container_id: str) -> int:
        """Return the container's first process as the host numbers it (verbose status of containerd and CRI-O)."""
        info = (await self.status(container_id)).info.get("info", "{}")
        return int(json.loads(info).get("pid", 0))
