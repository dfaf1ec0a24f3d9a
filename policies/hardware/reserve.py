"""Choose the CPUs to reserve for the system when only a quantity is configured, and judge those of a list."""

from policies.errors import PolicyOptionsError
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from sysfs.text import plural


def choose_reserved(machine: Machine, available: CpuSet, mcpu: int) -> CpuSet:
    """Choose ``mcpu`` rounded up to CPUs, on the lowest-numbered whole cores of the available CPUs.

    Cores with kernel-isolated, unavailable or offline siblings come after the whole ones. Raises
    PolicyOptionsError if there are fewer.
    """
    usable = available & machine.online
    count = -(-mcpu // 1000)
    if count > len(usable):
        has = f"only {len(usable)} CPUs are available ({usable or 'none'})"
        raise PolicyOptionsError("reservedResources.cpu", f"{mcpu}m", has)
    ordinary = usable - machine.isolated
    chosen: list[int] = []
    for wanted in (ordinary, usable):
        for core in sorted(machine.cores, key=lambda c: (not c.cpus <= wanted, next(iter(c.cpus)))):
            chosen.extend(cpu for cpu in core.cpus & wanted if cpu not in chosen)
    return CpuSet.of(chosen[:count])


def split_cores_note(machine: Machine, available: CpuSet, reserved: CpuSet) -> str:
    """Return a sentence where the reserved CPUs split more cores than as many others in the same places would.

    Those are whole cores among the ones in use, per NUMA node; '' where the list is as good.
    """
    usable = available & machine.online - (machine.isolated - reserved)
    better: list[int] = []
    for place in machine.nodes or machine.packages:
        here = reserved & place.cpus
        cores = (core.cpus & usable for core in machine.cores if core.cpus & here)
        better += [cpu for cpus in sorted(cores, key=min) for cpu in cpus][: len(here)]
    count, least = (_split_count(machine, usable, cpus) for cpus in (reserved, CpuSet.of(better)))
    if count <= least:
        return ""
    return (
        f"reserved CPUs {reserved} split {plural(count, 'core')}, and no container that asks for whole cores gets the "
        f"rest of them; {CpuSet.of(better)} would split {least or 'none'}"
    )


def _split_count(machine: Machine, usable: CpuSet, reserved: CpuSet) -> int:
    return sum(1 for core in machine.cores if core.cpus & reserved and core.cpus & usable - reserved)
