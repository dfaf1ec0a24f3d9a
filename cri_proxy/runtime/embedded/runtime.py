"""``EmbeddedRuntime``, a CRI v1 runtime in memory: dispatch calls to methods, stream events, go away and come back.

For ``--runtime-endpoint embedded``, demo and tests. It runs no process and enforces nothing, but keeps the same records
as containerd, answers as containerd would, and computes what the kernel would enforce. One event loop, no threads.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from google.protobuf.message import DecodeError, Message

from cri_proxy.cri.methods import BY_PATH, IMAGE, METHODS, RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.http2.status import Code
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.runtime.embedded import containers, images, pods, stats
from cri_proxy.runtime.embedded import exec as execs
from cri_proxy.runtime.embedded.state import DEFAULT_IMAGE, Image, NodeState, RefusedCall
from sysfs.model import Machine

_SERVING = (pods, containers, execs, images, stats)


def _function_of(method: str) -> Callable[..., Message] | None:
    """Return the function that serves this method, ``create_container`` for CreateContainer; None without one."""
    name = re.sub("(?<=[a-z])(?=[A-Z])", "_", method).lower()
    return next((getattr(module, name) for module in _SERVING if hasattr(module, name)), None)


_UNARY = {m.path: function for m in METHODS if not m.streams and (function := _function_of(m.name)) is not None}

# Each stream answers what a list answers, an item in each message.
_STREAMS: dict[str, Callable[..., Message]] = {
    RUNTIME + "StreamPodSandboxes": pods.list_pod_sandbox,
    RUNTIME + "StreamContainers": containers.list_containers,
    RUNTIME + "StreamContainerStats": stats.list_container_stats,
    RUNTIME + "StreamPodSandboxStats": stats.list_pod_sandbox_stats,
    RUNTIME + "StreamPodSandboxMetrics": stats.list_pod_sandbox_metrics,
    IMAGE + "StreamImages": images.list_images,
}

_EVENTS = RUNTIME + "GetContainerEvents"
_UPDATE = RUNTIME + "UpdateContainerResources"


class EmbeddedRuntime(RuntimeChannel):
    """The runtime, and a channel to it that needs no socket.

    Images must be there before a container is created from them, as on any runtime; ``image_names`` are from the start.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        image_names: Sequence[str] = (DEFAULT_IMAGE,),
    ) -> None:
        """Start with an empty node; ``machine`` has the CPUs and memory nodes that a container may use by default."""
        self.node = NodeState(machine, now_ns, self._on_event)
        self.node.images = {image.reference: image for image in map(Image.named, image_names)}
        self.update_count = 0
        """How many calls of UpdateContainerResources were accepted."""
        self._losses = 0
        self._problem = ""  # why calls fail, while the runtime is away
        self._followers: list[asyncio.Queue[bytes | None]] = []

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        """See RuntimeChannel."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self.call(method, message)
        except TimeoutError:
            raise RuntimeUnavailable(method, f"no answer within {timeout_seconds} s") from None

    async def call(self, method: str, message: bytes) -> bytes:
        """Answer one unary call. Raises CallFailed, and RuntimeUnavailable while the runtime is away."""
        reply = self._answer(_UNARY, method, message)
        self.update_count += method == _UPDATE
        return reply.SerializeToString()

    async def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        """Answer a server-streaming call; events end only by ``restart`` or the caller. Raises as ``call`` does."""
        if method == _EVENTS:
            async for event in self._events():
                yield event
        else:
            reply = self._answer(_STREAMS, method, message)
            part = BY_PATH[method].reply
            for _, items in reply.ListFields():
                for item in items:
                    yield part(**{part.DESCRIPTOR.fields[0].name: [item]}).SerializeToString()

    def losses(self) -> int:
        """Return how often the runtime's process has ended."""
        return self._losses

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    def _answer(self, served: Mapping[str, Callable[..., Message]], method: str, message: bytes) -> Message:
        self._require_present(method)
        try:
            request = _parse(served, method, message)
            return served[method](self.node, request)
        except RefusedCall as refused:
            raise CallFailed(method, refused.code, refused.message) from None

    async def _events(self) -> AsyncIterator[bytes]:
        self._require_present(_EVENTS)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._followers.append(queue)
        try:
            while (event := await queue.get()) is not None:
                yield event
            raise RuntimeUnavailable(_EVENTS, "the connection was closed")
        finally:
            self._followers.remove(queue)

    def _on_event(self, kind: pb.ContainerEventType, container_id: str, sandbox_id: str) -> None:
        if self._followers:
            event = containers.event(self.node, kind, container_id, sandbox_id).SerializeToString()
            for queue in self._followers:
                queue.put_nowait(event)

    def _require_present(self, method: str) -> None:
        if self._problem:
            raise RuntimeUnavailable(method, self._problem)

    def go_away(self, problem: str = "connection refused") -> None:
        """End the runtime's process: streams break and calls fail; containers run on."""
        self._problem = problem
        self._losses += 1
        for queue in self._followers:
            queue.put_nowait(None)

    def come_back(self) -> None:
        """Start the runtime's process again, with all it had."""
        self._problem = ""

    def restart(self) -> None:
        """Restart the runtime under its containers."""
        self.go_away("the runtime restarts")
        self.come_back()

    def exit(self, container_id: str, exit_code: int = 0) -> None:
        """End the container's process from inside. Raises UnknownId."""
        pods.end(self.node, self.node.container(container_id, "failed to find container"), exit_code)


def unknown_method(method: str) -> RefusedCall:
    """Return the refusal of a method that the runtime does not have."""
    service, _, name = method.strip("/").rpartition("/")
    return RefusedCall(Code.UNIMPLEMENTED, f"unknown method {name} for service {service}")


def _parse(served: Mapping[str, object], method: str, message: bytes) -> Message:
    """Return the request of a method that this runtime has. Raises RefusedCall in the words of gRPC for Go."""
    known = BY_PATH.get(method)
    if known is None and not method.startswith((RUNTIME, IMAGE)):
        raise RefusedCall(Code.UNIMPLEMENTED, f"unknown service {method.strip('/').rpartition('/')[0]}")
    if known is None or method not in served:
        raise unknown_method(method)
    try:
        return known.request.FromString(message)
    except DecodeError as error:
        raise RefusedCall(Code.INTERNAL, f"grpc: failed to unmarshal the received message: {error}") from None
