import asyncio

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed
from tests.fakes.embedded_calls import Calls
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import Faults, Gate, ScriptedRuntime


def new() -> Calls:
    return Calls(ScriptedRuntime(small_machine()))


async def test_a_scripted_failure_hits_the_next_calls_and_leaves_no_trace() -> None:
    calls = new()
    calls.runtime.faults.fail_next("RunPodSandbox", 14, "busy", times=2)
    for _ in range(2):
        with pytest.raises(CallFailed, match="busy"):
            await calls.pod()
    assert not calls.runtime.node.sandboxes
    assert await calls.pod()


async def test_a_failure_afterwards_takes_effect_all_the_same() -> None:
    calls = new()
    calls.runtime.faults.fail_next("RunPodSandbox", 4, "too late", after=True)
    with pytest.raises(CallFailed) as failed:
        await calls.pod()
    assert (failed.value.code, len(calls.runtime.node.sandboxes)) == (4, 1)


async def test_a_failure_can_be_meant_for_one_container() -> None:
    calls = new()
    pod = await calls.pod()
    good, bad = await calls.running(pod, "a"), await calls.running(pod, "b")

    def is_bad(message: bytes) -> bool:
        return pb.UpdateContainerResourcesRequest.FromString(message).container_id == bad

    calls.runtime.faults.fail_next("UpdateContainerResources", 2, "no", matches=is_bad)
    await calls.update(good, cpuset_cpus="1")
    with pytest.raises(CallFailed, match="no"):
        await calls.update(bad, cpuset_cpus="1")
    assert [u.container_id for u in calls.runtime.updates] == [good]


async def test_a_gate_holds_calls_until_it_is_released_for_good() -> None:
    calls = new()
    gate = calls.runtime.faults.block("RunPodSandbox")
    held = asyncio.get_running_loop().create_task(calls.pod("a"))
    await gate.entered()
    assert (gate.waiting, calls.runtime.node.sandboxes) == (1, {})
    gate.release()
    assert await held
    assert await calls.pod("b")


async def test_a_caller_that_goes_away_no_longer_waits() -> None:
    gate = Gate()
    waiter = asyncio.get_running_loop().create_task(gate.wait())
    await gate.entered()
    waiter.cancel()
    await asyncio.wait([waiter])
    assert gate.waiting == 0
    gate.abort(RuntimeError)


async def test_clearing_lets_everything_pass() -> None:
    faults = Faults()
    faults.fail_next("Version", 2, "no")
    faults.delay("Version", 60)
    gate = faults.block("Version")
    waiter = asyncio.get_running_loop().create_task(gate.wait())
    await gate.entered()
    faults.clear()
    await waiter
    faults.check("Version", b"", after=False)
    await asyncio.wait_for(faults.pause("Version"), 20)


async def test_a_delay_is_waited_for() -> None:
    faults = Faults()
    faults.delay("Version", 60)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(faults.pause("Version"), 0.01)
    await faults.pause("Status")
