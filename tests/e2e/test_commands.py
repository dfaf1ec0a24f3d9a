"""What ``explain`` and ``status`` print of a daemon that serves a real runtime. The lower CPU is reserved."""

import asyncio
import json
import subprocess
from typing import Any

import pytest

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from tests.e2e.stage import Stage, TwoCpus, refusal
from tests.testbed.daemon import program

COMMAND_SECONDS = 60.0
ONE_CPU = guaranteed("c0", 1000)


@pytest.fixture(scope="module")
def relay() -> str:
    """Either will do: nothing here is about how calls are relayed."""
    return "splice"


@pytest.fixture(scope="module")
def options(two: TwoCpus) -> tuple[str, ...]:
    return two.low_reserved


async def run(stage: Stage, *words: str) -> subprocess.CompletedProcess[str]:
    command = (*program(), *words, "--admin", str(stage.daemon.admin.path))

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)

    return await asyncio.to_thread(run)


async def answer(stage: Stage, *words: str) -> dict[str, Any]:
    done = await run(stage, *words, "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(done.stdout))


async def test_explain_says_of_a_placed_container_what_it_has_and_from_where_it_knew(
    stage: Stage, two: TwoCpus
) -> None:
    spec = PodSpec("placed", (ONE_CPU,), namespace="e2e", annotations=(("cri-proxy.io/hyperthreads", "own-core"),))
    pod = await stage.kubelet.run_pod(spec)
    assert "hyperthreads" in (await run(stage, "explain", "placed/c0")).stdout
    (decision,) = (await answer(stage, "explain", "e2e/placed"))["decisions"]
    assert decision["outcome"] == "placed"
    assert decision["container"]["cpus"] == str(await stage.cpus(pod)) == str(two.high)
    assert decision["ranking"][0]["outcome"] == "chosen"


async def test_explain_says_of_a_refused_container_what_it_wanted_and_what_was_free(stage: Stage) -> None:
    await stage.run("first", ONE_CPU)
    refused = await refusal(stage.run("late", ONE_CPU))
    (decision,) = (await answer(stage, "explain", "late"))["decisions"]
    assert (decision["outcome"], decision["container"]) == ("refused", None)
    assert any("wanted 1 exclusive CPU" in reason["text"] for reason in decision["reasons"])
    assert "wanted 1 exclusive CPU" in (await run(stage, "explain", "late")).stdout
    assert "wanted 1 exclusive CPU" in refused.message


async def test_explain_still_knows_both_after_a_restart(stage: Stage) -> None:
    await stage.run("first", ONE_CPU)
    await refusal(stage.run("late", ONE_CPU))
    before = [(await run(stage, "explain", pod)).stdout for pod in ("first", "late")]
    await stage.daemon.restart()
    after = [(await run(stage, "explain", pod)).stdout for pod in ("first", "late")]
    assert after == before


async def test_explain_of_somebody_unknown_is_a_clear_no(stage: Stage) -> None:
    done = await run(stage, "explain", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("cri-proxy explain: nothing is known of nobody")


async def test_status_shows_every_container_where_the_kernel_has_it(stage: Stage, two: TwoCpus) -> None:
    pods = [
        await stage.run("alone", ONE_CPU),
        await stage.run("nothing", ContainerSpec("c0")),
        await stage.run("agent", ContainerSpec("c0", cpu_request_mcpu=100), namespace="kube-system"),
    ]
    status = await answer(stage, "status")
    shown = {f"{c['pod']}/{c['name']}": c["cpus"] for c in status["containers"]}
    assert shown == {name: str(cpus) for name, cpus in (await stage.cpusets(*pods)).items()}
    assert (status["is_ready"], status["violations"]) == (True, [])
    assert not {refused["pod"] for refused in status["refused"]} & {pod.spec.name for pod in pods}


async def test_status_names_whom_it_refused_lately(stage: Stage) -> None:
    await stage.run("first", ONE_CPU)
    await refusal(stage.run("turned-away", ONE_CPU))
    text = (await run(stage, "status")).stdout
    assert "first" in text
    assert "turned-away" in text
    assert "wanted 1 exclusive CPU" in text
