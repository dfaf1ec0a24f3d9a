"""Somebody else writes a container's cgroup; the proxy looks every second. The lower CPU is reserved."""

from pathlib import Path

import pytest

from cri_proxy.tryout.cgroups import hierarchies
from cri_proxy.tryout.kubelet import RunningPod
from cri_proxy.tryout.pods import guaranteed
from cri_proxy.tryout.waiting import until
from sysfs.cpuset import CpuSet
from tests.e2e.stage import Stage, TwoCpus

ONE_CPU = guaranteed("c0", 1000)
# A look every second, the second look, and an update; on two busy CPUs.
REPAIR_SECONDS = 20.0


@pytest.fixture(scope="module")
def options(two: TwoCpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """A daemon that looks every second."""
    config = tmp_path_factory.mktemp("drift") / "cri-proxy.yaml"
    config.write_text("driftCheckSeconds: 1\n")
    return ("--config", str(config), *two.low_reserved)


def cpuset_file(pid: int) -> Path:
    """The file of a process's cgroup that says where it may run, on cgroup v1 or v2."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    path = next((p for _, names, p in lines if "cpuset" in names.split(",")), None) or next(
        p for number, names, p in lines if number == "0" and not names
    )
    files = (mount / path.lstrip("/") / "cpuset.cpus" for mount in hierarchies())
    return next(file for file in files if file.exists())


async def tamper(stage: Stage, pod: RunningPod, two: TwoCpus) -> None:
    """Let the container onto both CPUs, past everybody."""
    cpuset_file((await stage.info(pod.container_id("c0")))["pid"]).write_text(f"{two.both}\n")
    assert await stage.cpus(pod) == two.both


async def is_put_back(stage: Stage, pod: RunningPod, two: TwoCpus) -> bool:
    async def is_right() -> bool:
        return await stage.cpus(pod) == CpuSet.of([two.high])

    return await until("the cpuset is put back", is_right, seconds=REPAIR_SECONDS)


async def test_a_cpuset_that_somebody_wrote_by_hand_is_put_back(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("victim", ONE_CPU)
    await tamper(stage, pod, two)
    assert await is_put_back(stage, pod, two)
    assert "drifted" in stage.daemon.log.read_text()


async def test_whoever_keeps_writing_it_is_named_and_wins(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("contested", ONE_CPU)
    for _ in range(3):
        await tamper(stage, pod, two)
        await is_put_back(stage, pod, two)
    await tamper(stage, pod, two)

    async def is_named() -> bool:
        return "contested/c0: left alone, because another manager pins it" in str(await stage.daemon.admin.status())

    await until("the other manager is named", is_named, seconds=REPAIR_SECONDS)
    assert await stage.cpus(pod) == two.both
