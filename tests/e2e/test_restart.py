"""Neither a restart of the proxy nor one of the runtime changes a cpuset, and both go on working afterwards."""

import asyncio
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from sysfs.cpuset import CpuSet
from tests.e2e.stage import Stage, TwoCpus
from tests.fakes.waiting import holds
from tests.testbed.kernel import Allowed, read_allowed

UNAVAILABLE = 14  # gRPC status
ENDED_SECONDS = 60.0
AT_ONCE_SECONDS = 20.0  # on a busy machine; who hangs does so for a minute

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
        async with asyncio.timeout(AT_ONCE_SECONDS):
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


async def twenty(stage: Stage) -> tuple[dict[str, int], tuple[RunningPod, ...]]:
    """Twenty containers of every kind, and the first process of each as the host numbers it."""
    rest = [ContainerSpec(f"c{number}", cpu_request_mcpu=10 * (number % 2)) for number in range(19)]
    crowd = await stage.run("crowd", *rest)
    alone = await stage.run("alone", guaranteed("c0", 1000))
    await stage.gets(crowd, await stage.cpus(crowd))
    ids = [container_id for pod in (crowd, alone) for _, container_id in pod.containers]
    return {container_id: await stage.direct.pid(container_id) for container_id in ids}, (crowd, alone)


def allowed(pids: Iterable[int]) -> dict[int, Allowed]:
    return {pid: read_allowed(Path(f"/proc/{pid}/status").read_text()) for pid in pids}


def updates(stage: Stage) -> int:
    return stage.daemon.log.read_text().count('"event": "updated"')


async def test_restarts_of_everything_move_none_of_twenty_containers(stage: Stage) -> None:
    """Counted in the kernel, and by the updates that the daemon says it has sent."""
    processes, _ = await twenty(stage)
    before, sent = allowed(processes.values()), updates(stage)
    assert (len(before), sent > 0) == (20, True)
    for ending in (signal.SIGTERM, signal.SIGKILL):
        await stage.daemon.restart(ending)
        await stage.containerd.halt(ending)
        await stage.launch_runtime()
    await stage.daemon.stop(signal.SIGKILL)
    await stage.containerd.halt(signal.SIGKILL)
    await stage.containerd.launch()
    await stage.daemon.start()
    assert len((await stage.daemon.admin.status()).containers) == 20
    assert (allowed(processes.values()), updates(stage)) == (before, sent)
    assert {i: await stage.direct.pid(i) for i in processes} == processes


async def test_a_process_that_takes_over_moves_none_of_twenty_containers(stage: Stage) -> None:
    """The old one ends by itself, once the kubelet's connection has gone over."""
    processes, (_, alone) = await twenty(stage)
    before, sent = allowed(processes.values()), updates(stage)
    old = await stage.daemon.take_over()
    await holds("the old process has ended", lambda: old.exit_status is not None, seconds=ENDED_SECONDS)
    assert (await stage.daemon.admin.status()).is_ready
    assert (allowed(processes.values()), updates(stage)) == (before, sent)
    await stage.kubelet.remove_pod(alone.sandbox_id)
    assert len((await stage.daemon.admin.status()).containers) == 19
