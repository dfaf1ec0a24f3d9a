from collections.abc import AsyncIterator

import pytest

from cri_proxy import events
from cri_proxy.errors import ConfigError
from cri_proxy.simulate.clock import START_SECONDS
from cri_proxy.simulate.machine import with_offline
from cri_proxy.simulate.node import EmbeddedCpusets, FaultLog, SimulatedNode, merged, read_config
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.parse import parse_scenario
from policies.base import Allocations
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe

MACHINE = describe({"cores": 4})


@pytest.fixture
async def simulated() -> AsyncIterator[SimulatedNode]:
    """A node of four CPUs."""
    simulated = SimulatedNode(MACHINE, {"reservedResources": {"cpu": "1"}})
    await simulated.recover()
    yield simulated
    await simulated.close()


def test_options_that_do_not_do_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="cannot reserve"):
        SimulatedNode(MACHINE, {"reservedResources": {"cpu": "5"}})


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"reservedResources": {"cpu": "2"}}, ""),
        ({"reservedResources": {"cpu": "5"}}, "reservedResources.cpu: cannot reserve 5"),
        ({"reserved": {"cpu": "5"}}, "reserved: unknown option"),
        ({"availableResources": {"cpu": "cpuset:7"}}, "availableResources.cpu: CPU 7 does not exist"),
    ],
)
async def test_a_change_is_made_or_answered_with_what_is_wrong(
    simulated: SimulatedNode, change: dict[str, object], answer: str
) -> None:
    assert (await simulated.reconfigure(change)).startswith(answer)


async def test_a_refused_change_leaves_no_trace_for_the_next(simulated: SimulatedNode) -> None:
    await simulated.reconfigure({"reservedResources": {"cpu": "5"}})
    assert await simulated.reconfigure({"topologyAware": {"PinMemory": False}}) == ""


async def test_a_fault_of_ours_is_told_by_the_next_settle_and_only_that(simulated: SimulatedNode) -> None:
    simulated.journal.failed_open("a call", ValueError("a bug"))
    assert (await simulated.settle(), await simulated.settle()) == (("fault: ValueError('a bug')",), ())


async def test_a_restarted_proxy_is_ready_again(simulated: SimulatedNode) -> None:
    before = simulated.node
    await simulated.restart()
    assert before is not simulated.node
    assert simulated.node.coordinator.is_ready


async def test_the_view_is_that_of_a_daemon(simulated: SimulatedNode) -> None:
    assert (simulated.view.status().policy, simulated.view.health().is_ready) == ("topology-aware", True)


async def test_time_passes_only_as_far_as_it_is_told_to(simulated: SimulatedNode) -> None:
    await simulated.advance(30)
    assert simulated.runtime.node.now_ns() == int((START_SECONDS + 30) * 1e9)


async def test_a_machine_keeps_one_of_its_cpus_and_has_no_others(simulated: SimulatedNode) -> None:
    for cpus in ("0-3", "9"):
        problem = await simulated.hotplug("offline", CpuSet.parse(cpus))
        assert problem == "the machine has CPUs 0-3, and one of them stays online"


async def test_cpus_that_went_and_came_back_are_there_again(simulated: SimulatedNode) -> None:
    assert (await simulated.hotplug("offline", CpuSet.parse("3")), str(simulated.machine.online)) == ("", "0-2")
    assert (await simulated.hotplug("online", CpuSet.parse("3")), str(simulated.policy.machine.online)) == ("", "0-3")


async def test_a_machine_that_no_configuration_fits_stays_as_it_was_for_the_policy(simulated: SimulatedNode) -> None:
    await simulated.reconfigure({"availableResources": {"cpu": "cpuset:0,3"}})
    assert (await simulated.hotplug("offline", CpuSet.parse("0,3"))).startswith("the machine cannot be used:")
    assert (str(simulated.machine.online), str(simulated.policy.machine.online)) == ("1-2", "0-3")


async def test_what_a_capture_does_not_tell_cannot_come_online() -> None:
    simulated = SimulatedNode(with_offline(MACHINE, CpuSet.parse("2")), {"reservedResources": {"cpu": "1"}})
    await simulated.recover()
    answers = [
        await simulated.hotplug("online", CpuSet.parse("2")),
        await simulated.hotplug("offline", CpuSet.parse("3")),
    ]
    await simulated.close()
    assert (
        f"{answers} {simulated.machine.online}"
        == "['the machine has CPUs 0-1,3, and one of them stays online', ''] 0-1"
    )


async def test_after_a_reset_nobody_serves_until_the_proxy_is_back(simulated: SimulatedNode) -> None:
    await simulated.reset()
    await simulated.advance(60)
    assert not simulated.node.coordinator.is_ready
    assert await simulated.reconfigure({"reservedResources": {"cpu": "2"}}) == ""
    await simulated.restart()
    assert simulated.node.coordinator.is_ready
    assert str(simulated.policy.pools(Allocations())[0].reserved) == "0-1"


def test_only_errors_are_kept() -> None:
    log = FaultLog()
    log.info(events.PLACED)
    log.warning(events.REFUSED, reason="full")
    log.error(events.UPDATE_FAILED, reason="refused")
    assert log.take() == ("update_failed: refused",)


SCENARIO = """\
machine: {cores: 4, memory: 1Gi}
steps:
- create: {pod: a, qos: guaranteed, containers: [{name: c, cpu: 1}]}
- tamper: {container: a/c, cpus: "1-2"}
"""


async def look(*, wrong_pid: int = 0) -> tuple[str, str]:
    """The CPUs that are enforced on the only container, and the end of its cgroup's path; '' when there are none."""
    player = ScenarioRunner(parse_scenario(SCENARIO))
    await player.open()
    _ = [outcome async for outcome in player.run()]
    (container,) = player.simulated.runtime.node.containers.values()
    found = EmbeddedCpusets(player.simulated.runtime).enforced(container.pid + wrong_pid, container.id)
    await player.close()
    return ("", "") if found is None else (str(found.cpus), found.path.rpartition(container.id)[1])


async def test_what_was_written_behind_the_runtimes_back_is_what_is_enforced() -> None:
    cpus, path = await look()
    assert CpuSet.parse(cpus) == CpuSet.of([1, 2])
    assert path


async def test_a_process_of_another_container_tells_nothing() -> None:
    assert await look(wrong_pid=1) == ("", "")


def test_a_change_leaves_the_other_options_as_they_are() -> None:
    before = {"adopt": "leave", "topologyAware": {"PinCPU": False, "PinMemory": False}}
    change = {"topologyaware": {"pinmemory": True}, "policy": "none"}
    assert merged(before, change) == {
        "adopt": "leave",
        "topologyAware": {"PinCPU": False, "PinMemory": True},
        "policy": "none",
    }


def test_neither_side_is_changed_by_it() -> None:
    before: dict[str, object] = {"a": {"b": 1}}
    merged(before, {"a": {"b": 2}})
    assert before == {"a": {"b": 1}}


def test_the_daemons_own_loader_reads_it() -> None:
    config = read_config({"reservedResources": {"cpu": "750m"}, "topologyAware": {"PinMemory": False}})
    assert str(config.reserved.cpu) == "750m"
    assert not config.of_policy(TopologyAwareOptions).pin_memory


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        read_config({"reservedResource": {"cpu": "750m"}})
