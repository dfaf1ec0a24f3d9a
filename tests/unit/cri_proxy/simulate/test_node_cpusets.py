"""What the simulated kernel enforces."""

from cri_proxy.simulate.node import EmbeddedCpusets
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.parse import parse_scenario
from sysfs.cpuset import CpuSet

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
