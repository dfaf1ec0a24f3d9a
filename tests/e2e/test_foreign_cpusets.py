"""A kubelet whose own CPU manager is on: its CPUs are not followed, and an operator is told."""

import json
from pathlib import Path

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import PodSpec, create_request, guaranteed
from sysfs.cpuset import CpuSet
from tests.e2e.stage import Stage, TwoCpus
from tests.testbed.wait import until

ONE_CPU = guaranteed("c0", 1000)
SLOW_CHECK_SECONDS = 60.0  # looked at when the daemon starts, and every 30 seconds


@pytest.fixture(scope="module")
def kubelet_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kubelet's own directory, without a state file."""
    return tmp_path_factory.mktemp("kubelet")


@pytest.fixture(scope="module")
def options(two: TwoCpus, kubelet_root: Path) -> tuple[str, ...]:
    """The higher CPU is ours to give, and the kubelet's directory is known."""
    config = kubelet_root / "cri-proxy.yaml"
    config.write_text(f"kubeletRoot: {kubelet_root}\n")
    return ("--config", str(config), *two.low_reserved)


async def created_on(stage: Stage, cpus: CpuSet) -> RunningPod:
    """A container whose creation carries CPUs of the kubelet's."""
    spec = PodSpec("foreign", (ONE_CPU,), namespace="e2e")
    sandbox_id = await stage.kubelet.run_sandbox(spec)
    request = create_request(spec, ONE_CPU, sandbox_id, node=stage.kubelet.node)
    request.config.linux.resources.cpuset_cpus = str(cpus)
    reply = await stage.kubelet.call("CreateContainer", request, pb.CreateContainerResponse)
    await stage.kubelet.start(reply.container_id)
    return RunningPod(spec, sandbox_id, (("c0", reply.container_id),))


async def test_cpus_that_come_with_a_creation_are_replaced(stage: Stage, two: TwoCpus) -> None:
    pod = await created_on(stage, CpuSet.of([two.low]))
    assert await stage.cpus(pod) == CpuSet.of([two.high])


async def test_cpus_that_come_with_an_update_are_not_followed(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("pinned", ONE_CPU)
    await stage.kubelet.update(pod.container_id("c0"), pb.LinuxContainerResources(cpuset_cpus=str(two.low)))
    assert await stage.cpus(pod) == CpuSet.of([two.high])


async def test_the_operator_is_told_what_to_turn_off(stage: Stage, two: TwoCpus) -> None:
    await created_on(stage, CpuSet.of([two.low]))
    told = "\n".join((await stage.daemon.admin.status()).warnings)
    assert f"carried CPUs {two.low} of the caller's own" in told
    assert "cpuManagerPolicy: none" in told


async def test_a_static_manager_is_known_from_its_state_file_after_a_restart(
    stage: Stage, two: TwoCpus, kubelet_root: Path
) -> None:
    state = kubelet_root / "cpu_manager_state"
    state.write_text(json.dumps({"policyName": "static", "defaultCpuSet": str(two.both), "entries": {}}))
    try:
        await stage.daemon.restart()

        async def is_told() -> bool:
            return "the kubelet's CPU manager is on (policy static)" in str(await stage.daemon.admin.status())

        assert await until("the operator is told", is_told, seconds=SLOW_CHECK_SECONDS)
    finally:
        state.unlink()
