"""Keeps what containers are told of their resources up to date: the files behind ``/.cri-proxy``.

A container is told when its directory exists: it is made before CreateContainer goes to the runtime, outlives
container ids and restarts of the proxy, and is removed when nothing is remembered of the container any more. A
failure to write stops nobody.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from cri_proxy import events
from cri_proxy.cri.annotations.read import GRANT_KEY
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.node.context import Context
from cri_proxy.node.ledger.ledger import ACTIVE
from cri_proxy.node.resource_files.contents import Facts, Ground, facts_of, ground_of
from cri_proxy.node.resource_files.directories import Place, TellingError, place_of, places, remove, write
from cri_proxy.node.resource_files.notify import Notifier
from cri_proxy.node.sync import runtime_state
from cri_proxy.state.rows import Row
from cri_proxy.tasks import Tasks
from policies.base import ContainerKey, Grant, Pinning
from sysfs.model import Machine

DIRECTORY: Final = "containers"  # below the state directory
# A placement changes several containers, and each of them in steps: one write for all of it. Counted from the first
# change, so that a busy node does not put it off for ever.
DEBOUNCE_SECONDS = 0.1
RETRY_SECONDS = 10.0
# A create waits this long for its files: a disk that hangs must not stop containers.
WRITE_BOUND_SECONDS = 2.0


def is_told(grant: Grant, pinning: Pinning, mode: str) -> bool:
    """Whether a container gets the mount; ``mode`` is the option ``resourceFiles``.

    The operator's ``never`` holds for all; then the container's own word; left to itself (``auto``) it is told where
    CPUs are its own, and ours to write.
    """
    preferences = grant.request.preferences
    if mode == "never" or preferences.resource_files is False:
        return False
    # A container that is notified of changes wants to read them.
    asks = preferences.resource_files is True or bool(preferences.notify)
    return mode == "always" or asks or (bool(grant.owned) and pinning.cpus is not None)


class Telling:
    """Owns the directories. ``written`` and ``failed`` count writes since the start."""

    def __init__(self, context: Context, root: Path | None) -> None:
        """``root`` holds the directories; None: containers are not told (simulation)."""
        self._context = context
        self._ledger = context.ledger
        self._root = root
        self._tasks = Tasks(lambda error: context.observer.failed_open("resource files", error))
        self._told: set[ContainerKey] = set()
        self._facts: dict[ContainerKey, Facts] = {}  # as they were written last
        self._confirmed: dict[ContainerKey, Pinning | None] = {}
        self._failing: set[ContainerKey] = set()
        self._locks: WeakValueDictionary[Place, asyncio.Lock] = WeakValueDictionary()
        self._is_waiting = False
        self._ground: tuple[Machine, Ground] | None = None
        self.notifier = Notifier(context)
        self.written = 0
        self.failed = 0
        context.signals.ledger_changed.connect(self._changed)

    @property
    def is_failing(self) -> bool:
        """Whether some container's files could not be brought up to date."""
        return bool(self._failing)

    async def directory_for(self, grant: Grant, pinning: Pinning, mode: str) -> str:
        """The directory to mount into a container that is about to be created, with its files; '' for none.

        ``mode`` is the option ``resourceFiles``. Never raises for a file that cannot be written.
        """
        if self._root is None or not is_told(grant, pinning, mode):
            return ""
        self._told.add(grant.container)
        work = self._tasks.start(self._write(grant.container), name=f"tell {grant.container.name}")
        await asyncio.wait([work], timeout=WRITE_BOUND_SECONDS)
        if not work.done():
            self._not_told(grant.container, f"{self._root}: a write takes more than {WRITE_BOUND_SECONDS:g} s")
            return ""
        is_there = grant.container in self._facts and grant.container not in self._failing
        return str(place_of(grant.container).below(self._root)) if is_there else ""

    async def take_up(self) -> None:
        """After a restart: go on with the directories that are there, and collect those that nobody refers to."""
        if self._root is None:
            return
        try:
            found = await asyncio.to_thread(places, self._root)
        except TellingError as error:
            self._context.observer.noted(events.RESOURCE_FILES_FAILED, reason=str(error))
            return
        mine = {place_of(row.key): row.key for row in self._ledger.rows()}
        self._told |= {mine[place] for place in found if place in mine}
        self._changed()
        leftovers = [place for place in found if place not in mine]
        if leftovers:
            await self._collect(leftovers)

    async def watch(self) -> None:
        """Try again what could not be written, for ever."""
        while True:
            await self._context.clock.sleep(RETRY_SECONDS)
            if self._failing:
                self._changed()

    async def settle(self) -> None:
        """Wait until everything is written and told."""
        await self._tasks.join()
        await self.notifier.settle()

    async def close(self) -> None:
        """End what is under way; what was not written is found at the next start."""
        await self.notifier.close()
        await self._tasks.cancel()

    def _changed(self) -> None:
        """Something about some container has changed: look at the told ones, soon."""
        if self._told and not self._is_waiting:
            self._is_waiting = True
            self._tasks.start(self._look(), name="telling")

    async def _look(self) -> None:
        try:
            await self._context.clock.sleep(DEBOUNCE_SECONDS)
        finally:
            self._is_waiting = False
        for key in sorted(self._told):
            row = self._ledger.get(key)
            if row is None:
                self._forget(key)
                self._tasks.start(self._remove(place_of(key)), name=f"forget {key.name}")
            elif row.state in ACTIVE and self._facts_of(row) != self._facts.get(key):
                self._tasks.start(self._write(key), name=f"tell {key.name}")

    def _forget(self, key: ContainerKey) -> None:
        self._told.discard(key)
        self._failing.discard(key)
        self._facts.pop(key, None)
        self._confirmed.pop(key, None)

    def _facts_of(self, row: Row) -> Facts:
        machine = self._ledger.policy.machine
        if self._ground is None or self._ground[0] is not machine:
            self._ground = machine, ground_of(machine)
        if self._ledger.unconfirmed(row.key) == Pinning(None, None):
            self._confirmed[row.key] = row.acknowledged
        # An update under way is on record as done and not done at once: what was confirmed before it still holds.
        confirmed = self._confirmed.get(row.key, row.acknowledged)
        wanted = self._ledger.desired().get(row.key, Pinning(None, None))
        return facts_of(row.grant, wanted, confirmed, self._ground[1])

    async def _write(self, key: ContainerKey) -> None:
        """Bring a container's files up to date; the facts are those of the moment at which its turn comes."""
        place = place_of(key)
        async with self._lock(place):
            row = self._ledger.get(key)
            if row is None or row.state not in ACTIVE or self._root is None:
                return
            facts = self._facts_of(row)
            try:
                is_new = await asyncio.to_thread(write, self._root, place, facts)
            except TellingError as error:
                self._facts.pop(key, None)
                self._not_told(key, str(error))
                return
        self._facts[key] = facts
        self._failing.discard(key)
        if is_new:
            self.written += 1
            self._notify(key)

    def _notify(self, key: ContainerKey) -> None:
        """Its files are new: a container that runs is told so; one that does not run yet finds them when it does."""
        row = self._ledger.get(key)
        if row is not None:
            self.notifier.changed(row)

    def _not_told(self, key: ContainerKey, problem: str) -> None:
        """Count it; said once, until everything can be written again."""
        self.failed += 1
        if not self._failing:
            self._context.observer.noted(
                events.RESOURCE_FILES_FAILED, container=key.name, pod_uid=key.pod_uid, reason=problem
            )
        self._failing.add(key)

    async def _remove(self, place: Place) -> None:
        """Remove a directory, unless a new container of that name has come meanwhile."""
        async with self._lock(place):
            if self._root is None or any(place_of(row.key) == place for row in self._ledger.rows()):
                return
            try:
                await asyncio.to_thread(remove, self._root, place)
            except TellingError as error:
                self._context.observer.noted(events.RESOURCE_FILES_FAILED, reason=str(error))

    async def _collect(self, found: Sequence[Place]) -> None:
        """Remove those directories that neither the ledger nor any container of the runtime refers to."""
        try:
            node = await runtime_state.list_node(self._context.channel, GRANT_KEY)
        except (CallFailed, RuntimeUnavailable) as error:
            self._context.observer.noted(events.CHECK_FAILED, reason=str(error))
            return
        used = {place_of(container.key) for container in node.containers}
        for place in found:
            if place not in used:
                await self._remove(place)

    def _lock(self, place: Place) -> asyncio.Lock:
        """Held while a directory is written or removed; see ``Effects.lock`` for why the references are weak."""
        return self._locks.setdefault(place, asyncio.Lock())
