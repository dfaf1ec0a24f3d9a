"""A daemon's admin socket, served from another thread, for commands that ask and block."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cri_proxy.http.routes import build_routes, plan_route
from cri_proxy.http.server import AdminServer, Guard
from cri_proxy.node.status.daemon_view import DaemonView
from cri_proxy.node.status.decision_views import PlanView
from tests.fakes.views import FixedDaemon

Plan = Callable[[str, str], Awaitable[PlanView]]


@contextmanager
def served(
    path: Path,
    daemon: DaemonView | None = None,
    *,
    plan: Plan | None = None,
    address: str = "off",
    guard: Guard | None = None,
) -> Iterator[None]:
    """The socket, and the address behind its guard, answer inside the block.

    ``plan`` says what a configuration would come to.
    """
    started, stopping = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        posts = {} if plan is None else {"/api/v1/plan": plan_route(plan)}
        server = AdminServer(build_routes(daemon if daemon is not None else FixedDaemon()), posts=posts, guard=guard)
        await server.listen_unix(path)
        assert await server.listen_tcp(address) is None
        loops.append(asyncio.get_running_loop())
        started.set()
        await stopping.wait()
        await server.close()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert started.wait(30), "the socket was not opened"
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(stopping.set)
        thread.join()
