"""Check that the relay answers a new connection, or that the runtime is silent too: the probe behind the watchdog."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cri_proxy import events
from cri_proxy.clock import steady_seconds
from cri_proxy.daemon.cpu_wait import is_starved, waited_seconds
from cri_proxy.http2 import frames
from cri_proxy.logs import Log

SOCKET_LOOK_SECONDS: Final = 10.0
"""Between two looks whether the sockets are in their places: the kubelet has an open connection, and may not notice."""
STARVED_PERIOD_SECONDS: Final = 600.0
"""Between two lines about want of CPU time: most probes fail while it lasts."""

# The first bytes of a client (RFC 9113, 3.4). A server answers with its own SETTINGS, whatever the client sends next.
_HELLO: Final = frames.PREFACE + frames.settings([])


async def answers(path: Path, seconds: float) -> bool | None:
    """Return True if an HTTP/2 server answers or hangs up, False if it is unreachable, None if it is silent.

    Hanging up counts as an answer: a working relay does so while the runtime is away.
    """
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(_HELLO)
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
    """Return True if a new connection through the relay gets an answer, or if the runtime itself is silent.

    ``listen`` is the relay's socket, ``runtime`` the runtime's. Takes at most twice ``seconds``.
    """
    through_us = await answers(listen, seconds)
    # A runtime that is silent too would be silent after a restart of the daemon as well.
    return through_us if through_us is not None else await answers(runtime, seconds) is not True


@dataclass(eq=False)
class RelayProbe:
    """The question of the watchdog: whether a restart would help. One makes want of CPU time worse.

    It probes by ``works`` (``relay_works``); ``waited`` are the seconds that this thread has waited for a CPU.
    """

    _works: Callable[[float], Coroutine[object, object, bool]]
    _log: Log
    _seconds: Callable[[], float] = steady_seconds
    _waited: Callable[[], float] = waited_seconds
    _quiet_until: float = field(default=0.0, init=False)

    async def is_fine(self, seconds: float) -> bool:
        """Return False and log a fault if the relay is stuck; one that is starved of CPU time is logged now and then.

        A stuck relay does little, so that its thread hardly waits for a CPU.
        """
        began, waited_before = self._seconds(), self._waited()
        if await self._works(seconds):
            return True
        now, waited = self._seconds(), self._waited() - waited_before
        took = now - began  # far less than the limit: nothing listens there, which no want of CPU time explains
        if took < seconds / 2 or not is_starved(waited, took):
            reason = "new connections get no answer: systemd restarts the daemon unless that changes"
            self._log.error(events.FAULT, what="relay", reason=reason)
            return False
        if now >= self._quiet_until:
            self._quiet_until = now + STARVED_PERIOD_SECONDS
            reason = f"it waited for a CPU for {waited:.1f} of {took:.1f} s: see CriProxyLoopHeld in docs/alerts.md"
            self._log.warning(events.STARVED, reason=reason)
        return True


async def log_lost_sockets(problem: Callable[[], str], log: Log) -> None:
    """Log each new reason why clients cannot connect, for operators without metrics, until cancelled."""
    known = ""
    while True:
        if (found := problem()) and found != known:
            log.error(events.SOCKET_LOST, reason=found)
        known = found
        await asyncio.sleep(SOCKET_LOOK_SECONDS)
