"""Answer the kubelet's calls about one resource, on a socket of its own in the plugin directory."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

# Read when grpcio is loaded. Otherwise grpcio logs in a format of its own.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc
from grpc import aio

from cri_proxy import events
from cri_proxy.errors import ConfigError
from cri_proxy.kubelet.device_plugin.resource import OPTIONS, AllocationRefused, NodeFiles, ServedResource
from cri_proxy.kubelet.proto import deviceplugin_v1beta1_pb2 as pb
from cri_proxy.logs import Log
from cri_proxy.unix_socket import Published, claim, named_errors, private_umask, publish

SERVICE: Final = "v1beta1.DevicePlugin"
PREFERENCE_SECONDS: Final = 2.0
"""For a choice of devices: the kubelet waits for it without an end, and admits no other pod meanwhile."""

_OPTIONS: Final = (("grpc.so_reuseport", 0),)
_STOP_SECONDS: Final = 1.0  # for calls in flight, at the end

_Context = aio.ServicerContext[object, object]


class ResourceService:
    """One resource: its devices now, the streams that list them, and the socket. ``lost`` reports a stream's end."""

    def __init__(
        self,
        resource: ServedResource,
        socket: Path,
        *,
        files: NodeFiles,
        lost: Callable[[], None],
        log: Log,
    ) -> None:
        """``lost`` is called when the newest stream ends early."""
        self.resource = resource
        self._socket = socket
        self._files = files
        self._lost = lost
        self._log = log
        self._changed = asyncio.Event()
        self._newest = 0
        self._is_ending = False
        self._server: aio.Server | None = None
        self._published: Published | None = None
        # A search that is given up goes on. The loop's threads are for what containers wait for, and for the files.
        self._searches = ThreadPoolExecutor(1, "preferences")

    @property
    def is_published(self) -> bool:
        """Whether the socket is in its place and ours."""
        return self._published is not None and self._published.is_ours

    def use(self, resource: ServedResource) -> None:
        """Serve these devices from now on, and list them to all that watch."""
        self.resource = resource
        self._wake()

    async def open(self) -> None:
        """Open the socket; one that was open before is closed first, with its streams. Raises ConfigError."""
        await self.close()
        self._is_ending = False
        try:
            await self._listen()
        except ConfigError as error:  # the path is no option of its own: it follows from the directory
            raise ConfigError(error.path, 0, "--plugin-dir", error.problem) from error

    async def _listen(self) -> None:
        temporary = claim(self._socket)
        self._server = server = aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((self._handlers(),))
        with named_errors(self._socket):
            try:
                with private_umask():
                    server.add_insecure_port(f"unix:{temporary}")
            except RuntimeError as error:  # how grpcio reports a bind that failed
                raise OSError(str(error)) from error
            await server.start()
            self._published = publish(temporary, self._socket, None)

    async def close(self) -> None:
        """Remove the socket if it is still ours, end the streams, and let other calls end for a moment."""
        self._is_ending = True
        self._wake()
        published, self._published = self._published, None
        if published is not None:
            published.withdraw()
        server, self._server = self._server, None
        if server is not None:
            await server.stop(_STOP_SECONDS)

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _handlers(self) -> "grpc.GenericRpcHandler[object, object]":
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        methods: dict[str, grpc.RpcMethodHandler[object, object]] = {
            "GetDevicePluginOptions": unary(self._options, pb.Empty.FromString, _packed),
            "ListAndWatch": stream(self._list_and_watch, pb.Empty.FromString, _packed),
            "GetPreferredAllocation": unary(self._prefer, pb.PreferredAllocationRequest.FromString, _packed),
            "Allocate": unary(self._allocate, pb.AllocateRequest.FromString, _packed),
            "PreStartContainer": unary(self._pre_start, pb.PreStartContainerRequest.FromString, _packed),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def _options(self, request: pb.Empty, context: _Context) -> pb.DevicePluginOptions:
        return OPTIONS

    async def _list_and_watch(self, request: pb.Empty, context: _Context) -> AsyncIterator[pb.ListAndWatchResponse]:
        self._newest += 1
        number, sent = self._newest, None
        try:
            while not self._is_ending:
                # Both without an await between: what changes after the listing sets this very event.
                changed, listing = self._changed, self.resource.listing()
                if listing != sent:
                    sent = listing
                    yield listing
                await changed.wait()
        finally:
            if number == self._newest and not self._is_ending:
                self._lost()

    async def _prefer(
        self, request: pb.PreferredAllocationRequest, context: _Context
    ) -> pb.PreferredAllocationResponse:
        resource, loop = self.resource, asyncio.get_running_loop()
        answers = []
        for container in request.container_requests:
            try:
                async with asyncio.timeout(PREFERENCE_SECONDS):
                    ids = await loop.run_in_executor(self._searches, resource.preferred, container)
            except TimeoutError:
                self._log.warning(events.PREFERENCE_LATE, resource=resource.name, devices=container.allocation_size)
                ids = ()  # no preference: the kubelet takes any
            answers.append(pb.ContainerPreferredAllocationResponse(deviceIDs=ids))
        return pb.PreferredAllocationResponse(container_responses=answers)

    async def _allocate(self, request: pb.AllocateRequest, context: _Context) -> pb.AllocateResponse:
        resource = self.resource
        answers = []
        for container in request.container_requests:
            ids = tuple(container.devices_ids)
            try:
                answers.append(await asyncio.to_thread(resource.allocation, ids, self._files))
            except AllocationRefused as error:
                self._log.warning(events.ALLOCATION_REFUSED, resource=resource.name, reason=error.problem)
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.problem)
        # Not before the whole call is granted: a later container may be refused, and the pod fails with it.
        for container in request.container_requests:
            self._log.info(events.ALLOCATED, resource=resource.name, devices=tuple(container.devices_ids))
        return pb.AllocateResponse(container_responses=answers)

    async def _pre_start(self, request: pb.PreStartContainerRequest, context: _Context) -> pb.PreStartContainerResponse:
        try:
            self.resource.checked(request.devices_ids)
        except AllocationRefused as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.problem)
        return pb.PreStartContainerResponse()


def _packed(message: object) -> bytes:
    """Return a message's bytes; grpcio's types know no class of messages."""
    return message.SerializeToString()  # type: ignore[attr-defined,no-any-return]
