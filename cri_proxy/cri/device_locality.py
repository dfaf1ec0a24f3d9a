"""Find the CPUs and NUMA nodes close to a host path, PCI address or CDI device, by reading /sys and /dev.

Sources: Documentation/ABI/testing/sysfs-dev (``/sys/dev/{block,char}/MAJOR:MINOR``), sysfs-bus-pci (``numa_node``,
``local_cpulist``), sysfs-block (``slaves`` of device-mapper and md), Documentation/driver-api/vfio.rst
(``/sys/kernel/iommu_groups``) of the kernel. The walk goes up from the device until a directory has these files.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from cri_proxy.cri.cdi.specs import CdiSpecs
from policies.base import DeviceLocality
from sysfs.cpuset import CpuSet, CpuSetError, NodeSet

_VFIO_GROUP = re.compile(r"/dev/vfio/(\d{1,9})\Z")
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
    """Return whether the path must be asked for its device; one of sysfs or VFIO names the device itself."""
    return "\0" not in path and not path.startswith("/sys/") and _VFIO_GROUP.match(path) is None


class DeviceFinder:
    """Looks devices up below ``root``, the directory that holds ``sys/`` and ``dev/``. Reads files: not on the loop."""

    def __init__(
        self, root: Path = Path("/"), number_of: Callable[[Path], DeviceNumber | None] = device_number
    ) -> None:
        """``number_of`` returns the device behind a path below the root."""
        self._root = root
        self._sys = (root / "sys").resolve()
        self._number_of = number_of

    def of(self, paths: Sequence[str], addresses: Sequence[str] = ()) -> tuple[DeviceLocality, ...]:
        """Return the hints of these host paths and PCI addresses, in this order, none twice.

        A device whose locality is unknown, or that does not exist, gives none.
        """
        found = [self._of_path(path) for path in dict.fromkeys(paths)]
        found += [self._of_address(address) for address in addresses]
        return tuple(hint for hint in found if hint is not None)

    def _of_path(self, path: str) -> DeviceLocality | None:
        if "\0" in path:
            return None
        below = below_root(self._root, path)
        if path.startswith("/sys/"):
            return self._at(path, [below])
        group = _VFIO_GROUP.match(path)
        if group is not None:
            return self._at(path, _entries(self._sys / "kernel/iommu_groups" / group[1] / "devices"))
        number = self._number_of(below)
        if number is None:
            return None
        disks = self._disks(self._numbered(number))
        if number.is_storage and self._root_disks & disks:
            return None  # every container uses the disk of the root file system
        return self._at(path, sorted(disks))

    def _of_address(self, address: str) -> DeviceLocality | None:
        return self._at(address, [self._sys / "bus" / "pci" / "devices" / address])

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
        if (directory / "partition").exists():
            directory = directory.parent
        slaves = _entries(directory / "slaves") if depth < _MAX_STACK else []
        if not slaves:
            return frozenset([directory])
        return frozenset(disk for slave in slaves for disk in self._disks(slave, depth + 1))

    def _at(self, source: str, starts: Iterable[Path]) -> DeviceLocality | None:
        """Return one hint for all of these devices; None where the locality of one is unknown."""
        found = [self._walk(start, source) for start in starts]
        known = [hint for hint in found if hint is not None]
        if not known or len(known) < len(found):
            return None
        cpus = CpuSet.of_masks(hint.cpus.mask for hint in known)
        return DeviceLocality(source, cpus, NodeSet.of(node for hint in known for node in hint.nodes))

    def _walk(self, start: Path, source: str) -> DeviceLocality | None:
        """Go up from a device to the first directory with locality files; virtual devices have none on their way."""
        try:
            directory = start.resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        node = cpus = ""
        while directory != self._sys and self._sys in directory.parents and not (node and cpus):
            # A disk's own directory may hold the node only, and its controller's the CPUs.
            node, cpus = node or _read(directory / "numa_node"), cpus or _read(directory / "local_cpulist")
            directory = directory.parent
        return _hint(source, node, cpus)


# What helper processes run: this module loads little, and so a helper starts soon and stays small.
Numbers = Mapping[str, DeviceNumber | None]
_cdi_specs = cache(CdiSpecs)  # per process: specification files are parsed again only when they change


def device_nodes(root: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Return host paths of the device nodes behind these CDI names."""
    return _cdi_specs(root).device_nodes(names)


def declared_devices(root: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Return those of these CDI names that a specification file declares."""
    return _cdi_specs(root).declared(names)


def device_numbers(root: Path, paths: Sequence[str]) -> Numbers:
    """Return the device behind each of these host paths."""
    return {path: device_number(below_root(root, path)) for path in paths}


def localities(
    root: Path, paths: Sequence[str], addresses: Sequence[str], numbers: Numbers
) -> tuple[DeviceLocality, ...]:
    """Return the hints of these host paths and PCI addresses, by reading sysfs: the numbers of the paths are known."""
    known = {below_root(root, path): number for path, number in numbers.items()}
    return DeviceFinder(root, known.get).of(paths, addresses)


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


def _hint(source: str, node: str, cpus: str) -> DeviceLocality | None:
    """Return a hint from the two files; None where they hold none."""
    try:
        nodes = NodeSet.parse(node) if not node.startswith("-") else NodeSet()
        local = CpuSet.parse(cpus)
    except CpuSetError:
        return None
    # Node -1: the firmware gives no locality, and the CPU list holds all CPUs.
    if node.startswith("-") or not (nodes or local):
        return None
    return DeviceLocality(source, local, nodes)
