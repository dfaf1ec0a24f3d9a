"""Neither a restart of the proxy nor one of the runtime changes a cpuset, and both go on working afterwards."""

import asyncio
import signal

import pytest

from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.tryout.kubelet import RunningPod
from cri_proxy.tryout.pods import ContainerSpec, guaranteed
from sysfs.cpuset import CpuSet
from tests.e2e.stage import Stage, TwoCpus

UNAVAILABLE = 14  # gRPC status

ENDINGS = pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)


async def three_pods(stage: Stage) -> tuple[RunningPod, ...]:
    """A container of every kind that two CPUs hold at a time."""
    shared = await stage.run("shared", ContainerSpec("c0", cpu_request_mcpu=100), ContainerSpec("c1"))
    system = await stage.run("system", ContainerSpec("c0", cpu_request_mcpu=100), namespace="kube-system")
    return shared, system, await stage.run("alone", guaranteed("c0", 1000))


@ENDINGS
async def test_a_restart_of_the_proxy_changes_no_cpuset(stage: Stage, ending: signal.Signals) -> None:
    pods = await three_pods(stage)
    before = await stage.cpusets(*pods)
    await stage.daemon.restart(ending)
    assert await stage.cpusets(*pods) == before


@ENDINGS
async def test_a_restarted_proxy_still_knows_whose_cpus_are_whose(
    stage: Stage, two: TwoCpus, ending: signal.Signals
) -> None:
    shared, _, alone = await three_pods(stage)
    held = await stage.cpus(alone)
    await stage.daemon.restart(ending)
    newcomer = await stage.run("newcomer", ContainerSpec("c0", cpu_request_mcpu=100))
    assert await stage.cpus(newcomer) == two.both - held
    await stage.kubelet.remove_pod(alone.sandbox_id)
    assert await stage.gets(shared, two.both)


@ENDINGS
async def test_what_ends_while_the_proxy_is_away_is_released_at_its_return(
    stage: Stage, two: TwoCpus, ending: signal.Signals
) -> None:
    shared, _, alone = await three_pods(stage)
    await stage.daemon.stop(ending)
    await stage.direct.remove_pod(alone.sandbox_id)
    await stage.daemon.start()
    assert await stage.gets(shared, two.both)


@ENDINGS
async def test_a_restart_of_the_runtime_changes_no_cpuset(stage: Stage, ending: signal.Signals) -> None:
    pods = await three_pods(stage)
    before = await stage.cpusets(*pods)
    await stage.containerd.halt(ending)
    await stage.launch_runtime()
    assert await stage.cpusets(*pods) == before


async def test_calls_fail_at_once_while_the_runtime_is_away(stage: Stage) -> None:
    """As they would without us: the connection breaks, or the status is UNAVAILABLE."""
    await stage.containerd.halt(signal.SIGTERM)
    try:
        async with asyncio.timeout(5):
            with pytest.raises((RuntimeUnavailable, CallFailed)) as failed:
                await stage.run("early", guaranteed("c0", 1000))
    finally:
        await stage.launch_runtime()
    assert getattr(failed.value, "code", UNAVAILABLE) == UNAVAILABLE


@ENDINGS
async def test_pods_can_be_made_after_the_runtimes_return(stage: Stage, two: TwoCpus, ending: signal.Signals) -> None:
    shared, _, alone = await three_pods(stage)
    await stage.containerd.halt(ending)
    await stage.launch_runtime()
    await stage.kubelet.remove_pod(alone.sandbox_id)
    late = await stage.run("late", guaranteed("c0", 1000))
    assert await stage.cpus(shared) == two.both - await stage.cpus(late)


async def test_a_restart_of_both_changes_no_cpuset(stage: Stage) -> None:
    pods = await three_pods(stage)
    before = await stage.cpusets(*pods)
    await stage.daemon.stop(signal.SIGKILL)
    await stage.containerd.halt(signal.SIGKILL)
    await stage.containerd.launch()
    await stage.daemon.start()
    assert await stage.cpusets(*pods) == before
    assert CpuSet() not in before.values()
