"""Choose the CPUs to reserve for the system when only a quantity is configured."""

from policies.errors import PolicyOptionsError
from sysfs.cpuset import CpuSet
from sysfs.model import Machine


def choose_reserved(machine: Machine, available: CpuSet, mcpu: int) -> CpuSet:
    """Choose ``mcpu`` rounded up to CPUs, on the lowest-numbered whole cores of the available CPUs.

    Cores with kernel-isolated, unavailable or offline siblings come after the whole ones. Raises
    PolicyOptionsError if there are fewer.
    """
    usable = available & machine.online
    count = -(-mcpu // 1000)
    if count > len(usable):
        raise PolicyOptionsError(
            "reservedResources.cpu", f"{mcpu}m", f"only {len(usable)} CPUs are available ({usable or 'none'})"
        )
    ordinary = usable - machine.isolated
    chosen: list[int] = []
    for wanted in (ordinary, usable):
        for core in sorted(machine.cores, key=lambda c: (not c.cpus <= wanted, next(iter(c.cpus)))):
            chosen.extend(cpu for cpu in core.cpus & wanted if cpu not in chosen)
    return CpuSet.of(chosen[:count])
