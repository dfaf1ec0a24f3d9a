"""Scripted misbehaviour of the embedded runtime: failures, waits and delays by method name, for tests and scenarios."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cri_proxy.runtime.embedded.state import Refusal


@dataclass(slots=True)
class _Failure:
    refusal: Refusal
    times: int
    after: bool
    matches: Callable[[bytes], bool]


class Gate:
    """Holds calls of one method until it is released."""

    def __init__(self) -> None:
        """Closed from the start."""
        self._waiters: list[asyncio.Future[None]] = []
        self._arrivals: list[asyncio.Future[None]] = []
        self._open = False

    @property
    def waiting(self) -> int:
        """How many calls stand before it now."""
        return sum(not w.done() for w in self._waiters)

    async def entered(self) -> None:
        """Wait until a call stands before it."""
        if not self.waiting:
            arrival = asyncio.get_running_loop().create_future()
            self._arrivals.append(arrival)
            await arrival

    async def wait(self) -> None:
        """Stand before it. Raises what ``abort`` was given."""
        if self._open:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        for arrival in self._arrivals:
            if not arrival.done():
                arrival.set_result(None)
        self._arrivals.clear()
        await waiter

    def release(self) -> None:
        """Let all through, later ones too."""
        self._open = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    def abort(self, make_error: Callable[[], Exception]) -> None:
        """Fail the calls that stand before it; it stays closed for later ones."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(make_error())
        self._waiters.clear()


def _any(message: bytes) -> bool:
    return True


class Faults:
    """What goes wrong next. Methods are named without service: ``StartContainer``."""

    def __init__(self) -> None:
        """Nothing goes wrong."""
        self._failures: dict[str, list[_Failure]] = {}
        self._gates: dict[str, Gate] = {}
        self._delays_seconds: dict[str, float] = {}

    def fail_next(
        self,
        method: str,
        code: int,
        message: str,
        *,
        times: int = 1,
        after: bool = False,
        matches: Callable[[bytes], bool] = _any,
    ) -> None:
        """Answer the next calls with this status. ``after``: they take effect all the same.

        ``matches`` picks the calls by their request message.
        """
        self._failures.setdefault(method, []).append(_Failure(Refusal(code, message), times, after, matches))

    def block(self, method: str) -> Gate:
        """Hold every call of a method until the gate is released."""
        return self._gates.setdefault(method, Gate())

    def delay(self, method: str, seconds: float) -> None:
        """Answer calls of a method this much later; 0 ends that."""
        self._delays_seconds[method] = seconds

    def clear(self) -> None:
        """Nothing goes wrong any more; held calls go on."""
        for gate in self._gates.values():
            gate.release()
        self._failures.clear()
        self._gates.clear()
        self._delays_seconds.clear()

    def check(self, method: str, message: bytes, *, after: bool) -> None:
        """Raise the Refusal that is due for this call before, or after, it takes effect."""
        due = self._failures.get(method, [])
        for failure in due:
            if failure.after == after and failure.matches(message):
                failure.times -= 1
                if failure.times <= 0:
                    due.remove(failure)
                raise Refusal(failure.refusal.code, failure.refusal.message)

    async def pause(self, method: str) -> None:
        """Wait as long as a call of this method is to be held."""
        if seconds := self._delays_seconds.get(method):
            await asyncio.sleep(seconds)
        if gate := self._gates.get(method):
            await gate.wait()

    def abort(self, make_error: Callable[[], Exception]) -> None:
        """Fail every call that is held now."""
        for gate in self._gates.values():
            gate.abort(make_error)
