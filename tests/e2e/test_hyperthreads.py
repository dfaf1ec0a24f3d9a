"""Whole cores and hidden threads, as the kernel sees them; the daemon is told that our two CPUs are one core."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.e2e.stage import Stage, TwoCpus, refusal
from tests.fakes.machines import renumber
from tests.fakes.sysfs_tree import write_tree
from tests.testbed.kernel import own_allowed

SHARED = ContainerSpec("c0", cpu_request_mcpu=100)


@pytest.fixture(scope="module")
def relay() -> str:
    """Either will do: nothing here is about how calls are relayed."""
    return "splice"


@pytest.fixture(scope="module")
def options(two: TwoCpus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """A machine of one core with two threads, under the numbers of CPUs and of a memory node that exist here."""
    one_core = describe({"cores": 1, "threads": 2, "memory": str(psutil.virtual_memory().total)})
    node = next(iter(own_allowed().mems))
    root: Path = tmp_path_factory.mktemp("machine")
    write_tree(root, renumber(one_core, {0: two.low, 1: two.high}, {0: node}))
    yield (*two.options, "--sysfs-root", str(root))


def annotated(name: str, mode: str, container: ContainerSpec) -> PodSpec:
    return PodSpec(name, (container,), namespace="e2e", annotations=(("cri-proxy.io/hyperthreads", mode),))


async def test_own_core_gives_both_threads_to_one_cpu_asked_for(stage: Stage, two: TwoCpus) -> None:
    owner = await stage.kubelet.run_pod(annotated("owner", "own-core", guaranteed("c0", 1000)))
    assert await stage.cpus(owner) == two.both


async def test_hide_runs_on_the_first_thread(stage: Stage, two: TwoCpus) -> None:
    hider = await stage.kubelet.run_pod(annotated("hider", "hide", guaranteed("c0", 1000)))
    assert await stage.cpus(hider) == CpuSet.of([two.low])


@pytest.mark.parametrize("mode", ["own-core", "hide"])
async def test_nobody_else_gets_the_sibling(stage: Stage, mode: str) -> None:
    await stage.kubelet.run_pod(annotated("owner", mode, guaranteed("c0", 1000)))
    refused = await refusal(stage.run("second", guaranteed("c0", 1000)))
    assert "wanted 1 exclusive CPU" in refused.message


async def test_any_lets_two_containers_have_a_thread_each(stage: Stage, two: TwoCpus) -> None:
    first = await stage.kubelet.run_pod(annotated("first", "any", guaranteed("c0", 1000)))
    second = await stage.run("second", guaranteed("c0", 1000))
    assert (await stage.cpus(first)).isdisjoint(await stage.cpus(second))


async def test_who_shares_and_hides_leaves_the_second_thread_to_others(stage: Stage, two: TwoCpus) -> None:
    hider = await stage.kubelet.run_pod(annotated("hider", "hide", SHARED))
    other = await stage.run("other", SHARED)
    assert await stage.cpus(hider) == CpuSet.of([two.low])
    assert await stage.cpus(other) == two.both
