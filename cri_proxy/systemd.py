"""What systemd and a service tell each other: notifications, the watchdog, sockets that were opened for us.

Sources: sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3), systemd.service(5). Plain Unix sockets and variables:
nothing here needs systemd's library, and without systemd nothing happens.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

FIRST_DESCRIPTOR: Final = 3
"""SD_LISTEN_FDS_START: passed sockets begin after standard error."""

_MICROSECONDS: Final = 1_000_000
_PINGS_PER_LIMIT: Final = 4
_ANSWER_SHARE: Final = 8  # a probe may take this part of the limit
# RFC 9113, 3.4: a client's first bytes. A server's first are its SETTINGS, whatever the client says next.
_HELLO: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def notify(state: str) -> None:
    """Tell systemd, where it asked to be told (sd_notify(3)); a failure to do so harms nobody."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        try:
            sock.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError:
            return


def reloading() -> str:
    """What to ``notify`` before a new configuration is taken; ``READY=1`` says that it was, or was not.

    The time is what Type=notify-reload asks for (systemd 253); Type=notify takes it as well.
    """
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"


def watchdog_seconds(environment: Mapping[str, str], pid: int) -> float | None:
    """How long systemd lets this process be silent (WatchdogSec); None where it does not watch it."""
    text = environment.get("WATCHDOG_USEC", "")
    if environment.get("WATCHDOG_PID", str(pid)) != str(pid) or not text.isdigit() or not int(text):
        return None
    return int(text) / _MICROSECONDS


class Faults(Protocol):
    """Where a silent watchdog is reported."""

    def error(self, event: str, **fields: object) -> object:
        """An operator must look at this."""


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Pings while the daemon works: while the loop runs this, and ``works`` says that calls get through.

    Without a ping for ``limit_seconds`` systemd kills the service and starts it anew. ``works`` is asked four times in
    that, so one that fails once, on a node short of CPU time, costs nothing.
    """

    limit_seconds: float
    works: Callable[[float], Coroutine[object, object, bool]]
    on_stuck: Callable[[], object]
    ping: Callable[[str], None] = notify

    async def watch(self) -> None:
        """Ping for ever."""
        while True:
            if await self.works(self.limit_seconds / _ANSWER_SHARE):
                self.ping("WATCHDOG=1")
            else:
                self.on_stuck()
            await asyncio.sleep(self.limit_seconds / _PINGS_PER_LIMIT)


async def answers(path: Path, seconds: float) -> bool | None:
    """Whether an HTTP/2 server begins to speak, or hangs up (True), or cannot be reached (False), or is silent (None).

    The relay connects to the runtime first: without one it hangs up, which it can do only when it works.
    """
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(_HELLO)
                await reader.read(1)
            except OSError:
                pass  # hung up before it had read us
            finally:
                writer.close()
    except TimeoutError:
        return None
    except OSError:
        return False
    return True


async def relay_works(listen: Path, runtime: Path, seconds: float) -> bool:
    """Whether a new connection gets an answer; a runtime that is silent itself is not held against the relay.

    ``listen`` is the socket that clients connect to, ``runtime`` the one behind it. Takes at most twice ``seconds``.
    """
    through_us = await answers(listen, seconds)
    return through_us if through_us is not None else await answers(runtime, seconds) is not True


def passed_sockets(environment: Mapping[str, str], pid: int) -> Sequence[int]:
    """The descriptors that systemd opened for this process (LISTEN_FDS, LISTEN_PID); often none."""
    count = environment.get("LISTEN_FDS", "")
    if environment.get("LISTEN_PID") != str(pid) or not count.isdigit():
        return ()
    return range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + int(count))
