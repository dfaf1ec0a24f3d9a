"""Held calls, in conversation: what the interceptor sees, decides and learns is the same with either relay."""

import asyncio

import pytest

from cri_proxy.http2.status import Failed
from cri_proxy.intercept.gate import OLD_RUNTIME, interest_of
from cri_proxy.relay.calls import Aborted, Call, Forward, Interest, Outcome, Refuse, Replied, Rewrite, Verdict
from cri_proxy.relay.method_types import SERVER_STREAMS, UNARY
from tests.fakes.grpc_runtime import Script
from tests.fakes.scripted_interceptor import ScriptedInterceptor
from tests.relay.stage import LARGEST_BYTES, RELAYED, Place, Stage, until

pytestmark = RELAYED

HOLD = "/runtime.v1.RuntimeService/HoldThis"
PASS = "/runtime.v1.RuntimeService/ListContainers"
OLD = "/runtime.v1alpha2.RuntimeServiceOld/RunPodSandbox"


async def outcome(stage: Stage) -> Outcome:
    await until(lambda: bool(stage.interceptor.outcomes))
    return stage.interceptor.outcomes[0][1]


async def test_a_call_that_is_not_wanted_is_not_shown(stage: Stage) -> None:
    await stage.call(PASS, b"rewrite")
    assert (stage.interceptor.asked, stage.interceptor.outcomes) == ([], [])


async def test_a_forwarded_request_arrives_unchanged_and_its_reply_is_reported(stage: Stage) -> None:
    assert (await stage.call(HOLD, b"request")).replies == (b"request",)
    assert [(call.method, call.message) for call in stage.interceptor.asked] == [(HOLD, b"request")]
    assert await outcome(stage) == Replied(b"request")


@pytest.mark.parametrize("size", [0, 10, 200_000, LARGEST_BYTES - 17])
async def test_a_rewritten_request_arrives_rewritten(size: int, stage: Stage) -> None:
    message = b"rewrite" + b"." * size
    assert (await stage.call(HOLD, message)).replies == (message + b" rewritten",)
    assert (await stage.seen()).requests == [message + b" rewritten"]
    assert await outcome(stage) == Replied(message + b" rewritten")


async def test_metadata_and_deadline_of_a_held_call_arrive(stage: Stage) -> None:
    await stage.call(HOLD, b"rewrite", metadata=(("plain", "value"), ("blob-bin", b"\x00\xff")), timeout_seconds=70)
    seen = await stage.seen()
    assert {("plain", "value"), ("blob-bin", b"\x00\xff")} <= set(seen.metadata)
    assert seen.seconds_left is not None
    assert 30 < seen.seconds_left < 70.5


@pytest.mark.parametrize("seconds", [None, 0.9, 70])
async def test_the_interceptor_knows_how_long_the_caller_waits(seconds: float | None, stage: Stage) -> None:
    for _ in range(3):  # the second is indexed in a compression table, and the third as well
        await stage.call(HOLD, b"x", timeout_seconds=seconds)
    told = [call.timeout_seconds for call in stage.interceptor.asked]
    assert len(told) == 3
    assert all(t is None if seconds is None else t is not None and seconds - 30 < t <= seconds * 1.02 for t in told)


async def test_a_refused_call_gets_its_status_and_never_a_message_at_the_runtime(stage: Stage) -> None:
    answer = await stage.call(HOLD, "refuse no CPU is left: 100% né".encode())
    assert (answer.code, answer.details) == (9, "no CPU is left: 100% né")
    assert all(not seen.requests for seen in stage.runtime.calls)
    assert stage.interceptor.outcomes == []


async def test_after_a_refusal_the_connection_still_serves(stage: Stage) -> None:
    for _ in range(20):
        assert (await stage.call(HOLD, b"refuse no")).code == 9
        assert (await stage.call(PASS, b"x")).replies == (b"x",)
        assert (await stage.call(HOLD, b"rewrite")).replies == (b"rewrite rewritten",)


async def test_a_method_of_a_refused_service_is_unimplemented_and_never_reaches_the_runtime(stage: Stage) -> None:
    for _ in range(10):
        assert (await stage.client.unary(OLD, b"x")).code == 12
        assert (await stage.call(OLD)).code == 12
    assert (await stage.call(PASS, b"x")).code == 0
    assert all(not seen.requests for seen in stage.runtime.calls if seen.method == OLD)


class AsInTheDaemon(ScriptedInterceptor):
    def wants(self, method: str) -> Interest:
        return interest_of(method)


async def test_every_method_of_the_old_runtime_interface_is_unimplemented(place: Place) -> None:
    names = sorted(path.rpartition("/")[2] for path in UNARY | SERVER_STREAMS if "RuntimeService" in path)
    async with place.staged(interceptor=AsInTheDaemon()) as stage:
        answers = [await stage.client.unary(OLD_RUNTIME + name, b"x") for name in (*names, "NotYetInvented")]
        assert {(answer.code, answer.replies) for answer in answers} == {(12, ())}
        assert all(not seen.requests for seen in stage.runtime.calls)
        assert stage.interceptor.asked == []
        assert (await stage.call(PASS, b"x")).code == 0


@pytest.mark.parametrize("method", [HOLD, OLD])
async def test_a_refusal_in_the_middle_of_an_upload_takes_nothing_from_other_calls(method: str, stage: Stage) -> None:
    """Beyond the bound, or before its first byte: what is still on its way is given back to the connection."""
    for _ in range(1 if method == HOLD else 3):
        answer = await stage.call(method, bytes(17 * 1024 * 1024 if method == HOLD else 100_000))
        assert answer.code == {HOLD: 8, OLD: 12}[method]
    upload = bytes(500_000)
    assert (await stage.call(PASS, upload)).replies == (upload,)
    assert stage.interceptor.asked == []


async def test_a_call_that_nobody_has_looked_at_is_unavailable_and_never_at_the_runtime(place: Place) -> None:
    async def unseen(call: Call) -> Verdict:
        return Refuse(14, "elsewhere", was_unseen=True)

    async with place.staged(interceptor=ScriptedInterceptor(unseen)) as stage:
        for _ in range(5):
            assert (await stage.call(HOLD, b"x")).code == 14
            assert (await stage.call(PASS, b"x")).code == 0
        assert all(not seen.requests for seen in stage.runtime.calls if seen.method == HOLD)


async def test_an_error_of_the_runtime_goes_on_unchanged_and_is_reported(stage: Stage) -> None:
    script = Script(code=5, message="né 100%", trailing=(("grpc-status-details-bin", "0a0b"),))
    answer = await stage.call(HOLD, b"rewrite", script=script)
    assert (answer.code, answer.details) == (5, "né 100%")
    assert answer.trailing == (("grpc-status-details-bin", b"\x0a\x0b"),)
    assert await outcome(stage) == Failed(5, "né 100%")


async def test_a_deadline_that_the_runtime_reports_leaves_the_outcome_unknown(stage: Stage) -> None:
    assert (await stage.call(HOLD, b"x", script=Script(code=4, message="late"))).code == 4
    assert await outcome(stage) == Aborted(sent=True)


async def test_a_call_cancelled_while_held_was_not_sent(stage: Stage) -> None:
    call = await stage.start(HOLD, b"wait...")
    await until(lambda: bool(stage.interceptor.asked))
    call.cancel()
    assert await outcome(stage) == Aborted(sent=False)
    assert all(not seen.requests for seen in stage.runtime.calls)
    assert (await stage.call(HOLD, b"next")).code == 0


async def test_a_deadline_that_expires_while_held_was_not_sent(stage: Stage) -> None:
    for seconds in (0.1, 0.5, 2.5, 10):  # on a busy machine it may expire on its way
        assert (await stage.call(HOLD, b"wait...", timeout_seconds=seconds)).code == 4
        if stage.interceptor.asked:
            break
    assert await outcome(stage) == Aborted(sent=False)
    assert all(not seen.requests for seen in stage.runtime.calls)


async def test_a_call_cancelled_after_it_was_sent_is_unknown(stage: Stage) -> None:
    call = await stage.start(HOLD, b"rewrite", script=Script(hang=True))
    await until(lambda: any(seen.requests for seen in stage.runtime.calls))
    call.cancel()
    assert await outcome(stage) == Aborted(sent=True)
    await until(lambda: stage.runtime.calls[0].cancelled)


async def test_a_runtime_that_dies_while_it_has_a_call_leaves_it_unknown(stage: Stage) -> None:
    call = await stage.start(HOLD, b"rewrite", script=Script(hang=True))
    await until(lambda: any(seen.requests for seen in stage.runtime.calls))
    await stage.runtime.stop()
    assert await outcome(stage) == Aborted(sent=True)
    assert (await call.end()).code in (1, 14)


async def test_held_calls_do_not_keep_others_waiting(stage: Stage) -> None:
    held = [await stage.start(HOLD, b"wait...") for _ in range(20)]
    await until(lambda: len(stage.interceptor.asked) == 20)
    assert (await stage.call(PASS, b"x")).code == 0
    assert (await stage.call(HOLD, b"rewrite")).code == 0
    for call in held:
        call.cancel()


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
async def test_a_compressed_request_is_read_and_rewritten(compression: str, stage: Stage) -> None:
    message = b"rewrite" * 1000
    answer = await stage.call(HOLD, message, compression=compression)
    assert answer.replies == (message + b" rewritten",)
    assert stage.interceptor.asked[0].message == message


async def test_a_compressed_reply_is_read_and_arrives(stage: Stage) -> None:
    answer = await stage.call(HOLD, b"x", script=Script(replies=1, reply_bytes=100_000, gzip=True))
    assert [len(reply) for reply in answer.replies] == [100_000]
    assert await outcome(stage) == Replied(answer.replies[0])


async def test_an_interceptor_that_raises_is_reported_and_the_call_goes_on_unchanged(stage: Stage) -> None:
    assert (await stage.call(HOLD, b"raise.. it")).replies == (b"raise.. it",)
    assert [type(error) for error in stage.errors] == [ValueError]
    assert await outcome(stage) == Replied(b"raise.. it")


async def test_rewritten_calls_and_large_replies_share_a_connection(stage: Stage) -> None:
    large = Script(replies=1, reply_bytes=1_000_000)

    async def lists() -> None:
        for _ in range(10):
            answer = await stage.call(PASS, b"x", script=large)
            assert [len(reply) for reply in answer.replies] == [1_000_000]

    async def creates(number: int) -> None:
        for round_ in range(10):
            message = b"rewrite %d %d " % (number, round_) + b"." * 30_000
            assert (await stage.call(HOLD, message)).replies == (message + b" rewritten",)

    await asyncio.gather(lists(), lists(), *(creates(number) for number in range(4)))


async def test_the_largest_reply_of_a_held_call_arrives_and_is_reported(stage: Stage) -> None:
    answer = await stage.call(HOLD, b"x", script=Script(replies=1, reply_bytes=LARGEST_BYTES))
    assert len(answer.replies[0]) == LARGEST_BYTES
    assert await outcome(stage) == Replied(answer.replies[0])


async def test_the_outcome_is_known_before_the_client_has_the_reply(stage: Stage) -> None:
    for number in range(50):
        assert (await stage.call(HOLD, b"%d" % number)).replies == (b"%d" % number,)
        assert [outcome for _, outcome in stage.interceptor.outcomes[number:]] == [Replied(b"%d" % number)]


async def test_that_the_runtime_refused_is_known_before_the_client_hears_it(stage: Stage) -> None:
    """It may try again at once, and needs the CPUs that its first attempt has given back."""
    for number in range(20):
        answer = await stage.call(HOLD, b"x", script=Script(code=9, message="no"))
        assert (answer.code, len(stage.interceptor.outcomes)) == (9, number + 1)


async def test_a_request_far_larger_after_rewriting_needs_several_rounds_of_credit(place: Place) -> None:
    async def grow(call: Call) -> Verdict:
        return Rewrite(call.message * 1000) if call.message.startswith(b"grow") else Forward()

    async with place.staged(interceptor=ScriptedInterceptor(grow)) as stage:
        answers = await asyncio.gather(*(stage.call(HOLD, b"grow" * 250) for _ in range(8)))
        assert {answer.replies for answer in answers} == {(b"grow" * 250_000,)}
        upload = bytes(1_000_000)
        assert (await stage.call(PASS, upload)).replies == (upload,)
