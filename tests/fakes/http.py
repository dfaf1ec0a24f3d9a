"""An HTTP server that is open inside a block, and what a client on its admin socket does."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from cri_proxy.http.connection import Times
from cri_proxy.http.messages import PostHandler
from cri_proxy.http.routes import build_routes
from cri_proxy.http.server import AdminServer
from tests.fakes.views import FixedDaemon

TIMES = Times()


def free_address() -> tuple[str, int]:
    """An address and port for a server of this process or its child: no other process is on this address."""
    number = os.getpid()
    with socket.create_server((f"127.{number >> 16 & 63 | 64}.{number >> 8 & 255}.{number & 255}", 0)) as found:
        host, port = found.getsockname()
        return host, port


def fixed_server(posts: Mapping[str, PostHandler] | None = None, times: Times = TIMES) -> AdminServer:
    return AdminServer(build_routes(FixedDaemon()), posts=posts or {}, times=times)


@asynccontextmanager
async def serving(path: Path, server: AdminServer | None = None) -> AsyncIterator[AdminServer]:
    server = server or fixed_server()
    await server.listen_unix(path)
    try:
        async with asyncio.timeout(20):
            yield server
    finally:
        await server.close()


async def exchange(path: Path, *requests: bytes) -> bytes:
    """Send all of it, give everything that comes until the other side closes."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(b"".join(requests))
    if writer.can_write_eof():
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def closed(*connections: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    for _, writer in connections:
        writer.close()
        with contextlib.suppress(ConnectionError):  # it was dropped
            await writer.wait_closed()
