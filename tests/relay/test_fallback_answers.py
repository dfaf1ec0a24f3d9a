"""A method that the runtime does not know, answered in its place: the same with either relay, whoever calls."""

import asyncio

import pytest

from cri_proxy.relay.method_types import UNARY
from tests.fakes.grpc_runtime import Script
from tests.fakes.scripted_interceptor import ScriptedInterceptor
from tests.relay.stage import RELAYED, Place, Stage

pytestmark = RELAYED

STAND_IN = "/runtime.v1.RuntimeService/StandInForThis"
PASS = "/runtime.v1.RuntimeService/ListContainers"
UNKNOWN = Script(code=12, message="unknown method StandInForThis")


def answering(message: bytes | None) -> ScriptedInterceptor:
    return Answering(message, is_held=False)


class Answering(ScriptedInterceptor):
    """Stands in with ``message``; ``is_held``: only after ``go_on``. ``asked_for`` is set once a call waits for it."""

    def __init__(self, message: bytes | None, *, is_held: bool = True) -> None:
        super().__init__()
        self._message = message
        self.asked_for, self.go_on = asyncio.Event(), asyncio.Event()
        if not is_held:
            self.go_on.set()

    async def stand_in(self, method: str) -> bytes | None:
        self.asked_for.set()
        await self.go_on.wait()
        return self._message


@pytest.mark.parametrize("message", [b"", b"\n\0", b"x" * 20_000])
async def test_a_call_that_the_runtime_does_not_know_is_answered(message: bytes, place: Place) -> None:
    async with place.staged(interceptor=answering(message)) as stage:
        for _ in range(3):
            answer = await stage.call(STAND_IN, b"request", script=UNKNOWN)
            assert (answer.code, answer.replies) == (0, (message,))
            assert (await stage.call(PASS, b"x" * 70_000)).replies == (b"x" * 70_000,)


async def test_a_refusal_before_the_request_was_read_is_answered_too(place: Place) -> None:
    async with place.staged(interceptor=answering(b"reply")) as stage:
        answer = await stage.call(STAND_IN, b"request", script=Script(code=12, read=False))
        assert (answer.code, answer.replies) == (0, (b"reply",))
        assert (await stage.call(PASS, b"x")).replies == (b"x",)


async def test_without_an_answer_the_runtimes_own_goes_on_whole(stage: Stage) -> None:
    script = Script(code=12, message="unknown: 100% né", trailing=(("grpc-status-details-bin", "0aff"), ("more", "x")))
    answer = await stage.call(STAND_IN, b"request", script=script)
    assert (answer.code, answer.details) == (12, "unknown: 100% né")
    assert {("grpc-status-details-bin", b"\x0a\xff"), ("more", "x")} <= set(answer.trailing)


async def test_a_runtime_that_knows_the_method_is_not_replaced(place: Place) -> None:
    async with place.staged(interceptor=answering(b"never")) as stage:
        assert (await stage.call(STAND_IN, b"request")).replies == (b"request",)
        assert (await stage.call(STAND_IN, b"x", script=Script(code=9, message="no"))).code == 9
        answer = await stage.call(STAND_IN, b"x", script=Script(replies=1, reply_bytes=5))
        assert answer.replies == (b"0 ...",)


async def test_a_fault_of_the_interceptor_leaves_the_runtimes_answer(place: Place) -> None:
    known = ScriptedInterceptor()

    async def broken() -> bytes | None:
        raise ValueError("a bug")

    known.reply = broken
    async with place.staged(interceptor=known) as stage:
        assert (await stage.call(STAND_IN, b"request", script=UNKNOWN)).code == 12
        assert [repr(error) for error in stage.errors] == ["ValueError('a bug')"]


async def test_a_caller_that_leaves_meanwhile_disturbs_no_other_call(place: Place) -> None:
    known = Answering(b"late")
    async with place.staged(interceptor=known) as stage:
        call = await stage.start(STAND_IN, b"request", script=UNKNOWN)
        await known.asked_for.wait()
        call.cancel()
        known.go_on.set()
        for _ in range(3):
            assert (await stage.call(PASS, b"x")).replies == (b"x",)


async def test_a_connection_that_ends_meanwhile_is_no_fault(place: Place) -> None:
    known = Answering(b"late")
    async with place.staged(interceptor=known) as stage:
        await stage.start(STAND_IN, b"request", script=UNKNOWN)
        await known.asked_for.wait()
        await stage.client.close()
        await stage.runtime.stop()
        known.go_on.set()
        await asyncio.sleep(0)
        assert stage.errors == []


async def test_these_calls_count_as_calls_that_pass(place: Place) -> None:
    async with place.staged(interceptor=answering(b"reply")) as stage:
        await stage.call(STAND_IN, b"request", script=UNKNOWN)
        await stage.call(STAND_IN, b"request")
        assert stage.relay is not None
        assert stage.relay.boundary.passed[STAND_IN.encode()] == 2
        assert stage.interceptor.asked == []


def test_the_kubelets_method_is_unary(via: str, client: str) -> None:
    assert "/runtime.v1.RuntimeService/RuntimeConfig" in UNARY
