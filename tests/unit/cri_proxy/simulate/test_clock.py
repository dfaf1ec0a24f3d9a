"""Time in a scenario."""

from cri_proxy.simulate.clock import START_SECONDS, ScenarioClock


async def test_waiting_takes_no_time_and_moves_the_clock() -> None:
    clock = ScenarioClock()
    await clock.sleep(3600.0)
    assert (clock.monotonic_seconds(), clock.now_seconds()) == (3600.0, START_SECONDS + 3600.0)


async def test_the_clock_never_goes_back() -> None:
    clock = ScenarioClock()
    await clock.sleep(-5.0)
    assert clock.monotonic_seconds() == 0.0
