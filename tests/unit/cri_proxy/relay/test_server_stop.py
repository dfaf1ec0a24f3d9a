"""How a splice relay stops and leaves: which calls it waits for, and what its clients are told."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cri_proxy.http2 import frames
from cri_proxy.relay import server
from cri_proxy.relay.calls import Aborted
from tests.fakes.http2 import GREETING, parse, request, trailers
from tests.fakes.splice_house import Ends, House, built
from tests.fakes.waiting import holds

HOLD = "/s/HoldThis"
EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with built(tmp_path) as house:
        yield house


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that leaves has a minute for it: a process may stand still between two lines of a test."""
    monkeypatch.setattr(server, "_LEAVING_SECONDS", 60)


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
    task = asyncio.get_running_loop().create_task(house.relay.stop(120, for_streams=for_streams))
    ping = parse(await client[0].readexactly(34))[1]
    client[1].write(frames.frame(frames.PING, frames.ACK, 0, ping[3]))
    return task


LEAVE = frames.frame(frames.GOAWAY, 0, 0, (2**31 - 1).to_bytes(4, "big") + bytes(4))
LAST_WORD = frames.frame(frames.GOAWAY, 0, 0, (1).to_bytes(4, "big") + bytes(4))


@pytest.mark.usefixtures("patient")
async def test_a_stream_without_end_is_not_waited_for_and_ends_between_two_frames(house: House) -> None:
    client, runtime = await begun(house, EVENTS)
    event = frames.frame(frames.DATA, 0, 1, bytes(100))
    runtime[1].write(event + event[:50])
    await client[0].readexactly(len(event))
    task = await stopping(house, client)
    assert await client[0].read() == LAST_WORD
    await task


@pytest.mark.usefixtures("patient")
async def test_a_call_that_lasts_gets_its_answer_before_its_client_is_asked_to_leave(house: House) -> None:
    """A client that has left waits for the next process, in vain as long as this one waits for the call."""
    client, runtime = await begun(house, "/s/Pass")
    task = asyncio.get_running_loop().create_task(house.relay.stop(120))
    await asyncio.sleep(0)
    runtime[1].write(trailers(1, 5, b"gone"))
    answer = trailers(1, 5, b"gone")
    assert await client[0].readexactly(len(answer)) == answer
    ping = parse(await client[0].readexactly(34))[1]
    client[1].write(frames.frame(frames.PING, frames.ACK, 0, ping[3]))
    assert await client[0].read() == LAST_WORD
    await task


async def read_past(reader: asyncio.StreamReader, mark: bytes) -> None:
    """Read until this has come, however much comes before it; a reader's own limit is 64 KiB."""
    seen = b""
    while mark not in seen:
        piece = await reader.read(1 << 16)
        assert piece, "closed before that"
        seen = seen[-len(mark) :] + piece


async def test_calls_that_come_and_go_do_not_keep_clients_from_leaving(house: House) -> None:
    """There is always one in flight, and none of them for long."""
    (client, runtime), loop = await begun(house, "/s/Pass"), asyncio.get_running_loop()
    task, leaving = loop.create_task(house.relay.stop(60)), loop.create_task(read_past(client[0], LEAVE))
    for stream in range(3, 2**16, 2):
        client[1].write(request(stream, "/s/Pass", b"x"))
        await runtime[0].readuntil(request(stream, "/s/Pass", b"x"))
        runtime[1].write(trailers(stream - 2, 5, b"gone"))
        if leaving.done():
            break
    assert leaving.done()
    client[1].close()
    await task


async def test_a_call_that_does_not_end_is_waited_for_as_long_as_there_is_grace(house: House) -> None:
    client, _ = await begun(house, "/s/Pass")
    began_at = asyncio.get_running_loop().time()
    await house.relay.stop(0.7)
    assert asyncio.get_running_loop().time() - began_at > 0.6
    assert (await client[0].read()).endswith(LAST_WORD)


@pytest.mark.usefixtures("patient")
async def test_a_call_that_was_sent_before_its_client_knew_is_carried_out(house: House) -> None:
    client, runtime = await house.pair()
    client[1].write(GREETING)
    runtime[1].write(frames.settings([]))
    await client[0].readexactly(9)
    task = asyncio.get_running_loop().create_task(house.relay.stop(120))
    ping = parse(await client[0].readexactly(34))[1]
    client[1].write(request(1, "/s/Pass", b"x") + frames.frame(frames.PING, frames.ACK, 0, ping[3]))
    await runtime[0].readuntil(request(1, "/s/Pass", b"x"))
    runtime[1].write(trailers(1, 5, b"gone"))
    assert await client[0].read() == trailers(1, 5, b"gone") + LAST_WORD
    await task


@pytest.mark.usefixtures("patient")
async def test_every_client_is_waited_for(house: House) -> None:
    """One has left and has nothing in flight, the other has sent a call before it reads that it shall leave."""
    first, _ = await begun(house, EVENTS)
    client, runtime = await begun(house, EVENTS)
    task = asyncio.get_running_loop().create_task(house.relay.stop(120))
    pings = [parse(await each[0].readexactly(34))[1][3] for each in (first, client)]
    first[1].write(frames.frame(frames.PING, frames.ACK, 0, pings[0]))
    client[1].write(request(3, "/s/Pass", b"x") + frames.frame(frames.PING, frames.ACK, 0, pings[1]))
    await runtime[0].readuntil(request(3, "/s/Pass", b"x"))
    runtime[1].write(trailers(3, 5, b"gone"))
    assert (await client[0].read()).startswith(trailers(3, 5, b"gone"))
    await task


async def test_the_last_answers_of_a_stopping_relay_reach_a_client_that_reads_them_late(house: House) -> None:
    client, runtime = await begun(house, EVENTS)
    events = frames.frame(frames.DATA, 0, 1, bytes(1000)) * 800
    runtime[1].write(events)
    (pair,) = house.relay._pairs
    await holds("the relay has them", lambda: pair.received_bytes[1] >= len(events))
    assert pair.client.unsent_bytes
    stopping = asyncio.get_running_loop().create_task(house.relay.stop(0))
    assert (await client[0].read()).endswith(LAST_WORD)
    await stopping


async def test_a_relay_that_has_stopped_has_no_task_and_no_pair(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def connected(path: str) -> socket.socket:
        await asyncio.Event().wait()
        raise AssertionError(path)

    monkeypatch.setattr(server, "connected", connected)
    await house.client()
    await holds("a client is served", lambda: bool(house.relay._pairs))
    await house.relay.stop(0)
    assert (len(house.relay.tasks), house.relay._pairs) == (0, set())


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


@pytest.mark.usefixtures("patient")
async def test_a_client_that_answers_is_not_waited_for_any_longer(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_FLUSH_SECONDS", 60)
    client, _ = await begun(house, EVENTS)
    await asyncio.wait_for(await stopping(house, client), 30)


async def test_a_pair_that_is_closed_already_is_waited_for_only_until_its_last_bytes_could_be_written(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call of it that was passing has no answer to wait for, and its client none to give."""
    monkeypatch.setattr(server, "_LEAVING_SECONDS", 60)
    monkeypatch.setattr(server, "_FLUSH_SECONDS", 0.01)
    _, runtime = await begun(house, "/s/Pass")
    runtime[1].write(frames.frame(frames.PRIORITY, 0, 7, bytes(5)) * 50_000)  # which the client does not read
    runtime[1].close()
    (pair,) = house.relay._pairs
    await holds("the pair is closed", lambda: pair.closed)
    assert house.relay._pairs == {pair}
    await asyncio.wait_for(house.relay.stop(60), 20)


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


async def test_stopping_without_grace_ends_everything(house: House) -> None:
    (reader, client), _ = await house.pair()
    client.write(GREETING + request(1, HOLD, b"wait..."))
    while not house.interceptor.asked:  # noqa: ASYNC110 - bounded by the fixture
        await asyncio.sleep(0.002)
    await house.relay.stop(0)
    assert await house.told() == [Aborted(sent=False)]
    with pytest.raises(FileNotFoundError):
        await asyncio.open_unix_connection(house.path)
    await reader.read()
