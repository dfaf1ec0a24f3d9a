"""Server-sent events from the HTTP server."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from cri_proxy.http.connection import Times
from cri_proxy.http.messages import Event, EventStream, Query
from cri_proxy.http.server import AdminServer
from tests.fakes.http import closed, exchange, serving

EVENTS = b"GET /events HTTP/1.1\r\nHost: h\r\n\r\n"


class Changes:
    """A stream of events that a test sends; ``open`` are those whose generator runs."""

    def __init__(self) -> None:
        self.open = 0
        self.ended = asyncio.Event()
        self.coming: asyncio.Queue[Event | None] = asyncio.Queue()

    def handler(self, query: Query) -> EventStream:
        return EventStream(self._events())

    async def _events(self) -> AsyncGenerator[Event, None]:
        self.open += 1
        try:
            yield Event("begun")
            while (event := await self.coming.get()) is not None:
                yield event
        finally:
            self.open -= 1
            self.ended.set()

    def server(self, **times: float) -> AdminServer:
        return AdminServer({"/events": self.handler}, times=Times(**times))


async def begun(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A stream whose first event has come."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(EVENTS)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"\r\nContent-Type: text/event-stream\r\n" in head
    assert await chunk(reader) == b"data: begun\n\n"
    return reader, writer


async def chunk(reader: asyncio.StreamReader) -> bytes:
    """The next piece of a body; b'' is its end."""
    size = int(await reader.readline(), 16)
    return (await reader.readexactly(size + 2))[:-2]


async def test_events_are_sent_as_they_come_until_they_end(tmp_path: Path) -> None:
    changes = Changes()

    async with serving(tmp_path / "a.sock", changes.server()):
        reader, writer = await begun(tmp_path / "a.sock")
        changes.coming.put_nowait(Event("1", "change"))
        assert await chunk(reader) == b"event: change\ndata: 1\n\n"
        changes.coming.put_nowait(None)
        assert (await chunk(reader), await reader.read()) == (b"", b"")
        await closed((reader, writer))


async def test_a_stream_ends_when_its_client_hangs_up(tmp_path: Path) -> None:
    changes = Changes()

    async with serving(tmp_path / "a.sock", changes.server()):
        await closed(await begun(tmp_path / "a.sock"))
        await changes.ended.wait()


async def test_a_stream_ends_properly_when_the_server_closes(tmp_path: Path) -> None:
    changes = Changes()

    async with serving(tmp_path / "a.sock", changes.server()) as server:
        reader, writer = await begun(tmp_path / "a.sock")
        await server.close()
        assert (changes.open, await chunk(reader)) == (0, b"")
        await closed((reader, writer))


async def test_a_stream_ends_when_its_client_takes_no_event(tmp_path: Path) -> None:
    changes = Changes()

    async with serving(tmp_path / "a.sock", changes.server(write_seconds=0.05)):
        reader, writer = await begun(tmp_path / "a.sock")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(8):
            changes.coming.put_nowait(Event("x" * (1 << 20)))
        await changes.ended.wait()
        await closed((reader, writer))


async def test_a_stream_without_events_carries_comments(tmp_path: Path) -> None:
    changes = Changes()

    async with serving(tmp_path / "a.sock", changes.server(heartbeat_seconds=0.01)):
        reader, writer = await begun(tmp_path / "a.sock")
        assert [await chunk(reader), await chunk(reader)] == [b":\n\n"] * 2
        await closed((reader, writer))


async def test_streams_leave_connections_for_requests(tmp_path: Path) -> None:
    changes = Changes()

    async with serving(tmp_path / "a.sock", changes.server()):
        streams = [await begun(tmp_path / "a.sock") for _ in range(16)]
        refused = await exchange(tmp_path / "a.sock", EVENTS)
        assert refused.startswith(b"HTTP/1.1 503")
        assert changes.open == 16
        await closed(*streams)


async def test_the_head_of_a_stream_begins_none(tmp_path: Path) -> None:
    changes = Changes()

    async with serving(tmp_path / "a.sock", changes.server()):
        answer = await exchange(tmp_path / "a.sock", EVENTS.replace(b"GET", b"HEAD"))
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"\r\n\r\n")
        assert not changes.ended.is_set()
