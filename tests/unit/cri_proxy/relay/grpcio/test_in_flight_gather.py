"""Replies wait while in_flight are being gathered, and gathering ends when nobody calls any more."""

import asyncio

from cri_proxy.relay.grpcio.in_flight import InFlight


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
