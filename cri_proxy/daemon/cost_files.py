"""Read the node's cost files off the event loop, note what is in force, report changes, save it for later starts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.config.files.inotify import Lookups
from cri_proxy.config.option_groups import CostOptions
from cri_proxy.costs.directory import CostDirectory, cost_lookups, read_directory
from cri_proxy.costs.last_good import KeptCosts, find_costs
from cri_proxy.costs.merge import FileState, MergedCosts, merge, texts_in_force
from cri_proxy.costs.words import problem_text, silent_text, wins_by_silence
from cri_proxy.errors import StoreError
from cri_proxy.file_workers import FileCalls, FilesFailed
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.status.model import CostFilesView, CostFileView
from policies.costs.inventory import NO_DEVICES, Inventory

READ_SECONDS: Final = 2.0
"""For a directory of a few files, and for what was saved of it."""
MERGE_SECONDS: Final = 20.0
"""For parsing all that the bounds let in, on a machine that is busy; usual files take milliseconds."""
POLL_SECONDS: Final = 60.0
"""Beside inotify: a poll starts a process, and the files change when a plugin starts."""
_MERGING: Final = "the merging of the cost files"


@dataclass(frozen=True, slots=True)
class CostReading:
    """What the files were, and what they say together under these options; ``kept`` are the texts that count."""

    found: CostDirectory
    options: CostOptions
    costs: MergedCosts
    kept: KeptCosts

    @property
    def inventory(self) -> Inventory:
        """Return the devices with their costs."""
        return self.costs.inventory


class NoCostFiles:
    """Stands for the cost files where none are read: a node without a daemon, as in a simulation."""

    inventory: Inventory = NO_DEVICES

    async def read(self, options: CostOptions) -> CostReading:
        """Return that there are none."""
        found = CostDirectory(Path(options.directory))
        return CostReading(found, options, MergedCosts(), KeptCosts(found.path))

    async def merged(self, found: CostDirectory, options: CostOptions) -> CostReading:
        """Return that there are none."""
        return await self.read(options)

    def use(self, read: CostReading, *, is_asked: bool = False) -> None:
        """Note nothing."""


class CostFiles:
    """The cost files in force."""

    def __init__(self, options: CostOptions, files: FileCalls, *, clock: Clock, journal: Journal) -> None:
        """Nothing is in force before ``begin``."""
        self._files = files
        self._clock = clock
        self._journal = journal
        found = CostDirectory(Path(options.directory), problem="not read yet")
        self._in_force = CostReading(found, options, MergedCosts(), KeptCosts(found.path))
        self._since_seconds = clock.now_seconds()
        self._counts = {"applied": 0, "unchanged": 0, "rejected": 0}
        self.keep: Callable[[KeptCosts], None] = _forget
        """Gets what is to be saved for the next start, whenever that changes."""
        self.is_merged = True
        """Whether the files could be merged in time when they were read last; else they are to be read again."""

    @property
    def inventory(self) -> Inventory:
        """The inventory in force."""
        return self._in_force.inventory

    @property
    def kept(self) -> KeptCosts:
        """The texts that count, for the next start."""
        return self._in_force.kept

    @property
    def found(self) -> CostDirectory:
        """The files that the inventory in force was made of."""
        return self._in_force.found

    async def begin(self, state_dir: Path) -> None:
        """Put in force what the files say at the start, or did at the end, where one cannot be used now."""
        options = self._in_force.options
        path = Path(options.directory)
        try:
            kept = await self._files.run(str(state_dir), find_costs, state_dir, path, within_seconds=READ_SECONDS)
        except (StoreError, FilesFailed) as error:
            self._journal.noted(events.COST_FILES_NOT_KEPT, reason=str(error))
            kept = KeptCosts(path)
        self._in_force = replace(self._in_force, kept=kept if options.directory else KeptCosts(path))
        read = await self.read(options)
        if read.costs.files or read.found.problem:
            self._report(read, "")
        self._in_force = read

    async def read(self, options: CostOptions) -> CostReading:
        """Return what the files in the directory of these options say now."""
        return await self.merged(await self.look(options), options)

    async def look(self, options: CostOptions) -> CostDirectory:
        """Return the files that are there now."""
        path = Path(options.directory)
        if not options.directory:
            return CostDirectory(path)
        try:
            return await self._files.run(str(path), read_directory, path, within_seconds=READ_SECONDS)
        except FilesFailed:
            return CostDirectory(path, problem="does not answer: does it lie on a mount that hangs?")

    async def merged(self, found: CostDirectory, options: CostOptions) -> CostReading:
        """Return what these files say, with the last good content of those that cannot be used."""
        before = self._in_force
        if (found, options) == (before.found, before.options):
            return before
        kept = before.kept if before.kept.directory == found.path else KeptCosts(found.path)
        texts = dict(kept.texts)
        if not found.files and not (found.problem and texts):
            return CostReading(found, options, MergedCosts(), KeptCosts(found.path))
        try:
            costs = await self._files.run(
                _MERGING, merge, found, texts, options.normalize, options.missing, within_seconds=MERGE_SECONDS
            )
        except FilesFailed as error:
            self.is_merged = False
            found = replace(found, problem=f"cannot be merged: {error.problem}")
            return replace(before, found=found, options=options)
        self.is_merged = True
        in_force = tuple(sorted(texts_in_force(found, texts, costs).items()))
        return CostReading(found, options, costs, KeptCosts(found.path, in_force))

    def use(self, read: CostReading, *, is_asked: bool = False) -> None:
        """Note that this is in force, and report what changed; ``is_asked``: say so where nothing has."""
        before = self._in_force
        if read == before and not is_asked:
            return
        has_changed = read.inventory != before.inventory
        if has_changed:
            self._since_seconds = self._clock.now_seconds()
        is_bad = bool(read.found.problem) or any(file.problem for file in read.costs.files)
        outcome = "rejected" if is_bad else "applied" if has_changed else "unchanged"
        self._counts[outcome] += 1
        self._report(read, outcome)
        self._in_force = read
        if read.kept != before.kept:
            self.keep(read.kept)

    def _report(self, read: CostReading, outcome: str) -> None:
        """Log the problems and silent devices that are new, and the change; ``outcome`` is '' at the start."""
        before, directory = self._in_force, str(read.found.path)
        if read.found.problem and read.found.problem != before.found.problem:
            self._journal.noted(events.COST_FILES_UNREADABLE, directory=directory, reason=read.found.problem)
        for file in read.costs.files:
            if file.problem and file not in before.costs.files:
                self._journal.noted(
                    events.COST_FILE_REJECTED,
                    file=str(read.found.path / file.name),
                    line=file.line or None,
                    reason=file.problem,
                    last_good_stays=file.state is FileState.KEPT,
                )
        silent = silent_text(read.inventory)
        if silent and silent != silent_text(before.inventory):
            self._journal.noted(events.COST_FILES_SILENT, directory=directory, reason=silent)
        if outcome:
            types = {kind: len(names) for kind, names in read.inventory.devices.items()}
            self._journal.noted(
                events.COST_FILES_RELOADED,
                outcome=outcome,
                directory=directory,
                files=len(read.costs.files),
                devices=types,
            )

    def warnings(self) -> Iterator[str]:
        """Yield warnings for the operator, one sentence each."""
        found, costs = self._in_force.found, self._in_force.costs
        if found.problem:
            yield f"the cost files of {found.path} cannot be read, what they said before stays: {found.problem}"
        for file in costs.files:
            if file.problem:
                yield f"cost file {problem_text(found.path, file)}"
        silent = silent_text(costs.inventory)
        if silent:
            yield f"cost files: {silent}"

    def view(self) -> CostFilesView:
        """Return the part of the status."""
        now = self._in_force
        return CostFilesView(
            directory=now.options.directory,
            since_seconds=self._since_seconds,
            files=tuple(CostFileView(f.name, f.state, f.problem, f.line) for f in now.costs.files),
            device_count=sum(map(len, now.inventory.devices.values())),
            problem=now.found.problem,
            silent=tuple(name for names in wins_by_silence(now.inventory).values() for name in names),
            **self._counts,
        )


class CostPlace:
    """The directory of the options in force, as ``config.files.watch.Watched``: looked at by workers that may hang."""

    def __init__(self, costs: CostFiles, files: FileCalls, options: Callable[[], CostOptions]) -> None:
        """``options`` returns those in force."""
        self._costs = costs
        self._files = files
        self._options = options

    async def read(self) -> CostDirectory:
        """See ``Watched``."""
        return await self._costs.look(self._options())

    async def lookups(self) -> Lookups:
        """See ``Watched``; none while the directory does not answer, so that inotify is not asked either."""
        directory = self._options().directory
        if not directory:
            return {}
        try:
            path = Path(directory)
            return await self._files.run(directory, cost_lookups, path, within_seconds=READ_SECONDS)
        except FilesFailed:
            return {}


def _forget(kept: KeptCosts) -> None:
    """Save nothing."""
