"""Where a host path's device is: from its device number through /sys/dev to the CPUs and memory node beside it.

Sources: Documentation/ABI/testing/sysfs-dev (``/sys/dev/{block,char}/MAJOR:MINOR``), sysfs-bus-pci (``numa_node``,
``local_cpulist``) of the kernel. The walk goes up from the device until a directory has these files.
"""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from policies.base import TopologyHint
from sysfs.cpuset import CpuSet, CpuSetError, NodeSet


@dataclass(frozen=True, slots=True)
class DeviceNumber:
    """A device as the kernel numbers it; ``kind`` is block or char, as in /sys/dev."""

    kind: str
    major: int
    minor: int


def device_number(path: Path) -> DeviceNumber | None:
    """The device behind a path: of a device node itself, of a file or directory the one that stores it.

    None when the path is not there, or lies on no device (tmpfs, overlay: major number 0).
    """
    try:
        found = path.stat()
    except OSError:
        return None
    if stat.S_ISCHR(found.st_mode):
        return DeviceNumber("char", os.major(found.st_rdev), os.minor(found.st_rdev))
    number = found.st_rdev if stat.S_ISBLK(found.st_mode) else found.st_dev
    return DeviceNumber("block", os.major(number), os.minor(number)) if os.major(number) else None


class DeviceHints:
    """Looks devices up below ``root``, the directory that holds ``sys/`` and ``dev/``. Reads files: not on the loop."""

    def __init__(
        self, root: Path = Path("/"), number_of: Callable[[Path], DeviceNumber | None] = device_number
    ) -> None:
        """``number_of`` tells the device behind a path below the root."""
        self._root = root
        self._sys = (root / "sys").resolve()
        self._number_of = number_of

    def of(self, paths: Sequence[str], addresses: Sequence[str] = ()) -> tuple[TopologyHint, ...]:
        """The hints of these host paths and PCI addresses, in this order; what has no place gives none."""
        found = [self._of_path(path) for path in paths] + [self._of_address(address) for address in addresses]
        return tuple(hint for hint in found if hint is not None)

    def _of_path(self, path: str) -> TopologyHint | None:
        below = self._root / path.lstrip("/")
        if path.startswith("/sys/"):
            return self._walk(below, path)
        number = self._number_of(below)
        if number is None:
            return None
        return self._walk(self._sys / "dev" / number.kind / f"{number.major}:{number.minor}", path)

    def _of_address(self, address: str) -> TopologyHint | None:
        return self._walk(self._sys / "bus" / "pci" / "devices" / address, address)

    def _walk(self, start: Path, source: str) -> TopologyHint | None:
        """Go up from a device to the first directory that tells a place; virtual devices have none on their way."""
        try:
            directory = start.resolve(strict=True)
        except OSError:
            return None
        node = cpus = ""
        while directory != self._sys and self._sys in directory.parents and not (node and cpus):
            # a disk's own directory may tell the node only, and its controller's the CPUs
            node, cpus = node or _read(directory / "numa_node"), cpus or _read(directory / "local_cpulist")
            directory = directory.parent
        return _hint(source, node, cpus)


def _read(path: Path) -> str:
    """The file's text without white space around it; '' when it cannot be read."""
    try:
        return path.read_text().strip() if path.is_file() else ""
    except (OSError, UnicodeError):
        return ""


def _hint(source: str, node: str, cpus: str) -> TopologyHint | None:
    """A hint from the two files. Node -1 means that the firmware tells nothing: then the CPUs are all CPUs."""
    try:
        nodes = NodeSet.parse(node) if not node.startswith("-") else NodeSet()
        local = CpuSet.parse(cpus)
    except CpuSetError:
        return None
    if node.startswith("-") or not (nodes or local):
        return None
    return TopologyHint(source, local, nodes)
