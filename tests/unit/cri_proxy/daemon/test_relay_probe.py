import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cri_proxy.daemon.relay_probe import answers, log_lost_sockets, relay_works
from cri_proxy.relay.grpcio.relay import GrpcRelay
from cri_proxy.relay.server import SpliceRelay
from cri_proxy.tasks import Tasks
from tests.fakes.scripted_interceptor import ScriptedInterceptor
from tests.fakes.site import Silent

Connected = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What a server's SETTINGS frame begins with."""
    await reader.read(1)
    writer.write(b"\0")
    writer.close()


async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def works(tmp_path: Path, relay: Connected | None, runtime: Connected | None, *, seconds: float) -> bool:
    """Whether the relay counts as working, when both behave so; None: nobody listens.

    ``seconds`` are what silence takes to be told; on a busy machine who speaks needs some time for it as well.
    """

    before = asyncio.all_tasks()
    paths = tmp_path / "relay", tmp_path / "runtime"
    given = [(path, kind) for path, kind in zip(paths, (relay, runtime), strict=True) if kind is not None]
    servers = [await asyncio.start_unix_server(kind, path) for path, kind in given]
    try:
        return await relay_works(*paths, seconds=seconds)
    finally:
        for server in servers:
            server.close()
        await asyncio.gather(*(asyncio.all_tasks() - before))  # connections end, too


@pytest.mark.parametrize(
    ("relay", "runtime", "seconds", "expected"),
    [
        pytest.param(speaks, speaks, 20, True, id="both answer"),
        pytest.param(hangs_up, None, 20, True, id="there is no runtime"),
        pytest.param(says_nothing, speaks, 3, False, id="the relay alone is silent"),
        pytest.param(says_nothing, says_nothing, 0.1, True, id="both are silent"),
        pytest.param(None, speaks, 20, False, id="no relay can be reached"),
    ],
)
async def test_a_relay_works_unless_it_is_away_or_silent_alone(
    relay: Connected | None, runtime: Connected | None, seconds: float, expected: bool, tmp_path: Path
) -> None:
    assert await works(tmp_path, relay, runtime, seconds=seconds) is expected


@pytest.mark.parametrize("kind", [SpliceRelay, GrpcRelay])
async def test_either_relay_works_while_it_is_open_without_a_runtime_too(
    tmp_path: Path, kind: type[SpliceRelay | GrpcRelay]
) -> None:
    listen, runtime = tmp_path / "relay", tmp_path / "runtime"
    relay = kind(listen=str(listen), runtime=str(runtime), interceptor=ScriptedInterceptor())
    await relay.start()
    while_open = await relay_works(listen, runtime, 20)
    await relay.stop(1)
    assert (while_open, await relay_works(listen, runtime, 20)) == (True, False)


async def test_a_backlog_that_nobody_takes_from_is_silence(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        assert await answers(tmp_path / "s", 0.1) is None


async def test_each_reason_why_clients_cannot_connect_is_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cri_proxy.daemon.relay_probe.SOCKET_LOOK_SECONDS", 0)
    problems, looked, log = iter(["", "gone", "gone", "", "gone"]), asyncio.Event(), Silent()

    def problem() -> str:
        found = next(problems, None)
        if found is None:
            looked.set()
        return found or ""

    watching = Tasks()
    watching.start(log_lost_sockets(problem, log))
    await looked.wait()
    await watching.cancel()
    assert log.errors == ["socket_lost {'reason': 'gone'}"] * 2
