"""Find the CPUs and NUMA nodes close to a device, by the names that others call it, by reading /sys and /dev.

Sources: Documentation/ABI/testing/sysfs-dev (``/sys/dev/{block,char}/MAJOR:MINOR``), sysfs-bus-pci (``numa_node``,
``local_cpulist``), sysfs-block (``slaves`` of device-mapper and md), sysfs-class-net (``device``),
Documentation/driver-api/vfio.rst (``/sys/kernel/iommu_groups``, ``/sys/class/vfio-dev``), vfio-mediated-device.rst
(``/sys/bus/mdev``) of the kernel, and those of ``sysfs.gpu_partitions``. The walk goes up from the device until a
directory has these files.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import assert_never

from cri_proxy.cri.device_names.names import DeviceName, pci_address
from cri_proxy.cri.device_names.nvidia_gpus import NO_GPUS, NvidiaGpus, is_gpu_node
from policies.base import DeviceLocality
from sysfs.cpuset import CpuSet, CpuSetError, NodeSet
from sysfs.gpu_partitions import is_partition, partitions
from sysfs.reader import DirectoryTree, TreeReader

_VFIO_GROUP = re.compile(r"/dev/vfio/(\d{1,9})\Z")
_VFIO_DEVICE = re.compile(r"/dev/vfio/devices/(vfio\d{1,9})\Z")  # of iommufd
# Stacks of device-mapper and md are a few deep; more is a loop that the kernel would not make.
_MAX_STACK = 8


@dataclass(frozen=True, slots=True)
class DeviceNumber:
    """A device as the kernel numbers it; ``kind`` is block or char, as in /sys/dev.

    ``is_storage``: the device stores the requested file or directory; else the path is the device itself.
    """

    kind: str
    major: int
    minor: int
    is_storage: bool = False


def device_number(path: Path) -> DeviceNumber | None:
    """Return the device behind a path: of a device node itself, of a file or directory the one that stores it.

    None when the path is not there, or lies on no device (tmpfs, overlay: major number 0).
    """
    try:
        found = path.stat()
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return None
    if stat.S_ISCHR(found.st_mode):
        return DeviceNumber("char", os.major(found.st_rdev), os.minor(found.st_rdev))
    is_device = stat.S_ISBLK(found.st_mode)
    number = found.st_rdev if is_device else found.st_dev
    return DeviceNumber("block", os.major(number), os.minor(number), not is_device) if os.major(number) else None


def below_root(root: Path, path: str) -> Path:
    """Return the place of a host path below this root."""
    return root / path.lstrip("/")


def needs_number(path: str) -> bool:
    """Return whether the path must be asked for its device; one of sysfs, VFIO or NVIDIA names the device itself."""
    if "\0" in path or path.startswith("/sys/") or is_gpu_node(path):
        return False
    return _VFIO_GROUP.match(path) is None and _VFIO_DEVICE.match(path) is None


class DeviceFinder:
    """Looks devices up below ``root``, the directory that holds ``sys/`` and ``dev/``. Reads files: not on the loop."""

    def __init__(
        self,
        root: Path = Path("/"),
        number_of: Callable[[Path], DeviceNumber | None] = device_number,
        gpus: NvidiaGpus = NO_GPUS,
    ) -> None:
        """``number_of`` returns the device behind a path below the root."""
        self._root = root
        self._sys = (root / "sys").resolve()
        self._number_of = number_of
        self._gpus = gpus

    def of(self, names: Sequence[DeviceName]) -> tuple[DeviceLocality, ...]:
        """Return the localities of the devices that are called so, in this order.

        A device whose locality is unknown, or that does not exist, has none.
        """
        found = [self._at(name, self._starts(name)) for name in names if "\0" not in name.text]
        return tuple(each for each in found if each is not None)

    def hardware(self, name: DeviceName) -> tuple[tuple[str, ...], ...]:
        """Return the names of each device that is called so, as it has them: its PCI address, of a partition its own.

        Whether its place is known does not matter.
        """
        if "\0" in name.text:
            return ()
        found = dict.fromkeys(map(self._names_at, self._starts(name)))
        return tuple(filter(None, found))

    def _names_at(self, start: Path) -> tuple[str, ...]:
        """Return what the directory of a device is called on its way up, and of a partition the address of its GPU."""
        try:
            directory = start.resolve(strict=True)
        except (OSError, RuntimeError):
            return ()
        part = next((each.name for each in (directory, *directory.parents) if is_partition(each.name)), "")
        above = self._gpu_of(directory)
        addresses = (pci_address(each.name) for each in (above, *above.parents))
        return tuple(filter(None, (part, next(filter(None, addresses), ""))))

    def _starts(self, name: DeviceName) -> Iterable[Path]:
        """Return the directories of the devices that this name stands for."""
        match name.kind:
            case "path":
                return self._of_path(name.text)
            case "pci":
                return [self._bus("pci", name.text)]
            case "gpu":
                return [self._bus("pci", address) for address in self._gpus.called(name.text)]
            case "mediated":
                return [self._bus("mdev", name.text)]
            case "auxiliary":
                return [self._bus("auxiliary", name.text)]
            case "interface":
                return [self._sys / "class/net" / name.text / "device"]
            case _:
                assert_never(name.kind)

    def _of_path(self, path: str) -> Iterable[Path]:
        group, device = _VFIO_GROUP.match(path), _VFIO_DEVICE.match(path)
        if group is not None:
            return _entries(self._sys / "kernel/iommu_groups" / group[1] / "devices")
        if device is not None:
            return [self._sys / "class/vfio-dev" / device[1]]
        if is_gpu_node(path):
            return [self._bus("pci", address) for address in self._gpus.behind_node(path)]
        below = below_root(self._root, path)
        return [below] if path.startswith("/sys/") else self._stored_on(below)

    def _stored_on(self, path: Path) -> Iterable[Path]:
        """Return the directory of the device behind this path, or those of the disks that store it."""
        number = self._number_of(path)
        if number is None:
            return ()
        disks = self._disks(self._numbered(number))
        if number.is_storage and self._root_disks & disks:
            return ()  # every container uses the disk of the root file system
        return sorted(disks)

    def _bus(self, bus: str, device: str) -> Path:
        return self._sys / "bus" / bus / "devices" / device

    def _numbered(self, number: DeviceNumber) -> Path:
        return self._sys / "dev" / number.kind / f"{number.major}:{number.minor}"

    @cached_property
    def _root_disks(self) -> frozenset[Path]:
        number = self._number_of(self._root)
        return self._disks(self._numbered(number)) if number is not None else frozenset()

    def _disks(self, start: Path, depth: int = 0) -> frozenset[Path]:
        """Return the disks under a block device: that of a partition, those below device-mapper and md."""
        try:
            directory = start.resolve(strict=True)
        except (OSError, RuntimeError):  # RuntimeError: a loop of links
            return frozenset()
        # A partition alone has this file; its disk is the directory above (Documentation/ABI, sysfs-block).
        if (directory / "partition").exists():
            directory = directory.parent
        slaves = _entries(directory / "slaves") if depth < _MAX_STACK else []
        if not slaves:
            return frozenset([directory])
        return frozenset(disk for slave in slaves for disk in self._disks(slave, depth + 1))

    def _at(self, name: DeviceName, starts: Iterable[Path]) -> DeviceLocality | None:
        """Return one locality for all of these devices; None where the locality of one is unknown."""
        found = [self._walk(start) for start in starts]
        known = [place for place in found if place is not None]
        if not known or len(known) < len(found):
            return None
        cpus = CpuSet.of_masks(place.cpus.mask for place in known)
        nodes = NodeSet.of(node for place in known for node in place.nodes)
        # Which of several GPUs with parts it is, is not known; all devices of a group are meant.
        is_known = name.kind != "gpu" or len(known) == 1
        devices = tuple(sorted({device for place in known for device in place.devices})) if is_known else ()
        return DeviceLocality(_source(name, devices), cpus, nodes, name.via, devices)

    def _gpu_of(self, directory: Path) -> Path:
        """Return the directory of the GPU that a partition is a part of; other directories as they are."""
        above = (directory, *directory.parents)
        name = next((each.name for each in above if is_partition(each.name)), "")
        address = partitions(TreeReader(DirectoryTree(self._root))).get(name, "") if name else ""
        try:
            return self._bus("pci", address).resolve(strict=True) if address else directory
        except (OSError, RuntimeError):
            return directory

    def _walk(self, start: Path) -> DeviceLocality | None:
        """Go up from a device to the first directory with locality files; virtual devices have none on their way."""
        try:
            directory = start.resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        node = cpus = device = told_by = ""
        directory = self._gpu_of(directory)
        while directory != self._sys and self._sys in directory.parents:
            # A disk's own directory may hold the node only, and its controller's the CPUs.
            node, cpus = node or _read(directory / "numa_node"), cpus or _read(directory / "local_cpulist")
            device = device or pci_address(directory.name) or ""
            told_by = told_by or (str(directory) if node or cpus else "")
            if node and cpus:
                break
            directory = directory.parent
        return _place(node, cpus, device or told_by)


# What helper processes run: this module loads little, and so a helper starts soon and stays small.
Numbers = Mapping[str, DeviceNumber | None]


def device_numbers(root: Path, paths: Sequence[str]) -> Numbers:
    """Return the device behind each of these host paths."""
    return {path: device_number(below_root(root, path)) for path in paths}


def localities(
    root: Path, names: Sequence[DeviceName], numbers: Numbers, gpus: NvidiaGpus
) -> tuple[DeviceLocality, ...]:
    """Return the localities of these devices, by reading sysfs: the numbers of the paths are known."""
    known = {below_root(root, path): number for path, number in numbers.items()}
    return DeviceFinder(root, known.get, gpus).of(names)


def hardware(
    root: Path, names: Sequence[DeviceName], numbers: Numbers, gpus: NvidiaGpus
) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Return the hardware behind each of these names, by reading sysfs: the numbers of the paths are known."""
    known = {below_root(root, path): number for path, number in numbers.items()}
    finder = DeviceFinder(root, known.get, gpus)
    return tuple(map(finder.hardware, names))


def _source(name: DeviceName, devices: tuple[str, ...]) -> str:
    """Return the name of this device in a locality: a path, a PCI address, or words.

    >>> _source(DeviceName("interface", "eth1"), ("0000:3b:00.0",))
    'interface eth1'
    """
    match name.kind:
        case "path" | "pci":
            return name.text
        case "gpu":
            return devices[0] if devices else name.text  # an index says little
        case "mediated" | "auxiliary":
            return f"{name.kind} device {name.text}"
        case "interface":
            return f"interface {name.text}"
        case _:
            assert_never(name.kind)


def _entries(directory: Path) -> list[Path]:
    """Return the entries of a directory, by name; none when it cannot be read."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    """Return the file's text without white space around it; '' when it cannot be read."""
    try:
        return path.read_text().strip() if path.is_file() else ""
    except (OSError, UnicodeError):
        return ""


def _place(node: str, cpus: str, device: str) -> DeviceLocality | None:
    """Return the place from the two files; None where they hold none.

    ``device`` is the PCI address, or the directory that has these files.
    """
    try:
        nodes = NodeSet.parse(node) if not node.startswith("-") else NodeSet()
        local = CpuSet.parse(cpus)
    except CpuSetError:
        return None
    # Node -1: the firmware gives no locality, and the CPU list holds all CPUs.
    if node.startswith("-") or not (nodes or local):
        return None
    return DeviceLocality(device, local, nodes, devices=(device,))
