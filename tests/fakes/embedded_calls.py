"""Short ways to talk to an embedded runtime in tests: typed calls, a pod, a container."""

from typing import TypeVar

from google.protobuf.message import Message

from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.runtime.embedded.state import DEFAULT_IMAGE
from tests.fakes.scripted_runtime import ScriptedRuntime

_Reply = TypeVar("_Reply", bound=Message)


class Calls:
    def __init__(self, runtime: ScriptedRuntime) -> None:
        self.runtime = runtime

    async def call(self, method: str, request: Message, reply: type[_Reply]) -> _Reply:
        return reply.FromString(await self.runtime.call(RUNTIME + method, request.SerializeToString()))

    async def pod(self, name: str = "web", *, cgroup_parent: str = "") -> str:
        meta = pb.PodSandboxMetadata(name=name, uid=f"{name}-uid", namespace="default")
        config = pb.PodSandboxConfig(metadata=meta, linux=pb.LinuxPodSandboxConfig(cgroup_parent=cgroup_parent))
        request = pb.RunPodSandboxRequest(config=config)
        return (await self.call("RunPodSandbox", request, pb.RunPodSandboxResponse)).pod_sandbox_id

    async def create(self, pod: str, name: str = "c0", *, cpus: str = "", mems: str = "") -> str:
        resources = pb.LinuxContainerResources(cpu_shares=1024, cpuset_cpus=cpus, cpuset_mems=mems)
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=name),
            image=pb.ImageSpec(image=DEFAULT_IMAGE),
            labels={"name": name},
            linux=pb.LinuxContainerConfig(resources=resources),
        )
        request = pb.CreateContainerRequest(pod_sandbox_id=pod, config=config)
        return (await self.call("CreateContainer", request, pb.CreateContainerResponse)).container_id

    async def start(self, container: str) -> None:
        await self.call("StartContainer", pb.StartContainerRequest(container_id=container), pb.StartContainerResponse)

    async def running(self, pod: str, name: str = "c0", *, cpus: str = "", mems: str = "") -> str:
        container = await self.create(pod, name, cpus=cpus, mems=mems)
        await self.start(container)
        return container

    async def update(self, container: str, **fields: object) -> None:
        resources = pb.LinuxContainerResources(**fields)  # type: ignore[arg-type]  # the tests name real fields
        request = pb.UpdateContainerResourcesRequest(container_id=container, linux=resources)
        await self.call("UpdateContainerResources", request, pb.UpdateContainerResourcesResponse)

    async def status(self, container: str, *, verbose: bool = False) -> pb.ContainerStatusResponse:
        request = pb.ContainerStatusRequest(container_id=container, verbose=verbose)
        return await self.call("ContainerStatus", request, pb.ContainerStatusResponse)

    async def shell(self, container: str, *command: str) -> tuple[int, str]:
        """Exit status and output of a command."""
        reply = await self.call(
            "ExecSync", pb.ExecSyncRequest(container_id=container, cmd=command), pb.ExecSyncResponse
        )
        return reply.exit_code, reply.stdout.decode()
