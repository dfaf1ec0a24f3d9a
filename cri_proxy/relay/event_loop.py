"""The event loop of all that serves: asyncio's own, with a selector that serves the relay's sockets before it returns.

A call that passes through moves bytes from one socket to another and schedules nothing. asyncio would wrap each such
event in a handle and go round its loop for it. Here the selector calls the socket's handler and polls again. asyncio
gets control back when a descriptor of its own is ready, a timer is due, or a handler has scheduled something.
"""

import asyncio
import os
import select
import time
from collections.abc import Callable, Coroutine
from contextvars import Context
from selectors import EVENT_READ, EVENT_WRITE, EpollSelector, SelectorKey
from typing import Final, TypeVar, TypeVarTuple, cast

from cri_proxy.clock import steady_seconds

READABLE: Final = select.EPOLLIN
WRITABLE: Final = select.EPOLLOUT
_Result = TypeVar("_Result")
_Ts = TypeVarTuple("_Ts")

_MAX_EVENTS: Final = 64  # of one poll: what asyncio schedules waits no longer than these take

OnReady = Callable[[int], None]
"""Serve a socket, given its events as in epoll(7). Must not raise."""


class RelaySelector(EpollSelector):
    """An epoll selector that calls handlers of sockets as these become ready, inside of ``select``."""

    def __init__(self) -> None:
        """Open the epoll instance, which asyncio's descriptors and the relay's share."""
        super().__init__()
        # A descriptor of its own for the same instance, as both objects close theirs. The base class hides its object.
        self._epoll = select.epoll.fromfd(os.dup(self.fileno()))
        self._handlers: dict[int, OnReady] = {}
        self._watched: dict[int, int] = {}
        self.must_return = False  # a handler scheduled something: asyncio gets control back

    def watch(self, descriptor: int, handler: OnReady, events: int) -> None:
        """Call ``handler`` whenever one of ``events`` (READABLE, WRITABLE) or an error occurs; 0 ends it."""
        before = self._watched.get(descriptor, 0)
        if not events:  # an empty mask would not do: epoll reports hang-ups whatever it is asked for
            if before:
                self._epoll.unregister(descriptor)
                del self._handlers[descriptor], self._watched[descriptor]
            return
        self._handlers[descriptor] = handler
        if not before:
            self._epoll.register(descriptor, events)
        elif events != before:
            self._epoll.modify(descriptor, events)
        self._watched[descriptor] = events

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Serve sockets until asyncio has something to do; return those of its own descriptors that are ready.

        ``timeout`` in seconds: None waits, 0 or less does not.
        """
        poll, handlers, ready = self._epoll.poll, self._handlers, list[tuple[SelectorKey, int]]()
        left = -1.0 if timeout is None else max(0.0, timeout)  # poll rounds up to its unit, a millisecond
        # The bare clock: it is read at every event, and one that was set back ends the wait below.
        began = time.monotonic() if left > 0 else 0.0
        ends = began + left
        # What was scheduled before this call is in ``timeout`` already.
        self.must_return = False
        while True:
            for descriptor, events in poll(left, _MAX_EVENTS):
                handler = handlers.get(descriptor)
                if handler is not None:
                    handler(events)
                elif (key := self.get_map().get(descriptor)) is not None:  # None: a handler before closed it
                    ready.append((key, _as_selected(events) & key.events))
            if ready or self.must_return or not left:
                return ready
            if began:
                now = time.monotonic()
                if not began <= now < ends:  # earlier: it was set back, and asyncio looks at its timers
                    return ready
                left = ends - now

    def close(self) -> None:
        """Close the epoll instance."""
        self._epoll.close()
        self._handlers.clear()
        super().close()


class RelayLoop(asyncio.SelectorEventLoop):
    """asyncio's loop on a ``RelaySelector``."""

    def __init__(self) -> None:
        """Open the selector as ``sockets``."""
        self.sockets = RelaySelector()
        super().__init__(self.sockets)

    def time(self) -> float:
        """See asyncio. Timers go on where the machine's clock is set back."""
        return steady_seconds()

    # As asyncio does, without its checks, which take five calls: some forty times for each pod that starts.
    # call_soon_threadsafe needs none of this: it wakes asyncio's own pipe, which ends a ``select``.
    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """See asyncio. Also ends a ``select`` that a handler runs in."""
        self.sockets.must_return = True
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]  # private to asyncio
        return handle

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio. Also ends a ``select`` that a handler runs in: it may wait longer than this."""
        self.sockets.must_return = True
        return super().call_at(when, callback, *args, context=context)


def _as_selected(events: int) -> int:
    """Return events of epoll as those of ``selectors``: an error makes a descriptor readable and writable."""
    return (EVENT_READ if events & ~WRITABLE else 0) | (EVENT_WRITE if events & ~READABLE else 0)


def relay_selector() -> RelaySelector:
    """Return the selector of the running loop, a ``RelayLoop``."""
    return cast(RelayLoop, asyncio.get_running_loop()).sockets


def run_on_loop(work: Coroutine[object, object, _Result]) -> _Result:
    """Run this on a ``RelayLoop`` and return its result; signals are left to ``cri_proxy.tasks``."""
    with asyncio.Runner(loop_factory=RelayLoop) as runner:
        # Not runner.run, which puts a handler of its own on SIGINT.
        return runner.get_loop().run_until_complete(work)
