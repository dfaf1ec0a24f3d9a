"""A call looks the same with a relay in between as without: to the client and to the runtime."""

import asyncio
import time

import grpc
import pytest

from tests.fakes.grpc_runtime import Script
from tests.relay.stage import EOF, LARGEST_REPLY_BYTES, Stage, play, until

pytestmark = pytest.mark.parametrize("via", ["direct", "splice", "grpc"])

VERSION = "/runtime.v1.RuntimeService/Version"
EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"
UNKNOWN = "/not.yet.Invented/Method"
PAIRS = (("blob-bin", "00ff10"), ("plain", "value"), ("plain", "again"))
RECEIVED = (("blob-bin", b"\x00\xff\x10"), ("plain", "value"), ("plain", "again"))


def test_request_metadata_arrives(via: str) -> None:
    async def act(stage: Stage) -> None:
        await stage.call(VERSION, b"x", metadata=RECEIVED)
        seen = await stage.seen()
        assert sorted(RECEIVED, key=str) == sorted((pair for pair in seen.metadata if pair in RECEIVED), key=str)

    play(via, act)


def test_the_authority_is_that_of_the_client_not_a_path(via: str) -> None:
    async def act(stage: Stage) -> None:
        await stage.call(VERSION, b"x")
        assert all("relay.sock" not in str(value) for _, value in (await stage.seen()).metadata)

    play(via, act)


@pytest.mark.parametrize("method", [VERSION, EVENTS, UNKNOWN])
def test_reply_metadata_and_trailers_arrive(via: str, method: str) -> None:
    async def act(stage: Stage) -> None:
        answer = await stage.call(method, b"x", script=Script(replies=1, initial=PAIRS, trailing=PAIRS))
        assert (answer.code, answer.initial, answer.trailing) == (0, RECEIVED, RECEIVED)

    play(via, act)


@pytest.mark.parametrize("method", [VERSION, EVENTS, UNKNOWN])
def test_every_status_arrives_with_its_message_and_details(via: str, method: str) -> None:
    async def act(stage: Stage) -> None:
        for code in range(1, 17):
            trailing = (("grpc-status-details-bin", "0a0b"),)
            answer = await stage.call(
                method, b"x", script=Script(code=code, message=f"né 100% {code}", trailing=trailing)
            )
            assert (answer.code, answer.details) == (code, f"né 100% {code}")
            assert answer.trailing == (("grpc-status-details-bin", b"\x0a\x0b"),)

    play(via, act)


def test_a_long_status_message_arrives(via: str) -> None:
    async def act(stage: Stage) -> None:
        assert (await stage.call(VERSION, b"x", script=Script(code=5, message="x" * 60_000))).details == "x" * 60_000

    play(via, act)


def test_a_status_after_replies_arrives(via: str) -> None:
    async def act(stage: Stage) -> None:
        answer = await stage.call(EVENTS, b"x", script=Script(replies=3, code=11, message="enough"))
        assert (answer.code, answer.details, len(answer.replies)) == (11, "enough", 3)

    play(via, act)


def test_the_deadline_reaches_the_runtime(via: str) -> None:
    async def act(stage: Stage) -> None:
        await stage.call(VERSION, b"x", timeout=7)
        left = (await stage.seen()).seconds_left
        assert left is not None
        assert 5 < left < 7.5

    play(via, act)


@pytest.mark.parametrize("method", [VERSION, EVENTS, UNKNOWN])
def test_no_deadline_stays_no_deadline(via: str, method: str) -> None:
    async def act(stage: Stage) -> None:
        assert (await stage.call(method, b"x", timeout=None)).code == 0
        assert (await stage.seen()).seconds_left is None

    play(via, act)


def test_an_expired_deadline_ends_the_call(via: str) -> None:
    async def act(stage: Stage) -> None:
        assert (await stage.call(VERSION, b"x", script=Script(hang=True), timeout=0.2)).code == 4
        seen = await stage.seen()
        await until(lambda: seen.ended)

    play(via, act)


@pytest.mark.parametrize("method", [VERSION, EVENTS, UNKNOWN])
def test_cancellation_reaches_the_runtime(via: str, method: str) -> None:
    async def act(stage: Stage) -> None:
        call = stage.start(method, script=Script(hang=True))
        await call.write(b"x")
        await call.done_writing()
        seen = await stage.seen()
        call.cancel()
        await until(lambda: seen.cancelled)

    play(via, act)


def test_the_largest_reply_arrives(via: str) -> None:
    async def act(stage: Stage) -> None:
        answer = await stage.call(VERSION, b"x", script=Script(replies=1, reply_bytes=LARGEST_REPLY_BYTES))
        assert [len(reply) for reply in answer.replies] == [LARGEST_REPLY_BYTES]

    play(via, act)


@pytest.mark.parametrize("method", [VERSION, UNKNOWN])
def test_a_request_of_8_mib_arrives(via: str, method: str) -> None:
    async def act(stage: Stage) -> None:
        request = bytes(range(256)) * 32768
        assert (await stage.call(method, request)).replies == (request,)

    play(via, act)


def test_100_calls_are_in_flight_together(via: str) -> None:
    async def act(stage: Stage) -> None:
        requests = [b"%d" % number for number in range(100)]
        answers = await asyncio.gather(*(stage.call(VERSION, request) for request in requests))
        assert [answer.replies for answer in answers] == [(request,) for request in requests]

    play(via, act)


def test_30_open_streams_do_not_keep_a_call_waiting(via: str) -> None:
    async def act(stage: Stage) -> None:
        streams = [stage.start(EVENTS, script=Script(replies=1, hang=True)) for _ in range(30)]
        for stream in streams:
            await stream.write(b"x")
            await stream.done_writing()
            await stream.read()
        assert (await stage.call(VERSION, b"x", timeout=5)).code == 0
        for stream in streams:
            stream.cancel()

    play(via, act)


def test_events_keep_their_order(via: str) -> None:
    async def act(stage: Stage) -> None:
        answer = await stage.call(EVENTS, b"x", script=Script(replies=1000, reply_bytes=100))
        assert [int(reply.split()[0]) for reply in answer.replies] == list(range(1000))

    play(via, act)


def test_a_slow_reader_slows_its_stream_and_loses_nothing(via: str) -> None:
    async def act(stage: Stage) -> None:
        stream = stage.start(EVENTS, script=Script(replies=400, reply_bytes=100_000))
        await stream.write(b"x")
        await stream.done_writing()
        seen = await stage.seen()
        await stream.read()
        calls = [await stage.call(VERSION, b"x") for _ in range(20)]  # time passes, others are served
        assert {call.code for call in calls} == {0}
        assert seen.written < 200
        count = 1
        while await stream.read() is not EOF:
            count += 1
        assert count == 400

    play(via, act)


@pytest.mark.parametrize("method", [UNKNOWN, "/runtime.v1.RuntimeService/NotYetInvented"])
def test_an_unknown_method_converses_before_half_close(via: str, method: str) -> None:
    async def act(stage: Stage) -> None:
        call = stage.start(method)
        for message in (b"one", b"", b"three"):
            await call.write(message)
            assert await call.read() == message
        await call.done_writing()
        assert (await call.read(), await call.code()) == (EOF, grpc.StatusCode.OK)

    play(via, act)


def test_an_unknown_method_may_answer_before_it_is_asked(via: str) -> None:
    async def act(stage: Stage) -> None:
        call = stage.start(UNKNOWN, script=Script(replies=2, early=True))
        assert [await call.read(), await call.read()] == [b"0 ", b"1 "]
        await call.done_writing()
        assert await call.code() is grpc.StatusCode.OK

    play(via, act)


def test_a_runtime_that_dies_ends_the_call_at_once(via: str) -> None:
    async def act(stage: Stage) -> None:
        waiting = asyncio.ensure_future(stage.call(VERSION, b"x", script=Script(hang=True)))  # noqa: TID251
        await stage.seen()
        await stage.runtime.stop()
        assert (await asyncio.wait_for(waiting, 5)).code in (1, 14)  # grpcio's server cancels before it closes

    play(via, act)


def test_calls_fail_at_once_while_the_runtime_is_away_and_work_within_a_second_of_its_return(via: str) -> None:
    async def act(stage: Stage) -> None:
        assert (await stage.call(VERSION, b"x")).code == 0
        await stage.runtime.stop()
        started = time.monotonic()
        assert (await stage.call(VERSION, b"x")).code == 14
        assert time.monotonic() - started < 1
        await stage.runtime.start()
        returned = time.monotonic()
        while (await stage.call(VERSION, b"x")).code:
            assert time.monotonic() - returned < 1
            await asyncio.sleep(0.01)

    play(via, act)
