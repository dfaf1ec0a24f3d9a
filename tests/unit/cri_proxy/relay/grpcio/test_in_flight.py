import asyncio

import pytest

from cri_proxy.relay.grpcio.in_flight import InFlight
from cri_proxy.tasks import Tasks


@pytest.fixture
def in_flight() -> InFlight:
    return InFlight()


async def wait_without_end() -> None:
    await asyncio.Event().wait()


async def test_it_has_ended_when_the_last_counted_call_has_ended(in_flight: InFlight) -> None:
    may_end = asyncio.Event()

    async def wait() -> None:
        await may_end.wait()

    tasks = Tasks()
    for _ in range(2):
        tasks.start(in_flight.counted(wait)())
    await asyncio.sleep(0)
    ended = tasks.start(in_flight.ended())
    await asyncio.sleep(0)
    assert not ended.done()
    may_end.set()
    await tasks.join()


async def test_a_call_that_fails_has_ended_too(in_flight: InFlight) -> None:
    async def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        await in_flight.counted(fail)()
    await in_flight.ended()


async def test_nobody_waits_for_a_call_without_end_and_it_is_ended_with_a_word(in_flight: InFlight) -> None:
    said: list[str] = []

    async def say() -> None:
        said.append("the end")

    call = Tasks().start(in_flight.endless(wait_without_end, say)())
    await asyncio.sleep(0)
    await in_flight.ended()
    assert not call.done()
    in_flight.end_endless()
    await call
    assert said == ["the end"]


async def test_a_call_that_could_have_gone_on_and_ended_by_itself_is_left_alone(in_flight: InFlight) -> None:
    words: list[str] = []

    async def answer() -> None:
        words.append("its own")

    async def say() -> None:
        words.append("the end")

    async def caller() -> None:
        await in_flight.endless(answer, say)()
        await asyncio.sleep(0)  # where an end that came too late would be delivered
        words.append("goes on")

    call = Tasks().start(caller())
    await asyncio.sleep(0)
    in_flight.end_endless()
    await call
    assert words == ["its own", "goes on"]


async def test_what_timed_out_inside_a_call_is_not_our_word_to_end(in_flight: InFlight) -> None:
    async def times_out() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await in_flight.endless(times_out, wait_without_end)()


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def ask(in_flight: InFlight) -> str:
    async def answer(word: str) -> str:
        return word

    in_flight.arrived()
    return await in_flight.counted(answer)("a reply")


async def test_a_reply_goes_out_at_once_when_nobody_gathers() -> None:
    assert await ask(InFlight()) == "a reply"


async def test_a_reply_waits_for_the_end_of_a_gathering() -> None:
    in_flight = InFlight(tick_seconds=0)
    gathering = asyncio.get_running_loop().create_task(in_flight.gather())
    await turns(1)
    asking = asyncio.get_running_loop().create_task(ask(in_flight))
    await gathering
    await turns(3)
    assert not asking.done()
    in_flight.release()
    assert await asking == "a reply"


async def test_whoever_waits_for_one_reply_before_the_next_call_is_gathered() -> None:
    in_flight, calls = InFlight(tick_seconds=0), 0

    async def call_for_ever() -> None:
        nonlocal calls
        while True:
            calls += 1
            await ask(in_flight)
            await turns(1)

    caller = asyncio.get_running_loop().create_task(call_for_ever())
    await turns(20)
    await in_flight.gather()
    there = calls
    await turns(20)
    assert (there > 5, calls - there) == (True, 0)
    caller.cancel()


async def test_in_flight_without_end_do_not_keep_it_for_ever() -> None:
    in_flight = InFlight(tick_seconds=0)

    async def call_for_ever() -> None:
        while True:
            in_flight.arrived()
            await asyncio.sleep(0)

    caller = asyncio.get_running_loop().create_task(call_for_ever())
    async with asyncio.timeout(20):
        await in_flight.gather()
    caller.cancel()
