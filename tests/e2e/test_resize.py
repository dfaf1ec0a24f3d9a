"""Resizes as the kubelet sends them to a container that runs; the kernel is asked after every call."""

from dataclasses import replace
from pathlib import Path

from cri_proxy.cri.linux_resources import DEFAULT_PERIOD_US, shares_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, cgroup_parent, cpu_quota, guaranteed
from cri_proxy.cri_client.resize import PodCgroupWrite, pod_figures
from sysfs.cpuset import CpuSet
from tests.e2e.stage import SETTLE_SECONDS, Stage, TwoCpus, refusal
from tests.testbed.cgroups import hierarchies, remove_everywhere
from tests.testbed.inside import output_of
from tests.testbed.wait import until

MEMORY_BYTES = 32 << 20


async def resize(stage: Stage, pod: RunningPod, cpu_mcpu: int) -> CpuSet:
    """Ask for this number of CPUs, as request and limit; gives what the kernel says after the reply."""
    figures = pb.LinuxContainerResources(
        cpu_shares=shares_of(cpu_mcpu),
        cpu_quota=cpu_quota(cpu_mcpu),
        cpu_period=DEFAULT_PERIOD_US,
        memory_limit_in_bytes=MEMORY_BYTES,
    )
    await stage.kubelet.update(pod.container_id("c0"), figures)
    return await stage.cpus(pod)


def write_pod_cgroup(cgroup: str, step: PodCgroupWrite) -> None:
    """Write one figure where this machine has it: the files of cgroup v1, then those of v2 (cgroup-v2.rst)."""
    figures = step.figures
    texts = {
        "cpu_shares": (("cpu.shares", figures.cpu_shares), ("cpu.weight", cpu_weight(figures.cpu_shares))),
        "cpu_quota": (("cpu.cfs_quota_us", figures.cpu_quota), ("cpu.max", f"{figures.cpu_quota} {DEFAULT_PERIOD_US}")),
        "memory_bytes": (("memory.limit_in_bytes", figures.memory_bytes), ("memory.max", figures.memory_bytes)),
    }[step.field]
    found = [(file, text) for name, text in texts for file in pod_files(cgroup, name)]
    assert found, f"no hierarchy has {step.field} for {cgroup}"
    for file, text in found:
        file.write_text(str(text))


def pod_files(cgroup: str, name: str) -> list[Path]:
    files = (hierarchy / cgroup.strip("/") / name for hierarchy in hierarchies())
    return [file for file in files if file.exists()]


def cpu_weight(shares: int) -> int:
    """As the kubelet and runc 1.2 convert: 2 to 262144 shares are weights 1 to 10000 (KEP-2254)."""
    return 1 + (shares - 2) * 9999 // 262_142


async def test_growing_keeps_the_cpu_and_shrinking_gives_back_the_one_that_came(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("elastic", guaranteed("c0", 1000, memory_bytes=MEMORY_BYTES))
    first = await stage.cpus(pod)
    for _ in range(2):
        assert await resize(stage, pod, 2000) == two.both
        assert await resize(stage, pod, 1000) == first


async def test_the_kubelets_figures_arrive_with_the_cpuset(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("elastic", guaranteed("c0", 1000, memory_bytes=MEMORY_BYTES))
    await resize(stage, pod, 2000)
    cpu = (await stage.resources(pod.container_id("c0")))["cpu"]
    assert (cpu["shares"], cpu["quota"], cpu["cpus"]) == (2048, 200_000, str(two.both))


async def test_what_one_gives_back_another_one_gets(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("elastic", guaranteed("c0", 2000, memory_bytes=MEMORY_BYTES))
    kept = await resize(stage, pod, 1000)
    assert await stage.cpus(await stage.run("next", guaranteed("c0", 1000))) == two.both - kept


async def test_who_shares_makes_way_for_a_fraction_that_became_a_whole_cpu(stage: Stage, two: TwoCpus) -> None:
    shared = await stage.run("shared", ContainerSpec("c0", cpu_request_mcpu=100))
    pod = await stage.run("elastic", guaranteed("c0", 500, memory_bytes=MEMORY_BYTES))
    assert await stage.cpus(pod) == two.both
    own = await resize(stage, pod, 1000)
    assert len(own) == 1
    assert await stage.cpus(shared) == two.both - own
    await resize(stage, pod, 500)
    assert await stage.gets(shared, two.both)


async def test_the_container_comes_to_read_of_the_cpu_that_came(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("elastic", guaranteed("c0", 1000, memory_bytes=MEMORY_BYTES))
    await resize(stage, pod, 2000)
    script = ". /.cri-proxy/resources.sh && echo $EXCLUSIVE_CPUS"

    async def reads_both() -> bool:
        return await output_of(stage.direct, pod.container_id("c0"), "/bin/sh", "-euc", script) == f"{two.both}\n"

    assert await until("it reads of both CPUs", reads_both, seconds=SETTLE_SECONDS)


async def test_a_resize_that_does_not_fit_is_refused_and_changes_nothing(stage: Stage, two: TwoCpus) -> None:
    shared = await stage.run("shared", ContainerSpec("c0", cpu_request_mcpu=100))
    pod = await stage.run("elastic", guaranteed("c0", 1000, memory_bytes=MEMORY_BYTES))
    before = await stage.cpus(pod)
    refused = await refusal(resize(stage, pod, 2000))
    assert "wanted 2 exclusive CPUs" in refused.message
    assert (await stage.cpus(pod), await stage.cpus(shared)) == (before, two.both - before)
    assert (await stage.resources(pod.container_id("c0")))["cpu"]["quota"] == cpu_quota(1000)


async def test_the_pods_cgroup_is_written_in_the_order_that_the_kernel_takes(stage: Stage, two: TwoCpus) -> None:
    """With cgroup v1 no quota may be above that of the parent, nor a parent's below one of a child (EINVAL)."""
    pod = await stage.run("limited", guaranteed("c0", 1000, memory_bytes=MEMORY_BYTES))
    first, cgroup = await stage.cpus(pod), cgroup_parent(pod.spec, stage.containerd.node)
    for field in ("memory_bytes", "cpu_quota", "cpu_shares"):  # what a kubelet has written before the sandbox runs
        write_pod_cgroup(cgroup, PodCgroupWrite(field, pod_figures(pod.spec)))
    small = pod_figures(pod.spec)
    larger = replace(pod, spec=replace(pod.spec, containers=(guaranteed("c0", 2000, memory_bytes=2 * MEMORY_BYTES),)))
    large = pod_figures(larger.spec)
    resizes = ((pod, larger, two.both, large), (larger, pod, first, small))
    for before, after, cpus, figures in resizes:
        assert await stage.kubelet.resize(before, after.spec, write=write_pod_cgroup) == 2
        assert await stage.cpus(pod) == cpus
        assert (await stage.resources(pod.container_id("c0")))["cpu"]["quota"] == figures.cpu_quota
        quotas = [*pod_files(cgroup, "cpu.cfs_quota_us"), *pod_files(cgroup, "cpu.max")]
        assert {int(file.read_text().split()[0]) for file in quotas} == {figures.cpu_quota}
    await stage.kubelet.remove_pod(pod.sandbox_id)
    assert remove_everywhere(cgroup) == ()  # the kubelet's part: a runtime leaves the pod's cgroup


async def test_a_restart_of_the_proxy_forgets_no_resize(stage: Stage, two: TwoCpus) -> None:
    pod = await stage.run("elastic", guaranteed("c0", 1000, memory_bytes=MEMORY_BYTES))
    first = await stage.cpus(pod)
    await resize(stage, pod, 2000)
    await stage.daemon.restart()
    assert await stage.cpus(pod) == two.both
    assert await resize(stage, pod, 1000) == first
