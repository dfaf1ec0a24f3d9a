"""The order and wording of an in-place resize, against what kubelet 1.35 does."""

from dataclasses import replace

import pytest

from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec, guaranteed
from cri_proxy.cri_client.resize import (
    ContainerUpdate,
    PodCgroupWrite,
    PodFigures,
    pod_figures,
    resize_steps,
    sandbox_resources,
)

MIB = 1 << 20
NODE = KubeletNode(4 << 30)


def pod(*containers: ContainerSpec, overhead_mcpu: int = 0, overhead_bytes: int = 0) -> PodSpec:
    return PodSpec("p", containers, overhead_mcpu=overhead_mcpu, overhead_bytes=overhead_bytes)


def told(before: PodSpec, after: PodSpec) -> list[str]:
    """The steps in short: a figure of the pod's cgroup, or a container with the resource that changes."""
    words = []
    for step in resize_steps(before, after, NODE):
        match step:
            case PodCgroupWrite(field=field):
                words.append(field)
            case ContainerUpdate(name=name, resource=resource):
                words.append(f"{name}:{resource}")
    return words


SMALL, LARGE = guaranteed("a", 1000, memory_bytes=32 * MIB), guaranteed("a", 2000, memory_bytes=64 * MIB)


@pytest.mark.parametrize(
    ("before", "after", "steps"),
    [
        (SMALL, LARGE, ["memory_bytes", "a:memory", "cpu_quota", "cpu_shares", "a:cpu"]),
        (LARGE, SMALL, ["a:memory", "memory_bytes", "a:cpu", "cpu_shares", "cpu_quota"]),
        (SMALL, guaranteed("a", 2000, memory_bytes=32 * MIB), ["cpu_quota", "cpu_shares", "a:cpu"]),
        (LARGE, guaranteed("a", 2000, memory_bytes=32 * MIB), ["a:memory", "memory_bytes"]),
        (ContainerSpec("a", 100), ContainerSpec("a", 200), ["cpu_shares", "a:cpu"]),
        (ContainerSpec("a", 100, 300), ContainerSpec("a", 100, 200), ["a:cpu", "cpu_quota"]),
        (ContainerSpec("a", memory_request_bytes=1), ContainerSpec("a", memory_request_bytes=2), []),
        (SMALL, SMALL, []),
    ],
)
def test_what_grows_is_written_to_the_pods_cgroup_first_and_what_shrinks_last(
    before: ContainerSpec, after: ContainerSpec, steps: list[str]
) -> None:
    assert told(pod(before), pod(after)) == steps


def test_containers_that_shrink_come_before_those_that_grow() -> None:
    before = pod(guaranteed("a", 1000), guaranteed("b", 2000), guaranteed("c", 2000))
    after = pod(guaranteed("a", 3000), guaranteed("b", 1000), guaranteed("c", 1000))
    assert told(before, after) == ["c:cpu", "b:cpu", "a:cpu"]


def test_a_call_about_memory_has_the_old_cpu_and_one_about_cpu_has_the_new_memory() -> None:
    updates = [step for step in resize_steps(pod(SMALL), pod(LARGE), NODE) if isinstance(step, ContainerUpdate)]
    figures = [(u.linux.memory_limit_in_bytes, u.linux.cpu_quota, u.linux.cpu_shares) for u in updates]
    assert figures == [(64 * MIB, 100_000, 1024), (64 * MIB, 200_000, 2048)]


def test_every_write_tells_all_figures_as_they_are_by_then() -> None:
    writes = [step.figures for step in resize_steps(pod(SMALL), pod(LARGE), NODE) if isinstance(step, PodCgroupWrite)]
    assert writes == [
        PodFigures(1024, 100_000, 64 * MIB),
        PodFigures(1024, 200_000, 64 * MIB),
        PodFigures(2048, 200_000, 64 * MIB),
    ]


@pytest.mark.parametrize(
    ("found", "figures"),
    [
        (pod(ContainerSpec("a")), PodFigures(2, None, None)),
        (pod(SMALL, ContainerSpec("b", 500)), PodFigures(1536, None, None)),
        (pod(SMALL, LARGE), PodFigures(3072, 300_000, 96 * MIB)),
        (pod(SMALL, overhead_mcpu=250, overhead_bytes=MIB), PodFigures(1280, 125_000, 33 * MIB)),
    ],
)
def test_a_pods_cgroup_has_limits_where_every_container_has_and_the_overhead(
    found: PodSpec, figures: PodFigures
) -> None:
    assert pod_figures(found) == figures


def test_the_runtime_is_told_of_the_sums_without_the_overhead() -> None:
    with_overhead = pod(SMALL, overhead_mcpu=250, overhead_bytes=MIB)
    linux = sandbox_resources(pod_figures(with_overhead), with_overhead)
    assert (linux.cpu_shares, linux.cpu_quota, linux.cpu_period) == (1024, 100_000, 100_000)
    assert linux.memory_limit_in_bytes == 32 * MIB
    unlimited = replace(pod_figures(with_overhead), cpu_quota=None, memory_bytes=None)
    linux = sandbox_resources(unlimited, with_overhead)
    assert (linux.cpu_quota, linux.cpu_period, linux.memory_limit_in_bytes) == (0, 0, 0)
