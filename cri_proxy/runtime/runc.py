"""Recognise what runc before 1.1.6 does to CPU masks under systemd: its version, and the sets that come of it (pure).

With the systemd cgroup driver runc also sets a container's cpuset as properties of its scope, AllowedCPUs and
AllowedMemoryNodes (systemd.resource-control(5)). On D-Bus these are arrays of bytes with the lowest CPUs in the first
one; before 1.1.6 runc sent the highest first (runc's changelog, 1.1.6, "Fixed"). runc then writes the right set into
the cgroup itself, but whenever systemd applies the unit, as after each ``systemctl daemon-reload``, it writes its own.
"""

import re
from typing import Final, TypeVar

from sysfs.cpuset import CpuSet, NodeSet

FIXED_IN: Final = (1, 1, 6)
REMEDY: Final = "install runc 1.1.6 or later"

_VERSION = re.compile(r"^runc version v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})", re.MULTILINE)
_BITS = 8

Ids = TypeVar("Ids", CpuSet, NodeSet)


def runc_version(output: str) -> tuple[int, int, int] | None:
    """Return the version that ``runc --version`` prints; None where it prints none.

    >>> runc_version("runc version 1.1.5+ds1")
    (1, 1, 5)
    """
    match = _VERSION.search(output)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def reverses_masks(version: tuple[int, int, int]) -> bool:
    """Return whether a runc of this version sends systemd its masks in the wrong byte order.

    >>> reverses_masks((1, 1, 5)), reverses_masks((1, 1, 6))
    (True, False)
    """
    return version < FIXED_IN


def as_systemd_reads(written: Ids) -> Ids:
    """Return the set that systemd reads where runc before 1.1.6 was given this one.

    The mask has as many bytes as its highest CPU needs, so that a set below CPU 8 is read as it is.

    >>> as_systemd_reads(CpuSet.parse("8-9")), as_systemd_reads(CpuSet.parse("0-7"))
    (CpuSet('0-1'), CpuSet('0-7'))
    """
    length = -(-written.mask.bit_length() // _BITS)
    return type(written)(int.from_bytes(written.mask.to_bytes(length, "big"), "little"))


def is_misread(found: Ids, written: Ids, online: Ids | None = None) -> bool:
    """Return whether ``found`` is what systemd makes of ``written``, and not that set itself.

    ``online``: ids outside of it do not count (None: all count), as the kernel may drop them. What is online of the
    misread set must then be something: an empty one shows nothing.
    """
    misread = as_systemd_reads(written)
    if misread == written:
        return False
    if found == misread:
        return True
    if online is None:
        return False
    visible = misread & online
    return bool(visible) and found & online == visible != written & online
