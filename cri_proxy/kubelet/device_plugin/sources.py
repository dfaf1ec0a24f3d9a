"""Read what a device plugin goes by: the inventory from a file or from sysfs, links and costs from files.

Each source stands for itself: while one cannot be used, its last good content stays.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.clock import steady_seconds
from cri_proxy.costs.merge import merge
from cri_proxy.errors import StoreError
from cri_proxy.in_force.file_state import Judged, judge_one
from cri_proxy.in_force.files import FilesSource, InForce
from cri_proxy.in_force.symlinks import Lookups, lookups_beneath
from cri_proxy.in_force.text_files import MAX_BYTES, FoundFiles, KeptTexts, OneTextFile
from cri_proxy.inventory.merge import InventoryFile, with_scanned
from cri_proxy.inventory.numbers import NUMBERS, boot_id, find_numbers
from cri_proxy.inventory.pci import inventory_of, left_out
from cri_proxy.link_file import read_link_text
from policies.devices import DEVICE_TYPES, EMPTY_INVENTORY, DeviceInventory
from policies.devices.costs import NO_DEVICES, Inventory
from policies.devices.links import LinkMatrix
from sysfs.discover import discover
from sysfs.errors import SysfsBaseError

SCAN_SECONDS: Final = 60.0
"""Between two scans of sysfs: devices rarely come and go, and a scan of a large machine takes a second."""

_LINKS: Final = Dialect(MAX_BYTES, max_depth=40, max_nodes=1_000_000, has_aliases=True)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """Why a source cannot be used; ``source`` is the path, or ``scan``. ``line`` of the file, 0 = unknown."""

    source: str
    problem: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class PluginKnowledge:
    """What the sources say, or did when they could be used last; None where there is none. ``problems`` say why.

    ``notes`` say which devices a scan has left out, and why.
    """

    inventory: DeviceInventory | None = None
    links: LinkMatrix | None = None
    costs: Inventory = NO_DEVICES
    problems: tuple[SourceProblem, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkFile(OneTextFile):
    """A file with the links between a node's GPUs."""

    def judge(self, found: FoundFiles, kept: Mapping[str, str]) -> Judged[LinkMatrix | None]:
        """Return its matrix, or that of when it could be used last."""
        return judge_one(found, kept, lambda name, text: read_link_text(text, name, _LINKS), None)


@dataclass(frozen=True, slots=True)
class CostFile(OneTextFile):
    """A cost file of the node (docs/costs.md)."""

    def judge(self, found: FoundFiles, kept: Mapping[str, str]) -> Judged[Inventory]:
        """Return what it says, or did when it could be used last."""
        return merge(found, kept)


def _unread(source: FilesSource[T], nothing: T) -> InForce[T]:
    return InForce(source, FoundFiles(source.path), Judged(nothing), KeptTexts(source.path))


def _looked(before: InForce[T] | None, problems: list[SourceProblem]) -> InForce[T] | None:
    """Return what is in force of a file as it is now; add to the problems why it cannot be used."""
    if before is None or before.source is None:
        return None
    found = before.source.read()
    # Files are looked at again and again (``in_force.watch``), and a large cost file takes seconds to parse.
    same = found == before.found
    now = before if same else before.then(before.source, found, before.source.judge(found, before.texts(found)))
    problems += [SourceProblem(str(found.path), file.problem, file.line) for file in now.judged.files if file.problem]
    return now


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
        now_seconds: Callable[[], float] = steady_seconds,
    ) -> None:
        """``sysfs_root`` is the directory that holds ``sys``. Nothing is read yet.

        ``state_dir`` is where the numbers of scanned devices are kept over restarts; None: nowhere.
        """
        self._inventory = None if inventory is None else _unread(InventoryFile(inventory), EMPTY_INVENTORY)
        self._links = None if links is None else _unread(LinkFile(links), None)
        self._costs = None if costs is None else _unread(CostFile(costs), NO_DEVICES)
        self.sysfs_root = sysfs_root
        self._state_dir = state_dir
        self._now_seconds = now_seconds
        self._scanned: tuple[float, DeviceInventory] | None = None
        self._notes: tuple[str, ...] = ()

    def read(self) -> PluginKnowledge:
        """Return what all sources say now. Blocks; raises nothing."""
        problems: list[SourceProblem] = []
        self._inventory = _looked(self._inventory, problems)
        self._links, self._costs = _looked(self._links, problems), _looked(self._costs, problems)
        return PluginKnowledge(
            self._scan(problems) if self._inventory is None else self._inventory.judged.content,
            None if self._links is None else self._links.judged.content,
            NO_DEVICES if self._costs is None else self._costs.judged.content,
            tuple(problems),
            self._notes,
        )

    def lookups(self) -> Lookups:
        """Return the directories on the way to the files, with the names that matter there."""
        files = [now.found.path for now in (self._inventory, self._links, self._costs) if now is not None]
        return lookups_beneath(*((path.parent, (path.name,)) for path in files))

    def _scan(self, problems: list[SourceProblem]) -> DeviceInventory | None:
        """Return the devices of the machine, with those that earlier scans found as unhealthy where they are gone."""
        now, last = self._now_seconds(), self._scanned[1] if self._scanned is not None else None
        if self._scanned is not None and now < self._scanned[0] + SCAN_SECONDS:
            return last
        try:
            machine = discover(self.sysfs_root)
            found = self._numbered(inventory_of(machine))
        except StoreError as error:
            problems.append(SourceProblem(error.path, error.problem))
            return last
        except (SysfsBaseError, OSError) as error:
            problems.append(SourceProblem("scan", str(error)))
            return last
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
            # Before any is offered: the kubelet keeps ids over our restart, and a number must stay its device's.
            NUMBERS.save(self._state_dir, saved.after(found))
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
