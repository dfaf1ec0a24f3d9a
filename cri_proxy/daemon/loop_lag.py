"""Measure how late the event loop runs a timer: every call may wait that long before anything is done for it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from cri_proxy.clock import steady_seconds
from cri_proxy.daemon.cpu_wait import is_starved, waited_seconds
from cri_proxy.metrics import catalog
from cri_proxy.metrics.counters import Histogram
from cri_proxy.metrics.exposition import Sample

# A turn of the loop that takes longer than the period is always seen, a shorter one by chance. A wake-up costs 80 us on
# a node that is otherwise idle: 0.03 % of a CPU at four a second, hence one a second while the loop's thread has done
# next to nothing.
PERIOD_SECONDS: Final = 0.25
IDLE_PERIOD_SECONDS: Final = 1.0
IDLE_CPU_SECONDS: Final = 0.001  # since the last wake-up: a handful of calls
# A kubelet notices: its own limit for a status of the runtime is two seconds, and several calls wait one after another.
HELD_SECONDS: Final = 0.25
SHOWN_SECONDS: Final = 600.0  # how long the status shows the longest one


class Timer(Protocol):
    """A scheduled callback, as ``asyncio.TimerHandle``."""

    def cancel(self) -> object:
        """Do not run it."""


class Timers(Protocol):
    """The part of an event loop that is measured."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Timer:
        """Run ``callback`` after ``delay`` seconds."""


@dataclass(eq=False)
class LoopLag:
    """A histogram of the loop's lag, and the longest one of late; ``start`` begins.

    ``cpu_seconds`` is the CPU time of its thread, ``waited`` the time that this thread has waited for a CPU.
    """

    _loop: Timers
    _seconds: Callable[[], float] = steady_seconds  # not the loop's own clock, which some loops read once a turn
    _cpu_seconds: Callable[[], float] = time.thread_time
    _waited: Callable[[], float] = waited_seconds
    _cpu_before: float = field(default=0.0, init=False)
    _waited_before: float = field(default=0.0, init=False)
    _lag: Histogram = field(default_factory=lambda: Histogram(catalog.LOOP_LAG.buckets), init=False)
    _longest_seconds: float = field(default=0.0, init=False)
    _longest_waited: float = field(default=0.0, init=False)
    _longest_at: float = field(default=0.0, init=False)
    _due: float = field(default=0.0, init=False)
    _timer: Timer | None = field(default=None, init=False)

    def start(self) -> None:
        """Measure until ``stop``."""
        before, self._cpu_before = self._cpu_before, self._cpu_seconds()
        is_idle = self._cpu_before - before < IDLE_CPU_SECONDS
        period = IDLE_PERIOD_SECONDS if is_idle else PERIOD_SECONDS
        self._waited_before = self._waited()
        self._due = self._seconds() + period
        self._timer = self._loop.call_later(period, self._wake)

    def stop(self) -> None:
        """Measure no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self) -> None:
        now = self._seconds()
        lag = max(0.0, now - self._due)
        self._lag.measure(lag)
        if lag >= HELD_SECONDS and (lag >= self._longest_seconds or not self._is_shown(now)):
            self._longest_seconds, self._longest_at = lag, now
            self._longest_waited = min(lag, self._waited() - self._waited_before)
        self.start()

    def _is_shown(self, now: float) -> bool:
        return now - self._longest_at <= SHOWN_SECONDS

    def samples(self) -> Iterator[Sample]:
        """Yield the histogram, and how long the loop's thread has waited for a CPU."""
        yield Sample(catalog.LOOP_LAG, self._lag.distribution())
        yield Sample(catalog.CPU_WAIT, self._waited_before)

    def warnings(self) -> tuple[str, ...]:
        """Return the longest lag of the last ten minutes as a sentence, if calls had to wait for it."""
        now = self._seconds()
        if not self._longest_seconds or not self._is_shown(now):
            return ()
        minutes = int((now - self._longest_at) / 60)
        when = f"{minutes} min ago" if minutes else "less than a minute ago"
        lag, waited = self._longest_seconds, self._longest_waited
        held = f"held up for {lag:.2f} s"
        if is_starved(waited, lag):
            held = f"{lag:.2f} s late, {waited:.2f} s of them starved of CPU time by other processes or a limit,"
        return (f"the event loop was {held} {when}: every call waited that long (docs/alerts.md, CriProxyLoopHeld)",)
