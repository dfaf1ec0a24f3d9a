import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cri_proxy.daemon.relay_probe import STARVED_PERIOD_SECONDS, RelayProbe, answers, log_lost_sockets, relay_works
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


class Probed:
    """A relay that fails its probes, on a clock and a count of waiting of its own."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waited = 7.0
        self.log = Silent()
        self.probe = RelayProbe(self._works, self.log, lambda: self.now, lambda: self.waited)
        self._took, self._waits, self._answer = 0.0, 0.0, False

    async def _works(self, seconds: float) -> bool:
        self.now += self._took
        self.waited += self._waits
        return self._answer

    async def is_fine(self, *, took: float, waits: float, answer: bool = False) -> bool:
        self._took, self._waits, self._answer = took, waits, answer
        return await self.probe.is_fine(1.0)

    @property
    def lines(self) -> list[str]:
        return [line.partition(" ")[0] for line in (*self.log.warnings, *self.log.errors)]


@pytest.mark.parametrize(
    ("took", "waits", "is_fine", "lines"),
    [
        pytest.param(1.2, 0.0, False, ["fault"], id="silent, and nothing kept it from answering"),
        pytest.param(1.2, 0.3, False, ["fault"], id="silent, and it had most of the time"),
        pytest.param(1.2, 0.9, True, ["starved"], id="silent, and it got no CPU"),
        pytest.param(0.01, 0.009, False, ["fault"], id="nobody listens, on a busy node"),
    ],
)
async def test_a_relay_that_is_starved_of_cpu_time_is_not_stuck(
    took: float, waits: float, is_fine: bool, lines: list[str]
) -> None:
    probed = Probed()
    assert await probed.is_fine(took=took, waits=waits) is is_fine
    assert probed.lines == lines


async def test_want_of_cpu_time_is_logged_once_while_it_lasts() -> None:
    probed = Probed()
    for answer in (False, True, False):
        assert await probed.is_fine(took=2.0, waits=1.5, answer=answer)
    assert probed.lines == ["starved"]
    probed.now += STARVED_PERIOD_SECONDS
    assert await probed.is_fine(took=2.0, waits=1.5)
    assert probed.lines == ["starved"] * 2


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
