"""Somebody else writes a container's cgroup; the proxy looks every second. The lower CPU is reserved."""

import json
from pathlib import Path
from typing import Any

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from sysfs.cpuset import CpuSet
from tests.e2e.stage import Stage, TwoCpus, standing_still
from tests.testbed.cgroups import hierarchies
from tests.testbed.kernel import read_allowed
from tests.testbed.wait import until

ONE_CPU = guaranteed("c0", 1000)
# A look every second, the second look, and an update; on two busy CPUs.
REPAIR_SECONDS = 30.0


@pytest.fixture(scope="module")
def options(two: TwoCpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """A daemon that looks every second."""
    config = tmp_path_factory.mktemp("drift") / "cri-proxy.yaml"
    config.write_text("driftCheckSeconds: 1\n")
    return ("--config", str(config), *two.low_reserved)


@pytest.fixture(scope="module")
def relay() -> str:
    """Either will do: nothing here is about how calls are relayed."""
    return "splice"


def cpuset_file(pid: int) -> Path:
    """The file of a process's cgroup that says where it may run, on cgroup v1 or v2."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    path = next((p for _, names, p in lines if "cpuset" in names.split(",")), None) or next(
        p for number, names, p in lines if number == "0" and not names
    )
    files = (mount / path.lstrip("/") / "cpuset.cpus" for mount in hierarchies())
    return next(file for file in files if file.exists())


def logged(stage: Stage, event: str, pod: RunningPod) -> list[dict[str, Any]]:
    """What the daemon logged of this pod under this name, oldest first; a line that is being written does not count."""
    whole = stage.daemon.log.read_text().rpartition("\n")[0]
    lines = (json.loads(line) for line in whole.splitlines() if line.startswith("{"))
    return [line for line in lines if (line["event"], line.get("pod")) == (event, pod.spec.name)]


async def tamper(stage: Stage, pod: RunningPod, two: TwoCpus) -> None:
    await put_on(stage, pod, two.both)


async def put_on(stage: Stage, pod: RunningPod, cpus: CpuSet) -> None:
    """Write the file of the container's cgroup and see the kernel follow, while nobody can put it back."""
    pid = await stage.direct.pid(pod.container_id("c0"))
    async with standing_still(stage.daemon.pid):
        assert written(pid, cpus) == cpus


def written(pid: int, cpus: CpuSet) -> CpuSet:
    cpuset_file(pid).write_text(f"{cpus}\n")
    return read_allowed(Path(f"/proc/{pid}/status").read_text()).cpus


async def is_put_back(stage: Stage, pod: RunningPod, two: TwoCpus) -> bool:
    return await comes_to(stage, pod, CpuSet.of([two.high]))


async def everybody_is_looked_at(stage: Stage, two: TwoCpus) -> None:
    """A container that asks for nothing is tampered with, and put back: the look that found it saw the others too."""
    witness = await stage.run("witness", ContainerSpec("c0"))
    before = await stage.cpus(witness)
    await tamper(stage, witness, two)
    await comes_to(stage, witness, before)


async def comes_to(stage: Stage, pod: RunningPod, cpus: CpuSet) -> bool:
    """True once the kernel has the container there. Raises TryoutError."""

    async def is_right() -> bool:
        return await stage.cpus(pod) == cpus

    return await until("the cpuset is put back", is_right, seconds=REPAIR_SECONDS)


async def test_a_cpuset_that_somebody_wrote_by_hand_is_put_back(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("victim", ONE_CPU)
    await tamper(stage, pod, two)
    assert await is_put_back(stage, pod, two)
    (event,) = logged(stage, "drifted", pod)
    assert (event["cpus"], event["was"]) == (str(two.both), str(two.high))
    assert "the set was cleared" in event["by"] or "the cgroup's files were written directly" in event["by"]
    (decision,) = (await stage.daemon.admin.explain(pod.spec.pod_uid)).decisions
    assert [change.text for change in decision.decision.history if change.what == "drifted"] == [
        f"it was on CPUs {two.both}, put back: {event['by']}"
    ]


async def test_a_cpuset_that_another_client_of_the_runtime_wrote_is_put_back(stage: Stage, two: TwoCpus) -> None:
    """As ``crictl update`` does to a container that was right before: the runtime's own record has the same."""
    pod = await stage.run("updated", ONE_CPU)
    await everybody_is_looked_at(stage, two)
    await stage.direct.update(pod.container_id("c0"), pb.LinuxContainerResources(cpuset_cpus=str(two.both)))
    assert await is_put_back(stage, pod, two)
    (event,) = logged(stage, "drifted", pod)
    assert event["by"].startswith("the runtime's own record has the same")
    assert (await stage.resources(pod.container_id("c0")))["cpu"]["cpus"] == str(two.high)


async def test_cpus_that_a_container_is_born_with_are_anresource_managers(stage: Stage, two: TwoCpus) -> None:
    """As when an NRI plugin changes what we asked for, before the container ever runs."""
    spec = PodSpec("plugged", (ONE_CPU,), namespace="e2e")
    sandbox_id = await stage.kubelet.run_sandbox(spec)
    container_id = await stage.kubelet.create(spec, ONE_CPU, sandbox_id)
    await stage.direct.update(container_id, pb.LinuxContainerResources(cpuset_cpus=str(two.both)))
    await stage.kubelet.start(container_id)
    pod = RunningPod(spec, sandbox_id, (("c0", container_id),))
    await everybody_is_looked_at(stage, two)

    async def is_told() -> bool:
        said = str(await stage.daemon.admin.status())
        return f"the runtime gave it CPUs {two.both} when it was created" in said

    await until("the operator is told", is_told, seconds=REPAIR_SECONDS)
    assert await stage.cpus(pod) == two.both


async def test_a_container_that_opted_out_is_left_where_somebody_put_it(stage: Stage, two: TwoCpus) -> None:
    """Another one that is put back meanwhile shows that somebody has looked."""
    spec = PodSpec("own", (ONE_CPU,), namespace="kube-system", annotations=(("cri-proxy.io/cpu.preserve", "true"),))
    own = await stage.kubelet.run_pod(spec)
    victim = await stage.run("victim-too", ONE_CPU)
    await put_on(stage, own, CpuSet.of([two.high]))
    await tamper(stage, victim, two)
    assert await is_put_back(stage, victim, two)
    assert await stage.cpus(own) == CpuSet.of([two.high])
    assert logged(stage, "drifted", own) == []


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
    assert [len(logged(stage, event, pod)) for event in ("drifted", "left_to_another")] == [3, 1]
