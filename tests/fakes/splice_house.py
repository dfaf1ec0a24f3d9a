"""A splice relay on sockets, with a runtime that only collects its connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from cri_proxy.relay.server import SpliceRelay
from tests.fakes.scripted_interceptor import ScriptedInterceptor
from tests.fakes.waiting import holds

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class House:
    """A relay, and a runtime that only collects its connections."""

    def __init__(self, directory: Path, interceptor: ScriptedInterceptor) -> None:
        self.path, self.runtime_path = str(directory / "relay"), str(directory / "runtime")
        self.accepted: asyncio.Queue[Ends] = asyncio.Queue()
        self.errors: list[BaseException] = []
        self.interceptor = interceptor
        self.relay = SpliceRelay(
            listen=self.path, runtime=self.runtime_path, interceptor=interceptor, on_error=self.errors.append
        )
        self.writers: list[asyncio.StreamWriter] = []

    async def client(self) -> Ends:
        reader, writer = await asyncio.open_unix_connection(self.path)
        self.writers.append(writer)
        return reader, writer

    async def pair(self) -> tuple[Ends, Ends]:
        client = await self.client()
        runtime = await asyncio.wait_for(self.accepted.get(), 20)
        self.writers.append(runtime[1])
        return client, runtime

    async def told(self) -> list[object]:
        """The outcomes that the interceptor was told, once there is one."""
        await holds("an outcome is told", lambda: bool(self.interceptor.outcomes))
        return [outcome for _, outcome in self.interceptor.outcomes]


@asynccontextmanager
async def built(
    directory: Path, interceptor: ScriptedInterceptor | None = None, *, runtime: bool = True
) -> AsyncIterator[House]:
    house = House(directory, interceptor or ScriptedInterceptor())
    server = None
    if runtime:
        server = await asyncio.start_unix_server(lambda *ends: house.accepted.put_nowait(ends), house.runtime_path)
    await house.relay.start()
    try:
        yield house
    finally:
        for writer in house.writers:
            writer.close()
        await house.relay.stop(0)
        if server is not None:
            server.close()
