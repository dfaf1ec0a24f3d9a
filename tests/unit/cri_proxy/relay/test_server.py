import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.relay import server
from cri_proxy.relay.calls import Aborted, Call, Forward, Outcome, Refuse, Verdict
from cri_proxy.relay.server import SpliceRelay
from cri_proxy.relay.traffic import RelayTotals
from tests.fakes.http2 import GREETING, request, trailers
from tests.fakes.scripted_interceptor import ScriptedInterceptor
from tests.fakes.splice_house import House, built
from tests.fakes.waiting import holds

HOLD = "/s/HoldThis"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with built(tmp_path) as house:
        yield house


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


async def test_the_bytes_of_connections_that_have_ended_count(house: House) -> None:
    totals = house.relay.boundary.traffic._relays[0]
    client, runtime = await house.pair()
    client[1].write(GREETING)
    await runtime[0].readexactly(len(GREETING))
    runtime[1].write(frames.settings([]))
    await client[0].readexactly(9)
    assert totals() == RelayTotals(1, len(GREETING), 9)
    client[1].close()
    await holds("the client is forgotten", lambda: not house.relay._pairs)
    assert totals() == RelayTotals(0, len(GREETING), 9)


@pytest.mark.parametrize("side", [0, 1])
async def test_when_one_side_ends_so_does_the_other(side: int, house: House) -> None:
    ends = await house.pair()
    ends[side][1].close()
    assert await ends[1 - side][0].read() == b""


async def test_what_was_on_its_way_arrives_before_the_end(house: House) -> None:
    (client, _), (_, runtime) = await house.pair()
    last = frames.frame(frames.PRIORITY, 0, 7, bytes(5)) * 50_000
    runtime.write(last)
    runtime.close()
    assert await client.read() == last


async def test_without_a_runtime_the_client_is_closed_at_once(tmp_path: Path) -> None:
    async with built(tmp_path, runtime=False) as house:
        reader, _ = await house.client()
        assert await reader.read() == b""
        assert (house.errors, house.relay.boundary.traffic._relays[0]()) == ([], RelayTotals())


async def test_a_runtime_that_accepts_when_the_client_has_been_closed_is_left_at_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, runtime = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    accepts = asyncio.Event()

    async def connected(path: str) -> socket.socket:
        await accepts.wait()
        return ours

    monkeypatch.setattr(server, "connected", connected)
    await house.client()
    await holds("a client is served", lambda: bool(house.relay._pairs))
    (pair,) = house.relay._pairs
    pair.close()
    accepts.set()
    await house.relay.tasks.join()
    assert (runtime.recv(1), pair.runtime, house.errors) == (b"", None, [])
    runtime.close()


def test_a_relay_whose_errors_go_nowhere_is_not_stopped_by_one() -> None:
    relay = SpliceRelay(listen="/listen", runtime="/runtime", interceptor=ScriptedInterceptor())
    relay.on_error(ProtocolError("of a client"))


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
    assert await house.told() == [Aborted(sent=False)]


async def test_headers_go_to_the_runtime_with_their_message_or_before_what_others_send(tmp_path: Path) -> None:
    decided = asyncio.Event()

    async def late(call: Call) -> Verdict:
        await decided.wait()
        return Forward()

    async with built(tmp_path, interceptor=ScriptedInterceptor(late)) as house:
        (_, client), (runtime, _) = await house.pair()
        first, second, other = request(1, HOLD, b"one"), request(3, HOLD, b"two"), request(5, "/s/Pass", b"x")
        client.write(GREETING)
        await runtime.readexactly(len(GREETING) + 6)  # with the size of the compression table
        client.write(first)
        await holds("the first is asked about", lambda: len(house.interceptor.asked) == 1)
        (pair,) = house.relay._pairs
        assert (b"".join(pair._splice.to_runtime), runtime._buffer) == (headers_of(first), b"")  # type: ignore[attr-defined]
        client.write(second + other)
        assert await runtime.readuntil(other) == headers_of(first) + headers_of(second) + other
        decided.set()
        bodies = await runtime.readexactly(len(first + second) - len(headers_of(first) + headers_of(second)))
        assert bodies == first.removeprefix(headers_of(first)) + second.removeprefix(headers_of(second))


def headers_of(request: bytes) -> bytes:
    return request[: frames.HEADER_BYTES + int.from_bytes(request[:3], "big")]


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
        assert await house.told() == [Aborted(sent=False)]
        client.write_eof()
        assert b"message" not in await runtime.read()
        assert house.errors == []


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


async def test_a_client_that_breaks_http2_learns_why_at_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_FLUSH_SECONDS", 600)
    (reader, client), (_, runtime) = await house.pair()
    client.write(GREETING)
    runtime.write(frames.settings([]))
    await reader.readexactly(9)
    client.write(request(1, "/s/Pass", b"x") + frames.frame(frames.DATA, 0, 1, bytes(16_384)) * 4)
    assert await asyncio.wait_for(reader.read(), 20) == frames.frame(frames.GOAWAY, 0, 0, b"\0\0\0\1\0\0\0\3")


async def test_a_call_that_nobody_has_looked_at_is_turned_away(tmp_path: Path) -> None:
    async def unseen(call: Call) -> Verdict:
        return Refuse(14, "elsewhere", was_unseen=True)

    async with built(tmp_path, ScriptedInterceptor(unseen)) as house:
        (reader, client), (_, runtime) = await house.pair()
        client.write(GREETING + request(1, HOLD, b"message"))
        runtime.write(frames.settings([]))
        await reader.readuntil(frames.rst_stream(1, frames.REFUSED_STREAM))
        (pair,) = house.relay._pairs
        assert pair._asked == {}


class Ordered(ScriptedInterceptor):
    """Notes how many outcomes it had been told when each call came."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[int] = []

    async def on_request(self, call: Call) -> Verdict:
        self.told.append(len(self.outcomes))
        return await super().on_request(call)


async def test_a_caller_that_has_read_its_reply_finds_the_outcome_told(tmp_path: Path) -> None:
    ordered = Ordered()
    async with built(tmp_path, interceptor=ordered) as house:
        (reader, client), (_, runtime) = await house.pair()
        client.write(GREETING + request(1, HOLD, b"message"))
        await holds("the first call came", lambda: ordered.told == [0])
        runtime.write(trailers(1, 5, b"gone"))
        await reader.readuntil(b"gone")
        client.write(request(3, HOLD, b"message"))
        await holds("the next call came", lambda: len(ordered.told) == 2)
        assert ordered.told == [0, 1]


class Peeks(ScriptedInterceptor):
    """Looks at what its client could read at the moment when it is told an outcome."""

    client = -1
    read = b"nothing told"

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        self.read = b""
        with socket.socket(fileno=os.dup(self.client)) as client, suppress(BlockingIOError):
            self.read = client.recv(1000, socket.MSG_PEEK | socket.MSG_DONTWAIT)


async def test_a_reply_does_not_wait_for_what_is_done_about_it(tmp_path: Path) -> None:
    peeks = Peeks()
    async with built(tmp_path, interceptor=peeks) as house:
        (reader, client), (_, runtime) = await house.pair()
        peeks.client = client.get_extra_info("socket").fileno()
        client.write(GREETING + request(1, HOLD, b"message"))
        while not peeks.asked:  # noqa: ASYNC110 - bounded by the fixture
            await asyncio.sleep(0.002)
        runtime.write(trailers(1, 5, b"gone"))
        await reader.readuntil(b"gone")
        assert b"gone" in peeks.read
