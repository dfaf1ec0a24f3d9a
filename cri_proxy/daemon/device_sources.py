"""The sources of the node's devices in force: cost files, inventory, a scan of PCI, driver, plugins; joined."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.config.model import Config
from cri_proxy.config.option_groups import CostOptions, DeviceOptions
from cri_proxy.costs.merge import CostDirectory
from cri_proxy.costs.words import silent_text
from cri_proxy.in_force.files import FilesInForce, FilesKind, InForce
from cri_proxy.in_force.last_good_writer import LastGoodWriter, StateDirectory
from cri_proxy.in_force.text_files import texts_file
from cri_proxy.inventory.driver_names import DriverIdentifiers
from cri_proxy.inventory.health_source import HealthSource
from cri_proxy.inventory.health_watch import HealthWatch
from cri_proxy.inventory.merge import InventoryFile, with_scanned
from cri_proxy.inventory.numbers import NUMBERS, DeviceNumbers, boot_id
from cri_proxy.inventory.pci import inventory_of
from policies.devices import DEVICE_TYPES, EMPTY_INVENTORY, DeviceInventory, JoinedDevices, RegisteredDevice
from policies.devices.costs import NO_DEVICES, Inventory
from sysfs.model import Machine

START_SECONDS: Final = 2.0
"""For the first answer about the health of devices."""


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """What the files of a node say of its devices: those of cost files, and those of the inventory file.

    ``before`` is the inventory in force, and what was there before it: devices that a scan finds again keep their
    numbers.
    """

    costs: Inventory = NO_DEVICES
    listed: DeviceInventory = EMPTY_INVENTORY
    before: DeviceInventory = EMPTY_INVENTORY


def inventory_in_force(options: DeviceOptions, machine: Machine, devices: NodeDevices) -> DeviceInventory:
    """Return the devices of all files, and those of a scan of this machine's PCI where that is wanted."""
    listed = devices.listed
    found = with_scanned(listed, inventory_of(machine), devices.before) if options.scan else listed
    return found if found.costs == devices.costs else replace(found, costs=devices.costs)


def cost_source(options: CostOptions) -> CostDirectory | None:
    """Return where the cost files are; None where none are read."""
    return CostDirectory(Path(options.directory), options.missing, options.normalize) if options.directory else None


def inventory_source(options: DeviceOptions) -> InventoryFile | None:
    """Return the inventory file; None where none is read."""
    return InventoryFile(Path(options.inventory)) if options.inventory else None


def health_source(options: DeviceOptions) -> HealthSource:
    """Return what is asked for the health of devices: a file alone, as the configuration names no commands."""
    return HealthSource(options.health)


def _listed(costs: Inventory) -> Mapping[str, int]:
    return {kind: len(names) for kind, names in costs.devices.items()}


def _counted(inventory: DeviceInventory) -> Mapping[str, int]:
    counts = {kind: len(inventory.of(kind)) for kind in DEVICE_TYPES}
    return {kind: count for kind, count in counts.items() if count}


COST_FILES: Final = FilesKind(
    "cost file",
    NO_DEVICES,
    texts_file("cost-files-in-force.json"),
    _listed,
    unreadable=events.COST_FILES_UNREADABLE,
    rejected=events.COST_FILE_REJECTED,
    reloaded=events.COST_FILES_RELOADED,
    not_kept=events.COST_FILES_NOT_KEPT,
    remarks=silent_text,
    remarked=events.COST_FILES_SILENT,
)
INVENTORY_FILE: Final = FilesKind(
    "inventory file",
    EMPTY_INVENTORY,
    texts_file("device-inventory-in-force.json"),
    _counted,
    unreadable=events.INVENTORY_UNREADABLE,
    rejected=events.INVENTORY_REJECTED,
    reloaded=events.INVENTORY_RELOADED,
    not_kept=events.INVENTORY_NOT_KEPT,
)


@dataclass(frozen=True, slots=True)
class ReadDevices:
    """The content of both kinds of files at one moment."""

    costs: InForce[Inventory]
    listed: InForce[DeviceInventory]


class DeviceSources:
    """The files in force, identifiers of the driver, health, and the numbers of scanned devices, for ``begin``."""

    def __init__(self, config: Config, root: Path, state: StateDirectory, *, clock: Clock) -> None:
        """``root`` is the directory that holds ``proc``. Nothing is read yet."""
        self.costs = FilesInForce(COST_FILES, cost_source(config.costs), state, clock=clock)
        self.listed = FilesInForce(INVENTORY_FILE, inventory_source(config.devices), state, clock=clock)
        self._identifiers = DriverIdentifiers(root, state.files)
        self._options = config.devices
        self.health = HealthWatch(lambda: health_source(self._options), state.files, state.journal.noted)
        self._root, self._journal = root, state.journal
        self._writer = LastGoodWriter(state, NUMBERS, events.INVENTORY_NOT_KEPT)
        self._numbers = DeviceNumbers()
        self._inventory = EMPTY_INVENTORY
        self._disagreements: tuple[str, ...] = ()
        self.registered: tuple[RegisteredDevice, ...] = ()
        """The devices that plugins have registered with the kubelet, as far as they are known."""

    async def begin(self) -> None:
        """Put in force what the files say now, or did when they were last good, and the numbers of the last process."""
        # A file that takes its time is not waited for, containers are.
        begun = self.costs.begin(), self.listed.begin(), self.health.begin(START_SECONDS)
        self._numbers, *_ = await asyncio.gather(self._saved(), *begun)

    async def _saved(self) -> DeviceNumbers:
        nothing = DeviceNumbers(boot=await asyncio.to_thread(boot_id, self._root))
        found = await self._writer.find(nothing)
        return nothing if found is None else found.since(nothing.boot)

    async def at(self, config: Config) -> ReadDevices:
        """Return the content of the files that this configuration names."""
        costs, listed = cost_source(config.costs), inventory_source(config.devices)
        return ReadDevices(await self.costs.at(costs), await self.listed.at(listed))

    async def joined(self, config: Config, machine: Machine, found: ReadDevices | None = None) -> DeviceInventory:
        """Return the devices of all sources, each once; None: of the files in force."""
        costs = found.costs.judged.content if found else self.costs.content
        listed = found.listed.judged.content if found else self.listed.content
        before = self._inventory
        if config.devices.scan:
            # A device that goes must leave the others their numbers, which containers were told.
            before = self._numbers.after(before).beside(before)
        inventory = inventory_in_force(config.devices, machine, NodeDevices(costs, listed, before))
        # Nothing is asked of driver and health files on a node without devices.
        if inventory.devices:
            inventory = self.health.applied(await self._identifiers.filled(inventory))
        return replace(inventory, registered=self.registered) if self.registered else inventory

    def use(self, config: Config, known: JoinedDevices, found: ReadDevices | None = None) -> None:
        """Note that this is in force, and what sources newly disagree about.

        Numbers of scanned devices hold for the next scan, and for the next start.
        """
        if found is not None:
            self.costs.use(found.costs)
            self.listed.use(found.listed)
        for text in known.disagreements:
            if text not in self._disagreements:
                self._journal.noted(events.DEVICES_DISAGREE, reason=text)
        self._inventory, self._disagreements = known.inventory, known.disagreements
        if health_source(config.devices) != health_source(self._options):
            self.health.ask_now()
        self._options = config.devices
        if known.inventory.devices:
            self.health.tell(known.inventory)
        before = self._numbers
        if config.devices.scan and (numbers := before.after(known.inventory)) != before:
            self._numbers = numbers
            self._writer.keep(numbers)
