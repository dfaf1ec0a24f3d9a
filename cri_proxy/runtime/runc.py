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

_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
_BITS = 8

Ids = TypeVar("Ids", CpuSet, NodeSet)


def keeps_affinity(version: str) -> bool:
    """Return whether a runc of this version leaves containers the CPU affinity of the runtime; True for no version.

    Linux resets it no more since 6.2, runc does since 1.2.7 and 1.3.1 (pull requests 4865 and 4869 of runc).

    >>> [keeps_affinity(version) for version in ("1.1.5", "1.2.7", "1.3.0", "1.3.1")]
    [True, False, True, False]
    """
    match = _VERSION.match(version)
    numbers = tuple(map(int, match.groups())) if match else ()
    return numbers < (1, 2, 7) or numbers == (1, 3, 0)


def affinity_remedy(cpus: str) -> str:
    """Return what to do about an affinity of the runtime on a node with these CPUs, '' for unknown ones.

    An empty ``CPUAffinity=`` is no remedy: the unit then has that of systemd itself, where ``system.conf`` sets one.

    >>> affinity_remedy("0-7")
    "upgrade runc to 1.2.7, 1.3.1 or later, or set CPUAffinity=0-7 in a drop-in of the runtime's unit and restart it"
    """
    value = f"CPUAffinity={cpus}" if cpus else "CPUAffinity= with all CPUs"
    return f"upgrade runc to 1.2.7, 1.3.1 or later, or set {value} in a drop-in of the runtime's unit and restart it"


def reverses_masks(version: str) -> bool:
    """Return whether a runc of this version sends systemd its masks in the wrong byte order; False for no version.

    >>> reverses_masks("1.1.5+ds1"), reverses_masks("1.1.6"), reverses_masks("")
    (True, False, False)
    """
    match = _VERSION.match(version)
    return match is not None and tuple(map(int, match.groups())) < FIXED_IN


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
