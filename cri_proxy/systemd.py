"""The systemd side of a service: state notifications, watchdog pings and socket activation.

Sources: sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3), systemd.service(5). Uses plain
Unix sockets and environment variables instead of libsystemd; does nothing without systemd.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

FIRST_DESCRIPTOR: Final = 3
"""SD_LISTEN_FDS_START: passed sockets begin after standard error."""

_MICROSECONDS: Final = 1_000_000
_PINGS_PER_LIMIT: Final = 4
_ANSWER_SHARE: Final = 8  # a probe may take this part of the limit


def notify(state: str) -> None:
    """Send a state to systemd if NOTIFY_SOCKET is set (sd_notify(3)). Errors are ignored."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # Not to wait where systemd does not read: its queue may be full, and the event loop calls this.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        try:
            # "@" stands for the zero byte of an abstract socket (sd_notify(3)).
            sock.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError:
            return


def reloading() -> str:
    """Return the state that announces a reload; ``READY=1`` ends it, whether the configuration was applied or not."""
    # The time is for Type=notify-reload (systemd 253); Type=notify accepts it, too.
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"


def watchdog_seconds(environment: Mapping[str, str], pid: int) -> float | None:
    """Return the watchdog timeout (WatchdogSec), or None if the watchdog is off for this process."""
    text = environment.get("WATCHDOG_USEC", "")
    if environment.get("WATCHDOG_PID", str(pid)) != str(pid) or not text.isdigit() or not int(text):
        return None
    return int(text) / _MICROSECONDS


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Ping systemd while the event loop runs and ``works`` returns True.

    systemd restarts the service after ``limit_seconds`` without a ping. ``works`` runs four times in that period, so
    that one failure on a node short of CPU time has no effect.
    """

    limit_seconds: float
    works: Callable[[float], Coroutine[object, object, bool]]
    ping: Callable[[str], None] = notify

    async def watch(self) -> None:
        """Ping until cancelled."""
        while True:
            if await self.works(self.limit_seconds / _ANSWER_SHARE):
                self.ping("WATCHDOG=1")
            await asyncio.sleep(self.limit_seconds / _PINGS_PER_LIMIT)


def passed_sockets(environment: Mapping[str, str], pid: int) -> Sequence[int]:
    """Return the descriptors that systemd opened for this process (LISTEN_FDS, LISTEN_PID); often none."""
    count = environment.get("LISTEN_FDS", "")
    if environment.get("LISTEN_PID") != str(pid) or not count.isdigit():
        return ()
    return range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(count))
