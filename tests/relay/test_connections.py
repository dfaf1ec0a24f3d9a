"""What belongs to a connection, not to a call: PING, GOAWAY, SETTINGS, windows. The runtime is one on python-h2.

The splice passes all of it from end to end; the gRPC relay keeps it hop by hop. Either way calls come to what they
should, and neither end may find a frame that breaks the rules.
"""

import asyncio
from collections.abc import Callable

import pytest

from cri_proxy.relay.calls import Aborted, Replied
from cri_proxy.relay.grpcio.relay import GrpcRelay
from tests.relay.clients import GrpcioClient
from tests.relay.h2_client import Codes, H2Client, Line, Shape
from tests.relay.stage import CLIENTS, H2_ONLY, RELAY_VIAS, VIAS, Place, Stage, until

HOLD, PASS = "/runtime.v1.RuntimeService/HoldThis", "/runtime.v1.RuntimeService/Version"
WINDOWS = {1: 40, 100: 10_000, 2**31 - 1: 300_000}  # a window, and a message that is worth it


async def line_of(stage: Stage) -> Line:
    assert isinstance(stage.client, H2Client)
    return await stage.client.line()


# Windows


@VIAS
@H2_ONLY
@pytest.mark.parametrize("window", WINDOWS)
async def test_replies_come_through_a_clients_windows_of_any_size(place: Place, window: int) -> None:
    async with place.staged(client=Shape(window_bytes=window), runtime=Shape()) as stage:
        message = b"." * WINDOWS[window]
        for method in (PASS, HOLD):
            answers = await asyncio.gather(*(stage.call(method, message) for _ in range(3)))
            assert {answer.replies for answer in answers} == {(message,)}


@VIAS
@CLIENTS
@pytest.mark.parametrize("window", WINDOWS)
async def test_requests_go_through_a_runtimes_windows_of_any_size(place: Place, window: int) -> None:
    async with place.staged(runtime=Shape(window_bytes=window)) as stage:
        message = b"." * WINDOWS[window]
        for method in (PASS, HOLD):
            answers = await asyncio.gather(*(stage.call(method, message) for _ in range(3)))
            assert {answer.replies for answer in answers} == {(message,)}


@RELAY_VIAS
@CLIENTS
@pytest.mark.parametrize("window", WINDOWS)
async def test_rewritten_requests_go_through_a_runtimes_windows_of_any_size(place: Place, window: int) -> None:
    async with place.staged(runtime=Shape(window_bytes=window)) as stage:
        message = b"rewrite" + b"." * WINDOWS[window]
        answers = await asyncio.gather(*(stage.call(HOLD, message) for _ in range(3)))
        assert {answer.replies for answer in answers} == {(message + b" rewritten",)}
        assert [outcome for _, outcome in stage.interceptor.outcomes] == [Replied(message + b" rewritten")] * 3


@pytest.mark.parametrize("via", ["direct", "splice"])  # grpcio takes unary replies in whole, up to 16 MiB each
@H2_ONLY
async def test_a_client_that_takes_nothing_off_its_socket_slows_the_runtime(place: Place) -> None:
    """With windows without end only the sockets are left to say that somebody reads no more."""
    shape = Shape(window_bytes=2**31 - 1, frame_bytes=1 << 20)
    async with place.staged(client=shape, runtime=shape) as stage:
        line = await line_of(stage)
        message = bytes(4_000_000)
        calls = await stage.held(*((method, message) for method in (PASS, PASS, PASS, HOLD)))
        line.pause()
        stage.other.release()
        assert await settles(stage.other.lines[0].unwritten_bytes) > 10_000_000
        line.resume()
        assert {(await call.end()).replies for call in calls} == {(message,)}


async def settles(number: Callable[[], int]) -> int:
    """A number once it does not change any more."""
    before = -1
    while before != number():
        before = number()
        for _ in range(20):
            await asyncio.sleep(0.005)
    return before


# SETTINGS


def changed(window_bytes: int, table_bytes: int) -> dict[int, int]:
    frame_bytes = 16_384 + window_bytes % 90_000
    return {
        Codes.INITIAL_WINDOW_SIZE: window_bytes,
        Codes.HEADER_TABLE_SIZE: table_bytes,
        Codes.MAX_FRAME_SIZE: frame_bytes,
    }


@VIAS
@H2_ONLY
async def test_a_client_may_change_its_settings_while_calls_go_on(place: Place) -> None:
    async with place.staged(runtime=Shape()) as stage:
        line = await line_of(stage)
        message = b"x" * 100_000
        for size, table in ((5000, 0), (300_000, 65_536), (1000, 4096), (2**31 - 1, 100)):
            calls = [await stage.start(method, message) for method in (PASS, HOLD, PASS)]
            line.change_settings(changed(size, table))
            assert {(await call.end()).replies for call in calls} == {(message,)}
            await until(lambda: line.unacknowledged == 0)


@VIAS
@CLIENTS
async def test_a_runtime_may_change_its_settings_while_calls_go_on(place: Place) -> None:
    async with place.staged(runtime=Shape()) as stage:
        message = b"x" * 200_000
        metadata = [("echo", "again and again")]
        # grpcio's core, as a client or in its relay, sends larger frames before it has acknowledged that it may, and
        # does not always tell that it has made its table smaller. python-h2 complains of either, directly too.
        is_grpcio = isinstance(stage.client, GrpcioClient) or isinstance(stage.relay, GrpcRelay)
        await stage.call(PASS, b"x")
        for size, table in ((100_000, 0), (300_000, 65_536), (400_000, 4096), (2**31 - 1, 100)):
            calls = [await stage.start(method, message, metadata=metadata) for method in (PASS, HOLD, PASS)]
            windows: dict[int, int] = {Codes.INITIAL_WINDOW_SIZE: size}
            stage.other.lines[0].change_settings(windows if is_grpcio else changed(size, table))
            answers = [await call.end() for call in calls]
            assert {(answer.replies, answer.initial) for answer in answers} == {((message,), tuple(metadata))}
            await until(lambda: stage.other.lines[0].unacknowledged == 0)


@VIAS
@CLIENTS
async def test_a_runtimes_limit_of_streams_is_kept(place: Place) -> None:
    async with place.staged(runtime=Shape(streams=5)) as stage:
        await stage.call(PASS, b"x")  # the limit is known from here on
        stage.other.is_holding = True
        calls = asyncio.gather(*(stage.call(method, b"x") for method in (PASS, HOLD) for _ in range(10)))
        await until(lambda: sum(not r.begun and r.is_complete for r in stage.other.calls) == 5)
        stage.other.release()
        assert {(answer.code, answer.replies) for answer in await calls} == {(0, (b"x",))}


# PING


@VIAS
@H2_ONLY
async def test_a_clients_ping_is_answered(place: Place) -> None:
    async with place.staged(runtime=Shape()) as stage:
        line = await line_of(stage)
        for number in range(20):
            line.ping(b"client%02d" % number)
            assert (await stage.call(HOLD, b"x")).code == 0
        await until(lambda: line.answered == [b"client%02d" % number for number in range(20)])


@VIAS
@CLIENTS
async def test_a_runtimes_ping_is_answered(place: Place) -> None:
    async with place.staged(runtime=Shape()) as stage:
        await stage.call(PASS, b"x")
        line = stage.other.lines[0]
        line.ping(b"runtime1")
        await until(lambda: line.answered == [b"runtime1"])
        if isinstance(stage.client, H2Client):  # a relay answers for itself
            assert (b"runtime1" in stage.client.lines[0].pinged) is (stage.relay is None)


# GOAWAY


@VIAS
@CLIENTS
@pytest.mark.parametrize("method", [PASS, HOLD])
async def test_a_runtime_that_leaves_ends_its_calls_and_new_ones_find_a_new_connection(
    place: Place, method: str
) -> None:
    async with place.staged(runtime=Shape()) as stage:
        calls = await stage.held(*((method, b"%d" % number) for number in range(5)))
        stage.other.lines[0].go_away(2**31 - 1)
        stage.other.release()
        assert [(await call.end()).replies for call in calls] == [(b"%d" % number,) for number in range(5)]
        await until(lambda: stage.other.lines[0].is_over)
        assert (await stage.call(method, b"new")).replies == (b"new",)
        assert len(stage.other.lines) == 2


@RELAY_VIAS
@CLIENTS
async def test_a_held_call_that_a_leaving_runtime_did_not_take_had_no_effect(place: Place) -> None:
    """Stream 1 it did; what came later comes again on another connection, or fails as never processed."""
    async with place.staged(runtime=Shape()) as stage:
        calls = await stage.held(*((HOLD, b"%d" % number) for number in range(3)))
        stage.other.lines[0].go_away(1)
        stage.other.release()
        codes = [(await call.end()).code for call in calls]
        assert (0 in codes, set(codes) <= {0, 14}) == (True, True)
        await until(lambda: len(stage.interceptor.outcomes) >= 3)
        if not isinstance(stage.relay, GrpcRelay):  # which does not learn from grpcio what was never processed
            told = [outcome for _, outcome in stage.interceptor.outcomes]
            assert codes[0] == 0
            assert set(told) <= {Replied(b"0"), Replied(b"1"), Replied(b"2"), Aborted(sent=False)}
            assert told.count(Aborted(sent=False)) == 2


@RELAY_VIAS
@CLIENTS
@pytest.mark.parametrize("method", [PASS, HOLD])
async def test_a_relay_that_leaves_lets_calls_end(place: Place, method: str) -> None:
    async with place.staged(runtime=Shape()) as stage:
        calls = await stage.held(*((method, b"%d" % number) for number in range(5)))
        assert stage.relay is not None
        await stage.relay.leave()
        stage.other.release()
        assert [(await call.end()).replies for call in calls] == [(b"%d" % number,) for number in range(5)]
