"""The kubelet's side of device plugins: takes registrations, watches devices, allocates them, restarts.

As the device manager of the kubelet does (v1.36): it connects to a plugin while that registers; the devices of a plugin
whose stream has ended are unhealthy; it asks for a preference only where there is a choice, fills up what the answer
lacks, and allocates; when it starts it removes every file of the directory but its checkpoint.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message
from grpc import aio

from cri_proxy.kubelet.proto import deviceplugin_v1beta1_pb2 as pb
from cri_proxy.tasks import Tasks

CHECKPOINT = "kubelet_internal_checkpoint"
_PLUGIN = "/v1beta1.DevicePlugin/"
Reply = TypeVar("Reply", bound=Message)


class WatchedPlugin:
    """What the kubelet knows of one resource."""

    def __init__(self, request: pb.RegisterRequest, directory: Path) -> None:
        self.request = request
        self.channel = aio.insecure_channel(
            f"unix:{directory / request.endpoint}", options=(("grpc.use_local_subchannel_pool", 1),)
        )
        self.devices: dict[str, pb.Device] = {}
        self.listings = 0
        self.is_watched = True
        self._listing: aio.UnaryStreamCall[pb.Empty, pb.ListAndWatchResponse] | None = None

    async def watch(self) -> None:
        method = f"{_PLUGIN}ListAndWatch"
        stream = self.channel.unary_stream(method, pb.Empty.SerializeToString, pb.ListAndWatchResponse.FromString)
        self._listing = stream(pb.Empty())
        try:
            async for listing in self._listing:
                self.devices = {device.ID: device for device in listing.devices}
                self.listings += 1
        except (aio.AioRpcError, asyncio.CancelledError):
            pass
        finally:
            self.is_watched = False

    def unwatch(self) -> None:
        """Break the stream off."""
        if self._listing is not None:
            self._listing.cancel()

    async def call(self, method: str, request: Message, response: type[Reply]) -> Reply:
        unary = self.channel.unary_unary(_PLUGIN + method, type(request).SerializeToString, response.FromString)
        answer: Reply = await unary(request, timeout=20)
        return answer

    @property
    def healthy(self) -> tuple[str, ...]:
        return tuple(name for name, device in self.devices.items() if device.health == "Healthy" and self.is_watched)


class DeviceKubelet:
    """A kubelet on a plugin directory. ``refusal`` is what it answers to registrations, '' = it takes them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.plugins: dict[str, WatchedPlugin] = {}
        self.registrations: list[pb.RegisterRequest] = []
        self.preferences: list[pb.ContainerPreferredAllocationRequest] = []
        self.in_use: dict[str, set[str]] = {}
        self.refusal = ""
        self._server: aio.Server | None = None
        self._watches = Tasks()

    async def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in self.directory.iterdir():
            if path.name != CHECKPOINT and not path.is_dir():
                path.unlink()
        server = aio.server(options=(("grpc.so_reuseport", 0),))
        handler = grpc.unary_unary_rpc_method_handler(
            self._register, pb.RegisterRequest.FromString, pb.Empty.SerializeToString
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler}),)
        )
        server.add_insecure_port(f"unix:{self.directory / 'kubelet.sock'}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """End as a process does: what it served and watched breaks off."""
        if self._server is not None:
            await self._server.stop(None)
        self._server = None
        await self._watches.cancel()
        for plugin in self.plugins.values():
            await plugin.channel.close(None)
        self.plugins = {}

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def knows(self, *resources: str) -> bool:
        """Whether these resources, and no others, are watched and have listed their devices."""
        watched = {name for name, plugin in self.plugins.items() if plugin.is_watched and plugin.listings}
        return watched == set(resources)

    async def allocate(
        self, resource: str, count: int, reusable: Sequence[str] = ()
    ) -> tuple[tuple[str, ...], pb.ContainerAllocateResponse]:
        """Give a container devices; raises AioRpcError as the plugin says, ValueError where there are too few."""
        plugin, held = self.plugins[resource], self.in_use.setdefault(resource, set())
        taken = list(reusable)[:count]
        free = [name for name in reversed(plugin.healthy) if name not in held and name not in taken]
        if len(taken) + len(free) < count:
            raise ValueError(f"{resource}: {count} requested, {len(free)} available")
        for name in [*await self._preferred(plugin, free, taken, count), *free]:
            if len(taken) < count and name in free and name not in taken:
                taken.append(name)
        return tuple(taken), await self.give(resource, taken)

    async def give(self, resource: str, ids: Sequence[str]) -> pb.ContainerAllocateResponse:
        """Allocate these very devices."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        answer = await self.plugins[resource].call("Allocate", request, pb.AllocateResponse)
        self.in_use.setdefault(resource, set()).update(ids)
        (container,) = answer.container_responses
        return container

    async def _preferred(
        self, plugin: WatchedPlugin, free: Sequence[str], taken: Sequence[str], count: int
    ) -> Sequence[str]:
        options = plugin.request.options
        if not options.get_preferred_allocation_available or not 0 < count - len(taken) < len(free):
            return ()
        wanted = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=[*taken, *free], must_include_deviceIDs=taken, allocation_size=count
        )
        self.preferences.append(wanted)
        request = pb.PreferredAllocationRequest(container_requests=[wanted])
        answer = await plugin.call("GetPreferredAllocation", request, pb.PreferredAllocationResponse)
        return [name for name in answer.container_responses[0].deviceIDs if name in free]

    async def _register(self, request: pb.RegisterRequest, context: "aio.ServicerContext[Any, Any]") -> pb.Empty:
        if self.refusal:
            await context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        if request.version != "v1beta1" or "/" not in request.resource_name:
            await context.abort(grpc.StatusCode.UNKNOWN, f"cannot take {request.version} {request.resource_name}")
        plugin = WatchedPlugin(request, self.directory)
        await plugin.channel.channel_ready()
        self.registrations.append(request)
        self.plugins[request.resource_name] = plugin
        self._watches.start(plugin.watch(), name=f"watch {request.resource_name}")
        return pb.Empty()
