"""Many calls and long ones, with a relay in between as without: together, in order, at their readers' pace."""

import asyncio
from collections.abc import Callable

import pytest

from cri_proxy.relay.grpcio.relay import GrpcRelay
from tests.fakes.grpc_runtime import Script
from tests.relay.clients import CallUnderWay
from tests.relay.stage import DIRECT_AND_RELAYED, Stage, until

pytestmark = DIRECT_AND_RELAYED

VERSION = "/runtime.v1.RuntimeService/Version"
EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"
UNKNOWN = "/not.yet.Invented/Method"
UNKNOWN_SHAPES = pytest.mark.parametrize("method", [UNKNOWN, "/runtime.v1.RuntimeService/NotYetInvented"])


@pytest.mark.parametrize("method", ["/runtime.v1.RuntimeService/HoldThis", UNKNOWN])
async def test_100_calls_are_in_flight_together(method: str, stage: Stage) -> None:
    """The runtime answers none before it has seen all."""
    script = Script(replies=1, together=100)
    answers = await asyncio.gather(*(stage.call(method, b"%d" % number, script=script) for number in range(100)))
    assert {(answer.code, answer.replies) for answer in answers} == {(0, (b"0 ",))}
    assert sorted(seen.requests for seen in stage.runtime.calls) == sorted([b"%d" % number] for number in range(100))


async def test_100_calls_get_their_own_answers(stage: Stage) -> None:
    requests = [b"%d" % number for number in range(100)]
    answers = await asyncio.gather(*(stage.call(VERSION, request) for request in requests))
    assert [answer.replies for answer in answers] == [(request,) for request in requests]


async def test_30_open_streams_keep_nobody_waiting_and_go_on(stage: Stage) -> None:
    script = Script(replies=3, hang=True, together=31)
    streams = [await stage.start(EVENTS, b"x", script=script) for _ in range(30)]
    await until(lambda: sum(bool(seen.requests) for seen in stage.runtime.calls) == 30)
    assert (await stage.call(VERSION, b"x")).code == 0
    for stream in streams:
        assert [await stream.read() for _ in range(3)] == [b"0 ", b"1 ", b"2 "]
        stream.cancel()


async def test_events_keep_their_order(stage: Stage) -> None:
    answer = await stage.call(EVENTS, b"x", script=Script(replies=500, reply_bytes=100))
    assert [int(reply.split()[0]) for reply in answer.replies] == list(range(500))


async def test_a_slow_reader_slows_its_stream_and_loses_nothing(stage: Stage) -> None:
    """Of 200 MB that nobody reads the runtime sends on what the windows take, and then no more; others are served."""
    stream = await stage.start(EVENTS, b"x", script=Script(replies=2000, reply_bytes=100_000))
    assert await stream.read() is not None
    seen = stage.runtime.calls[0]
    halted_at = await halt(stage, lambda: seen.written)
    assert halted_at < 2000
    for number in range(1, halted_at + 20):
        reply = await stream.read()
        assert reply is not None
        assert (int(reply.split()[0].rstrip(b".")), len(reply)) == (number, 100_000)
    stream.cancel()


async def halt(stage: Stage, progress: Callable[[], int]) -> int:
    """How far something has come once it comes no further while others make 20 calls, which are answered."""
    before = -1
    while before != progress():
        before = progress()
        assert {(await stage.call(VERSION, b"x")).code for _ in range(20)} == {0}
    return before


async def count(stream: CallUnderWay) -> int:
    return len((await stream.end()).replies)


async def test_a_slow_reader_of_requests_slows_its_caller_and_loses_nothing(stage: Stage) -> None:
    """While the runtime reads none, the caller comes to a halt: windows and buffers are finite. Others are served."""
    stream = await stage.start(UNKNOWN, script=Script(replies=1, early=True, wait=True))
    slow, sent = await stage.seen(), 0

    async def send() -> None:
        nonlocal sent
        while sent < 2000 and not stage.runtime.go_on.is_set():
            await stream.write(b"%d " % sent + bytes(100_000))
            sent += 1
        await stream.done_writing()

    sending = asyncio.get_running_loop().create_task(send())
    assert await halt(stage, lambda: sent) < 2000
    stage.runtime.go_on.set()
    assert (await stream.end()).code == 0
    await sending
    assert [int(request.split()[0]) for request in slow.requests] == list(range(sent))


# Unknown methods and services, and streams that are closed on one side


@UNKNOWN_SHAPES
async def test_an_unknown_method_is_answered_when_it_is_unary(method: str, stage: Stage) -> None:
    answer = await stage.client.unary(method, b"x")
    assert (answer.code, answer.replies) == (0, (b"x",))
    seen = await stage.seen()
    assert (seen.method, seen.requests) == (method, [b"x"])


@UNKNOWN_SHAPES
async def test_an_unknown_method_converses_before_half_close(method: str, stage: Stage) -> None:
    call = await stage.start(method)
    for message in (b"one", b"", b"three"):
        await call.write(message)
        assert await call.read() == message
    await call.done_writing()
    assert ((await call.end()).code, stage.runtime.calls[0].requests) == (0, [b"one", b"", b"three"])


@UNKNOWN_SHAPES
async def test_an_unknown_method_may_answer_before_it_is_asked(method: str, stage: Stage) -> None:
    call = await stage.start(method, script=Script(replies=2, early=True))
    assert [await call.read(), await call.read()] == [b"0 ", b"1 "]
    await call.done_writing()
    assert (await call.end()).code == 0


@UNKNOWN_SHAPES
async def test_a_call_without_a_message_arrives_without(method: str, stage: Stage) -> None:
    answer = await stage.call(method, script=Script(replies=2, trailing=(("a", "b"),)))
    assert (answer.code, answer.replies, answer.trailing) == (0, (b"0 ", b"1 "), (("a", "b"),))
    assert (await stage.seen()).requests == []


@UNKNOWN_SHAPES
async def test_replies_go_on_after_the_client_has_half_closed(method: str, stage: Stage) -> None:
    stream = await stage.start(method, b"x", script=Script(replies=50, together=2))
    await until(lambda: bool(stage.runtime.calls) and bool(stage.runtime.calls[0].requests))
    assert (await stage.call(VERSION, b"x")).code == 0  # which lets the replies begin
    assert await count(stream) == 50


@UNKNOWN_SHAPES
async def test_a_runtime_may_end_a_call_that_its_client_has_not(method: str, stage: Stage) -> None:
    call = await stage.start(method, script=Script(read=False, replies=1, code=5, message="enough"))
    answer = await call.end()
    assert (answer.code, answer.details, answer.replies) == (5, "enough", (b"0 ",))
    assert (await stage.call(VERSION, b"x")).code == 0


async def test_a_runtime_may_end_an_upload_in_the_middle(stage: Stage) -> None:
    """What was on its way is nobody's any more, and takes nothing from the connection's other calls."""
    # grpcio's streams lose the status of a call whose end a write of theirs meets, and the relay on grpcio says
    # UNAVAILABLE of that
    codes = {8, 14} if isinstance(stage.relay, GrpcRelay) else {8}
    for _ in range(5):
        call = await stage.start(UNKNOWN, script=Script(read=False, code=8, message="too much"))
        await call.write(bytes(60_000))
        await call.write(bytes(60_000))
        assert (await call.end()).code in codes
    upload = bytes(500_000)
    assert (await stage.call(VERSION, upload)).replies == (upload,)
