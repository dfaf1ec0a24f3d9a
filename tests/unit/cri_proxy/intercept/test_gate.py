import asyncio

import pytest

from cri_proxy.cri.methods import BY_PATH
from cri_proxy.http2.status import Code
from cri_proxy.intercept.gate import CREATE, OLD_RUNTIME, RUNTIME, START, UPDATE, DecisionGate, interest_of
from cri_proxy.relay.calls import Aborted, Call, Forward, Interest, Outcome, Refuse, Replied, Verdict

CALL = Call(1, CREATE, b"")
STOP = Call(2, RUNTIME + "StopContainer", b"")


class Decider:
    """Answers Forward once it may, and remembers what it was told and whether it was given up."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.was_cancelled = False
        self.outcomes: list[Outcome] = []

    def wants(self, method: str) -> Interest:
        raise AssertionError(f"the gate knows itself what is held: {method}")

    async def on_request(self, call: Call) -> Verdict:
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return Forward()

    async def stand_in(self, method: str) -> bytes | None:
        return method.encode()

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def opened() -> tuple[DecisionGate, Decider]:
    gate, decider = DecisionGate(), Decider()
    gate.open(decider)
    return gate, decider


def was_turned_away(verdict: Verdict) -> bool:
    return isinstance(verdict, Refuse) and verdict.was_unseen and verdict.code == Code.UNAVAILABLE


@pytest.mark.parametrize(
    ("method", "interest"),
    [
        (CREATE, Interest.HOLD),
        (RUNTIME + "Version", Interest.PASS),
        ("/runtime.v1alpha2.RuntimeService/Version", Interest.REFUSE),
    ],
)
def test_what_is_held_is_known_before_anybody_decides(method: str, interest: Interest) -> None:
    assert DecisionGate().wants(method) is interest


async def test_a_call_waits_for_the_decider() -> None:
    gate = DecisionGate()
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(gate.on_request(CALL))
        await asyncio.sleep(0)
        assert not asked.done()
        gate.open(Decider())
    assert asked.result() == Forward()


async def test_a_call_that_has_waited_long_is_refused_and_not_sent_again_at_once() -> None:
    verdict = await DecisionGate(wait_seconds=0.01).on_request(CALL)
    assert isinstance(verdict, Refuse)
    assert (verdict.code, verdict.was_unseen) == (Code.UNAVAILABLE, False)


async def test_closing_waits_for_what_was_sent_on_and_lets_nobody_else_in() -> None:
    gate, decider = opened()
    await gate.on_request(CALL)
    async with asyncio.TaskGroup() as group:
        closing = group.create_task(gate.close(5))
        await asyncio.sleep(0)
        assert was_turned_away(await gate.on_request(Call(3, CREATE, b"")))
        assert not closing.done()
        gate.on_outcome(CALL, Replied(b"id"))
    assert closing.result()
    assert decider.outcomes == [Replied(b"id")]


async def test_after_closing_nobody_here_learns_an_outcome() -> None:
    gate, decider = opened()
    await gate.on_request(CALL)
    assert not await gate.close(0.01)
    gate.on_outcome(CALL, Aborted(sent=True))
    assert decider.outcomes == []


async def stop_in_flight() -> bool:
    gate, _ = opened()
    await gate.on_request(STOP)
    return await gate.close(60)


async def test_a_stop_that_lasts_is_not_waited_for() -> None:
    assert await asyncio.wait_for(stop_in_flight(), 20)


async def test_what_is_not_decided_by_then_is_given_up_and_turned_away() -> None:
    gate, decider = opened()
    decider.may_answer.clear()
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(gate.on_request(CALL))
        await asyncio.sleep(0)
        assert not await gate.close(0.01)
    assert was_turned_away(asked.result())
    assert decider.was_cancelled


async def test_a_fault_of_the_decider_is_not_taken_for_the_end() -> None:
    class Broken(Decider):
        async def on_request(self, call: Call) -> Verdict:
            raise TimeoutError

    gate = DecisionGate()
    gate.open(Broken())
    with pytest.raises(TimeoutError):
        await gate.on_request(CALL)


@pytest.mark.parametrize("method", [CREATE, START, UPDATE, RUNTIME + "StopPodSandbox"])
def test_what_changes_who_holds_what_is_held(method: str) -> None:
    assert interest_of(method) is Interest.HOLD


@pytest.mark.parametrize(
    "method", [RUNTIME + "Version", RUNTIME + "ExecSync", "/runtime.v1.ImageService/PullImage", "/x"]
)
def test_the_rest_passes(method: str) -> None:
    assert interest_of(method) is Interest.PASS


def test_the_old_interface_is_refused_for_it_would_be_served_unpinned() -> None:
    assert interest_of(OLD_RUNTIME + "CreateContainer") is Interest.REFUSE


def test_every_method_that_is_held_exists() -> None:
    held = {path for path in BY_PATH if interest_of(path) is Interest.HOLD}
    assert len(held) == 10


async def test_a_call_that_the_runtime_does_not_know_waits_for_the_decider() -> None:
    gate = DecisionGate()
    async with asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(gate.stand_in("/m"))
        await asyncio.sleep(0)
        assert not asked.done()
        gate.open(Decider())
    assert asked.result() == b"/m"


async def test_without_a_decider_the_runtimes_own_answer_goes_on() -> None:
    assert await DecisionGate(wait_seconds=0.01).stand_in("/m") is None
    gate = DecisionGate()
    gate.open(Decider())
    await gate.close(0.0)
    assert await gate.stand_in("/m") is None
