"""Calls under way: some are waited for, some are ended, and each is forgotten when it is over."""

import asyncio

import pytest

from cri_proxy.relay.in_flight import Flight
from cri_proxy.tasks import Tasks


@pytest.fixture
def flight() -> Flight:
    return Flight()


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_it_has_landed_when_the_last_counted_call_has_ended(flight: Flight) -> None:
    may_end = asyncio.Event()

    async def wait() -> None:
        await may_end.wait()

    tasks = Tasks()
    for _ in range(2):
        tasks.start(flight.counted(wait)())
    await asyncio.sleep(0)
    landed = tasks.start(flight.landed())
    await asyncio.sleep(0)
    assert not landed.done()
    may_end.set()
    await tasks.join()


async def test_a_call_that_fails_has_ended_too(flight: Flight) -> None:
    async def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        await flight.counted(fail)()
    await flight.landed()


async def test_nobody_waits_for_a_call_without_end_and_it_is_ended_with_a_word(flight: Flight) -> None:
    said: list[str] = []

    async def say() -> None:
        said.append("the end")

    call = Tasks().start(flight.endless(for_ever, say)())
    await asyncio.sleep(0)
    await flight.landed()
    assert not call.done()
    flight.end()
    await call
    assert said == ["the end"]


async def test_a_call_that_could_have_gone_on_and_ended_by_itself_is_left_alone(flight: Flight) -> None:
    async def answer() -> None:
        return

    await flight.endless(answer, for_ever)()
    flight.end()


async def test_what_timed_out_inside_a_call_is_not_our_word_to_end(flight: Flight) -> None:
    async def times_out() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await flight.endless(times_out, for_ever)()
