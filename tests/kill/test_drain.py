"""SIGTERM during traffic: what is under way may end within the grace, what does not is given up; nothing is lost."""

import asyncio
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from cri_proxy.app import STOP_GRACE_SECONDS
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.tryout.pods import PodSpec, guaranteed
from cri_proxy.tryout.waiting import until
from tests.kill.scene import Scene, clashes

SLACK_SECONDS = 10.0


async def stop_while_a_call_is_held(scene: Scene, method: str, *, answers: bool) -> None:
    await scene.server.start()
    await scene.daemon.start()
    await scene.kubelet.run_pod(PodSpec("alone", (guaranteed("c", 2000),)))
    gate = scene.runtime.faults.block(method)
    run = asyncio.get_running_loop().create_task(scene.kubelet.run_pod(PodSpec("web", (guaranteed("c", 1000),))))
    await gate.entered()
    scene.daemon.send(signal.SIGTERM)
    if answers:
        gate.release()

    async def exit_status() -> str | None:
        status = scene.daemon.exit_status
        return None if status is None else f"status {status}"

    assert await until("it ends", exit_status, seconds=STOP_GRACE_SECONDS + SLACK_SECONDS) == "status 0"
    with suppress(CallFailed, RuntimeUnavailable):
        await run
    scene.runtime.faults.clear()
    await scene.daemon.start()
    assert clashes(await scene.settled(), scene.runtime) == []


@pytest.mark.parametrize("method", ["CreateContainer", "StartContainer"])
@pytest.mark.parametrize("answers", [True, False], ids=["the runtime answers", "it does not"])
def test_it_ends_within_its_grace_and_the_next_one_agrees_with_the_runtime(method: str, answers: bool) -> None:
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-kill-", dir="/tmp"))

    async def run() -> None:
        scene = Scene(directory, 0)
        try:
            await stop_while_a_call_is_held(scene, method, answers=answers)
        finally:
            await scene.close()

    try:
        asyncio.run(run())
    finally:
        shutil.rmtree(directory)
