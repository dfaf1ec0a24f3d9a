"""Send the status to open pages as server-sent events, whole at first and then what changes; made once for all of them.

https://html.spec.whatwg.org/multipage/server-sent-events.html. Nothing is looked at while no page is open.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import fields
from typing import Final, TypeVar

from cri_proxy.clock import Clock
from cri_proxy.http.limits import FairShare
from cri_proxy.http.messages import Run
from cri_proxy.http.routes import object_text, status_text
from cri_proxy.node.status.daemon_view import DaemonView
from cri_proxy.node.status.model import ContainerView, StatusView
from cri_proxy.steps import Steps, bunches
from cri_proxy.tasks import Tasks

T = TypeVar("T")

TICK_SECONDS: Final = 1.0
"""How often is looked whether something may have changed."""
POLL_SECONDS: Final = 0.25
"""How late a page hears of it then."""
FIRST_POLL_SECONDS: Final = 0.02
"""How late a page that has just been opened gets the first status: a person waits for it."""
LOOK_SECONDS: Final = 30.0
"""How late a change is seen that ``DaemonView.mark`` does not show: a warning, a device."""
ALIVE_SECONDS: Final = 15.0
"""How long a stream may be silent: a client that has left unseen is found by what it is sent."""
SHARE: Final = 0.005
"""The part of a CPU that looks may take in the long run, however many pages are open and however much changes."""
SAVED_SECONDS: Final = 20.0
"""How long a time without looks counts: what happens then is shown at once."""


_LISTS: Final = ("containers", "pools")
_BUNCH: Final = 250  # comparisons, about half a millisecond


class Budget:
    """Allows work that takes ``SHARE`` of the time; what is saved in ``SAVED_SECONDS`` may be used at once."""

    def __init__(self) -> None:
        """Begin with all that can be saved."""
        self._free_at_seconds = float("-inf")

    def allows(self, now_seconds: float) -> bool:
        """Return whether more work may begin."""
        return now_seconds >= self._free_at_seconds

    def spend(self, seconds: float, now_seconds: float) -> None:
        """Count work that took so long."""
        since = max(self._free_at_seconds, now_seconds - SAVED_SECONDS)
        self._free_at_seconds = since + seconds / SHARE


class StatusFeed:
    """The last status that was looked at, numbered, and the event that leads to it from the one before."""

    def __init__(
        self,
        view: DaemonView,
        clock: Clock,
        on_error: Callable[[BaseException], None],
        cpu_seconds: Callable[[], float] = time.thread_time,
    ) -> None:
        """Look at nothing before the first page is open.

        ``on_error`` gets why a look failed: then the streams end. ``cpu_seconds`` is the CPU time of this thread.
        """
        self._source, self._clock, self._cpu_seconds = view, clock, cpu_seconds
        self._share, self._budget, self._looking = FairShare(clock), Budget(), Tasks(on_error)
        self._pages = 0
        self._task: asyncio.Task[object] | None = None
        self._number = 0
        self._view: StatusView | None = None
        self._change: bytes | None = None  # None: there is no way from the one before but the whole
        self._mark: object = None
        self._looked_at_seconds = 0.0

    async def events(self, run: Run) -> AsyncGenerator[bytes, None]:
        """Yield the status as an event, then its changes; b"" now and then, so that a client that has left is noticed.

        ``run`` runs what is made for this page alone.
        """
        self._pages += 1
        if self._task is None or self._task.done():  # none was open, or looking has failed
            self._task = self._looking.start(self._look_on(), name="status feed")
        shown, sent_at_seconds = -1, self._clock.monotonic_seconds()
        try:
            while self._task is not None and not self._task.done():
                event, shown = await self._after(shown, run)
                now_seconds = self._clock.monotonic_seconds()
                if not event and now_seconds - sent_at_seconds >= ALIVE_SECONDS:
                    event = b":\n\n"
                sent_at_seconds = now_seconds if event else sent_at_seconds
                yield event
                await self._clock.sleep(POLL_SECONDS if shown >= 0 else FIRST_POLL_SECONDS)
        finally:
            self._pages -= 1
            if not self._pages:
                self._rest()

    async def _after(self, shown: int, run: Run) -> tuple[bytes, int]:
        """Return what leads from the status of this number to the last one, b"" where it is that, and its number."""
        number, view, change = self._number, self._view, self._change
        if view is None or shown == number:
            return b"", shown
        if change is not None and shown == number - 1:
            return change, number
        return await run(_whole(view)), number

    def _rest(self) -> None:
        """Look no more, and keep nothing."""
        if self._task is not None:
            self._task.cancel()
        self._task = self._view = self._change = None

    async def _look_on(self) -> None:
        """Look whenever something may have changed, as far as the budget allows."""
        while True:
            now_seconds, mark = self._clock.monotonic_seconds(), self._source.mark()
            is_due = mark != self._mark or now_seconds - self._looked_at_seconds >= LOOK_SECONDS
            if self._view is None or (is_due and self._budget.allows(now_seconds)):
                # As of before the look: what changes during its steps is due again.
                self._mark, self._looked_at_seconds = mark, now_seconds
                await self._share.run(self._counted(self._look()))
            await self._clock.sleep(TICK_SECONDS)

    def _look(self) -> Steps[None]:
        """Take the status of now, and make the event of what has changed since the last one."""
        view = yield from self._source.status_steps()
        change = None
        if self._view is not None:
            members = yield from changed_members(self._view, view)
            if members == {}:
                return
            if members is not None:
                text = yield from object_text(members.items())
                change = _event("change", text)
        self._view, self._change, self._number = view, change, self._number + 1

    def _counted(self, work: Steps[None]) -> Steps[None]:
        """Do this work, and take the CPU time of its steps from the budget: on a busy node they last far longer."""
        seconds, is_done = 0.0, False
        while not is_done:
            began_seconds = self._cpu_seconds()
            try:
                next(work)
            except StopIteration:
                is_done = True
            seconds += self._cpu_seconds() - began_seconds
            yield
        self._budget.spend(seconds, self._clock.monotonic_seconds())


def _whole(view: StatusView) -> Steps[bytes]:
    text = yield from status_text(view)
    return _event("status", text)


def _event(name: str, text: str) -> bytes:
    """Return a line of JSON as an event."""
    return f"event: {name}\ndata: {text}\n\n".encode()


def container_key(container: ContainerView) -> str:
    """Return the words that tell a container from all others: a pod's uid, its name."""
    return f"{container.pod_uid}/{container.name}"


def changed_members(before: StatusView, after: StatusView) -> Steps[dict[str, object] | None]:
    """Return the members that differ; of ``containers`` and ``pools`` the changed items, of which ``gone`` are no more.

    Nothing has changed where it is empty. None: the machine or the pools are others, so that all must be sent.
    """
    names = [pool.name for pool in after.pools]
    if before.map != after.map or [pool.name for pool in before.pools] != names:
        return None
    members: dict[str, object] = {
        field.name: getattr(after, field.name)
        for field in fields(StatusView)
        if field.name not in _LISTS and getattr(before, field.name) != getattr(after, field.name)
    }
    pools = yield from _changed(before.pools, after.pools, lambda pool: pool.name)
    containers = yield from _changed(before.containers, after.containers, container_key)
    gone = {container_key(each) for each in before.containers} - {container_key(each) for each in after.containers}
    lists = {"pools": pools, "containers": containers, "gone": tuple(sorted(gone))}
    return members | {name: items for name, items in lists.items() if items}


def _changed(before: Iterable[T], after: tuple[T, ...], key: Callable[[T], str]) -> Steps[tuple[T, ...]]:
    known = {key(item): item for item in before}
    found: list[T] = []
    for bunch in bunches(after, _BUNCH):
        yield
        found += (item for item in bunch if known.get(key(item)) != item)
    return tuple(found)
