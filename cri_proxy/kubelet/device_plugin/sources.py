"""Read what a device plugin goes by: the inventory from a file or from sysfs, links and costs from files.

Each source stands for itself: while one cannot be read, its last good content stays.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Generic, TypeVar

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.costs.merge import merge
from cri_proxy.errors import StoreError
from cri_proxy.foreign_files.beneath import FileRefused, read_text
from cri_proxy.in_force.symlinks import Lookups, lookups_beneath, of_one_generation
from cri_proxy.in_force.text_files import FoundFiles, TextFile
from cri_proxy.inventory.file import INVENTORY_FORM, read_inventory_text
from cri_proxy.inventory.merge import with_scanned
from cri_proxy.inventory.numbers import boot_id, find_numbers, save_numbers
from cri_proxy.inventory.pci import inventory_of, left_out
from cri_proxy.link_file import read_link_text
from cri_proxy.yaml_fields import DocumentError
from policies.costs.table import CostTable
from policies.devices.model import DEVICE_TYPES, EMPTY_INVENTORY, DeviceInventory
from policies.links.matrix import LinkMatrix
from sysfs.discover import discover
from sysfs.errors import SysfsBaseError

SCAN_SECONDS: Final = 60.0
"""Between two scans of sysfs: devices rarely come and go, and a scan of a large machine takes a second."""

_MAX_BYTES: Final = 4 << 20
_LINKS: Final = Dialect(_MAX_BYTES, max_depth=40, max_nodes=1_000_000, has_aliases=True)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """Why a source cannot be used; ``source`` is the path, or ``scan``. ``line`` of the file, 0 = unknown."""

    source: str
    problem: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class PluginKnowledge:
    """What the sources say; None where one says nothing usable, or there is none. ``problems`` say why.

    ``notes`` say which devices a scan has left out, and why.
    """

    inventory: DeviceInventory | None = None
    links: LinkMatrix | None = None
    costs: CostTable | None = None
    problems: tuple[SourceProblem, ...] = ()
    notes: tuple[str, ...] = ()

    def after(self, before: "PluginKnowledge") -> "PluginKnowledge":
        """Return this with what was known before in the place of what cannot be used now."""
        failed = {problem.source for problem in self.problems}
        if not failed:
            return self
        return replace(
            self,
            inventory=self.inventory or before.inventory,
            links=self.links or before.links,
            costs=self.costs or before.costs,
        )


class SourceFile(Generic[T]):
    """A file that is parsed again when its text has changed. ``parse`` gets the text and the file's name."""

    def __init__(self, path: Path, parse: Callable[[str, str], T]) -> None:
        """Read nothing yet."""
        self.path = path
        self._parse = parse
        self._parsed: tuple[str, T] | None = None

    def content(self) -> T:
        """Return what the file says now. Raises DocumentError."""
        name = str(self.path)
        try:
            text = of_one_generation(self.path.parent, lambda: read_text(self.path, _MAX_BYTES))
        except FileRefused as error:
            raise DocumentError(name, error.line, error.problem) from None
        except OSError as error:
            raise DocumentError(name, 0, f"cannot be read: {error.strerror}") from None
        if self._parsed is None or self._parsed[0] != text:
            self._parsed = (text, self._parse(text, name))
        return self._parsed[1]


class PluginSources:
    """The sources of a plugin. ``inventory`` None: the PCI devices of the machine. Reads files: not on the loop."""

    def __init__(
        self,
        inventory: Path | None,
        links: Path | None = None,
        costs: Path | None = None,
        *,
        sysfs_root: Path = Path("/"),
        state_dir: Path | None = None,
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """``sysfs_root`` is the directory that holds ``sys``. Nothing is read yet.

        ``state_dir`` is where the numbers of scanned devices are kept over restarts; None: nowhere.
        """
        self._inventory = None if inventory is None else SourceFile(inventory, _inventory_of)
        self._links = None if links is None else SourceFile(links, _links_of)
        self._costs = None if costs is None else SourceFile(costs, _costs_of)
        self.sysfs_root = sysfs_root
        self._state_dir = state_dir
        self._now_seconds = now_seconds
        self._scanned: tuple[float, DeviceInventory] | None = None
        self._notes: tuple[str, ...] = ()

    def read(self) -> PluginKnowledge:
        """Return what all sources say now. Blocks; raises nothing."""
        problems: list[SourceProblem] = []
        inventory = _content(self._inventory, problems) if self._inventory is not None else self._scan(problems)
        links, costs = _content(self._links, problems), _content(self._costs, problems)
        return PluginKnowledge(inventory, links, costs, tuple(problems), self._notes)

    def lookups(self) -> Lookups:
        """Return the directories on the way to the files, with the names that matter there."""
        files = (self._inventory, self._links, self._costs)
        return lookups_beneath(*((file.path.parent, (file.path.name,)) for file in files if file is not None))

    def _scan(self, problems: list[SourceProblem]) -> DeviceInventory | None:
        """Return the devices of the machine, with those that earlier scans found as unhealthy where they are gone."""
        now = self._now_seconds()
        if self._scanned is not None and now < self._scanned[0] + SCAN_SECONDS:
            return self._scanned[1]
        try:
            machine = discover(self.sysfs_root)
            found = self._numbered(inventory_of(machine))
        except StoreError as error:
            problems.append(SourceProblem(error.path, error.problem))
            return None
        except (SysfsBaseError, OSError) as error:
            problems.append(SourceProblem("scan", str(error)))
            return None
        self._scanned, self._notes = (now, found), left_out(machine)
        return found

    def _numbered(self, scanned: DeviceInventory) -> DeviceInventory:
        """Return these devices by the numbers that they had; new numbers are saved first. Raises StoreError."""
        before = EMPTY_INVENTORY if self._scanned is None else self._scanned[1]
        if self._state_dir is None:
            return rescanned(before, scanned, before)
        saved = find_numbers(self._state_dir, boot_id(self.sysfs_root))
        found = rescanned(before, scanned, saved.beside(before))
        if saved.after(found) != saved:
            save_numbers(self._state_dir, saved.after(found))
        return found


def rescanned(before: DeviceInventory, scanned: DeviceInventory, numbered: DeviceInventory) -> DeviceInventory:
    """Return the devices of a scan and those of the one before, which are unhealthy where they are gone.

    Devices at an address of ``numbered`` have the number that they have there, and others the next one: the kubelet
    knows them by it.
    """
    found = with_scanned(EMPTY_INVENTORY, scanned, numbered)
    here = {device.key for device in found.devices}
    gone = (replace(device, is_healthy=False) for device in before.devices if device.key not in here)
    devices = sorted((*found.devices, *gone), key=lambda device: (DEVICE_TYPES.index(device.kind), device.minor))
    return DeviceInventory(tuple(devices))


def _content(file: SourceFile[T] | None, problems: list[SourceProblem]) -> T | None:
    """Return what a file says, if it is given and can be used; add to the problems why not."""
    if file is None:
        return None
    try:
        return file.content()
    except DocumentError as error:
        problems.append(SourceProblem(str(file.path), error.problem, error.line))
        return None


def _inventory_of(text: str, name: str) -> DeviceInventory:
    with INVENTORY_FORM.redacted(text):
        return read_inventory_text(text, name)


def _links_of(text: str, name: str) -> LinkMatrix:
    return read_link_text(text, name, _LINKS)


def _costs_of(text: str, name: str) -> CostTable:
    """Return what a cost file of the node says (docs/costs.md). Raises DocumentError."""
    path = Path(name)
    merged = merge(FoundFiles(path.parent, (TextFile(path.name, text),)), {})
    for file in merged.files:
        if file.problem:
            raise DocumentError(name, file.line, file.problem)
    return merged.inventory.table
