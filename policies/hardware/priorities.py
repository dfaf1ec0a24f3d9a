"""Classify CPUs by capacity, frequency, energy preference and core kind; order masks of them for each priority. Pure.

Compared per kind of core on the whole machine: ``cpu_capacity`` (kernel, ABI/testing/sysfs-devices-system-cpu), which
alone tells the cores of Arm's big.LITTLE apart. Per package and kind: ``cpufreq/base_frequency`` (admin-guide/pm/
intel_pstate.rst: set apart by Speed Select's base frequency feature) and ``cpufreq/energy_performance_preference``
(same document, "Energy vs Performance Hints").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from types import MappingProxyType

from policies.preferences import CpuPriority
from sysfs.model import CoreKind, Machine

# From performance to power saving, with the numbers that intel_pstate writes for the words. A word without a number
# lies between its neighbours. Any other word is unknown.
_ENERGY_PREFERENCES = {
    "performance": 0,
    "balance_performance": 128,
    "default": 160,
    "normal": 160,
    "balance_power": 192,
    "power": 255,
}

PriorityMasks = Mapping[CpuPriority, tuple[int, ...]]  # masks to take CPUs from, best first; the last is every CPU


@dataclass(frozen=True, slots=True)
class Speeds:
    """The online CPUs by how fast they are. Masks; the first three are disjoint and together every CPU."""

    high: int
    normal: int
    low: int
    fast: int  # those with more than the lowest capacity of their kind, or base frequency of their package and kind
    efficient: int  # efficiency cores


def speeds_of(machine: Machine) -> Speeds:
    """Sort the CPUs into high, low and normal.

    High have more than the lowest capacity or base frequency, or not the most power-saving preference. Low are the
    others of that comparison, and efficiency cores. CPUs are compared within a package and a kind of core,
    so that performance cores are normal if only their kind sets them apart. A value that sysfs lacks is ignored.
    """
    efficient = sum(1 << c.id for c in machine.cpus if c.kind is CoreKind.EFFICIENCY)
    fast = slow = performance = saving = 0
    for kind in CoreKind:
        low, high = _split_capacities({c.id: c.capacity for c in machine.cpus if c.kind is kind and c.capacity})
        slow, fast = slow | low, fast | high
        for package in machine.packages:
            group = [c for c in machine.cpus if c.package == package.id and c.kind is kind]
            # Negative, as ``_split`` takes the largest value for the worst.
            low, high = _split({c.id: -c.base_frequency_khz for c in group if c.base_frequency_khz})
            slow, fast = slow | low, fast | high
            low, high = _split({c.id: n for c in group if (n := _energy_preference(c.energy_preference)) is not None})
            saving, performance = saving | low, performance | high
    # An efficiency core is slow whatever its preference is: that compares it with cores of its kind.
    high = (fast | performance) & ~efficient
    low = (slow | saving | efficient) & ~high
    return Speeds(high, machine.online.mask & ~high & ~low, low, fast, efficient)


def priority_masks_of(machine: Machine) -> PriorityMasks:
    """Return the masks to take owned CPUs from, per priority. One kind of core serves a request if it can.

    Without a priority: a high base frequency, performance cores, efficiency cores, all.
    """
    s, every = speeds_of(machine), machine.online.mask
    strong = every & ~s.efficient
    orders = {
        CpuPriority.HIGH: (s.high, s.high | s.normal, strong, s.efficient),
        CpuPriority.NORMAL: (s.normal, s.normal | s.low & strong, strong, s.efficient),
        CpuPriority.LOW: (s.efficient, s.low, s.low | s.normal, strong),
        CpuPriority.NONE: (s.fast & strong, strong, s.efficient),
    }
    return MappingProxyType({priority: _without_repeats(masks, every) for priority, masks in orders.items()})


def _without_repeats(masks: tuple[int, ...], every: int) -> tuple[int, ...]:
    """Return the masks that have CPUs, each once, up to the first that has all."""
    parts = takewhile(lambda mask: mask != every, dict.fromkeys(masks))
    return (*filter(None, parts), every)


def _split(values: Mapping[int, int]) -> tuple[int, int]:
    """Return (CPUs with the largest value, the others) as masks; (0, 0) if all are equal."""
    worst = max(values.values(), default=0)
    low = sum(1 << cpu for cpu, value in values.items() if value == worst)
    high = sum(1 << cpu for cpu, value in values.items() if value != worst)
    return (low, high) if high else (0, 0)


def _split_capacities(capacities: Mapping[int, int]) -> tuple[int, int]:
    """As ``_split``, of (small CPUs, the others): the scheduler takes capacities within 5 % of each other for equal.

    (``capacity_greater`` in kernel/sched/fair.c)
    """
    enough = min(capacities.values(), default=0) * 1078 // 1024
    return _split({cpu: int(capacity <= enough) for cpu, capacity in capacities.items()})


def _energy_preference(preference: str) -> int | None:
    """Return 0 for performance to 255 for power, None for unknown words. Some drivers write the number."""
    if preference.isascii() and preference.isdigit() and len(preference) <= 3:
        return int(preference)
    return _ENERGY_PREFERENCES.get(preference)
