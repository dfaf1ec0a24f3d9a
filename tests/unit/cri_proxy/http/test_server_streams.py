"""Streams of events: who may listen, how many at a time, and what ends them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cri_proxy.http.messages import Run
from cri_proxy.http.server import MAX_STREAMS, AdminServer
from tests.fakes.http import closed, serving
from tests.testbed.wait import until

ASK = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Source:
    """Sends ``parts`` and then nothing, until the stream is closed; counts those that are open."""

    parts: tuple[bytes, ...] = (b"event: a\n\n",)
    is_endless: bool = True
    open: int = 0

    async def events(self, run: Run) -> AsyncGenerator[bytes, None]:
        self.open += 1
        try:
            for part in self.parts:
                yield part
            while self.is_endless:
                yield b""
                await asyncio.sleep(0.01)
        finally:
            self.open -= 1

    async def has_open(self, count: int) -> None:
        async def check() -> bool:
            return self.open == count

        await until(f"{count} streams are open", check, seconds=10)


@asynccontextmanager
async def listening(path: Path, source: Source) -> AsyncIterator[AdminServer]:
    async with serving(path, AdminServer({}, streams={"/events": source.events})) as server:
        yield server


async def asked(path: Path, sent: bytes = ASK) -> Streams:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(sent)
    return reader, writer


async def head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def test_events_come_as_parts_of_one_answer(tmp_path: Path) -> None:
    source = Source((b"event: a\n\n", b"", b"event: b\n\n"), is_endless=False)
    async with listening(tmp_path / "a.sock", source):
        reader, writer = await asked(tmp_path / "a.sock")
        answer = await reader.read()
        await closed((reader, writer))
    first, _, body = answer.partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200")
    assert b"\r\nContent-Type: text/event-stream\r\n" in first
    assert body == b"a\r\nevent: a\n\n\r\na\r\nevent: b\n\n\r\n0\r\n\r\n"


async def test_a_stream_ends_when_its_client_has_left(tmp_path: Path) -> None:
    source = Source()
    async with listening(tmp_path / "a.sock", source):
        streams = await asked(tmp_path / "a.sock")
        await head(streams[0])
        await source.has_open(1)
        await closed(streams)
        await source.has_open(0)


async def test_so_many_listen_at_once_and_another_one_when_one_has_left(tmp_path: Path) -> None:
    source = Source()
    async with listening(tmp_path / "a.sock", source):
        listeners = [await asked(tmp_path / "a.sock") for _ in range(MAX_STREAMS)]
        await source.has_open(MAX_STREAMS)
        reader, writer = await asked(tmp_path / "a.sock")
        assert (await head(reader)).startswith(b"HTTP/1.1 503")
        await closed((reader, writer), listeners.pop())
        await source.has_open(MAX_STREAMS - 1)
        listeners.append(await asked(tmp_path / "a.sock"))
        assert (await head(listeners[-1][0])).startswith(b"HTTP/1.1 200")
        await closed(*listeners)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (ASK.replace(b"\r\n\r\n", b"\r\nOrigin: http://page.example\r\n\r\n"), b"403"),
        (ASK.replace(b"\r\n\r\n", b"\r\nSec-Fetch-Site: cross-site\r\n\r\n"), b"403"),
        (ASK.replace(b"GET", b"HEAD"), b"404"),
        (ASK.replace(b"GET", b"POST"), b"405"),
        (ASK.replace(b"\r\n\r\n", b"\r\nContent-Length: 1\r\n\r\nx"), b"413"),
    ],
)
async def test_who_may_not_listen_gets_no_stream(tmp_path: Path, sent: bytes, status: bytes) -> None:
    source = Source()
    async with listening(tmp_path / "a.sock", source):
        reader, writer = await asked(tmp_path / "a.sock", sent)
        assert (await head(reader)).startswith(b"HTTP/1.1 " + status)
        assert source.open == 0
        await closed((reader, writer))


async def test_the_page_of_another_host_name_gets_no_stream() -> None:
    """DNS rebinding: the name of the other site leads to this node."""
    server = AdminServer({}, streams={"/events": Source().events})
    assert await server.open_tcp("127.0.0.1:0") == ""
    try:
        reader, writer = await asyncio.open_connection(*server.addresses[0])
        writer.write(ASK.replace(b"localhost", b"page.example"))
        assert (await head(reader)).startswith(b"HTTP/1.1 421")
        await closed((reader, writer))
    finally:
        await server.close()


async def test_a_stop_does_not_wait_for_those_who_listen(tmp_path: Path) -> None:
    source = Source()
    async with listening(tmp_path / "a.sock", source) as server:
        streams = await asked(tmp_path / "a.sock")
        await head(streams[0])
        begun = asyncio.get_running_loop().time()
        await server.finish(10.0)
        assert asyncio.get_running_loop().time() - begun < 5
        await closed(streams)
    assert source.open == 0
