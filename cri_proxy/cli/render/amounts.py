"""Format CPU and memory amounts, CPU and node sets, devices and times for a terminal. Pure."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from policies.devices.costs import CostError, ranges_of, type_of
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.quantity import BINARY_UNITS
from sysfs.text import numbered


def cpu_text(mcpu: int) -> str:
    """Format an amount of CPU.

    >>> cpu_text(2000), cpu_text(2500), cpu_text(500)
    ('2', '2.5', '0.5')
    """
    return f"{mcpu / 1000:.3f}".rstrip("0").rstrip(".")


def about_bytes_text(count: int) -> str:
    """Format a number of bytes with three digits, where the last byte does not matter.

    >>> about_bytes_text(16 << 30), about_bytes_text(16_634_118_144), about_bytes_text(0)
    ('16Gi', '15.5Gi', '0')
    """
    for size, unit in BINARY_UNITS:
        if abs(count) >= size:
            return f"{count / size:.3g}{unit}" if abs(count) < 1000 * size else f"{count // size}{unit}"
    return str(count)


def ids_text(what: str, ids: CpuSet | NodeSet | None) -> str:
    """Format a set of CPUs or nodes with its name.

    >>> ids_text("CPU", CpuSet.parse("2-3")), ids_text("node", NodeSet.of([1])), ids_text("CPU", None)
    ('CPUs 2-3', 'node 1', 'any CPU')
    """
    if ids is None:
        return f"any {what}"
    if not ids:
        return f"no {what}"
    return numbered(what, ids)


def devices_text(devices: Sequence[str]) -> str:
    """Format devices: the instances of each type, in ranges where they can be written so.

    >>> devices_text(("example.com/gpu/gpu0", "example.com/gpu/gpu1", "example.com/nic/eth3"))
    'example.com/gpu gpu0-1, example.com/nic eth3'
    """
    kinds = dict.fromkeys(map(type_of, devices))
    return ", ".join(f"{kind} {instances_text(kind, [d for d in devices if type_of(d) == kind])}" for kind in kinds)


def instances_text(kind: str, devices: Sequence[str]) -> str:
    """Format devices of one type without its name, in ranges where they can be written so."""
    names = list(devices)
    with suppress(CostError):  # a name that the cost format would read as another one, of a listing made otherwise
        names = ranges_of(names)
    return ", ".join(name.removeprefix(f"{kind}/") for name in names)


def moment_text(at_seconds: float) -> str:
    """Format a time since the epoch, in UTC.

    >>> moment_text(1_700_000_000.5)
    '2023-11-14 22:13:20'
    """
    return f"{datetime.fromtimestamp(at_seconds, UTC):%Y-%m-%d %H:%M:%S}"
