"""The relay without sockets: what the interceptor is asked and told."""

import asyncio

import pytest

from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.http2.status import Failed
from cri_proxy.relay.calls import (
    Aborted,
    Call,
    Forward,
    Interest,
    Outcome,
    Refuse,
    Replied,
    Rewrite,
    Verdict,
)
from cri_proxy.relay.inprocess import InProcessRelay
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime

VERSION = RUNTIME + "Version"
REQUEST = pb.VersionRequest(version="1").SerializeToString()
INTERNAL, UNIMPLEMENTED = 13, 12  # gRPC status


class Scripted:
    """Answers every call with ``verdict``, or waits when there is none; keeps what it was told."""

    def __init__(self, verdict: Verdict | None, interest: Interest = Interest.HOLD) -> None:
        self.verdict = verdict
        self.interest = interest
        self.asked: list[Call] = []
        self.told: list[Outcome] = []
        self.reply: bytes | None = None  # in the runtime's place

    def wants(self, method: str) -> Interest:
        return self.interest

    async def on_request(self, call: Call) -> Verdict:
        self.asked.append(call)
        if self.verdict is None:
            await asyncio.Event().wait()
        assert self.verdict is not None
        return self.verdict

    async def stand_in(self, method: str) -> bytes | None:
        return self.reply

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        self.told.append(outcome)


class Scene:
    def __init__(self, scripted: Scripted) -> None:
        self.scripted = scripted
        self.runtime = ScriptedRuntime(small_machine())
        self.faults: list[BaseException] = []
        self.relay = InProcessRelay(scripted, self.runtime, self.faults.append)

    async def call(self, message: bytes = REQUEST) -> bytes:
        return await self.relay.unary(VERSION, message, timeout_seconds=20)


async def test_a_call_that_is_not_wanted_is_not_shown() -> None:
    scene = Scene(Scripted(Forward(), Interest.PASS))
    assert pb.VersionResponse.FromString(await scene.call()).runtime_name
    assert (scene.scripted.asked, scene.scripted.told) == ([], [])


async def test_a_reply_in_the_runtimes_place_stands_only_where_it_does_not_know_the_method() -> None:
    scene = Scene(Scripted(Forward(), Interest.STAND_IN))
    scene.scripted.reply = b"reply"
    assert await scene.call() != b"reply"
    scene.runtime.faults.fail_next("Version", UNIMPLEMENTED, "no")
    assert await scene.call() == b"reply"


@pytest.mark.parametrize(("code", "reply"), [(INTERNAL, b"reply"), (UNIMPLEMENTED, None)])
async def test_every_other_refusal_is_the_runtimes_own(code: int, reply: bytes | None) -> None:
    scene = Scene(Scripted(Forward(), Interest.STAND_IN))
    scene.scripted.reply = reply
    scene.runtime.faults.fail_next("Version", code, "no")
    with pytest.raises(CallFailed) as caught:
        await scene.call()
    assert caught.value.code == code


async def test_a_method_that_is_refused_never_reaches_the_runtime() -> None:
    scene = Scene(Scripted(Forward(), Interest.REFUSE))
    with pytest.raises(CallFailed) as refused:
        await scene.call()
    assert (refused.value.code, scene.scripted.asked) == (12, [])


async def test_a_held_call_goes_on_and_its_reply_is_told() -> None:
    scene = Scene(Scripted(Forward()))
    reply = await scene.call()
    assert scene.scripted.told == [Replied(reply)]


async def test_a_rewritten_call_goes_on_rewritten() -> None:
    scene = Scene(Scripted(Rewrite(b"\xff")))
    with pytest.raises(CallFailed, match="unmarshal"):
        await scene.call()


async def test_a_refused_call_gets_its_status_and_no_outcome() -> None:
    scene = Scene(Scripted(Refuse(8, "no room")))
    with pytest.raises(CallFailed, match="no room") as refused:
        await scene.call()
    assert (refused.value.code, scene.scripted.told) == (8, [])


async def test_a_status_of_the_runtime_is_definite() -> None:
    scene = Scene(Scripted(Forward()))
    scene.runtime.faults.fail_next("Version", 2, "no")
    with pytest.raises(CallFailed):
        await scene.call()
    assert scene.scripted.told == [Failed(2, "no")]


@pytest.mark.parametrize("code", [1, 4, 14])
async def test_a_status_that_only_says_when_the_runtime_gave_up_is_not(code: int) -> None:
    scene = Scene(Scripted(Forward()))
    scene.runtime.faults.fail_next("Version", code, "late")
    with pytest.raises(CallFailed):
        await scene.call()
    assert scene.scripted.told == [Aborted(sent=True)]


async def test_a_runtime_that_is_away_leaves_the_outcome_open() -> None:
    scene = Scene(Scripted(Forward()))
    scene.runtime.go_away()
    with pytest.raises(RuntimeUnavailable):
        await scene.call()
    assert scene.scripted.told == [Aborted(sent=True)]


async def test_a_caller_that_goes_away_before_the_verdict_has_sent_nothing() -> None:
    scene = Scene(Scripted(None))
    calling = asyncio.get_running_loop().create_task(scene.call())
    await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait([calling])
    assert scene.scripted.told == [Aborted(sent=False)]


async def test_streams_pass() -> None:
    scene = Scene(Scripted(Forward()))
    method, request = RUNTIME + "StreamContainers", pb.StreamContainersRequest().SerializeToString()
    assert [reply async for reply in scene.relay.stream(method, request)] == []
    await scene.relay.close()


async def test_losses_are_those_of_the_runtime() -> None:
    scene = Scene(Scripted(Forward()))
    before = scene.relay.losses()
    scene.runtime.go_away()
    assert scene.relay.losses() == scene.runtime.losses() > before
