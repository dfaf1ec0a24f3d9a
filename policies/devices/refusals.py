"""The sentences for requests that cannot be met: too few devices, or none of them in the place that is required."""

from collections.abc import Mapping, Sequence

from policies.device_grants import WHOLE
from policies.devices.annotations import RequiredScope
from policies.devices.candidates import DeviceCandidate, FoundDevices
from policies.devices.demand import DeviceDemand
from policies.devices.device_types import GPU
from policies.devices.model import PcieGroup
from sysfs.quantity import bytes_text
from sysfs.text import plural

_SHOWN_GROUPS = 8


def shortage_text(demand: DeviceDemand, candidates: FoundDevices) -> str:
    """Return the sentence for too few candidates."""
    count = len(candidates.usable)
    has = "none" if not count else str(count)
    asked = "all that match" if demand.is_all else str(demand.count)
    known = candidates.usable or candidates.reasons
    if not known:
        return f"{demand.kind}: {asked} asked for, and the inventory has none"
    reason = candidates.shortage()
    amount = _amount_text(demand)
    why = f" ({demand.kind} {reason})" if reason else ""
    return f"{demand.kind}: {asked}{amount} asked for, {has} can be given{why}"


def _amount_text(demand: DeviceDemand) -> str:
    parts = [plural(demand.units, "unit")] if demand.units is not None and demand.units != WHOLE else []
    if demand.kind == GPU and demand.memory_bytes is not None:
        parts.append(f"{bytes_text(demand.memory_bytes)} of memory")
    elif demand.kind == GPU and demand.memory_units is not None and demand.memory_units != WHOLE:
        parts.append(f"{plural(demand.memory_units, 'unit')} of memory")
    return f" with {' and '.join(parts)} each" if parts else ""


def scope_refusal(
    demand: DeviceDemand, usable: Sequence[DeviceCandidate], groups: Sequence[PcieGroup], partition: str = ""
) -> str:
    """Return why the devices of a type cannot all be in one place; ``partition`` as in ``joint_refusal``."""
    scope = demand.hint.scope
    of_it = f" and a partition ({partition})" if partition else ""
    begin = f"{demand.kind}: {demand.count} asked for with requiredTopologyScope {scope}{of_it}"
    if scope is RequiredScope.DEVICE:
        return f"{begin}, which is one device; ask for one"
    counts: dict[str, int] = {}
    for candidate in usable:
        group = groups[candidate.group]
        node = f"the unknown NUMA node of {group}" if group.numa is None else f"NUMA node {group.numa}"
        place = str(group) if scope is RequiredScope.PCIE else node
        counts[place] = counts.get(place, 0) + 1
    return f"{begin}; those that can be given: {_counted(counts)}"


def _counted(counts: Mapping[str, int]) -> str:
    shown = [f"{count} on {place}" for place, count in counts.items()]
    more = len(shown) - _SHOWN_GROUPS
    return ", ".join(shown[:_SHOWN_GROUPS]) + (f" and {plural(more, 'place')} more" if more > 0 else "")


def joint_refusal(
    demands: Sequence[DeviceDemand], found: Sequence[FoundDevices], groups: Sequence[PcieGroup], partition: str = ""
) -> str:
    """Return why types cannot be allocated together: what each PCIe that has the primary type could give.

    ``partition`` is what asks for a partition of GPUs, '' where none has to be one.
    """
    first, *others = demands
    kinds = " and ".join("a GPU" if demand.kind == GPU else f"an {demand.kind} device" for demand in others)
    with_primary = sorted({candidate.group for candidate in found[0].usable})
    rows = []
    for group in with_primary[:_SHOWN_GROUPS]:
        counts = [sum(candidate.group == group for candidate in each.usable) for each in found]
        parts = [_devices_text(count, demand.kind) for demand, count in zip(demands, counts, strict=True)]
        rows.append(f"{' and '.join(parts)} on {groups[group]}")
    more = len(with_primary) - _SHOWN_GROUPS
    rest = f"; and {more} more" if more > 0 else ""
    asked = ", ".join(_devices_text(demand.count, demand.kind) for demand in others)
    lacks = [f"{demand.kind} {each.shortage()}" for demand, each in zip(demands, found, strict=True) if each.reasons]
    return (
        f"device-joint-allocate with SamePCIe: no set of {_devices_text(first.count, first.kind)} has {kinds} on every"
        f" PCIe group that it uses, {asked} or more in all{_limits_text(demands, partition)}; free: {'; '.join(rows)}"
        f"{rest}; {'not free: ' + ', '.join(lacks) + '; ' if lacks else ''}ask for fewer, or leave out requiredScope"
    )


def _devices_text(count: int, kind: str) -> str:
    """Return a number of devices of a type: 4 GPUs, 1 rdma device, no rdma device."""
    noun = "GPU" if kind == GPU else f"{kind} device"
    return plural(count, noun) if count else f"no {noun}"


def _limits_text(demands: Sequence[DeviceDemand], partition: str) -> str:
    """Return what else bounds the choice: scopes of hints, a partition."""
    anywhere = (RequiredScope.DEFAULT, RequiredScope.NODE)
    limits = [f"{d.kind} with requiredTopologyScope {d.hint.scope}" for d in demands if d.hint.scope not in anywhere]
    limits += [f"{GPU} in a partition ({partition})"] if partition else []
    return f", {' and '.join(limits)}" if limits else ""
