"""SIGTERM during traffic: what is under way may end within the grace, what does not is given up; nothing is lost."""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.daemon.app import STOP_GRACE_SECONDS
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.intercept.gate import RUNTIME
from cri_proxy.unix_socket import socket_path
from tests.fakes.waiting import holds
from tests.kill.scene import Scene, clashes

SLACK_SECONDS = 20.0
WEB = PodSpec("web", (guaranteed("c", 1000),))


async def end_of(stream: Any) -> grpc.StatusCode:  # noqa: ANN401 - grpcio's stubs know no common base
    with suppress(grpc.aio.AioRpcError):
        while await stream.read() is not grpc.aio.EOF:  # type: ignore[attr-defined]
            continue
    code: grpc.StatusCode = await stream.code()
    return code


@asynccontextmanager
async def staged(relay: str = "splice") -> AsyncIterator[Scene]:
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-kill-", dir="/tmp"))
    scene = Scene(directory, 0, relay=relay)
    try:
        yield scene
    finally:
        await scene.close()
        shutil.rmtree(directory)


async def stop_while_a_call_is_held(*, method: str, answers: bool) -> None:
    async with staged() as scene:
        await scene.server.start()
        await scene.daemon.start()
        await scene.kubelet.run_pod(PodSpec("alone", (guaranteed("c", 2000),)))
        gate = scene.runtime.faults.block(method)
        run = asyncio.get_running_loop().create_task(scene.kubelet.run_pod(PodSpec("web", (guaranteed("c", 1000),))))
        await gate.entered()
        scene.daemon.send(signal.SIGTERM)
        if answers:
            gate.release()
        assert await scene.ended(STOP_GRACE_SECONDS + SLACK_SECONDS) == "status 0"
        with suppress(CallFailed, RuntimeUnavailable):
            await run
        scene.runtime.faults.clear()
        await scene.daemon.start()
        assert clashes(await scene.settled(), scene.runtime) == []


@pytest.mark.parametrize("answers", [True, False], ids=["the runtime answers", "it does not"])
async def test_it_ends_within_its_grace_and_the_next_one_agrees_with_the_runtime(answers: bool) -> None:
    """Two daemons at once: who gets no answer waits for all of its grace."""
    async with asyncio.TaskGroup() as group:
        for method in ("CreateContainer", "StartContainer"):
            group.create_task(stop_while_a_call_is_held(method=method, answers=answers))


@pytest.mark.parametrize("relay", ["splice", "grpc"])
async def test_a_stream_without_end_is_not_waited_for_and_a_call_beside_it_is(relay: str) -> None:
    """The stream ends as one of a runtime that is stopped; the create is answered although SIGTERM came before."""
    async with staged(relay=relay) as scene:
        await scene.server.start()
        await scene.daemon.start()
        await holds("the daemon follows", lambda: scene.runtime.listeners() == 1, seconds=SLACK_SECONDS)
        channel: Any = grpc.aio.insecure_channel(scene.daemon.endpoint)  # whose stubs demand what it leaves optional
        events = channel.unary_stream(RUNTIME + "GetContainerEvents")(b"")
        await holds("the client follows", lambda: scene.runtime.listeners() == 2, seconds=SLACK_SECONDS)
        sandbox_id = await scene.kubelet.run_sandbox(WEB)
        assert await events.read()
        gate = scene.runtime.faults.block("CreateContainer")
        creating = asyncio.get_running_loop().create_task(scene.kubelet.create(WEB, WEB.containers[0], sandbox_id))
        await gate.entered()
        begun_at = asyncio.get_running_loop().time()
        scene.daemon.send(signal.SIGTERM)
        await holds(
            "it takes nobody new", lambda: not socket_path(scene.daemon.endpoint).exists(), seconds=SLACK_SECONDS
        )
        gate.release()
        assert [await creating] == [container.id for container in scene.live()]
        assert await end_of(events) is grpc.StatusCode.UNAVAILABLE
        assert await scene.ended(STOP_GRACE_SECONDS + SLACK_SECONDS) == "status 0"
        assert asyncio.get_running_loop().time() - begun_at < STOP_GRACE_SECONDS
        await channel.close()
