"""The node's cost files: what they say together is in force, and which devices say nothing about costs is reported."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.config.option_groups import CostOptions
from cri_proxy.costs.merge import MergedCosts, merge
from cri_proxy.costs.words import silent_text, wins_by_silence
from cri_proxy.daemon.file_reload import MERGE_SECONDS, FilesKind, FilesReading, WatchedFiles
from cri_proxy.file_workers import FileCalls
from cri_proxy.in_force.last_good import KeptTexts, find_costs
from cri_proxy.in_force.text_files import FoundFiles, directory_lookups, read_directory
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.status.model import CostFilesView, CostFileView
from policies.costs.inventory import NO_DEVICES, Inventory

CostReading = FilesReading[CostOptions, MergedCosts]
"""What cost files say, and by which options."""

_MERGING: Final = "the merging of the cost files"


class NoCostFiles:
    """Stands for the cost files where none are read: a node without a daemon, as in a simulation."""

    inventory: Inventory = NO_DEVICES

    async def read(self, options: CostOptions) -> CostReading:
        """Return that there are none."""
        found = FoundFiles(Path(options.directory))
        return FilesReading(found, options, MergedCosts(), KeptTexts(found.path))

    async def merged(self, found: FoundFiles, options: CostOptions) -> CostReading:
        """Return that there are none."""
        return await self.read(options)

    def use(self, read: CostReading, *, is_asked: bool = False) -> None:
        """Note nothing."""


class CostFiles(WatchedFiles[CostOptions, MergedCosts]):
    """The cost files in force."""

    kind = FilesKind(
        "cost file",
        read_directory,
        directory_lookups,
        find_costs,
        unreadable=events.COST_FILES_UNREADABLE,
        rejected=events.COST_FILE_REJECTED,
        reloaded=events.COST_FILES_RELOADED,
        not_kept=events.COST_FILES_NOT_KEPT,
    )

    def __init__(self, options: CostOptions, files: FileCalls, *, clock: Clock, journal: Journal) -> None:
        """Nothing is in force before ``begin``."""
        found = FoundFiles(Path(options.directory), problem="not read yet")
        nothing = FilesReading(found, options, MergedCosts(), KeptTexts(found.path))
        super().__init__(nothing, files, clock=clock, journal=journal)

    @property
    def inventory(self) -> Inventory:
        """The inventory in force."""
        return self._in_force.said.inventory

    def path_of(self, options: CostOptions) -> Path | None:
        """Return the directory."""
        return Path(options.directory) if options.directory else None

    async def say(self, found: FoundFiles, kept: Mapping[str, str], options: CostOptions) -> MergedCosts:
        """Return what the files say together."""
        return await self._files.run(
            _MERGING, merge, found, kept, options.normalize, options.missing, within_seconds=MERGE_SECONDS
        )

    def has_changed(self, before: MergedCosts, now: MergedCosts) -> bool:
        """Return whether devices or their costs differ."""
        return now.inventory != before.inventory

    def counted(self, said: MergedCosts) -> Mapping[str, int]:
        """Return how many devices there are of each type."""
        return {kind: len(names) for kind, names in said.inventory.devices.items()}

    def report(self, read: CostReading, outcome: str) -> None:
        """Log silent devices that are new, too."""
        silent = silent_text(read.said.inventory)
        if silent and silent != silent_text(self.inventory):
            self._journal.noted(events.COST_FILES_SILENT, directory=str(read.found.path), reason=silent)
        super().report(read, outcome)

    def warnings(self) -> Iterator[str]:
        """Yield warnings for the operator, one sentence each."""
        yield from super().warnings()
        silent = silent_text(self.inventory)
        if silent:
            yield f"cost files: {silent}"

    def view(self) -> CostFilesView:
        """Return the part of the status."""
        now = self._in_force
        return CostFilesView(
            directory=now.options.directory,
            since_seconds=self._since_seconds,
            files=tuple(CostFileView(f.name, f.state, f.problem, f.line) for f in now.said.files),
            device_count=sum(map(len, self.inventory.devices.values())),
            problem=now.found.problem,
            silent=tuple(name for names in wins_by_silence(self.inventory).values() for name in names),
            **self._counts,
        )
