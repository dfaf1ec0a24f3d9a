"""Held calls, in conversation: what the interceptor sees, decides and learns is the same with either relay."""

import asyncio

import grpc
import pytest
from grpc import aio

from cri_proxy.relay.calls import Aborted, Call, Failed, Forward, Outcome, Replied, Rewrite, Verdict
from tests.fakes.grpc_runtime import Script
from tests.fakes.scripted_interceptor import ScriptedInterceptor
from tests.relay.stage import LARGEST_REPLY_BYTES, Stage, play, until

pytestmark = pytest.mark.parametrize("via", ["splice", "grpc"])

HOLD = "/runtime.v1.RuntimeService/HoldThis"
PASS = "/runtime.v1.RuntimeService/ListContainers"
OLD = "/runtime.v1alpha2.RuntimeServiceOld/RunPodSandbox"


async def outcome(stage: Stage) -> Outcome:
    """What the interceptor was told of its one call."""
    await until(lambda: bool(stage.interceptor.outcomes))
    return stage.interceptor.outcomes[0][1]


def test_a_call_that_is_not_wanted_is_not_shown(via: str) -> None:
    async def act(stage: Stage) -> None:
        await stage.call(PASS, b"rewrite")
        assert (stage.interceptor.asked, stage.interceptor.outcomes) == ([], [])

    play(via, act)


def test_a_forwarded_request_arrives_unchanged_and_its_reply_is_reported(via: str) -> None:
    async def act(stage: Stage) -> None:
        assert (await stage.call(HOLD, b"request")).replies == (b"request",)
        assert [(call.method, call.message) for call in stage.interceptor.asked] == [(HOLD, b"request")]
        assert await outcome(stage) == Replied(b"request")

    play(via, act)


@pytest.mark.parametrize("size", [0, 10, 200_000, 8 * 1024 * 1024])
def test_a_rewritten_request_arrives_rewritten(via: str, size: int) -> None:
    async def act(stage: Stage) -> None:
        message = b"rewrite" + b"." * size
        assert (await stage.call(HOLD, message)).replies == (message + b" rewritten",)
        assert (await stage.seen()).requests == [message + b" rewritten"]
        assert await outcome(stage) == Replied(message + b" rewritten")

    play(via, act)


def test_metadata_and_deadline_of_a_held_call_arrive(via: str) -> None:
    async def act(stage: Stage) -> None:
        await stage.call(HOLD, b"rewrite", metadata=(("plain", "value"), ("blob-bin", b"\x00\xff")), timeout=7)
        seen = await stage.seen()
        assert {("plain", "value"), ("blob-bin", b"\x00\xff")} <= set(seen.metadata)
        assert seen.seconds_left is not None
        assert 5 < seen.seconds_left < 7.5

    play(via, act)


def test_a_refused_call_gets_its_status_and_never_a_message_at_the_runtime(via: str) -> None:
    async def act(stage: Stage) -> None:
        answer = await stage.call(HOLD, "refuse no CPU is left: 100% né".encode())
        assert (answer.code, answer.details) == (9, "no CPU is left: 100% né")
        assert all(not seen.requests for seen in stage.runtime.calls)
        assert stage.interceptor.outcomes == []

    play(via, act)


def test_after_a_refusal_the_connection_still_serves(via: str) -> None:
    async def act(stage: Stage) -> None:
        for _ in range(20):
            assert (await stage.call(HOLD, b"refuse no")).code == 9
            assert (await stage.call(PASS, b"x")).replies == (b"x",)
            assert (await stage.call(HOLD, b"rewrite")).replies == (b"rewrite rewritten",)

    play(via, act)


def test_a_method_of_a_refused_service_is_unimplemented_and_never_reaches_the_runtime(via: str) -> None:
    async def act(stage: Stage) -> None:
        for _ in range(10):
            with pytest.raises(aio.AioRpcError) as error:
                await stage.channel.unary_unary(OLD)(b"x")
            assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert (await stage.call(OLD)).code == 12
        assert (await stage.call(PASS, b"x")).code == 0
        assert all(not seen.requests for seen in stage.runtime.calls if seen.method == OLD)

    play(via, act)


def test_an_error_of_the_runtime_goes_on_unchanged_and_is_reported(via: str) -> None:
    async def act(stage: Stage) -> None:
        script = Script(code=5, message="né 100%", trailing=(("grpc-status-details-bin", "0a0b"),))
        answer = await stage.call(HOLD, b"rewrite", script=script)
        assert (answer.code, answer.details) == (5, "né 100%")
        assert answer.trailing == (("grpc-status-details-bin", b"\x0a\x0b"),)
        assert await outcome(stage) == Failed(5, "né 100%")

    play(via, act)


def test_a_deadline_that_the_runtime_reports_leaves_the_outcome_unknown(via: str) -> None:
    async def act(stage: Stage) -> None:
        assert (await stage.call(HOLD, b"x", script=Script(code=4, message="late"))).code == 4
        assert await outcome(stage) == Aborted(sent=True)

    play(via, act)


def test_a_call_cancelled_while_held_was_not_sent(via: str) -> None:
    async def act(stage: Stage) -> None:
        call = stage.start(HOLD)
        await call.write(b"wait...")
        await call.done_writing()
        await until(lambda: bool(stage.interceptor.asked))
        call.cancel()
        assert await outcome(stage) == Aborted(sent=False)
        assert all(not seen.requests for seen in stage.runtime.calls)

    play(via, act)


def test_a_deadline_that_expires_while_held_was_not_sent(via: str) -> None:
    async def act(stage: Stage) -> None:
        assert (await stage.call(HOLD, b"wait...", timeout=0.2)).code == 4
        assert await outcome(stage) == Aborted(sent=False)

    play(via, act)


def test_a_call_cancelled_after_it_was_sent_is_unknown(via: str) -> None:
    async def act(stage: Stage) -> None:
        call = stage.start(HOLD, script=Script(hang=True))
        await call.write(b"rewrite")
        await call.done_writing()
        await until(lambda: any(seen.requests for seen in stage.runtime.calls))
        call.cancel()
        assert await outcome(stage) == Aborted(sent=True)
        await until(lambda: stage.runtime.calls[0].cancelled)

    play(via, act)


def test_a_runtime_that_dies_while_it_has_a_call_leaves_it_unknown(via: str) -> None:
    async def act(stage: Stage) -> None:
        call = stage.start(HOLD, script=Script(hang=True))
        await call.write(b"rewrite")
        await call.done_writing()
        await until(lambda: any(seen.requests for seen in stage.runtime.calls))
        await stage.runtime.stop()
        assert await outcome(stage) == Aborted(sent=True)

    play(via, act)


def test_held_calls_do_not_keep_others_waiting(via: str) -> None:
    async def act(stage: Stage) -> None:
        held = [stage.start(HOLD) for _ in range(20)]
        for call in held:
            await call.write(b"wait...")
            await call.done_writing()
        await until(lambda: len(stage.interceptor.asked) == 20)
        assert (await stage.call(PASS, b"x", timeout=5)).code == 0
        assert (await stage.call(HOLD, b"rewrite", timeout=5)).code == 0
        for call in held:
            call.cancel()

    play(via, act)


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_a_compressed_request_is_read_and_rewritten(via: str, compression: grpc.Compression) -> None:
    async def act(stage: Stage) -> None:
        message = b"rewrite" * 1000
        answer = await stage.call(HOLD, message, compression=compression)
        assert answer.replies == (message + b" rewritten",)
        assert stage.interceptor.asked[0].message == message

    play(via, act)


def test_a_compressed_reply_is_read_and_arrives(via: str) -> None:
    async def act(stage: Stage) -> None:
        answer = await stage.call(HOLD, b"x", script=Script(replies=1, reply_bytes=100_000, gzip=True))
        assert [len(reply) for reply in answer.replies] == [100_000]
        assert await outcome(stage) == Replied(answer.replies[0])

    play(via, act)


def test_a_request_beyond_the_bound_is_refused(via: str) -> None:
    async def act(stage: Stage) -> None:
        assert (await stage.call(HOLD, bytes(17 * 1024 * 1024))).code == 8
        assert stage.interceptor.asked == []
        assert (await stage.call(PASS, b"x")).code == 0

    play(via, act)


def test_an_interceptor_that_raises_is_reported_and_the_call_goes_on_unchanged(via: str) -> None:
    async def act(stage: Stage) -> None:
        assert (await stage.call(HOLD, b"raise.. it")).replies == (b"raise.. it",)
        assert [type(error) for error in stage.errors] == [ValueError]
        assert await outcome(stage) == Replied(b"raise.. it")

    play(via, act)


def test_rewritten_calls_and_large_replies_share_a_connection(via: str) -> None:
    async def act(stage: Stage) -> None:
        large = Script(replies=1, reply_bytes=1_000_000)

        async def lists() -> None:
            for _ in range(20):
                answer = await stage.call(PASS, b"x", script=large)
                assert [len(reply) for reply in answer.replies] == [1_000_000]

        async def creates(number: int) -> None:
            for round_ in range(20):
                message = b"rewrite %d %d " % (number, round_) + b"." * 30_000
                assert (await stage.call(HOLD, message)).replies == (message + b" rewritten",)

        await asyncio.gather(lists(), lists(), *(creates(number) for number in range(4)))

    play(via, act)


def test_the_largest_reply_of_a_held_call_arrives_and_is_reported(via: str) -> None:
    async def act(stage: Stage) -> None:
        answer = await stage.call(HOLD, b"x", script=Script(replies=1, reply_bytes=LARGEST_REPLY_BYTES))
        assert await outcome(stage) == Replied(answer.replies[0])

    play(via, act)


def test_the_outcome_is_known_before_the_client_has_the_reply(via: str) -> None:
    async def act(stage: Stage) -> None:
        for number in range(50):
            await stage.call(HOLD, b"x")
            assert len(stage.interceptor.outcomes) == number + 1

    play(via, act)


def test_a_request_far_larger_after_rewriting_needs_several_rounds_of_credit(via: str) -> None:
    async def grow(call: Call) -> Verdict:
        return Rewrite(call.message * 1000) if call.message.startswith(b"grow") else Forward()

    async def run() -> None:
        from tests.relay.stage import stage as set_the_stage

        async with set_the_stage(via, ScriptedInterceptor(grow)) as stage:
            answers = await asyncio.gather(*(stage.call(HOLD, b"grow" * 250) for _ in range(8)))
            assert {answer.replies for answer in answers} == {(b"grow" * 250_000,)}
            upload = bytes(1_000_000)
            assert (await stage.call(PASS, upload)).replies == (upload,)

    asyncio.run(run())
