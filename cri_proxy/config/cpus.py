"""What ``availableResources.cpu`` and ``reservedResources.cpu`` may say: text once, frozen values from then on."""

from dataclasses import dataclass

from sysfs.cpuset import MAX_ID, CpuSet, CpuSetError
from sysfs.quantity import QuantityError, parse_mcpu

_SET = "cpuset:"
_EXCLUSION = "exclude-cpuset:"


@dataclass(frozen=True, slots=True)
class CpuList:
    """Exactly these CPUs."""

    cpus: CpuSet

    def __str__(self) -> str:
        return f"{_SET}{self.cpus}"


@dataclass(frozen=True, slots=True)
class AllBut:
    """The default, without these CPUs."""

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
    """So much CPU, rounded up to whole CPUs when they are chosen."""

    mcpu: int

    def __str__(self) -> str:
        return f"{self.mcpu}m" if self.mcpu % 1000 else str(self.mcpu // 1000)


AvailableCpus = CpuList | AllBut | CgroupCpus
ReservedCpus = CpuQuantity | CpuList


def _cpus(text: str) -> CpuSet:
    try:
        cpus = CpuSet.parse(text)
    except CpuSetError as error:
        raise ValueError(str(error)) from None
    if not cpus:
        raise ValueError("the CPU list is empty")
    return cpus


def parse_available(text: str) -> AvailableCpus:
    """Read a CPU set, an exclusion or a cgroup directory. Raises ValueError.

    >>> parse_available("exclude-cpuset:0-1")
    AllBut(cpus=CpuSet('0-1'))
    """
    stripped = text.strip()
    if stripped.startswith(_EXCLUSION):
        return AllBut(_cpus(stripped.removeprefix(_EXCLUSION)))
    if stripped.startswith(_SET):
        return CpuList(_cpus(stripped.removeprefix(_SET)))
    if "/" in stripped and ".." not in stripped.split("/"):
        return CgroupCpus(stripped)
    raise ValueError(f"expected cpuset:LIST, exclude-cpuset:LIST or a cgroup directory, got {text!r}")


def parse_reserved(text: str) -> ReservedCpus:
    """Read a quantity or a CPU set. Raises ValueError.

    >>> parse_reserved("750m"), parse_reserved("0.5")
    (CpuQuantity(mcpu=750), CpuQuantity(mcpu=500))
    """
    stripped = text.strip()
    if stripped.startswith(_SET):
        return CpuList(_cpus(stripped.removeprefix(_SET)))
    return CpuQuantity(_mcpu(stripped))


def _mcpu(text: str) -> int:
    try:
        mcpu = parse_mcpu(text)
    except QuantityError:
        raise ValueError(f"expected a quantity like 750m or 2, or cpuset:LIST, got {text!r}") from None
    if mcpu > MAX_ID * 1000:
        raise ValueError(f"{text!r} is more than any machine has")
    return mcpu
