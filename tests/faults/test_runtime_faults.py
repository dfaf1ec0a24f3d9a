"""The runtime dies, hangs, crawls or refuses at any moment; when it is back the node is as if nothing had been."""

import asyncio

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from sysfs.cpuset import CpuSet
from tests.faults.sweep import Scene, as_far_as_it_goes, turns

UPDATE = "UpdateContainerResources"
UNKNOWN, DEADLINE_EXCEEDED = 2, 4
HANGING = ("CreateContainer", "StartContainer", UPDATE, "StopContainer", "RemovePodSandbox", "ListContainers")


@pytest.mark.parametrize("number", range(0, 90, 6))
async def test_it_may_die_at_any_moment_and_come_back(number: int, scene: Scene) -> None:
    story = asyncio.get_running_loop().create_task(as_far_as_it_goes(scene.story()))
    await turns(number)
    scene.runtime.go_away()
    await story
    await turns(10)
    scene.runtime.come_back()


@pytest.mark.parametrize("method", HANGING)
async def test_it_may_accept_calls_and_never_answer_until_it_is_killed(method: str, scene: Scene) -> None:
    gate = scene.runtime.faults.block(method)
    story = asyncio.get_running_loop().create_task(as_far_as_it_goes(scene.story()))
    check = asyncio.get_running_loop().create_task(scene.node.resync.check_all("slow check"))
    await gate.entered()
    await turns(50)
    scene.runtime.restart()
    scene.runtime.faults.clear()
    await asyncio.gather(story, check)


async def test_one_update_of_many_that_fails_keeps_nobody_else(scene: Scene) -> None:
    pods = [await scene.run(f"s{i}", ContainerSpec("c", cpu_request_mcpu=100)) for i in range(4)]
    many = [pod.container_id("c") for pod in pods]

    def is_about_it(message: bytes) -> bool:
        return pb.UpdateContainerResourcesRequest.FromString(message).container_id == many[1]

    scene.runtime.faults.fail_next(UPDATE, UNKNOWN, "device or resource busy", times=99, matches=is_about_it)
    owner = await scene.run("owner", guaranteed("c", 2000))
    owned = CpuSet.parse(scene.cpus(owner.container_id("c")))
    assert all(owned.isdisjoint(CpuSet.parse(scene.cpus(container_id))) for container_id in many)
    assert len({scene.cpus(container_id) for container_id in many}) <= 2
    scene.runtime.faults.clear()
    for pod in (*pods, owner):
        await scene.kubelet.remove_pod(pod.sandbox_id)


@pytest.mark.parametrize("times", range(1, 8))
@pytest.mark.parametrize("after", [True, False], ids=["took effect", "did not"])
async def test_any_number_of_updates_may_end_without_an_answer(times: int, after: bool, scene: Scene) -> None:
    scene.runtime.faults.fail_next(UPDATE, DEADLINE_EXCEEDED, "deadline", times=times, after=after)
    await as_far_as_it_goes(scene.story())
    scene.runtime.faults.clear()


@pytest.mark.parametrize("method", ["CreateContainer", "StartContainer", "RunPodSandbox", UPDATE])
async def test_a_call_that_it_refuses_leaves_nothing_behind(method: str, scene: Scene) -> None:
    scene.runtime.faults.fail_next(method, UNKNOWN, "no such thing today")
    await as_far_as_it_goes(scene.story())
