"""Decide which containers get ``/.cri-proxy`` files; write them before a create, refresh on changes, remove leftovers.

A directory is made before CreateContainer goes to the runtime, outlives container ids and restarts of the proxy, and is
removed with the container's row. A failure to write stops no container.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple
from weakref import WeakValueDictionary

from cri_proxy import events
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.file_workers import FileCalls, FilesFailed
from cri_proxy.node.context import Context
from cri_proxy.node.ledger.ledger import ACTIVE
from cri_proxy.node.resource_files import directories
from cri_proxy.node.resource_files.contents import ContainerResources, MachineSets, machine_sets, resources_of
from cri_proxy.node.resource_files.notify import Notifier
from cri_proxy.node.sync import runtime_state
from cri_proxy.state.rows import Row
from cri_proxy.tasks import Tasks
from policies.base import ContainerKey, Grant, Pinning
from sysfs.model import Machine

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

DIRECTORY: Final = "containers"  # below the state directory
# A placement changes several containers, and each of them in steps: one write for all of it. Counted from the first
# change, so that a busy node does not put it off without end.
DEBOUNCE_SECONDS = 0.1
RETRY_SECONDS = 10.0
# Writes of all containers wait for each other: a placement on a full node refreshes hundreds, a millisecond each.
DISK_SECONDS = 10.0
# A create waits this long for its files: a disk that hangs must not stop containers.
WRITE_BOUND_SECONDS = 2.0


def gets_files(grant: Grant, pinning: Pinning, mode: str) -> bool:
    """Whether a container gets the mount; ``mode`` is the option ``resourceFiles``.

    The operator's ``never`` holds for all containers, then the container's annotation decides. ``auto`` gives files to
    containers with CPUs of their own that are ours to write.
    """
    preferences = grant.request.preferences
    if mode == "never" or preferences.resource_files is False:
        return False
    # A container that is notified of changes wants to read them.
    asks = preferences.resource_files is True or bool(preferences.notify)
    return mode == "always" or asks or (bool(grant.owned) and pinning.cpus is not None)


class ResourceFiles:
    """Owns the directories. ``written`` and ``failed`` count writes since the start."""

    def __init__(self, context: Context, root: Path | None, files: FileCalls) -> None:
        """``root`` holds the directories; None: no container gets files (simulation). ``files`` writes them."""
        self._files = files
        self._context = context
        self._ledger = context.ledger
        self._root = root
        self._tasks = Tasks(lambda error: context.journal.failed_open("resource files", error))
        self._keys: set[ContainerKey] = set()  # of containers that get files
        self._latest: dict[ContainerKey, ContainerResources] = {}  # as they were written last
        self._confirmed: dict[ContainerKey, Pinning | None] = {}
        self._failing: set[ContainerKey] = set()
        self._locks: WeakValueDictionary[directories.ContainerDirectory, asyncio.Lock] = WeakValueDictionary()
        self._is_waiting = False
        self._sets: tuple[Machine, MachineSets] | None = None
        self.notifier = Notifier(context)
        self.written = 0
        self.failed = 0
        context.signals.ledger_changed.connect(self._changed)

    async def directory_for(self, grant: Grant, pinning: Pinning, mode: str) -> str:
        """Return the directory to mount into a container that is about to be created, with its files; '' for none.

        ``mode`` is the option ``resourceFiles``. Never raises for a file that cannot be written.
        """
        if self._root is None or not gets_files(grant, pinning, mode):
            return ""
        # Before the write: a change that comes during it is then written as well.
        self._keys.add(grant.container)
        work = self._tasks.start(self._write(grant.container), name=f"write {grant.container.name}")
        # Not cancelled at the bound: the mount is left out, and the write ends by itself when the disk answers.
        await asyncio.wait([work], timeout=WRITE_BOUND_SECONDS)
        if not work.done():
            self._failed_to_write(grant.container, f"{self._root}: a write takes more than {WRITE_BOUND_SECONDS:g} s")
            return ""
        is_there = grant.container in self._latest and grant.container not in self._failing
        return str(directories.directory_of(grant.container).below(self._root)) if is_there else ""

    async def resume(self) -> None:
        """After a restart, go on with the directories that exist and remove those that no container uses."""
        if self._root is None:
            return
        try:
            found = await self._call(directories.list_directories, self._root)
        except directories.ResourceFilesError as error:
            self._context.journal.noted(events.RESOURCE_FILES_FAILED, reason=str(error))
            return
        known = {directories.directory_of(row.key): row.key for row in self._ledger.rows()}
        self._keys |= {known[directory] for directory in found if directory in known}
        self._changed()
        leftovers = [directory for directory in found if directory not in known]
        if leftovers:
            await self._collect(leftovers)

    async def watch(self) -> None:
        """Try again what could not be written, until cancelled."""
        while True:
            await self._context.clock.sleep(RETRY_SECONDS)
            if self._failing:
                self._changed()

    async def settle(self) -> None:
        """Wait until everything is written and every command has run."""
        await self._tasks.join()
        await self.notifier.tasks.join()

    async def close(self) -> None:
        """Cancel what is under way; the next start finds what was not written."""
        await self.notifier.tasks.cancel()
        await self._tasks.cancel()

    async def _call(self, function: Callable[[Path, *Ts], T], root: Path, *args: *Ts) -> T:
        """Run this with the state directory's other writes, one after the other. Raises ResourceFilesError."""
        try:
            return await self._files.run(str(root), function, root, *args, within_seconds=DISK_SECONDS)
        except FilesFailed as error:
            raise directories.ResourceFilesError(error.path, error.problem) from error

    def _changed(self) -> None:
        """Refresh the files soon: a grant or a confirmed pinning has changed."""
        if self._keys and not self._is_waiting:
            self._is_waiting = True
            self._tasks.start(self._refresh(), name="resource files")

    async def _refresh(self) -> None:
        try:
            await self._context.clock.sleep(DEBOUNCE_SECONDS)
        finally:
            # Before the look: a change from here on asks for another one.
            self._is_waiting = False
        for key in sorted(self._keys):
            row = self._ledger.get(key)
            if row is None:
                self._keys.discard(key)
                self._failing.discard(key)
                self._latest.pop(key, None)
                self._confirmed.pop(key, None)
                self._tasks.start(self._remove(directories.directory_of(key)), name=f"forget {key.name}")
            elif row.state in ACTIVE and self._resources_of(row) != self._latest.get(key):
                self._tasks.start(self._write(key), name=f"write {key.name}")

    def _resources_of(self, row: Row) -> ContainerResources:
        machine = self._ledger.policy.machine
        if self._sets is None or self._sets[0] is not machine:
            self._sets = machine, machine_sets(machine)
        if self._ledger.unconfirmed(row.key) == Pinning(None, None):
            self._confirmed[row.key] = row.acknowledged
        # An update under way is on record as done and not done at once: what was confirmed before it still holds.
        confirmed = self._confirmed.get(row.key, row.acknowledged)
        wanted = self._ledger.desired().get(row.key, Pinning(None, None))
        return resources_of(row.grant, wanted, confirmed, self._sets[1])

    async def _write(self, key: ContainerKey) -> None:
        """Bring a container's files up to date, with its resources at the time when its turn comes."""
        directory = directories.directory_of(key)
        async with self._lock(directory):
            row = self._ledger.get(key)
            if row is None or row.state not in ACTIVE or self._root is None:
                return
            resources = self._resources_of(row)
            try:
                is_new = await self._call(directories.write_files, self._root, directory, resources)
            except directories.ResourceFilesError as error:
                # What is on the disk now is not known: the next refresh writes it again.
                self._latest.pop(key, None)
                self._failed_to_write(key, str(error))
                return
        self._latest[key] = resources
        self._failing.discard(key)
        if is_new:
            self.written += 1
            self.notifier.changed(self._ledger.get(key))

    def _failed_to_write(self, key: ContainerKey, problem: str) -> None:
        """Count a failure; log it once until everything can be written again."""
        self.failed += 1
        if not self._failing:
            self._context.journal.noted(
                events.RESOURCE_FILES_FAILED, container=key.name, pod_uid=key.pod_uid, reason=problem
            )
        self._failing.add(key)

    async def _remove(self, directory: directories.ContainerDirectory) -> None:
        """Remove a directory, unless a new container of that name exists by now."""
        async with self._lock(directory):
            if self._root is None or any(directories.directory_of(row.key) == directory for row in self._ledger.rows()):
                return
            try:
                await self._call(directories.remove_directory, self._root, directory)
            except directories.ResourceFilesError as error:
                self._context.journal.noted(events.RESOURCE_FILES_FAILED, reason=str(error))

    async def _collect(self, found: Sequence[directories.ContainerDirectory]) -> None:
        """Remove the directories that no container of the ledger or of the runtime uses."""
        try:
            # The runtime's list too: a container that was not adopted has no row, and may have its directory mounted.
            node = await runtime_state.list_node(self._context.channel)
        except (CallFailed, RuntimeUnavailable) as error:
            self._context.journal.noted(events.CHECK_FAILED, reason=str(error))
            return
        if node.unreadable:
            return  # a container that cannot be read may use any of them
        used = {directories.directory_of(container.key) for container in node.containers}
        for directory in found:
            if directory not in used:
                await self._remove(directory)

    def _lock(self, directory: directories.ContainerDirectory) -> asyncio.Lock:
        """Return the lock that is held while a directory is written or removed (weak, as those of ``Effects``)."""
        return self._locks.setdefault(directory, asyncio.Lock())
