"""Types and parsers of the two CPU options: a list, all but a list, a cgroup, a quantity; no machine involved. Pure."""

import re
from dataclasses import dataclass

from sysfs.cpuset import MAX_ID, CpuSet
from sysfs.quantity import QuantityError, parse_mcpu

_SET = "cpuset:"
_EXCLUSION = "exclude-cpuset:"
_BARE_LIST = re.compile(r"[0-9]+[-,][0-9,-]*")  # 0-3,8; a number alone may be a quantity


@dataclass(frozen=True, slots=True)
class CpuList:
    """Exactly these CPUs."""

    cpus: CpuSet

    def __str__(self) -> str:
        return f"{_SET}{self.cpus}"


@dataclass(frozen=True, slots=True)
class AllBut:
    """All CPUs but these: of the default, or of the available ones for a reservation."""

    cpus: CpuSet

    def __str__(self) -> str:
        return f"{_EXCLUSION}{self.cpus}"


@dataclass(frozen=True, slots=True)
class CgroupCpus:
    """The effective CPUs of a cgroup: ``directory`` is absolute, or relative to the cpuset hierarchy's mount."""

    directory: str

    def __str__(self) -> str:
        return self.directory


@dataclass(frozen=True, slots=True)
class CpuQuantity:
    """An amount of CPU, rounded up to whole CPUs when they are chosen."""

    mcpu: int

    def __str__(self) -> str:
        return f"{self.mcpu}m" if self.mcpu % 1000 else str(self.mcpu // 1000)


AvailableCpus = CpuList | AllBut | CgroupCpus
ReservedCpus = CpuQuantity | CpuList | AllBut


def _set(text: str) -> CpuList | AllBut | None:
    """Return a list or an exclusion; None for something else. A bare list is cri-resource-manager's form."""
    if text.startswith(_EXCLUSION):
        return AllBut(_cpus(text.removeprefix(_EXCLUSION)))
    if text.startswith(_SET):
        return CpuList(_cpus(text.removeprefix(_SET)))
    return CpuList(_cpus(text)) if _BARE_LIST.fullmatch(text) else None


def _cpus(text: str) -> CpuSet:
    cpus = CpuSet.parse(text)
    if not cpus:
        raise ValueError("the CPU list is empty")
    return cpus


def parse_available(text: str) -> AvailableCpus:
    """Read a CPU set, an exclusion or a cgroup directory. Raises ValueError.

    >>> parse_available("exclude-cpuset:0-1")
    AllBut(cpus=CpuSet('0-1'))
    """
    stripped = text.strip()
    named = _set(stripped)
    if named is not None:
        return named
    # No "..": the path is taken below a root, which it must not leave.
    if "/" in stripped and ".." not in stripped.split("/"):
        return CgroupCpus(stripped)
    raise ValueError(f"expected cpuset:LIST, exclude-cpuset:LIST or a cgroup directory, got {text!r}")


def parse_reserved(text: str) -> ReservedCpus:
    """Read a quantity, a CPU set or an exclusion. Raises ValueError.

    >>> parse_reserved("750m"), parse_reserved("0.5")
    (CpuQuantity(mcpu=750), CpuQuantity(mcpu=500))
    """
    stripped = text.strip()
    named = _set(stripped)
    return CpuQuantity(_mcpu(stripped)) if named is None else named


def _mcpu(text: str) -> int:
    try:
        mcpu = parse_mcpu(text)
    except QuantityError:
        raise ValueError(
            f"expected a quantity like 750m or 2, cpuset:LIST or exclude-cpuset:LIST, got {text!r}"
        ) from None
    if mcpu > MAX_ID * 1000:
        raise ValueError(f"{text!r} is more than any machine has")
    return mcpu
