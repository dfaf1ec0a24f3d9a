"""Check that the relay answers a new connection, or that the runtime is silent too: the probe behind the watchdog."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cri_proxy import events
from cri_proxy.http2 import frames
from cri_proxy.logs import Log

SOCKET_LOOK_SECONDS: Final = 10.0
"""Between two looks whether the sockets are in their places: the kubelet has an open connection, and may not notice."""

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
    return through_us if through_us is not None else await answers(runtime, seconds) is not True


async def log_lost_sockets(problem: Callable[[], str], log: Log) -> None:
    """Log each new reason why clients cannot connect, for operators without metrics, until cancelled."""
    known = ""
    while True:
        if (found := problem()) and found != known:
            log.error(events.SOCKET_LOST, reason=found)
        known = found
        await asyncio.sleep(SOCKET_LOOK_SECONDS)
