"""Which CPUs to keep for the system when only a quantity is configured."""

from policies.errors import PolicyOptionsError
from sysfs.cpuset import CpuSet
from sysfs.model import Core, Machine


def choose_reserved(machine: Machine, available: CpuSet, mcpu: int) -> CpuSet:
    """Choose ``mcpu`` rounded up to CPUs, on the lowest-numbered whole cores of the available CPUs.

    Cores with kernel-isolated, unavailable or offline siblings come after the whole ones. Raises
    PolicyOptionsError where there are fewer.
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
        whole = [c for c in machine.cores if c.cpus <= wanted]
        parts = [c for c in machine.cores if not c.cpus <= wanted]
        for core in sorted(whole, key=_lowest) + sorted(parts, key=_lowest):
            chosen.extend(cpu for cpu in core.cpus & wanted if cpu not in chosen)
    return CpuSet.of(chosen[:count])


def _lowest(core: Core) -> int:
    return next(iter(core.cpus))
