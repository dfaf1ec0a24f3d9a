"""``Kubelet``: create, start, resize, stop and remove pods by a kubelet's CRI calls, over any channel.

The calls come in the order of kubelet 1.35: PodSandboxStatus after RunPodSandbox, ImageStatus before CreateContainer;
a pod's running containers are stopped, all at once, before its sandbox, and garbage collection removes what is left.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from google.protobuf.message import Message

from cri_proxy.cri.methods import IMAGE, RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.resize import ContainerUpdate, PodCgroupWrite, PodFigures, resize_steps, sandbox_resources
from cri_proxy.errors import CallFailed
from cri_proxy.http2.status import Code
from cri_proxy.runtime.channel import RuntimeChannel

# Far from usual: a sandbox took 2 s on a loaded, emulated machine of two slow cores.
CALL_SECONDS = 60.0

Reply = TypeVar("Reply", bound=Message)

PodCgroupWriter: TypeAlias = Callable[[str, PodCgroupWrite], object]
"""Gets a pod's cgroup and what the kubelet writes there."""


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A running pod; ``containers`` are (name, container id), in the order of the spec."""

    spec: pods.PodSpec
    sandbox_id: str
    containers: tuple[tuple[str, str], ...]

    def container_id(self, name: str) -> str:
        """Return the id of this container of the pod. Raises KeyError."""
        return dict(self.containers)[name]


class Kubelet:
    """Create, inspect and remove pods; stateless except for the channel and the node."""

    call_seconds = CALL_SECONDS

    def __init__(self, channel: RuntimeChannel, node: pods.KubeletNode) -> None:
        """The caller closes ``channel``."""
        self._channel = channel
        self.node = node

    async def call(self, method: str, request: Message, reply: type[Reply]) -> Reply:
        """Call a unary method of the runtime service. Raises CallFailed and RuntimeUnavailable."""
        message = request.SerializeToString()
        return reply.FromString(await self._channel.unary(RUNTIME + method, message, timeout_seconds=self.call_seconds))

    async def run_sandbox_as(self, config: pb.PodSandboxConfig) -> str:
        """Run a sandbox of this configuration, ask for its status, and return its id."""
        request = pb.RunPodSandboxRequest(config=config)
        sandbox_id = (await self.call("RunPodSandbox", request, pb.RunPodSandboxResponse)).pod_sandbox_id
        status = pb.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id)
        await self.call("PodSandboxStatus", status, pb.PodSandboxStatusResponse)
        return sandbox_id

    async def create_as(self, request: pb.CreateContainerRequest) -> str:
        """Ask for the status of the image, create a container by this request, and return its id."""
        image = pb.ImageStatusRequest(image=request.config.image).SerializeToString()
        # The answer is not looked at: every image is there already, and a create without one is refused.
        await self._channel.unary(f"{IMAGE}ImageStatus", image, timeout_seconds=self.call_seconds)
        return (await self.call("CreateContainer", request, pb.CreateContainerResponse)).container_id

    async def start(self, container_id: str) -> None:
        """Start a created container."""
        request = pb.StartContainerRequest(container_id=container_id)
        await self.call("StartContainer", request, pb.StartContainerResponse)

    async def update(self, container_id: str, linux: pb.LinuxContainerResources) -> None:
        """Change resources of a running container."""
        request = pb.UpdateContainerResourcesRequest(container_id=container_id, linux=linux)
        await self.call("UpdateContainerResources", request, pb.UpdateContainerResourcesResponse)

    async def resize(
        self, pod: RunningPod, after: pods.PodSpec, cpuset_cpus: str = "", *, write: PodCgroupWriter | None = None
    ) -> int:
        """Resize a running pod in place; return the number of UpdateContainerResources that this took.

        ``write`` gets each figure before the runtime is told; without it the pod's cgroup stays as it is.
        """
        updates = 0
        for step in resize_steps(pod.spec, after, self.node):
            match step:
                case ContainerUpdate(name=name, linux=linux):
                    linux.cpuset_cpus = cpuset_cpus
                    await self.update(pod.container_id(name), linux)
                    updates += 1
                case PodCgroupWrite(figures=figures):
                    if write is not None:
                        write(pods.cgroup_parent(after, self.node), step)
                    await self._tell_of(pod.sandbox_id, figures, after)
        return updates

    async def _tell_of(self, sandbox_id: str, figures: PodFigures, pod: pods.PodSpec) -> None:
        """Call UpdatePodSandboxResources; a runtime that lacks it does without (containerd before 2.1)."""
        config = pods.sandbox_config(pod, self.node)
        request = pb.UpdatePodSandboxResourcesRequest(
            pod_sandbox_id=sandbox_id, overhead=config.linux.overhead, resources=sandbox_resources(figures, pod)
        )
        try:
            await self.call("UpdatePodSandboxResources", request, pb.UpdatePodSandboxResourcesResponse)
        except CallFailed as failure:
            if failure.code != Code.UNIMPLEMENTED:
                raise

    async def stop(self, container_id: str, *, grace_seconds: int = 0) -> None:
        """Stop a container; one that is gone is no error."""
        request = pb.StopContainerRequest(container_id=container_id, timeout=grace_seconds)
        await self.call("StopContainer", request, pb.StopContainerResponse)

    async def remove(self, container_id: str) -> None:
        """Remove a container; one that is gone is no error."""
        request = pb.RemoveContainerRequest(container_id=container_id)
        await self.call("RemoveContainer", request, pb.RemoveContainerResponse)

    async def remove_pod(self, sandbox_id: str, *, grace_seconds: int = 0) -> None:
        """Kill a pod and collect what is left of it at once; one that is gone is no error.

        Without a grace period as by default: a first process that handles no SIGTERM, like ``FOREVER``, outlasts it.
        """
        await self.kill_pod(sandbox_id, grace_seconds=grace_seconds)
        await self.collect_pod(sandbox_id)

    async def kill_pod(self, sandbox_id: str, *, grace_seconds: int = 0) -> None:
        """Stop the running containers of a pod, all at once, then its sandbox.

        A container that was created and never started is not stopped: the kubelet counts running ones. The sandbox is
        stopped even when a container could not be. Raises CallFailed and RuntimeUnavailable, of a container first.
        """
        running = await self._containers(sandbox_id, pb.ContainerStateValue(state=pb.CONTAINER_RUNNING))
        stops = (self.stop(container_id, grace_seconds=grace_seconds) for container_id in running)
        outcomes = await asyncio.gather(*stops, return_exceptions=True)
        await self._stop_sandbox(sandbox_id)
        for failure in outcomes:
            if failure is not None:
                raise failure

    async def collect_pod(self, sandbox_id: str) -> None:
        """Remove the containers of a killed pod, then its sandbox, as the kubelet's garbage collection does."""
        for container_id in await self._containers(sandbox_id):
            await self.remove(container_id)
        await self._stop_sandbox(sandbox_id)  # once more: the collection does not rely on an earlier stop
        request = pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._unless_gone("RemovePodSandbox", request, pb.RemovePodSandboxResponse)

    async def _stop_sandbox(self, sandbox_id: str) -> None:
        request = pb.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._unless_gone("StopPodSandbox", request, pb.StopPodSandboxResponse)

    async def _unless_gone(self, method: str, request: Message, reply: type[Message]) -> None:
        """Call a method; that its object is gone is no error."""
        try:
            await self.call(method, request, reply)
        except CallFailed as failure:
            if failure.code != Code.NOT_FOUND:
                raise

    async def _containers(self, sandbox_id: str, state: pb.ContainerStateValue | None = None) -> tuple[str, ...]:
        """Return the ids of the containers of a sandbox in this state, or in any."""
        wanted = pb.ContainerFilter(pod_sandbox_id=sandbox_id, state=state)
        reply = await self.call("ListContainers", pb.ListContainersRequest(filter=wanted), pb.ListContainersResponse)
        return tuple(item.id for item in reply.containers)
