"""One resource on its socket, called as the kubelet does and as it does not."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message
from grpc import aio

from cri_proxy.kubelet.device_plugin.resource import NodeFiles, served_resource
from cri_proxy.kubelet.device_plugin.server import ResourceService
from cri_proxy.kubelet.device_plugin.settings import PluginResource
from cri_proxy.kubelet.device_plugin.sources import PluginKnowledge
from cri_proxy.kubelet.proto import deviceplugin_v1beta1_pb2 as pb
from cri_proxy.logs import configure_logging
from policies.devices import DeviceInventory
from tests.fakes.device_kubelet import Reply, WatchedPlugin
from tests.fakes.waiting import holds
from tests.unit.policies.devices.build import gpu, inventory, pairs

RESOURCE = PluginResource("gpu", "x.io/gpu")


class Stage:
    """A service and a client of it; ``lost`` counts the streams that ended."""

    def __init__(self, directory: Path) -> None:
        self.lost = 0
        self.told = StringIO()
        log = configure_logging("info", "json", self.told)
        path = directory / RESOURCE.endpoint
        resource = served_resource(RESOURCE, pairs(4), PluginKnowledge())
        self.service = ResourceService(
            resource, path, files=NodeFiles(lambda _: (), lambda _: {}), lost=self._count, log=log
        )
        self.client = self.connect(directory)

    def connect(self, directory: Path) -> WatchedPlugin:
        return WatchedPlugin(pb.RegisterRequest(endpoint=RESOURCE.endpoint), directory)

    def use(self, devices: DeviceInventory) -> None:
        self.service.use(served_resource(RESOURCE, devices, PluginKnowledge()))

    async def call(self, method: str, request: Message, response: type[Reply]) -> Reply:
        return await self.client.call(method, request, response)

    def _count(self) -> None:
        self.lost += 1


def watched(client: WatchedPlugin) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(client.watch())


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    await stage.service.open()
    yield stage
    await stage.service.close()
    await stage.client.channel.close(None)


async def test_the_options_are_those_of_the_registration(stage: Stage) -> None:
    options = await stage.call("GetDevicePluginOptions", pb.Empty(), pb.DevicePluginOptions)
    assert (options.get_preferred_allocation_available, options.pre_start_required) == (True, False)


async def test_each_container_of_a_call_has_an_answer(stage: Stage) -> None:
    containers = [pb.ContainerAllocateRequest(devices_ids=ids) for ids in (["gpu-0"], [], ["gpu-3", "gpu-1"])]
    answer = await stage.call("Allocate", pb.AllocateRequest(container_requests=containers), pb.AllocateResponse)
    found = [each.envs.get("CRI_PROXY_ALLOCATED_GPU", "") for each in answer.container_responses]
    assert found == ["0", "", "1,3"]


async def test_of_a_call_that_is_refused_the_log_says_no_device_as_allocated(stage: Stage) -> None:
    containers = [pb.ContainerAllocateRequest(devices_ids=[name]) for name in ("gpu-0", "gpu-8")]
    with pytest.raises(aio.AioRpcError):
        await stage.call("Allocate", pb.AllocateRequest(container_requests=containers), pb.AllocateResponse)
    assert [json.loads(line)["event"] for line in stage.told.getvalue().splitlines()] == ["allocation_refused"]


async def test_a_preference_for_nothing_is_empty_and_no_error(stage: Stage) -> None:
    containers = [
        pb.ContainerPreferredAllocationRequest(available_deviceIDs=["gpu-0", "gpu-2", "gpu-3"], allocation_size=size)
        for size in (0, 2, 9)
    ]
    request = pb.PreferredAllocationRequest(container_requests=containers)
    answer = await stage.call("GetPreferredAllocation", request, pb.PreferredAllocationResponse)
    assert [list(each.deviceIDs) for each in answer.container_responses] == [[], ["gpu-2", "gpu-3"], []]


async def test_a_start_is_let_be_for_devices_that_are_there(stage: Stage) -> None:
    known, unknown = (pb.PreStartContainerRequest(devices_ids=[name]) for name in ("gpu-0", "gpu-8"))
    await stage.call("PreStartContainer", known, pb.PreStartContainerResponse)
    with pytest.raises(aio.AioRpcError) as caught:
        await stage.call("PreStartContainer", unknown, pb.PreStartContainerResponse)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "gpu-8: x.io/gpu has no such device" in str(caught.value.details())


async def test_only_what_has_changed_is_listed_again(stage: Stage, tmp_path: Path) -> None:
    watching = watched(stage.client)
    await holds("the devices are listed", lambda: len(stage.client.devices) == 4)
    stage.use(pairs(4))
    stage.use(inventory(gpu(7)))
    await holds("the other device is listed", lambda: set(stage.client.devices) == {"gpu-7"})
    assert stage.client.listings == 2
    await stage.service.close()
    await watching
    assert stage.lost == 0


async def test_the_end_of_the_newest_stream_is_told_and_that_of_an_older_one_is_not(
    stage: Stage, tmp_path: Path
) -> None:
    older, newer = stage.client, stage.connect(tmp_path)
    watching = [watched(older)]
    await holds("the first one watches", lambda: older.listings == 1)
    watching.append(watched(newer))
    await holds("the second one watches", lambda: newer.listings == 1)
    older.unwatch()
    await watching[0]
    stage.use(pairs(2))
    await holds("the second one watches on", lambda: newer.listings == 2)
    assert stage.lost == 0
    newer.unwatch()
    await holds("its end is told", lambda: stage.lost == 1)
    await watching[1]
    await newer.channel.close(None)


async def test_a_service_that_is_opened_again_serves_on_a_new_socket(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / RESOURCE.endpoint).unlink()
    assert not stage.service.is_published
    await stage.service.open()
    assert stage.service.is_published
    client = stage.connect(tmp_path)
    await client.call("GetDevicePluginOptions", pb.Empty(), pb.DevicePluginOptions)
    await client.channel.close(None)


class Searching:
    """A chooser whose searches last until they are let go."""

    def __init__(self) -> None:
        self.began, self.let_go = threading.Event(), threading.Event()

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        self.began.set()
        assert self.let_go.wait(20)
        return tuple(available[:size])


async def test_long_searches_for_a_preference_keep_no_container_from_its_devices(stage: Stage) -> None:
    chooser = Searching()
    stage.service.use(replace(stage.service.resource, chooser=chooser))
    container = pb.ContainerPreferredAllocationRequest(available_deviceIDs=["gpu-0", "gpu-1"], allocation_size=1)
    request = pb.PreferredAllocationRequest(container_requests=[container])
    async with asyncio.TaskGroup() as group:
        for _ in range(40):  # more than the loop's own threads
            group.create_task(stage.call("GetPreferredAllocation", request, pb.PreferredAllocationResponse))
        await holds("a search goes on", chooser.began.is_set)
        given = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=["gpu-0"])])
        async with asyncio.timeout(10):
            answer = await stage.call("Allocate", given, pb.AllocateResponse)
        assert len(answer.container_responses) == 1
        chooser.let_go.set()
