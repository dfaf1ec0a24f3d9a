"""Clients of the page: streams that nobody reads, and manifests that swell."""

import asyncio
import json
from contextlib import AsyncExitStack

from cri_proxy.http.server import MAX_STREAMS
from tests.fakes.http import free_address
from tests.fakes.scheduler import exchanged
from tests.hostile.node import Place

ASK = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
ALIASES = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}' if n else 'x'] * 9)}]" for n in range(9))
MANIFESTS = (f"kind: Pod\n{ALIASES}\n", "kind: Pod\nspec: " + "[" * 60_000, "count: 2000000\nkind: Pod\n" * 9)


async def answered(address: tuple[str, int], manifest: str) -> str:
    """The problem that a question is answered with, '' where it has none."""
    status, body = await exchanged(address, "POST", "/api/v1/fit/manifests", manifest.encode())
    assert status == 200
    return str(json.loads(body)["problem"])


async def test_clients_that_open_streams_and_post_manifests_that_swell(place: Place) -> None:
    """Local clients take all streams and read none, and post YAML whose aliases swell to millions: others go on."""
    host, port = free_address()
    async with AsyncExitStack() as streams, place.node(options=("--http", f"{host}:{port}")) as node:
        async with node.under_attack():
            for _ in range(3 * MAX_STREAMS):
                _, writer = await asyncio.open_connection(host, port)
                streams.callback(writer.close)
                writer.write(ASK)
            problems = [await answered((host, port), text) for text in MANIFESTS]
            assert "" not in problems
            at_once = await asyncio.gather(*(answered((host, port), MANIFESTS[0]) for _ in range(2)))
            assert "" not in at_once
        assert (await exchanged((host, port), "GET", "/healthz"))[0] == 200
