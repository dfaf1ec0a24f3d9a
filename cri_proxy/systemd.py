"""The service's side of systemd: notifications, the watchdog, sockets passed at the start.

Sources: sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3), systemd.service(5). Plain Unix sockets and
variables, without systemd's library; without systemd nothing happens.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FIRST_DESCRIPTOR: Final = 3
"""SD_LISTEN_FDS_START: passed sockets begin after standard error."""

_MICROSECONDS: Final = 1_000_000
_PINGS_PER_LIMIT: Final = 4
_ANSWER_SHARE: Final = 8  # a probe may take this part of the limit
# RFC 9113, 3.4: a client's first bytes. A server's first are its SETTINGS, whatever the client says next.
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def notify(state: str) -> None:
    """Send a state to systemd, if it asked for it (sd_notify(3)); a failure is ignored."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        try:
            sock.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError:
            return


def reloading() -> str:
    """Return the state that announces a reload; ``READY=1`` ends it, whether the configuration was applied or not."""
    # The time is for Type=notify-reload (systemd 253); Type=notify accepts it, too.
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"


def watchdog_seconds(environment: Mapping[str, str], pid: int) -> float | None:
    """Return after how long a silence systemd kills this process (WatchdogSec); None without a watchdog."""
    text = environment.get("WATCHDOG_USEC", "")
    if environment.get("WATCHDOG_PID", str(pid)) != str(pid) or not text.isdigit() or not int(text):
        return None
    return int(text) / _MICROSECONDS


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Ping systemd while the loop runs and ``works`` says that calls get through.

    Without a ping for ``limit_seconds`` systemd restarts the service. ``works`` is called four times in that, so that
    one failure, on a node short of CPU time, has no effect.
    """

    limit_seconds: float
    works: Callable[[float], Coroutine[object, object, bool]]
    on_stuck: Callable[[], object]
    ping: Callable[[str], None] = notify

    async def watch(self) -> None:
        """Ping until cancelled."""
        while True:
            if await self.works(self.limit_seconds / _ANSWER_SHARE):
                self.ping("WATCHDOG=1")
            else:
                self.on_stuck()
            await asyncio.sleep(self.limit_seconds / _PINGS_PER_LIMIT)


async def answers(path: Path, seconds: float) -> bool | None:
    """Return True when an HTTP/2 server answers or hangs up, False when it is unreachable, None when it is silent.

    A relay that works hangs up without a runtime.
    """
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(_PREFACE)
                await reader.read(1)
            except OSError:
                pass  # hung up before reading
            finally:
                writer.close()
    except TimeoutError:
        return None
    except OSError:
        return False
    return True


async def relay_works(listen: Path, runtime: Path, seconds: float) -> bool:
    """Return True when a new connection gets an answer, or when the runtime itself is silent.

    ``listen`` is the socket that clients connect to, ``runtime`` the one behind it. Takes at most twice ``seconds``.
    """
    through_us = await answers(listen, seconds)
    return through_us if through_us is not None else await answers(runtime, seconds) is not True


def passed_sockets(environment: Mapping[str, str], pid: int) -> Sequence[int]:
    """Return the descriptors that systemd opened for this process (LISTEN_FDS, LISTEN_PID); often none."""
    count = environment.get("LISTEN_FDS", "")
    if environment.get("LISTEN_PID") != str(pid) or not count.isdigit():
        return ()
    return range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(count))
