"""Keep the health of devices up to date: ask now and then, and keep what was known last where there is no answer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.file_workers import FileCalls, FilesFailed
from cri_proxy.inventory.health import DeviceHealth, unknown_devices, with_health, with_last_known
from cri_proxy.inventory.health_source import ANSWER_SECONDS, NO_HEALTH, HealthSource, health_of
from cri_proxy.tasks import Tasks
from cri_proxy.yaml_fields import DocumentError
from policies.devices import DeviceInventory

HEALTH_SECONDS: Final = 30.0
"""Between two questions: a device that fails is given to no container after at most this long."""
HEALTH: Final = "the health of devices"
"""The subject of a call: one that hangs holds one worker, and is not made again meanwhile."""

Note = Callable[..., object]
"""Logs an event with its fields."""


class HealthWatch:
    """The last report. ``problem`` is why that is not what would be reported now, '' = it is."""

    def __init__(self, source: Callable[[], HealthSource], files: FileCalls, note: Note) -> None:
        """``source`` returns who is asked, which may change. Nothing is asked yet."""
        self._source, self._files, self._note = source, files, note
        self._asked = NO_HEALTH
        self._reported: tuple[DeviceHealth, ...] = ()
        self._is_untaken = False
        self._tasks = Tasks()
        self._first: asyncio.Task[None] | None = None
        self._unknown: tuple[str, ...] = ()
        self._failing: dict[str, str] = {}
        self._woken = asyncio.Event()
        self.problem = ""

    async def begin(self, within_seconds: float) -> None:
        """Ask, and wait so long at most: an answer that comes later is the first one that ``keep`` takes."""
        self._first = self._tasks.start(self.ask(), name="health of devices at the start")
        await asyncio.wait((self._first,), timeout=within_seconds)

    async def ask(self) -> None:
        """Ask once."""
        source, before = self._source(), self._reported
        if source != self._asked:
            # The last report of another source does not stand in for one of this source.
            self._asked, self._reported = source, ()
        problem = ""
        if not source.is_none:
            try:
                found = await self._files.run(HEALTH, health_of, source, within_seconds=ANSWER_SECONDS)
                self._reported = with_last_known(found, self._reported)
            except FilesFailed as error:
                problem = f"{source}: {error.problem}"
            except DocumentError as error:
                problem = str(error)
        if problem and problem != self.problem:
            self._note(events.HEALTH_UNKNOWN, reason=problem, last_known_stays=True)
        self.problem = problem
        self._is_untaken = self._is_untaken or self._reported != before

    async def keep(self, take: Callable[[], Awaitable[None]]) -> None:
        """Ask whenever there is a reason, until cancelled; ``take`` is called for each change until it succeeds."""
        while True:
            # Before the question: a reason that comes while it is under way may be too late for it, and asks again.
            self._woken.clear()
            first, self._first = self._first, None
            await (first or self.ask())
            if self._is_untaken:
                await take()
                # Not before: where `take` fails, the change is still to be taken.
                self._is_untaken = False
            await self._woken.wait()

    async def poll(self, clock: Clock) -> None:
        """Have it asked every now and then, until cancelled."""
        while True:
            await clock.sleep(HEALTH_SECONDS)
            self._woken.set()

    def ask_now(self) -> None:
        """Have it asked at once: a reload was requested."""
        self._woken.set()

    def applied(self, inventory: DeviceInventory) -> DeviceInventory:
        """Return the inventory with the health that is known."""
        self._unknown = unknown_devices(inventory, self._reported)
        return with_health(inventory, self._reported)

    def tell(self, inventory: DeviceInventory) -> None:
        """Log which devices are newly unhealthy, or healthy again, in the inventory that is in force now."""
        failing = {
            f"{device.kind} {device.minor}": device.ailment for device in inventory.devices if not device.is_healthy
        }
        for name in sorted(failing.keys() - self._failing.keys()):
            self._note(events.DEVICE_UNHEALTHY, device=name, reason=failing[name] or "the inventory has it so")
        for name in sorted(self._failing.keys() - failing.keys()):
            self._note(events.DEVICE_HEALTHY, device=name)
        self._failing = failing

    def warnings(self) -> Iterator[str]:
        """Yield warnings for the operator, one sentence each."""
        if self.problem:
            yield f"the health of devices cannot be read, what was known last stays: {self.problem}"
        for name in self._unknown:
            yield f"the health of devices: {self._asked} names {name}, which the inventory does not have"
