import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cri_proxy.relay.grpcio.relay import GrpcRelay
from cri_proxy.relay.server import SpliceRelay
from cri_proxy.systemd import Watchdog, answers, notify, passed_sockets, relay_works, reloading, watchdog_seconds
from cri_proxy.tasks import Tasks
from tests.fakes.scripted_interceptor import ScriptedInterceptor

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


async def test_a_watchdog_pings_only_while_it_works() -> None:
    pings, stuck = await watched([True, False, False, True])
    assert (pings, stuck) == (["WATCHDOG=1"] * 2, 2)


async def watched(answers: list[bool]) -> tuple[list[str], int]:
    """What a watchdog says while it gets these answers."""
    pings: list[str] = []
    stuck: list[None] = []
    done = asyncio.Event()

    async def works(seconds: float) -> bool:
        if not answers:
            done.set()
            await asyncio.Event().wait()
        return answers.pop(0)

    watchdog = Watchdog(0.004, works, lambda: stuck.append(None), pings.append)
    tasks = Tasks()
    tasks.start(watchdog.watch())
    await done.wait()
    await tasks.cancel()
    return pings, len(stuck)


async def test_a_loop_that_is_stuck_pings_nobody() -> None:
    pings: list[str] = []

    async def works(seconds: float) -> bool:
        return True

    tasks = Tasks()
    tasks.start(Watchdog(0.004, works, lambda: None, pings.append).watch())
    await asyncio.sleep(0)
    before = len(pings)
    until = time.monotonic() + 0.05
    while time.monotonic() < until:
        pass
    stuck = len(pings)
    await tasks.cancel()
    assert stuck - before == 0


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_for_the_process_that_systemd_names(environment: dict[str, str], seconds: float | None) -> None:
    assert watchdog_seconds(environment, 7) == seconds


@pytest.mark.parametrize(
    ("environment", "descriptors"),
    [
        ({}, []),
        ({"LISTEN_PID": "7", "LISTEN_FDS": "2"}, [3, 4]),
        ({"LISTEN_PID": "8", "LISTEN_FDS": "2"}, []),
        ({"LISTEN_FDS": "2"}, []),
        ({"LISTEN_PID": "7", "LISTEN_FDS": "-1"}, []),
    ],
)
def test_sockets_are_for_the_process_that_systemd_names(environment: dict[str, str], descriptors: list[int]) -> None:
    assert list(passed_sockets(environment, 7)) == descriptors


def test_a_reload_tells_when_it_began() -> None:
    state, _, moment = reloading().partition("\nMONOTONIC_USEC=")
    assert state == "RELOADING=1"
    assert 0 <= time.monotonic() * 1e6 - int(moment) < 60e6


def test_nobody_to_tell_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    notify("READY=1")
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")


def test_an_abstract_address_is_told_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{tmp_path}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{tmp_path}")
        notify("READY=1")
        assert listener.recv(100) == b"READY=1"
