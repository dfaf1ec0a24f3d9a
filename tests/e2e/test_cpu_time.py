"""Quota, shares and thread counts under the options that set them, as a real runtime records and runc takes them."""

from pathlib import Path

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from tests.e2e.stage import Stage, TwoCpus
from tests.testbed.inside import output_of

CONFIG = "topologyAware: {LiftQuota: true, FractionShares: true}\nthreadCounts: {from: owned}\n"


@pytest.fixture(scope="module")
def options(two: TwoCpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    path: Path = tmp_path_factory.mktemp("config") / "cri-proxy.yaml"
    path.write_text(CONFIG)
    return ("--config", str(path), *two.options)


async def recorded(stage: Stage, pod: RunningPod) -> tuple[int, int]:
    cpu = (await stage.resources(pod.container_id("c0")))["cpu"]
    return cpu["quota"], cpu["shares"]


def quota_of(pid: int) -> str:
    """The quota that the kernel enforces on this process: -1 (cgroup v1) or max (v2) for none."""
    cgroups = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    for line in cgroups:
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return Path(f"/sys/fs/cgroup/cpu{path}/cpu.cfs_quota_us").read_text().strip()
    return Path(f"/sys/fs/cgroup{cgroups[-1].split(':', 2)[2]}/cpu.max").read_text().split()[0]


async def enforced(stage: Stage, pod: RunningPod) -> str:
    return quota_of(await stage.direct.pid(pod.container_id("c0")))


async def test_a_container_with_cpus_of_its_own_has_no_quota(stage: Stage) -> None:
    alone = await stage.run("alone", guaranteed("c0", 1000))
    assert await recorded(stage, alone) == (-1, 1024)
    assert await enforced(stage, alone) in ("-1", "max")


async def test_a_container_with_cpus_of_its_own_finds_its_thread_counts(stage: Stage) -> None:
    alone = await stage.run("threads", guaranteed("c0", 1000))
    script = "echo ${GOMAXPROCS-} ${OMP_NUM_THREADS-}"
    assert await output_of(stage.direct, alone.container_id("c0"), "/bin/sh", "-euc", script) == "1 1\n"
    shared = await stage.run("shared-threads", ContainerSpec("c0", cpu_request_mcpu=100))
    script = "echo ${GOMAXPROCS-none}"
    assert await output_of(stage.direct, shared.container_id("c0"), "/bin/sh", "-euc", script) == "none\n"


async def test_a_mixed_container_keeps_its_quota_and_weighs_what_it_shares(stage: Stage) -> None:
    mixed = await stage.run("mixed", guaranteed("c0", 1500))
    assert await recorded(stage, mixed) == (150_000, 512)


async def test_who_shares_is_left_with_what_the_kubelet_gave(stage: Stage) -> None:
    shared = await stage.run("shared", ContainerSpec("c0", cpu_request_mcpu=500, cpu_limit_mcpu=800))
    assert await recorded(stage, shared) == (80_000, 512)


async def test_an_update_of_the_kubelet_brings_no_quota_back(stage: Stage) -> None:
    alone = await stage.run("alone", guaranteed("c0", 1000))
    figures = pb.LinuxContainerResources(
        cpu_quota=100_000, cpu_period=100_000, cpu_shares=1024, memory_limit_in_bytes=64 << 20
    )
    await stage.kubelet.update(alone.container_id("c0"), figures)
    assert await recorded(stage, alone) == (-1, 1024)
    assert await enforced(stage, alone) in ("-1", "max")
