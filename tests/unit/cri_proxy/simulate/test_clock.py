import asyncio
import threading

import pytest

from cri_proxy.simulate.clock import START_SECONDS, InlineExecutor, ScenarioClock


async def test_waiting_takes_no_time_and_moves_the_clock() -> None:
    clock = ScenarioClock()
    await clock.sleep(3600.0)
    assert (clock.monotonic_seconds(), clock.now_seconds()) == (3600.0, START_SECONDS + 3600.0)


async def test_the_clock_never_goes_back() -> None:
    clock = ScenarioClock()
    await clock.sleep(-5.0)
    assert clock.monotonic_seconds() == 0.0


async def on_a_thread(work: str) -> str:
    """What this gives under ``asyncio.to_thread``; '' raises."""
    asyncio.get_running_loop().set_default_executor(InlineExecutor())

    def give() -> str:
        if not work:
            raise ValueError("nothing to do")
        return f"{work} on {threading.current_thread().name}"

    return await asyncio.to_thread(give)


async def test_it_is_done_on_the_loops_own_thread() -> None:
    assert await on_a_thread("done") == f"done on {threading.main_thread().name}"


async def test_what_it_raises_is_raised_where_it_is_waited_for() -> None:
    with pytest.raises(ValueError, match="nothing to do"):
        await on_a_thread("")
