"""Replies wait while callers are being gathered, and gathering ends when nobody calls any more."""

import asyncio

from cri_proxy.relay.open_calls import Callers


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def ask(callers: Callers) -> str:
    async def answer(word: str) -> str:
        return word

    callers.called()
    return await callers.held(answer)("a reply")


async def test_a_reply_goes_out_at_once_when_nobody_gathers() -> None:
    assert await ask(Callers()) == "a reply"


async def test_a_reply_waits_for_the_end_of_a_gathering() -> None:
    callers = Callers(tick_seconds=0)
    gathering = asyncio.get_running_loop().create_task(callers.gather())
    await turns(1)
    asking = asyncio.get_running_loop().create_task(ask(callers))
    await gathering
    await turns(3)
    assert not asking.done()
    callers.let_go()
    assert await asking == "a reply"


async def test_whoever_waits_for_one_reply_before_the_next_call_is_gathered() -> None:
    callers, calls = Callers(tick_seconds=0), 0

    async def call_for_ever() -> None:
        nonlocal calls
        while True:
            calls += 1
            await ask(callers)
            await turns(1)

    caller = asyncio.get_running_loop().create_task(call_for_ever())
    await turns(20)
    await callers.gather()
    there = calls
    await turns(20)
    assert (there > 5, calls - there) == (True, 0)
    caller.cancel()


async def test_callers_without_end_do_not_keep_it_for_ever() -> None:
    callers = Callers(tick_seconds=0)

    async def call_for_ever() -> None:
        while True:
            callers.called()
            await asyncio.sleep(0)

    caller = asyncio.get_running_loop().create_task(call_for_ever())
    async with asyncio.timeout(20):
        await callers.gather()
    caller.cancel()
