"""A CRI v1 runtime in memory: for ``--runtime-endpoint embedded``, the demo, simulations and tests.

It runs no process and enforces nothing, but keeps the books as containerd does and answers as containerd would, and
tells what the kernel would enforce (``effective``). One event loop, no threads.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError, Message

from cri_proxy.cri.methods import BY_PATH, IMAGE, RUNTIME, Method
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.runtime.embedded import containers, images, pods, stats
from cri_proxy.runtime.embedded import exec as execs
from cri_proxy.runtime.embedded import status as statuses
from cri_proxy.runtime.embedded.faults import Faults
from cri_proxy.runtime.embedded.state import DEFAULT_IMAGE, INTERNAL, UNIMPLEMENTED, Container, Image, Node, Refusal
from cri_proxy.tasks import Tasks
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine

_UNARY: dict[str, Callable[..., Message]] = {
    RUNTIME + "Version": pods.version,
    RUNTIME + "RunPodSandbox": pods.run_pod_sandbox,
    RUNTIME + "StopPodSandbox": pods.stop_pod_sandbox,
    RUNTIME + "RemovePodSandbox": pods.remove_pod_sandbox,
    RUNTIME + "PodSandboxStatus": pods.pod_sandbox_status,
    RUNTIME + "ListPodSandbox": pods.list_pod_sandbox,
    RUNTIME + "CreateContainer": containers.create_container,
    RUNTIME + "StartContainer": containers.start_container,
    RUNTIME + "StopContainer": containers.stop_container,
    RUNTIME + "RemoveContainer": containers.remove_container,
    RUNTIME + "ListContainers": containers.list_containers,
    RUNTIME + "ContainerStatus": statuses.container_status,
    RUNTIME + "UpdateContainerResources": containers.update_container_resources,
    RUNTIME + "ReopenContainerLog": containers.reopen_container_log,
    RUNTIME + "ExecSync": execs.exec_sync,
    RUNTIME + "Exec": execs.exec_stream,
    RUNTIME + "Attach": execs.attach,
    RUNTIME + "PortForward": pods.port_forward,
    RUNTIME + "ContainerStats": stats.container_stats,
    RUNTIME + "ListContainerStats": stats.list_container_stats,
    RUNTIME + "PodSandboxStats": stats.pod_sandbox_stats,
    RUNTIME + "ListPodSandboxStats": stats.list_pod_sandbox_stats,
    RUNTIME + "UpdateRuntimeConfig": pods.update_runtime_config,
    RUNTIME + "Status": pods.status,
    RUNTIME + "CheckpointContainer": containers.checkpoint_container,
    RUNTIME + "ListMetricDescriptors": stats.list_metric_descriptors,
    RUNTIME + "ListPodSandboxMetrics": stats.list_pod_sandbox_metrics,
    RUNTIME + "RuntimeConfig": pods.runtime_config,
    RUNTIME + "UpdatePodSandboxResources": pods.update_pod_sandbox_resources,
    IMAGE + "ListImages": images.list_images,
    IMAGE + "ImageStatus": images.image_status,
    IMAGE + "PullImage": images.pull_image,
    IMAGE + "RemoveImage": images.remove_image,
    IMAGE + "ImageFsInfo": images.image_fs_info,
}

_STREAMS: dict[str, Callable[..., Iterator[Message]]] = {
    RUNTIME + "StreamPodSandboxes": pods.stream_pod_sandboxes,
    RUNTIME + "StreamContainers": containers.stream_containers,
    RUNTIME + "StreamContainerStats": stats.stream_container_stats,
    RUNTIME + "StreamPodSandboxStats": stats.stream_pod_sandbox_stats,
    RUNTIME + "StreamPodSandboxMetrics": stats.stream_pod_sandbox_metrics,
    IMAGE + "StreamImages": images.stream_images,
}

_EVENTS = RUNTIME + "GetContainerEvents"


@dataclass(frozen=True, slots=True)
class UpdateCall:
    """One UpdateContainerResources that was accepted: its cpuset fields as text ('' = not set), and all of it."""

    container_id: str
    cpus: str
    mems: str
    message: bytes


class EmbeddedRuntime:
    """The runtime. ``faults`` scripts misbehaviour.

    ``modern`` False is an older runtime: without container events, resources in the status, and the methods that came
    with or after them.
    Images must be there before a container is made from them, as on any runtime: ``image_names`` are from the start.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        modern: bool = True,
        image_names: Sequence[str] = (DEFAULT_IMAGE,),
    ) -> None:
        """An empty node; ``machine`` gives the CPUs and memory nodes that a container may use by default."""
        self.node = Node(machine, now_ns, modern)
        self.node.images = {image.reference: image for image in map(Image.named, image_names)}
        self.node.on_event = self._on_event
        self.faults = Faults()
        # Whether a start goes on when its caller has gone; a runtime may as well give it up.
        self.starts_outlive_callers = False
        self._starts = Tasks(lambda error: None)  # whoever still waits is told
        self._away = ""
        self._updates: list[UpdateCall] = []
        self._listeners: list[asyncio.Queue[bytes | None]] = []

    async def call(self, method: str, message: bytes) -> bytes:
        """Answer one unary call. Raises CallFailed, and RuntimeUnavailable while the runtime is away."""
        self._require_present(method)
        name = method.rpartition("/")[2]
        try:
            request = _parse(method, message, streams=False)
            self.faults.check(name, message, after=False)
            if isinstance(request, pb.StartContainerRequest):
                reply: Message = await self._start(request)
            else:
                await self._pause(method)
                reply = _UNARY[method](self.node, request)
            if isinstance(request, pb.UpdateContainerResourcesRequest):
                self._note_update(request, message)
            self.faults.check(name, message, after=True)
        except Refusal as refusal:
            raise CallFailed(method, refusal.code, refusal.message) from None
        return reply.SerializeToString()

    async def _start(self, request: pb.StartContainerRequest) -> Message:
        """A start that is held has fixed already what the kernel gets, as runc has."""
        container = containers.begin_start(self.node, request.container_id)
        if self.starts_outlive_callers:
            await asyncio.shield(self._starts.start(self._go_on_starting(container), name="start"))
            return pb.StartContainerResponse()
        try:
            await self._pause(RUNTIME + "StartContainer")
        finally:
            container.starting = False
        return containers.finish_start(self.node, container)

    async def _go_on_starting(self, container: Container) -> None:
        await self._pause(RUNTIME + "StartContainer")
        containers.finish_start(self.node, container)

    async def _pause(self, method: str) -> None:
        try:
            await self.faults.pause(method.rpartition("/")[2])
        except RuntimeUnavailable as broken:
            raise RuntimeUnavailable(method, broken.problem) from None

    def _note_update(self, request: pb.UpdateContainerResourcesRequest, message: bytes) -> None:
        linux = request.linux
        self._updates.append(UpdateCall(request.container_id, linux.cpuset_cpus, linux.cpuset_mems, message))

    async def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        """Answer a server-streaming call; events end only by ``restart`` or the caller. Raises as ``call`` does."""
        self._require_present(method)
        name = method.rpartition("/")[2]
        try:
            request = _parse(method, message, streams=True)
            self.faults.check(name, message, after=False)
            await self._pause(method)
            if method == _EVENTS and not self.node.modern:
                raise pods.unknown_method("GetContainerEvents")
        except Refusal as refusal:
            raise CallFailed(method, refusal.code, refusal.message) from None
        if method == _EVENTS:
            async for event in self._events(method):
                yield event
        else:
            for reply in _STREAMS[method](self.node, request):
                yield reply.SerializeToString()

    async def _events(self, method: str) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._listeners.append(queue)
        try:
            while (event := await queue.get()) is not None:
                yield event
            raise RuntimeUnavailable(method, "the connection was closed")
        finally:
            self._listeners.remove(queue)

    def _on_event(self, kind: pb.ContainerEventType, container_id: str, sandbox_id: str) -> None:
        if self._listeners:
            event = statuses.event(self.node, kind, container_id, sandbox_id).SerializeToString()
            for queue in self._listeners:
                queue.put_nowait(event)

    def _require_present(self, method: str) -> None:
        if self._away:
            raise RuntimeUnavailable(method, self._away)

    def go_away(self, problem: str = "connection refused") -> None:
        """The runtime's process ends: calls and streams in flight break, new ones fail; containers run on."""
        self._away = problem
        self.faults.abort(lambda: RuntimeUnavailable("", problem))
        for queue in self._listeners:
            queue.put_nowait(None)

    def come_back(self) -> None:
        """The runtime's process is there again, with all it had."""
        self._away = ""

    def restart(self) -> None:
        """Both: the runtime is restarted under its containers."""
        self.go_away("the runtime restarts")
        self.come_back()

    def exit(self, container_id: str, exit_code: int = 0) -> None:
        """The container's process ends by itself. Raises Refusal for an unknown container."""
        pods.end(self.node, self.node.container(container_id, "failed to find container"), exit_code)

    def effective(self, container_id: str) -> tuple[CpuSet, NodeSet]:
        """The CPUs and memory nodes that the kernel lets the container use. Raises Refusal when it is unknown."""
        return self.node.effective(self.node.container(container_id, "failed to find container"))

    def record(self, container_id: str) -> pb.LinuxContainerResources:
        """The resources that the runtime has on record, a copy. Raises Refusal for an unknown container."""
        copy = pb.LinuxContainerResources()
        copy.CopyFrom(self.node.container(container_id, "failed to find container").record)
        return copy

    @property
    def updates(self) -> tuple[UpdateCall, ...]:
        """Every accepted UpdateContainerResources, oldest first."""
        return tuple(self._updates)

    def listeners(self) -> int:
        """How many callers follow the container events now."""
        return len(self._listeners)

    def channel(self) -> "EmbeddedChannel":
        """A way to this runtime that needs no socket."""
        return EmbeddedChannel(self)


class EmbeddedChannel(RuntimeChannel):
    """Calls to an embedded runtime in the same process."""

    def __init__(self, runtime: EmbeddedRuntime) -> None:
        """Calls go to this runtime."""
        self._runtime = runtime

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        """As ``RuntimeChannel.unary``."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._runtime.call(method, message)
        except TimeoutError:
            raise RuntimeUnavailable(method, f"no answer within {timeout_seconds} s") from None

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        """As ``RuntimeChannel.stream``."""
        return self._runtime.stream(method, message)

    async def close(self) -> None:
        """There is no connection to end."""


def _parse(method: str, message: bytes, *, streams: bool) -> Message:
    """The request of a method that this runtime has. Raises Refusal in gRPC for Go's words."""
    known: Method | None = BY_PATH.get(method)
    service, _, name = method.strip("/").rpartition("/")
    if known is None and f"/{service}/" not in (RUNTIME, IMAGE):
        raise Refusal(UNIMPLEMENTED, f"unknown service {service}")
    served = _STREAMS.keys() | {_EVENTS} if streams else _UNARY.keys()
    if known is None or method not in served:
        raise Refusal(UNIMPLEMENTED, f"unknown method {name} for service {service}")
    try:
        return known.request.FromString(message)
    except DecodeError as error:
        raise Refusal(INTERNAL, f"grpc: failed to unmarshal the received message: {error}") from None
