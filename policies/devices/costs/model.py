"""Values of the cost format: which instance says what it costs to reach which other one."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from policies.errors import PolicyBaseError

_NUMBERS = re.compile(r"(\d+)")

# What a source says about reaching a target; a whole number in most listings.
CostValue = int | Fraction

# The types of what the kernel lists: a CPU is ``cpu/cpu3``, a memory node ``memory/node0``, a PCI device
# ``pci/0000:3b:00.0``.
CPU_TYPE: Final = "cpu"
MEMORY_TYPE: Final = "memory"
PCI_TYPE: Final = "pci"
SYSTEM_TYPES: Final = frozenset((CPU_TYPE, MEMORY_TYPE, PCI_TYPE))


@dataclass(eq=False)
class CostError(PolicyBaseError):
    """A listing of costs that cannot be used: the line (0 = unknown), the word on it, what is wrong and the remedy.

    ``file`` is the one in which the line stands, '' where only one is read.
    """

    line: int
    token: str
    problem: str
    file: str = ""

    def __str__(self) -> str:
        return f"line {self.line}: {self.token}: {self.problem}" if self.line else f"{self.token}: {self.problem}"


@dataclass(frozen=True, slots=True)
class CostLine:
    """One cost, from each of the sources to each of the targets; an instance in both has none to itself.

    ``file`` and ``line`` say where it stands; '' where only one file is read, 0 = unknown.
    """

    sources: tuple[str, ...]
    cost: CostValue
    targets: tuple[str, ...]
    line: int = 0
    file: str = ""


@dataclass(frozen=True, slots=True)
class CostListing:
    """The costs that are known. ``present`` are further instances, which may or may not stand in a line."""

    lines: tuple[CostLine, ...] = ()
    present: tuple[str, ...] = ()


def type_of(name: str) -> str:
    """Return the resource type of an instance.

    >>> type_of("example.com/foo/id0"), type_of("cpu/cpu3")
    ('example.com/foo', 'cpu')
    """
    return name.rpartition("/")[0]


def cpu_names(cpus: Iterable[int]) -> tuple[str, ...]:
    """Return the names of these CPUs.

    >>> cpu_names([0, 3])
    ('cpu/cpu0', 'cpu/cpu3')
    """
    return tuple(f"{CPU_TYPE}/cpu{cpu}" for cpu in cpus)


def name_order(name: str) -> tuple[tuple[str, int], ...]:
    """Return a key that sorts names as people do, with numbers by value.

    >>> sorted(["cpu/cpu10", "cpu/cpu9", "b/0000:3b:00.0"], key=name_order)
    ['b/0000:3b:00.0', 'cpu/cpu9', 'cpu/cpu10']
    """
    parts = _NUMBERS.split(name)
    pairs = ((parts[i], int(parts[i + 1]) if i + 1 < len(parts) else -1) for i in range(0, len(parts), 2))
    return (*pairs, (name, 0))  # nic3 and nic03 are two names, whose order may not depend on that of a set
