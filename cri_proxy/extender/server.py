"""The process of ``cri-proxy extender``: listen, answer the scheduler, health and metrics, end on a signal."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from cri_proxy import events
from cri_proxy.clock import SystemClock
from cri_proxy.errors import CommandFailed
from cri_proxy.extender.answers import Extender
from cri_proxy.extender.directory import LinkDirectory
from cri_proxy.extender.metrics import TABLE
from cri_proxy.http.connection import Times
from cri_proxy.http.messages import Handler, Query, Response, text_response
from cri_proxy.http.server import AdminServer, Posts
from cri_proxy.logs import Log
from cri_proxy.metrics.counters import Counters
from cri_proxy.metrics.exposition import CONTENT_TYPE, exposition

DEFAULT_ADDRESS: Final = "127.0.0.1:8892"
MAX_QUESTION_BYTES: Final = 32 << 20
"""A node has some 10 to 20 KB, so that this is two thousand of them."""
STOP_SECONDS: Final = 4.0
"""From the signal until answers under way are dropped; after five the scheduler has given up on them."""
# The scheduler asks about one pod at a time; another scheduler may be there for a moment.
_MOST_AT_ONCE: Final = 2
_TIMES: Final = Times(request_seconds=10.0, idle_seconds=120.0)


class ExtenderServer:
    """The extender on an address of its own."""

    def __init__(self, *, log: Log, directory: Path | None = None) -> None:
        """Open nothing yet. ``directory`` has a file for each node that publishes nothing itself."""
        self._log, self._counters = log, Counters(TABLE)
        links = LinkDirectory(directory) if directory is not None else None
        extender = Extender(log=log, clock=SystemClock(), counters=self._counters, directory=links)
        self._extender = extender
        # In a process of its own no call of a kubelet waits for the loop.
        posts = Posts(extender.handlers, MAX_QUESTION_BYTES, _MOST_AT_ONCE, shares_loop=False)
        routes: dict[str, Handler] = {
            **dict.fromkeys(("/livez", "/healthz", "/readyz"), _well),
            "/metrics": self._metrics,
        }
        self._server = AdminServer(routes, tcp_posts=posts, times=_TIMES)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The addresses that are open, with their ports."""
        return self._server.addresses

    async def open(self, address: str) -> None:
        """Read what there is, then listen on ADDRESS:PORT. Raises CommandFailed."""
        await self._extender.begin()
        if problem := await self._server.open_tcp(address):
            raise CommandFailed(problem)
        self._log.info(events.SERVING, address=address)

    async def close(self) -> None:
        """Stop listening, end what is being answered, and drop connections."""
        self._log.info(events.STOPPING)
        await self._server.finish(STOP_SECONDS)
        await self._server.close()

    def _metrics(self, query: Query) -> Response:
        return Response(HTTPStatus.OK, CONTENT_TYPE, exposition(self._counters.samples()))


def _well(query: Query) -> Response:
    return text_response(HTTPStatus.OK, "ok")


async def serve(server: ExtenderServer, address: str, stopped: Callable[[], Awaitable[object]]) -> None:
    """Serve until ``stopped`` returns. Raises CommandFailed."""
    await server.open(address)
    try:
        await stopped()
    finally:
        await server.close()
