"""A call looks the same with a relay in between as without: to the client and to the runtime."""

import asyncio
import time
from dataclasses import replace

import pytest

from cri_proxy.relay.grpcio.relay import GrpcRelay
from tests.fakes.grpc_runtime import Script, Seen
from tests.relay.h2_client import Shape
from tests.relay.stage import DIRECT_AND_RELAYED, LARGEST_BYTES, Place, Stage, until

pytestmark = DIRECT_AND_RELAYED

VERSION = "/runtime.v1.RuntimeService/Version"
EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"
UNKNOWN = "/not.yet.Invented/Method"
HOLD = "/runtime.v1.RuntimeService/HoldThis"
SHAPES = pytest.mark.parametrize("method", [VERSION, EVENTS, UNKNOWN, HOLD])
PAIRS = (("blob-bin", "00ff10"), ("plain", "value"), ("plain", "again"))
RECEIVED = (("blob-bin", b"\x00\xff\x10"), ("plain", "value"), ("plain", "again"))
OF_THE_SENDER = ("user-agent", "grpc-accept-encoding", "script")


def sent_by_the_caller(seen: Seen) -> list[tuple[str, str | bytes]]:
    """What the runtime was told beside who the sender is; names in order, values of one name as they came."""
    return sorted((pair for pair in seen.metadata if pair[0] not in OF_THE_SENDER), key=lambda pair: pair[0])


# Metadata


@SHAPES
async def test_request_metadata_arrives_and_nothing_else_does(method: str, stage: Stage) -> None:
    await stage.call(method, b"x", metadata=RECEIVED)
    assert sent_by_the_caller(await stage.seen()) == list(RECEIVED)


async def test_odd_values_of_metadata_arrive(stage: Stage) -> None:
    odd = [
        ("a-bin", bytes(range(256))),
        ("b-bin", b""),
        ("c-bin", b"\0"),
        ("d", ""),
        ("e", "a, b;c=%41"),
        ("f", "x" * 9000),
    ]
    await stage.call(VERSION, b"x", metadata=odd)
    assert sent_by_the_caller(await stage.seen()) == odd


async def test_metadata_that_comes_and_goes_from_call_to_call_arrives(stage: Stage) -> None:
    """Names and values enter the compression tables of both ends, are found there again, and are driven out."""
    for number in range(30):
        metadata = [("a", f"{number % 7}" * 200), (f"n{number % 11}", "same"), ("z-bin", bytes([number % 5] * 90))]
        await stage.call(HOLD if number % 3 else VERSION, b"x", metadata=metadata)
        assert sent_by_the_caller(await stage.seen(number + 1)) == sorted(metadata)


async def test_metadata_beyond_a_frame_arrives_both_ways(stage: Stage) -> None:
    long = [(f"name{number}", "XZ" * 900) for number in range(10)]  # beyond 16 KiB in Huffman code too: CONTINUATION
    script = Script(replies=1, initial=tuple(long), trailing=tuple(long))
    for method in (HOLD, EVENTS):
        answer = await stage.call(method, b"x", script=script, metadata=long)
        assert (answer.code, answer.initial, answer.trailing) == (0, tuple(long), tuple(long))
        assert sent_by_the_caller(stage.runtime.calls[-1]) == long


async def test_the_authority_is_that_of_the_client_not_a_path(place: Place) -> None:
    async with place.staged(runtime=Shape()) as stage:
        await stage.call(VERSION, b"x")
        expected = b"localhost" if isinstance(stage.relay, GrpcRelay) else b"x"
        assert dict(stage.other.calls[0].headers)[b":authority"] == expected


@SHAPES
async def test_reply_metadata_and_trailers_arrive(method: str, stage: Stage) -> None:
    answer = await stage.call(method, b"x", script=Script(replies=1, initial=PAIRS, trailing=PAIRS))
    assert (answer.code, answer.initial, answer.trailing) == (0, RECEIVED, RECEIVED)


# Statuses


@SHAPES
async def test_every_status_arrives_with_its_message_and_details(method: str, stage: Stage) -> None:
    for code in range(1, 17):
        details = bytes(range(code))
        script = Script(code=code, message=f"né 100% {code}", trailing=(("grpc-status-details-bin", details.hex()),))
        answer = await stage.call(method, b"x", script=script)
        assert (answer.code, answer.details) == (code, f"né 100% {code}")
        assert answer.trailing == (("grpc-status-details-bin", details),)


@SHAPES
async def test_a_status_without_a_message_arrives_without(method: str, stage: Stage) -> None:
    answer = await stage.call(method, b"x", script=Script(code=5))
    assert (answer.code, answer.details, answer.trailing) == (5, "", ())


async def test_a_long_status_message_arrives(stage: Stage) -> None:
    assert (await stage.call(VERSION, b"x", script=Script(code=5, message="x" * 20_000))).details == "x" * 20_000


@pytest.mark.parametrize("method", [EVENTS, UNKNOWN])
async def test_a_status_after_replies_arrives(method: str, stage: Stage) -> None:
    answer = await stage.call(method, b"x", script=Script(replies=3, code=11, message="enough"))
    assert (answer.code, answer.details, len(answer.replies)) == (11, "enough", 3)


# Deadlines and cancellation


@SHAPES
async def test_the_deadline_reaches_the_runtime(method: str, stage: Stage) -> None:
    started = time.monotonic()
    await stage.call(method, b"x", timeout_seconds=70)
    left = (await stage.seen()).seconds_left
    assert left is not None
    assert 70 - (time.monotonic() - started) - 1 < left < 70.5


@SHAPES
async def test_no_deadline_stays_no_deadline(method: str, stage: Stage) -> None:
    assert (await stage.call(method, b"x", timeout_seconds=None)).code == 0
    assert (await stage.seen()).seconds_left is None


@SHAPES
async def test_an_expired_deadline_ends_the_call(method: str, stage: Stage) -> None:
    assert (await stage.call(VERSION, b"x")).code == 0  # connected
    for seconds in (0.1, 0.5, 2.5, 10):  # on a busy machine it may expire on its way
        assert (await stage.call(method, b"x", script=Script(hang=True), timeout_seconds=seconds)).code == 4
        if len(stage.runtime.calls) > 1:
            break
    await until(lambda: len(stage.runtime.calls) > 1 and all(seen.ended for seen in stage.runtime.calls))


@SHAPES
async def test_cancellation_reaches_the_runtime_and_no_other_call(method: str, stage: Stage) -> None:
    other = await stage.start(EVENTS, b"x", script=Script(replies=1, hang=True))
    bystander = await stage.seen()
    call = await stage.start(method, b"x", script=Script(hang=True))
    seen = await stage.seen(2)
    await until(lambda: bool(seen.requests))
    call.cancel()
    await until(lambda: seen.cancelled)
    assert ((await call.end()).code, bystander.ended) == (1, False)
    other.cancel()


async def test_cancellation_reaches_the_runtime_in_the_middle_of_a_stream(stage: Stage) -> None:
    call = await stage.start(EVENTS, b"x", script=Script(replies=100_000, reply_bytes=1000))
    assert [await call.read() is not None for _ in range(5)] == [True] * 5
    call.cancel()
    seen = await stage.seen()
    await until(lambda: seen.cancelled)
    assert seen.written < 100_000


async def test_cancellation_reaches_the_runtime_before_the_half_close(stage: Stage) -> None:
    call = await stage.start(UNKNOWN)
    await call.write(b"x")
    seen = await stage.seen()
    await until(lambda: bool(seen.requests))
    call.cancel()
    await until(lambda: seen.ended)  # grpcio's server reads an end there


# Sizes and compression


@pytest.mark.parametrize("method", [HOLD])
async def test_16_mib_arrive_both_ways(method: str, stage: Stage) -> None:
    request = bytes(range(256)) * (LARGEST_BYTES // 256)
    assert (await stage.call(method, request)).replies == (request,)


async def test_a_request_beyond_16_mib_is_refused_as_the_runtime_does(stage: Stage) -> None:
    answer = await stage.call(HOLD, bytes(LARGEST_BYTES + 1))
    assert (answer.code, answer.replies) == (8, ())
    assert (await stage.call(VERSION, b"x")).code == 0


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
@SHAPES
async def test_compressed_messages_arrive_both_ways(method: str, compression: str, stage: Stage) -> None:
    message = b"squeeze" * 1000
    answer = await stage.call(method, message, compression=compression)
    assert ((await stage.seen()).requests, answer.replies) == ([message], (message,))
    script = Script(replies=1, reply_bytes=100_000, gzip=True)
    answer = await stage.call(method, message, compression=compression, script=script)
    assert [len(reply) for reply in answer.replies] == [100_000]


# The runtime goes and comes


@SHAPES
async def test_a_runtime_that_dies_ends_the_call_at_once(method: str, stage: Stage) -> None:
    call = await stage.start(method, b"x", script=Script(hang=True))
    seen = await stage.seen()
    await until(lambda: bool(seen.requests))
    await stage.runtime.stop()
    async with asyncio.timeout(30):
        assert (await call.end()).code in (1, 14)  # grpcio's server cancels before it closes


async def test_calls_fail_at_once_while_the_runtime_is_away_and_work_within_a_second_of_its_return(
    stage: Stage,
) -> None:
    assert (await stage.call(VERSION, b"x")).code == 0
    await stage.runtime.stop()
    assert (await stage.call(VERSION, b"x")).code == 14  # at its deadline it would be 4
    await stage.runtime.start()
    await works_again(stage)


async def test_a_runtime_restarts_under_streams_and_calls_and_everybody_finds_it_again(stage: Stage) -> None:
    streams = [await stage.start(EVENTS, b"x", script=Script(replies=1, hang=True)) for _ in range(30)]
    calls = [await stage.start(VERSION, b"x", script=Script(hang=True)) for _ in range(30)]
    await until(lambda: sum(bool(seen.requests) for seen in stage.runtime.calls) == 60)
    await stage.runtime.stop()
    async with asyncio.timeout(30):
        assert {(await call.end()).code for call in (*streams, *calls)} <= {1, 14}
    await stage.runtime.start()
    await works_again(stage)


async def works_again(stage: Stage) -> None:
    returned = time.monotonic()
    while (await stage.call(VERSION, b"x")).code:
        assert time.monotonic() - returned < 30  # a second on an idle machine
        await asyncio.sleep(0.01)


async def test_clients_of_one_relay_do_not_see_each_other(stage: Stage) -> None:
    """One that goes away takes its own calls with it, and nobody else's."""
    other = replace(stage, client=type(stage.client)(stage.path))
    script = Script(replies=1, hang=True)
    calls = [await someone.start(EVENTS, b"x", script=script) for someone in (stage, other)]
    await until(lambda: sum(bool(seen.requests) for seen in stage.runtime.calls) == 2)
    await other.client.close()
    await until(lambda: sum(seen.ended for seen in stage.runtime.calls) == 1)
    assert (await calls[0].read(), (await stage.call(VERSION, b"x")).code) == (b"0 ", 0)
    calls[0].cancel()
