"""Reset gives every container of a real runtime all CPUs and memory nodes back, in the kernel's eyes."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from tests.e2e.stage import SETTLE_SECONDS, Stage, TwoCpus
from tests.testbed.daemon import program
from tests.testbed.wait import until

RESET_SECONDS = 60.0
SHARED = ContainerSpec("c0", cpu_request_mcpu=100)


async def reset(stage: Stage, *options: str) -> subprocess.CompletedProcess[str]:
    where = ("--runtime-endpoint", stage.containerd.endpoint, "--state-dir", str(stage.daemon.directory / "state"))
    command: Sequence[str] = (*program(), "reset", *where, *options)

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=RESET_SECONDS, check=False)

    return await asyncio.to_thread(run)


@asynccontextmanager
async def stopped(stage: Stage) -> AsyncIterator[None]:
    """The daemon is away inside the block."""
    await stage.daemon.stop()
    try:
        yield
    finally:
        await stage.daemon.start()


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return {each["pod"]: each["outcome"] for each in json.loads(done.stdout)["containers"]}


async def test_a_reset_gives_every_container_all_cpus_back(stage: Stage, two: TwoCpus) -> None:
    shared, alone = await stage.run("shared", SHARED), await stage.run("alone", guaranteed("c0", 1000))
    assert await stage.cpus(alone) != await stage.cpus(shared) != two.both
    async with stopped(stage):
        done = await reset(stage, "-o", "json")
        assert (done.returncode, done.stderr) == (0, "")
        assert outcomes(done) == {"shared": "widened", "alone": "widened"}
        for pod in (shared, alone):
            assert two.both <= await stage.cpus(pod)


async def test_while_the_daemon_runs_nothing_is_reset(stage: Stage) -> None:
    alone = await stage.run("alone", guaranteed("c0", 1000))
    before = await stage.cpus(alone)
    done = await reset(stage)
    assert done.returncode == 1
    assert "`systemctl stop cri-proxy`" in done.stderr
    assert await stage.cpus(alone) == before


async def test_a_dry_run_moves_nobody(stage: Stage) -> None:
    alone = await stage.run("alone", guaranteed("c0", 1000))
    before = await stage.cpus(alone)
    async with stopped(stage):
        done = await reset(stage, "--dry-run", "-o", "json")
        assert (done.returncode, outcomes(done)) == (0, {"alone": "would widen"})
        assert await stage.cpus(alone) == before


async def test_who_opted_out_keeps_what_it_came_with(stage: Stage) -> None:
    spec = PodSpec("own", (SHARED,), namespace="kube-system", annotations=(("cri-proxy.io/cpu.preserve", "true"),))
    pod = await stage.kubelet.run_pod(spec)
    before = await stage.resources(pod.container_id("c0"))
    async with stopped(stage):
        done = await reset(stage, "-o", "json")
        assert outcomes(done) == {"own": "opted out"}
        assert await stage.resources(pod.container_id("c0")) == before


async def test_a_second_reset_finds_nothing_to_do(stage: Stage) -> None:
    await stage.run("alone", guaranteed("c0", 1000))
    async with stopped(stage):
        await reset(stage)
        assert outcomes(await reset(stage, "-o", "json")) == {"alone": "wide already"}


async def test_the_next_start_places_everybody_again(stage: Stage, two: TwoCpus) -> None:
    shared, alone = await stage.run("shared", SHARED), await stage.run("alone", guaranteed("c0", 1000))
    async with stopped(stage):
        await reset(stage)

    async def are_apart() -> bool:  # it decides, and then the runtime is told
        own, rest = await stage.cpus(alone), await stage.cpus(shared)
        return (len(own), rest) == (1, two.both - own)

    assert await until("both are where they belong", are_apart, seconds=SETTLE_SECONDS)
