import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.relay.calls import Aborted, Call, Forward, Outcome, Refuse, Verdict
from cri_proxy.relay.server import SpliceRelay
from tests.fakes.http2 import GREETING, parse, request, trailers
from tests.fakes.scripted_interceptor import ScriptedInterceptor

HOLD = "/s/HoldThis"
EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"
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


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with built(tmp_path) as house:
        yield house


async def told(house: House) -> list[object]:
    while not house.interceptor.outcomes:  # noqa: ASYNC110 - bounded by the fixture
        await asyncio.sleep(0.002)
    return [outcome for _, outcome in house.interceptor.outcomes]


async def test_bytes_reach_the_other_side(house: House) -> None:
    (_, client), (runtime, _) = await house.pair()
    client.write(GREETING + request(1, "/s/Pass", b"x"))
    data = await runtime.readuntil(request(1, "/s/Pass", b"x"))
    assert data.startswith(frames.PREFACE)


async def test_bytes_that_come_before_the_runtime_is_connected_are_kept(house: House) -> None:
    _, client = await house.client()
    client.write(GREETING + request(1, "/s/Pass", b"x" * 100_000))
    runtime, writer = await house.accepted.get()
    house.writers.append(writer)
    await runtime.readuntil(request(1, "/s/Pass", b"x" * 100_000)[-100:])


@pytest.mark.parametrize("side", [0, 1])
async def test_when_one_side_ends_so_does_the_other(side: int, house: House) -> None:
    ends = await house.pair()
    ends[side][1].close()
    assert await ends[1 - side][0].read() == b""


async def test_what_was_on_its_way_arrives_before_the_end(house: House) -> None:
    (client, _), (_, runtime) = await house.pair()
    last = b"".join(frames.frame(frames.PING, 0, 0, bytes(8)) for _ in range(50_000))
    runtime.write(last)
    runtime.close()
    assert await client.read() == last


async def test_without_a_runtime_the_client_is_closed_at_once(tmp_path: Path) -> None:
    async with built(tmp_path, runtime=False) as house:
        reader, _ = await house.client()
        assert await reader.read() == b""


async def test_a_malformed_frame_ends_its_own_pair_and_no_other(house: House) -> None:
    bad, good = await house.pair(), await house.pair()
    bad[0][1].write(b"GET / HTTP/1.1\r\n\r\n")
    assert (await bad[0][0].read(), await bad[1][0].read()) == (b"", b"")
    good[0][1].write(GREETING)
    assert await good[1][0].readexactly(24) == frames.PREFACE
    assert [type(error) for error in house.errors] == [ProtocolError]


async def test_a_client_that_leaves_ends_its_held_call(house: House) -> None:
    (_, client), _ = await house.pair()
    client.write(GREETING + request(1, HOLD, b"wait..."))
    while not house.interceptor.asked:  # noqa: ASYNC110 - bounded by the fixture
        await asyncio.sleep(0.002)
    client.close()
    assert await told(house) == [Aborted(sent=False)]


async def test_an_interceptor_that_answers_although_it_was_cancelled_changes_nothing(tmp_path: Path) -> None:
    async def stubborn(call: Call) -> Verdict:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Forward()
        return Forward()

    async with built(tmp_path, interceptor=ScriptedInterceptor(stubborn)) as house:
        (_, client), (runtime, _) = await house.pair()
        client.write(GREETING + request(1, HOLD, b"message"))
        while not house.interceptor.asked:  # noqa: ASYNC110 - bounded by the fixture
            await asyncio.sleep(0.002)
        client.write(frames.rst_stream(1, frames.CANCEL))
        assert await told(house) == [Aborted(sent=False)]
        client.write_eof()
        assert b"message" not in await runtime.read()


async def test_a_runtime_that_does_not_read_slows_the_client(house: House) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(house.path)
        client.setblocking(False)
        _, writer = await house.accepted.get()
        house.writers.append(writer)
        frame = frames.frame(0xBE, 0, 0, bytes(16_000))
        client.send(GREETING)
        sent = idle = 0
        while idle < 50:
            try:
                sent += client.send(frame)
                idle = 0
            except BlockingIOError:
                idle += 1
                await asyncio.sleep(0.001)
            assert sent < 8_000_000


async def test_a_client_that_reads_no_answers_is_left_when_they_have_piled_up(house: House) -> None:
    """Its calls are refused by the relay itself, so no back pressure of the runtime stops it."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        await loop.sock_connect(client, house.path)
        runtime, writer = await asyncio.wait_for(house.accepted.get(), 20)
        house.writers.append(writer)
        writer.write(frames.settings([]))
        reading = loop.create_task(runtime.read(-1))
        await loop.sock_sendall(client, GREETING)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for stream in range(1, 1_000_000, 200):
                calls = b"".join(request(stream + 2 * number, "/s.Old/Any", b"") for number in range(100))
                await loop.sock_sendall(client, calls)
        assert stream < 200_000  # what the sockets' own buffers take is some thousands
        await asyncio.wait_for(reading, 20)
        while house.relay.boundary.traffic._relays[0]().connections:  # noqa: ASYNC110 - bounded by the fixture
            await asyncio.sleep(0.002)
    assert [str(error) for error in house.errors if "has not read" in str(error)]


async def test_a_client_that_breaks_http2_and_does_not_read_why_is_gone_all_the_same(house: House) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        await loop.sock_connect(client, house.path)
        _, writer = await asyncio.wait_for(house.accepted.get(), 20)
        house.writers.append(writer)
        await loop.sock_sendall(client, GREETING)
        writer.write(frames.settings([]) + frames.frame(frames.PING, 0, 0, bytes(8)) * 50_000)
        await writer.drain()
        await loop.sock_sendall(client, frames.frame(frames.CONTINUATION, 0, 1, b""))
        while house.relay.boundary.traffic._relays[0]().connections:  # noqa: ASYNC110 - bounded by the fixture
            await asyncio.sleep(0.002)


async def test_a_client_that_breaks_http2_learns_why(house: House) -> None:
    (reader, client), (_, runtime) = await house.pair()
    client.write(GREETING)
    runtime.write(frames.settings([]))
    await reader.readexactly(9)
    client.write(request(1, "/s/Pass", b"x") + frames.frame(frames.DATA, 0, 1, bytes(16_384)) * 4)
    assert await reader.read() == frames.frame(frames.GOAWAY, 0, 0, b"\0\0\0\1\0\0\0\3")


async def test_stopping_asks_clients_to_leave_and_waits_for_them(house: House) -> None:
    (reader, client), (_, runtime) = await house.pair()
    client.write(GREETING)
    runtime.write(frames.settings([]))
    assert parse(await reader.readexactly(9))[0][0] == frames.SETTINGS
    stopping = asyncio.get_running_loop().create_task(house.relay.stop(5))
    goaway = await reader.readexactly(17)
    assert parse(goaway)[0][0] == frames.GOAWAY
    assert not stopping.done()
    client.close()
    await stopping


async def begun(house: House, method: str) -> tuple[Ends, Ends]:
    """A client with this call under way, which has read the runtime's greeting."""
    client, runtime = await house.pair()
    client[1].write(GREETING + request(1, method, b"x"))
    await runtime[0].readuntil(request(1, method, b"x"))
    runtime[1].write(frames.settings([]))
    await client[0].readexactly(9)
    return client, runtime


async def stopping(house: House, client: Ends, *, for_streams: bool = False) -> "asyncio.Task[None]":
    """The relay stops and its client has read that it shall leave, and says so."""
    task = asyncio.get_running_loop().create_task(house.relay.stop(60, for_streams=for_streams))
    ping = parse(await client[0].readexactly(34))[1]
    client[1].write(frames.frame(frames.PING, frames.ACK, 0, ping[3]))
    return task


LAST_WORD = frames.frame(frames.GOAWAY, 0, 0, (1).to_bytes(4, "big") + bytes(4))


async def test_a_stream_without_end_is_not_waited_for_and_ends_between_two_frames(house: House) -> None:
    client, runtime = await begun(house, EVENTS)
    event = frames.frame(frames.DATA, 0, 1, bytes(100))
    runtime[1].write(event + event[:50])
    await client[0].readexactly(len(event))
    task = await stopping(house, client)
    assert await client[0].read() == LAST_WORD
    await task


async def test_a_call_under_way_is_waited_for_and_gets_its_answer(house: House) -> None:
    client, runtime = await begun(house, "/s/Pass")
    task = await stopping(house, client)
    assert not task.done()
    runtime[1].write(trailers(1, 5, b"gone"))
    assert await client[0].read() == trailers(1, 5, b"gone") + LAST_WORD
    await task


async def test_a_call_that_was_sent_before_its_client_knew_is_carried_out(house: House) -> None:
    client, runtime = await house.pair()
    client[1].write(GREETING)
    runtime[1].write(frames.settings([]))
    await client[0].readexactly(9)
    task = asyncio.get_running_loop().create_task(house.relay.stop(60))
    ping = parse(await client[0].readexactly(34))[1]
    client[1].write(request(1, "/s/Pass", b"x") + frames.frame(frames.PING, frames.ACK, 0, ping[3]))
    await runtime[0].readuntil(request(1, "/s/Pass", b"x"))
    runtime[1].write(trailers(1, 5, b"gone"))
    assert await client[0].read() == trailers(1, 5, b"gone") + LAST_WORD
    await task


async def test_a_relay_that_drains_for_a_successor_waits_for_streams_too(house: House) -> None:
    client, runtime = await begun(house, EVENTS)
    task = await stopping(house, client, for_streams=True)
    runtime[1].write(frames.frame(frames.DATA, 0, 1, bytes(100)))
    await client[0].readexactly(109)
    assert not task.done()
    client[1].close()
    await task


async def test_a_client_that_says_nothing_holds_the_end_up_for_a_moment_only(house: House) -> None:
    client, _ = await begun(house, EVENTS)
    await house.relay.stop(60)
    assert (await client[0].read()).endswith(LAST_WORD)


async def goes_away(client: Ends, runtime: Ends) -> None:
    """Wait until the client has the runtime's greeting, and after it the wish that it leave."""
    runtime[1].write(frames.settings([]))
    await client[0].readuntil(frames.settings([]))
    await client[0].readuntil(bytes([0, 0, 8, frames.GOAWAY]))


async def test_who_has_connected_before_a_relay_leaves_is_served_and_asked_to_leave(house: House) -> None:
    """Even where the loop has had no time yet to accept the connection."""
    with socket.socket(socket.AF_UNIX) as early:
        early.connect(house.path)
        await house.relay.leave()
        with pytest.raises(FileNotFoundError):
            await asyncio.open_unix_connection(house.path)
        client = await asyncio.open_unix_connection(sock=early)
        runtime = await asyncio.wait_for(house.accepted.get(), 20)
        house.writers += [client[1], runtime[1]]
        client[1].write(GREETING)
        await goes_away(client, runtime)


async def test_calls_go_on_after_a_relay_has_left(house: House) -> None:
    client, runtime = await house.pair()
    client[1].write(GREETING + request(1, HOLD, b"message"))
    await house.relay.leave()
    await goes_away(client, runtime)
    runtime[1].write(trailers(1, 5, b"gone"))
    await client[0].readuntil(b"gone")


async def test_a_call_that_nobody_has_looked_at_is_turned_away(tmp_path: Path) -> None:
    async def unseen(call: Call) -> Verdict:
        return Refuse(14, "elsewhere", was_unseen=True)

    async with built(tmp_path, ScriptedInterceptor(unseen)) as house:
        (reader, client), (_, runtime) = await house.pair()
        client.write(GREETING + request(1, HOLD, b"message"))
        runtime.write(frames.settings([]))
        await reader.readuntil(frames.rst_stream(1, frames.REFUSED_STREAM))


async def test_stopping_without_grace_ends_everything(house: House) -> None:
    (reader, client), _ = await house.pair()
    client.write(GREETING + request(1, HOLD, b"wait..."))
    while not house.interceptor.asked:  # noqa: ASYNC110 - bounded by the fixture
        await asyncio.sleep(0.002)
    await house.relay.stop(0)
    assert await told(house) == [Aborted(sent=False)]
    with pytest.raises(FileNotFoundError):
        await asyncio.open_unix_connection(house.path)
    await reader.read()


class Peeks(ScriptedInterceptor):
    """Looks at what its client could read at the moment when it is told an outcome."""

    client = -1
    read = b"nothing told"

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        self.read = b""
        with socket.socket(fileno=os.dup(self.client)) as client, suppress(BlockingIOError):
            self.read = client.recv(1000, socket.MSG_PEEK | socket.MSG_DONTWAIT)


async def test_an_outcome_is_told_before_a_byte_of_what_came_with_it_goes_to_the_client(tmp_path: Path) -> None:
    peeks = Peeks()
    async with built(tmp_path, interceptor=peeks) as house:
        (reader, client), (_, runtime) = await house.pair()
        peeks.client = client.get_extra_info("socket").fileno()
        client.write(GREETING + request(1, HOLD, b"message"))
        while not peeks.asked:  # noqa: ASYNC110 - bounded by the fixture
            await asyncio.sleep(0.002)
        runtime.write(trailers(1, 5, b"gone"))
        await reader.readuntil(b"gone")
        assert peeks.read == b""
