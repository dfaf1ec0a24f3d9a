import asyncio
import socket
import time
from pathlib import Path

import pytest

from cri_proxy.systemd import Watchdog, notify, passed_sockets, reloading, watchdog_seconds
from cri_proxy.tasks import Tasks


async def test_a_watchdog_pings_only_while_it_works() -> None:
    assert await watched([True, False, False, True]) == ["WATCHDOG=1"] * 2


async def watched(answers: list[bool]) -> list[str]:
    """What a watchdog says while it gets these answers."""
    pings: list[str] = []
    done = asyncio.Event()

    async def works(seconds: float) -> bool:
        if not answers:
            done.set()
            await asyncio.Event().wait()
        return answers.pop(0)

    watchdog = Watchdog(0.004, works, pings.append)
    tasks = Tasks()
    tasks.start(watchdog.watch())
    await done.wait()
    await tasks.cancel()
    return pings


async def test_a_loop_that_is_stuck_pings_nobody() -> None:
    pings: list[str] = []

    async def works(seconds: float) -> bool:
        return True

    tasks = Tasks()
    tasks.start(Watchdog(0.004, works, pings.append).watch())
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
