import asyncio
from collections.abc import Callable

from cri_proxy.daemon.loop_lag import (
    HELD_SECONDS,
    IDLE_CPU_SECONDS,
    IDLE_PERIOD_SECONDS,
    PERIOD_SECONDS,
    SHOWN_SECONDS,
    LoopLag,
)
from cri_proxy.metrics import catalog
from cri_proxy.metrics.exposition import Distribution
from tests.testbed.wait import until


class HeldLoop:
    """Timers that run when the test says how late; its time passes in no other way."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cpu = 0.0
        self.waited = 0.0
        self._next: tuple[float, Callable[[], object]] | None = None

    def call_later(self, delay: float, callback: Callable[[], object], /) -> "HeldLoop":
        self._next = (self.now + delay, callback)
        return self

    def cancel(self) -> None:
        self._next = None

    def run_next(self, *, late_seconds: float, waited_seconds: float = 0.0) -> None:
        assert self._next is not None
        due, callback = self._next
        self.now = due + late_seconds
        self.waited += waited_seconds
        callback()

    @property
    def wait_seconds(self) -> float:
        assert self._next is not None
        return round(self._next[0] - self.now, 6)

    @property
    def is_waited_for(self) -> bool:
        return self._next is not None


def measured(*late_seconds: float) -> tuple[HeldLoop, LoopLag]:
    loop = HeldLoop()
    lag = LoopLag(loop, lambda: loop.now, lambda: loop.cpu, lambda: loop.waited)
    lag.start()
    for seconds in late_seconds:
        loop.run_next(late_seconds=seconds)
    return loop, lag


def counts(lag: LoopLag) -> Distribution:
    sample, _ = lag.samples()
    assert isinstance(sample.value, Distribution)
    return sample.value


def test_each_wake_up_counts_under_its_lag() -> None:
    _, lag = measured(0.0, 0.0005, 0.7)
    assert [count for count in counts(lag).counts if count] == [2, 1]
    assert round(counts(lag).total, 4) == 0.7005


def test_a_timer_that_comes_too_early_is_not_late() -> None:
    _, lag = measured(-0.01)
    assert counts(lag).total == 0


def test_a_loop_that_is_in_time_is_not_spoken_of() -> None:
    _, lag = measured(0.0, HELD_SECONDS / 2)
    assert lag.warnings() == ()


def test_the_longest_lag_is_shown_with_its_age() -> None:
    loop, lag = measured(0.5, 1.5, 0.5)
    (warning,) = lag.warnings()
    assert warning.startswith("the event loop was held up for 1.50 s less than a minute ago")
    loop.now += 120
    assert "1.50 s 2 min ago" in lag.warnings()[0]


def test_a_loop_that_got_no_cpu_is_starved_and_not_held_up() -> None:
    loop, lag = measured()
    loop.run_next(late_seconds=1.5, waited_seconds=1.25)
    (warning,) = lag.warnings()
    assert warning.startswith("the event loop was 1.50 s late, 1.25 s of them starved of CPU time")
    loop.run_next(late_seconds=2.0, waited_seconds=0.25)
    (warning,) = lag.warnings()
    assert warning.startswith("the event loop was held up for 2.00 s")


def test_all_waiting_for_a_cpu_is_counted() -> None:
    loop, lag = measured()
    loop.run_next(late_seconds=0.0, waited_seconds=0.25)
    loop.run_next(late_seconds=0.5, waited_seconds=0.5)
    *_, waited = lag.samples()
    assert (waited.metric, waited.value) == (catalog.CPU_WAIT, 0.75)


def test_what_was_long_ago_gives_way_to_what_is_now() -> None:
    loop, lag = measured(1.5)
    loop.now += SHOWN_SECONDS + 1
    assert lag.warnings() == ()
    lag.start()
    loop.run_next(late_seconds=0.3)
    assert "0.30 s" in lag.warnings()[0]


def test_once_stopped_it_does_not_wake_the_loop_any_more() -> None:
    loop, lag = measured(0.0)
    lag.stop()
    assert not loop.is_waited_for
    lag.stop()


def test_an_idle_loop_is_woken_less_often_than_one_that_works() -> None:
    loop, _ = measured(0.0)
    assert loop.wait_seconds == IDLE_PERIOD_SECONDS
    loop.cpu += IDLE_CPU_SECONDS
    loop.run_next(late_seconds=0.0)
    assert loop.wait_seconds == PERIOD_SECONDS
    loop.run_next(late_seconds=0.0)
    assert loop.wait_seconds == IDLE_PERIOD_SECONDS


async def test_a_real_loop_is_measured() -> None:
    lag = LoopLag(asyncio.get_running_loop())
    lag.start()

    async def woken() -> bool:
        return sum(counts(lag).counts) == 1

    await until("it has woken", woken, seconds=60)
    lag.stop()
