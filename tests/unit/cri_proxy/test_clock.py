import asyncio

from cri_proxy.clock import Clock, SteadySeconds, SystemClock
from cri_proxy.tasks import Tasks
from tests.fakes.clock import ManualClock


def test_the_monotonic_clock_never_goes_back() -> None:
    clock: Clock = SystemClock()
    assert clock.monotonic_seconds() <= clock.monotonic_seconds()


def test_time_goes_on_from_where_it_was_when_the_machine_s_clock_is_set_back() -> None:
    machine = [0.0]
    steady = SteadySeconds(lambda: machine[0])

    def told_at(reading: float) -> float:
        machine[0] = reading
        return steady()

    readings = (5000.0, 5002.0, 1402.0, 1403.5, 3.5, 4.5)
    assert list(map(told_at, readings)) == [5000.0, 5002.0, 5002.0, 5003.5, 5003.5, 5004.5]


def test_the_system_clock_counts_from_the_epoch() -> None:
    assert SystemClock().now_seconds() > 1_700_000_000


async def test_a_negative_wait_only_lets_others_run() -> None:
    turns: list[str] = []

    async def other() -> None:
        turns.append("other")

    waits = Tasks().start(other())
    await SystemClock().sleep(-1.0)
    turns.append("goes on")
    await waits
    assert turns == ["other", "goes on"]


async def test_hours_pass_in_no_time_on_the_manual_clock() -> None:
    clock = ManualClock(0.0)
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(clock.now_seconds())

    async with asyncio.TaskGroup() as group:
        for seconds in (7200.0, 3600.0):
            group.create_task(sleeper(seconds))
        await asyncio.sleep(0)
        await clock.advance(7200.0)
    assert woken == [3600.0, 7200.0]
