"""The file that lists the node's devices: what it says is in force, beside what a scan of PCI finds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.config.option_groups import DeviceOptions
from cri_proxy.daemon.file_reload import MERGE_SECONDS, FilesKind, FilesReading, WatchedFiles
from cri_proxy.file_workers import FileCalls
from cri_proxy.in_force.last_good import KeptTexts, find_inventory
from cri_proxy.in_force.text_files import FoundFiles, file_lookups, read_one
from cri_proxy.inventory.driver_names import Identifiers, NoIdentifiers
from cri_proxy.inventory.merge import ListedDevices, judge_inventory
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.status.inventory import DeviceFileView, InventoryFileView
from policies.devices.model import DEVICE_TYPES, EMPTY_INVENTORY, DeviceInventory

InventoryReading = FilesReading[DeviceOptions, ListedDevices]
"""What the inventory file says."""

_READING: Final = "the reading of the inventory file"


class NoInventoryFile:
    """Stands for the file where none is read: a node without a daemon, as in a simulation."""

    listed: DeviceInventory = EMPTY_INVENTORY
    identifiers: Identifiers = NoIdentifiers()

    async def read(self, options: DeviceOptions) -> InventoryReading:
        """Return that there is none."""
        found = FoundFiles(Path(options.inventory))
        return FilesReading(found, options, ListedDevices(), KeptTexts(found.path))

    async def merged(self, found: FoundFiles, options: DeviceOptions) -> InventoryReading:
        """Return that there is none."""
        return await self.read(options)

    def use(self, read: InventoryReading, *, is_asked: bool = False) -> None:
        """Note nothing."""


class InventoryFile(WatchedFiles[DeviceOptions, ListedDevices]):
    """The inventory file in force."""

    kind = FilesKind(
        "inventory file",
        read_one,
        file_lookups,
        find_inventory,
        unreadable=events.INVENTORY_UNREADABLE,
        rejected=events.INVENTORY_REJECTED,
        reloaded=events.INVENTORY_RELOADED,
        not_kept=events.INVENTORY_NOT_KEPT,
    )

    def __init__(
        self,
        options: DeviceOptions,
        files: FileCalls,
        *,
        clock: Clock,
        journal: Journal,
        identifiers: Identifiers | None = None,
    ) -> None:
        """Nothing is in force before ``begin``. ``identifiers`` are of GPUs that the file or a scan lists."""
        self.identifiers = identifiers or NoIdentifiers()
        found = FoundFiles(Path(options.inventory), problem="not read yet", is_one=True)
        nothing = FilesReading(found, options, ListedDevices(), KeptTexts(found.path))
        super().__init__(nothing, files, clock=clock, journal=journal)

    @property
    def listed(self) -> DeviceInventory:
        """The devices that the file lists."""
        return self._in_force.said.inventory

    def path_of(self, options: DeviceOptions) -> Path | None:
        """Return the path of the file."""
        return Path(options.inventory) if options.inventory else None

    async def say(self, found: FoundFiles, kept: Mapping[str, str], options: DeviceOptions) -> ListedDevices:
        """Return what the file lists."""
        return await self._files.run(_READING, judge_inventory, found, kept, within_seconds=MERGE_SECONDS)

    def has_changed(self, before: ListedDevices, now: ListedDevices) -> bool:
        """Return whether the devices differ."""
        return now.inventory != before.inventory

    def counted(self, said: ListedDevices) -> Mapping[str, int]:
        """Return how many devices there are of each type."""
        counts = {kind: len(said.inventory.of(kind)) for kind in DEVICE_TYPES}
        return {kind: count for kind, count in counts.items() if count}

    def view(self) -> InventoryFileView:
        """Return the part of the status."""
        now = self._in_force
        return InventoryFileView(
            file=now.options.inventory,
            scans=now.options.scan,
            since_seconds=self._since_seconds,
            files=tuple(DeviceFileView(f.name, f.state, f.problem, f.line) for f in now.said.files),
            problem=now.found.problem,
            **self._counts,
        )
