import asyncio

import pytest

from cri_proxy.cri.methods import METHODS, RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from tests.fakes.embedded_calls import Calls
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime

UNIMPLEMENTED_EVERYWHERE = {"CheckpointPod", "RestorePod"}  # containerd has them no more than we do
UNKNOWN_TO_1_6 = {
    "CheckpointContainer",
    "GetContainerEvents",
    "ListMetricDescriptors",
    "ListPodSandboxMetrics",
    "RuntimeConfig",
    "UpdatePodSandboxResources",
}


def new(*, modern: bool = True) -> Calls:
    return Calls(ScriptedRuntime(small_machine(), modern=modern))


async def first_code(runtime: ScriptedRuntime, path: str, *, streams: bool) -> int:
    """The status of a call with an empty request; the events are left as soon as they are followed."""
    try:
        if not streams:
            await runtime.call(path, b"")
        elif path.endswith("GetContainerEvents"):
            follower = asyncio.ensure_future(anext(aiter(runtime.stream(path, b""))))  # noqa: TID251  # cancelled below
            await asyncio.sleep(0)
            if follower.done():
                follower.result()
            follower.cancel()
        else:
            [_ async for _ in runtime.stream(path, b"")]
    except CallFailed as failed:
        return failed.code
    return 0


@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
async def test_only_what_containerd_lacks_is_unimplemented(method: object, modern: bool) -> None:
    known = next(m for m in METHODS if m is method)
    code = await first_code(new(modern=modern).runtime, known.path, streams=known.streams)
    lacking = UNIMPLEMENTED_EVERYWHERE | (set() if modern else UNKNOWN_TO_1_6)
    assert (code == 12) == (known.name in lacking)


async def test_a_container_without_a_cpuset_may_use_all_online_cpus_and_memory() -> None:
    calls = new()
    container = await calls.running(await calls.pod())
    assert [str(s) for s in calls.runtime.effective(container)] == ["0-7", "0-1"]


async def test_the_effective_set_is_what_was_written_cut_to_what_is_online() -> None:
    calls = Calls(ScriptedRuntime(small_machine(offline="3")))
    container = await calls.running(await calls.pod(), cpus="2-3", mems="1")
    assert [str(s) for s in calls.runtime.effective(container)] == ["2", "1"]


async def test_an_empty_cpuset_and_zeros_change_nothing() -> None:
    calls = new()
    container = await calls.running(await calls.pod(), cpus="1", mems="0")
    await calls.update(container, cpuset_cpus="", cpu_quota=5000)
    record = calls.runtime.record(container)
    assert (record.cpuset_cpus, record.cpuset_mems, record.cpu_shares, record.cpu_quota) == ("1", "0", 1024, 5000)


async def test_a_cpuset_that_the_kernel_would_not_parse_is_refused_and_not_recorded() -> None:
    calls = new()
    container = await calls.running(await calls.pod(), cpus="1")
    with pytest.raises(CallFailed, match="invalid argument"):
        await calls.update(container, cpuset_cpus="0-")
    assert calls.runtime.record(container).cpuset_cpus == "1"
    assert calls.runtime.updates == ()


async def test_an_update_while_the_start_is_in_flight_is_answered_but_not_enforced() -> None:
    calls = new()
    container = await calls.create(await calls.pod(), cpus="1")
    gate = calls.runtime.faults.block("StartContainer")
    async with asyncio.TaskGroup() as group:
        group.create_task(calls.start(container))
        await gate.entered()
        await calls.update(container, cpuset_cpus="2")
        gate.release()
    assert calls.runtime.record(container).cpuset_cpus == "2"
    assert str(calls.runtime.effective(container)[0]) == "1"
    await calls.update(container, cpuset_cpus="2")
    assert str(calls.runtime.effective(container)[0]) == "2"


async def test_accepted_updates_are_logged_in_order() -> None:
    calls = new()
    container = await calls.running(await calls.pod())
    await calls.update(container, cpuset_cpus="2")
    await calls.update(container, cpuset_mems="1")
    assert [(u.container_id, u.cpus, u.mems) for u in calls.runtime.updates] == [
        (container, "2", ""),
        (container, "", "1"),
    ]


async def test_a_container_that_ends_by_itself_is_exited_with_its_code() -> None:
    calls = new()
    container = await calls.running(await calls.pod())
    calls.runtime.exit(container, 3)
    status = (await calls.status(container)).status
    assert (status.state, status.exit_code, status.reason) == (pb.CONTAINER_EXITED, 3, "Error")


async def test_a_restart_of_the_runtime_keeps_containers_and_breaks_what_was_in_flight() -> None:
    calls = new()
    container = await calls.running(await calls.pod(), cpus="1")
    gate = calls.runtime.faults.block("Version")
    held = asyncio.get_running_loop().create_task(calls.call("Version", pb.VersionRequest(), pb.VersionResponse))
    await gate.entered()
    calls.runtime.restart()
    with pytest.raises(RuntimeUnavailable, match="Version: the runtime is away: the runtime restarts"):
        await held
    assert (await calls.status(container)).status.state == pb.CONTAINER_RUNNING


async def test_while_the_runtime_is_away_calls_fail() -> None:
    calls = new()
    calls.runtime.go_away()
    with pytest.raises(RuntimeUnavailable, match="connection refused"):
        await calls.pod()
    calls.runtime.come_back()
    assert await calls.pod()


async def test_events_tell_every_change_with_the_state_of_the_pod() -> None:
    calls = new()
    pod = await calls.pod()
    events: list[pb.ContainerEventResponse] = []

    async def follow() -> None:
        async for message in calls.runtime.stream(RUNTIME + "GetContainerEvents", b""):
            events.append(pb.ContainerEventResponse.FromString(message))
            if len(events) == 4:
                return

    follower = asyncio.get_running_loop().create_task(follow())
    await asyncio.sleep(0)  # the follower's first step
    assert calls.runtime.listeners() == 1
    container = await calls.running(pod)
    calls.runtime.exit(container)
    await calls.call("RemoveContainer", pb.RemoveContainerRequest(container_id=container), pb.RemoveContainerResponse)
    await follower
    assert {e.pod_sandbox_status.id for e in events} == {pod}
    assert [(pb.ContainerEventType.Name(e.container_event_type), len(e.containers_statuses)) for e in events] == [
        ("CONTAINER_CREATED_EVENT", 1),
        ("CONTAINER_STARTED_EVENT", 1),
        ("CONTAINER_STOPPED_EVENT", 1),
        ("CONTAINER_DELETED_EVENT", 0),
    ]


async def test_a_broken_message_is_an_internal_error() -> None:
    with pytest.raises(CallFailed, match="failed to unmarshal") as failed:
        await new().runtime.call(RUNTIME + "Version", b"\xff")
    assert failed.value.code == 13


async def test_the_channel_gives_up_after_its_timeout() -> None:
    calls = new()
    calls.runtime.faults.block("Version")
    with pytest.raises(RuntimeUnavailable, match="no answer within"):
        await calls.runtime.unary(RUNTIME + "Version", b"", timeout_seconds=0.01)
