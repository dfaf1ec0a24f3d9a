"""A node in memory."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cri_proxy import events
from cri_proxy.errors import ConfigError
from cri_proxy.simulate.clock import START_SECONDS
from cri_proxy.simulate.hotplug import with_offline
from cri_proxy.simulate.node import FaultLog, World
from policies.base import Allocations
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe

MACHINE = describe({"cores": 4})


def in_world(act: Callable[[World], Awaitable[str]]) -> str:
    """What this does on a node of four CPUs."""

    async def run() -> str:
        world = World(MACHINE, {"reservedResources": {"cpu": "1"}})
        await world.recover()
        try:
            return await act(world)
        finally:
            await world.close()

    return asyncio.run(run())


def test_options_that_do_not_do_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="cannot reserve"):
        World(MACHINE, {"reservedResources": {"cpu": "5"}})


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"reservedResources": {"cpu": "2"}}, ""),
        ({"reservedResources": {"cpu": "5"}}, "reservedResources.cpu: cannot reserve 5"),
        ({"reserved": {"cpu": "5"}}, "reserved: unknown option"),
        ({"availableResources": {"cpu": "cpuset:7"}}, "availableResources.cpu: CPU 7 does not exist"),
    ],
)
def test_a_change_is_made_or_answered_with_what_is_wrong(change: dict[str, object], answer: str) -> None:
    assert in_world(lambda world: world.reconfigure(change)).startswith(answer)


def test_a_refused_change_leaves_no_trace_for_the_next() -> None:
    async def twice(world: World) -> str:
        await world.reconfigure({"reservedResources": {"cpu": "5"}})
        return await world.reconfigure({"topologyAware": {"PinMemory": False}})

    assert in_world(twice) == ""


def test_a_fault_of_ours_is_told_by_the_next_settle_and_only_that() -> None:
    async def fault(world: World) -> str:
        world.journal.failed_open("a call", ValueError("a bug"))
        return repr((await world.settle(), await world.settle()))

    assert in_world(fault) == repr((("fault: ValueError('a bug')",), ()))


def test_a_restarted_proxy_is_ready_again() -> None:
    async def restarted(world: World) -> str:
        before = world.node
        await world.restart_proxy()
        return str(before is not world.node and world.node.coordinator.is_ready)

    assert in_world(restarted) == "True"


def test_the_view_is_that_of_a_daemon() -> None:
    async def status(world: World) -> str:
        return f"{world.view().status().policy} {world.view().health().is_ready}"

    assert in_world(status) == "topology-aware True"


def test_time_passes_only_as_far_as_it_is_told_to() -> None:
    async def advance(world: World) -> str:
        await world.advance(30)
        return str(world.runtime.node.now_ns())

    assert in_world(advance) == str(int((START_SECONDS + 30) * 1e9))


def test_a_machine_keeps_one_of_its_cpus_and_has_no_others() -> None:
    async def unplug(world: World) -> str:
        return ";".join([await world.take_offline(CpuSet.parse(cpus)) for cpus in ("0-3", "9")])

    wrong = "the machine has CPUs 0-3, and one of them stays online"
    assert in_world(unplug) == f"{wrong};{wrong}"


def test_cpus_that_went_and_came_back_are_there_again() -> None:
    async def replug(world: World) -> str:
        gone = await world.take_offline(CpuSet.parse("3"))
        without = world.machine.online
        return f"{gone} {without} {await world.bring_online(CpuSet.parse('3'))} {world.policy.machine.online}"

    assert in_world(replug) == " 0-2  0-3"


def test_a_machine_that_no_configuration_fits_stays_as_it_was_for_the_policy() -> None:
    async def unplug(world: World) -> str:
        await world.reconfigure({"availableResources": {"cpu": "cpuset:0,3"}})
        problem = await world.take_offline(CpuSet.parse("0,3"))
        return f"{problem.partition(':')[0]} {world.machine.online} {world.policy.machine.online}"

    assert in_world(unplug) == "the machine cannot be taken over 1-2 0-3"


def test_what_a_capture_does_not_tell_cannot_come_online() -> None:
    async def plug() -> str:
        world = World(with_offline(MACHINE, CpuSet.parse("2")), {"reservedResources": {"cpu": "1"}})
        await world.recover()
        answers = [await world.bring_online(CpuSet.parse("2")), await world.take_offline(CpuSet.parse("3"))]
        await world.close()
        return f"{answers} {world.machine.online}"

    assert asyncio.run(plug()) == "['the machine has CPUs 0-1,3, and one of them stays online', ''] 0-1"


def test_after_a_reset_nobody_serves_until_the_proxy_is_back() -> None:
    async def reset(world: World) -> str:
        await world.reset()
        await world.advance(60)
        away = world.node.coordinator.is_ready, await world.reconfigure({"reservedResources": {"cpu": "2"}})
        await world.restart_proxy()
        return f"{away} {world.node.coordinator.is_ready} {world.policy.pools(Allocations())[0].reserved}"

    assert in_world(reset) == "(False, '') True 0-1"


def test_only_errors_are_kept() -> None:
    log = FaultLog()
    log.info(events.PLACED)
    log.warning(events.REFUSED, reason="full")
    log.error(events.UPDATE_FAILED, reason="refused")
    assert log.take() == ("update_failed: refused",)
