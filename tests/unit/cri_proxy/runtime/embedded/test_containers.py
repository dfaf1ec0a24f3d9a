import asyncio

import pytest

from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed
from tests.fakes.embedded_calls import Calls
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime


def new() -> Calls:
    return Calls(ScriptedRuntime(small_machine()))


async def listed(calls: Calls, **wanted: object) -> list[str]:
    request = pb.ListContainersRequest(filter=pb.ContainerFilter(**wanted))  # type: ignore[arg-type]  # real names
    reply = await calls.call("ListContainers", request, pb.ListContainersResponse)
    return [c.metadata.name for c in reply.containers]


async def test_containers_are_listed_by_id_pod_state_and_label() -> None:
    calls = new()
    pods = [await calls.pod("a"), await calls.pod("b")]
    first, _ = await calls.running(pods[0], "x"), await calls.create(pods[1], "y")
    assert await listed(calls) == ["x", "y"]
    assert await listed(calls, id=first) == ["x"]
    assert await listed(calls, pod_sandbox_id=pods[1]) == ["y"]
    assert await listed(calls, state=pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)) == ["x"]
    assert await listed(calls, label_selector={"name": "y"}) == ["y"]


async def test_the_streamed_list_is_the_list() -> None:
    calls = new()
    await calls.create(await calls.pod(), "x")
    replies = [m async for m in calls.runtime.stream(RUNTIME + "StreamContainers", b"")]
    names = [pb.StreamContainersResponse.FromString(m).containers[0].metadata.name for m in replies]
    assert names == await listed(calls)


async def test_a_restarted_container_has_a_new_attempt_and_the_old_one_stays_until_removed() -> None:
    calls = new()
    pod = await calls.pod()
    calls.runtime.exit(await calls.running(pod))
    with pytest.raises(CallFailed, match="is reserved for"):
        await calls.create(pod)
    meta = pb.ContainerMetadata(name="c0", attempt=1)
    config = pb.ContainerConfig(metadata=meta, image=pb.ImageSpec(image="localhost/app:1"))
    request = pb.CreateContainerRequest(pod_sandbox_id=pod, config=config)
    assert (await calls.call("CreateContainer", request, pb.CreateContainerResponse)).container_id
    assert await listed(calls) == ["c0", "c0"]


async def test_a_container_of_a_stopped_pod_does_not_start() -> None:
    calls = new()
    pod = await calls.pod()
    container = await calls.create(pod)
    await calls.call("StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=pod), pb.StopPodSandboxResponse)
    with pytest.raises(CallFailed, match="is not running"):
        await calls.start(container)


async def test_a_second_start_while_the_first_is_in_flight_is_refused() -> None:
    calls = new()
    container = await calls.create(await calls.pod())
    gate = calls.runtime.faults.block("StartContainer")
    async with asyncio.TaskGroup() as group:
        group.create_task(calls.start(container))
        await gate.entered()
        with pytest.raises(CallFailed, match="already in starting state"):
            await calls.start(container)
        gate.release()
    assert (await calls.status(container)).status.state == pb.CONTAINER_RUNNING


async def test_a_start_whose_container_is_removed_meanwhile_is_not_found() -> None:
    calls = new()
    container = await calls.create(await calls.pod())
    gate = calls.runtime.faults.block("StartContainer")
    start = asyncio.get_running_loop().create_task(calls.start(container))
    await gate.entered()
    remove = pb.RemoveContainerRequest(container_id=container)
    await calls.call("RemoveContainer", remove, pb.RemoveContainerResponse)
    gate.release()
    with pytest.raises(CallFailed, match="not found") as failed:
        await start
    assert failed.value.code == 5


async def test_an_update_of_an_exited_container_changes_the_record_and_nothing_else() -> None:
    calls = new()
    container = await calls.running(await calls.pod(), cpus="1")
    calls.runtime.exit(container)
    await calls.update(container, cpuset_cpus="2")
    assert calls.runtime.record(container).cpuset_cpus == "2"
    assert str(calls.runtime.effective(container)[0]) == "1"


async def test_an_update_leaves_what_only_a_create_may_set() -> None:
    calls = new()
    container = await calls.running(await calls.pod())
    await calls.update(container, oom_score_adj=7, unified={"memory.high": "1"})
    record = calls.runtime.record(container)
    assert (record.oom_score_adj, dict(record.unified)) == (0, {"memory.high": "1"})


async def test_only_a_running_container_is_checkpointed() -> None:
    calls = new()
    container = await calls.create(await calls.pod())
    request = pb.CheckpointContainerRequest(container_id=container)
    with pytest.raises(CallFailed, match="CONTAINER_CREATED"):
        await calls.call("CheckpointContainer", request, pb.CheckpointContainerResponse)
    await calls.start(container)
    await calls.call("CheckpointContainer", request, pb.CheckpointContainerResponse)


async def test_a_container_whose_set_the_kernel_refuses_ends_at_its_start_with_a_start_error() -> None:
    calls = new()
    container = await calls.create(await calls.pod(), cpus="9999")
    with pytest.raises(CallFailed, match="numerical result out of range"):
        await calls.start(container)
    status = (await calls.status(container)).status
    assert (status.state, status.reason, status.exit_code) == (pb.CONTAINER_EXITED, "StartError", 128)


async def test_a_created_container_starts_in_the_set_it_was_updated_to() -> None:
    calls = new()
    container = await calls.create(await calls.pod(), cpus="9999")
    await calls.update(container, cpuset_cpus="2", cpuset_mems="1")
    await calls.start(container)
    assert [str(s) for s in calls.runtime.effective(container)] == ["2", "1"]
