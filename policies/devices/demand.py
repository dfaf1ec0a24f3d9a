"""Read what a container asks for into amounts of each device: whole devices, shares of GPUs, amounts of NICs and FPGAs.

A device has 100 units. Up to 100 are an amount of one device, multiples of 100 that many whole devices (Koordinator,
"Device Scheduling").
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from policies.device_grants import WHOLE
from policies.devices.annotations import AllocateStrategy, DeviceAnnotations, DeviceHint
from policies.devices.device_types import GPU, VENDOR_OF
from policies.devices.model import GPU_MEMORY, DeviceInventory, InventoryDevice
from policies.devices.resources import (
    GPU_CORE,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    GPU_SHARES,
    GPU_UNITS,
    OTHERS,
    RESOURCES,
    WHOLE_GPUS,
)
from policies.errors import PolicyBaseError
from sysfs.quantity import bytes_text


class DemandError(PolicyBaseError):
    """A request that no devices can meet, whatever is free: the sentence says what to ask for instead."""


@dataclass(frozen=True, slots=True)
class DeviceDemand:
    """The demand for one type: ``count`` devices, each with these units.

    ``units`` are of the core of a GPU, of the whole of other devices; None: a GPU of which only memory is asked. Of a
    GPU's memory either ``memory_units`` or ``memory_bytes`` are asked, or neither. ``resources`` are the amounts of
    each device by the names of the request. ``vendor`` is the only one whose devices will do, '' = any.
    """

    kind: str
    count: int
    units: int | None
    memory_units: int | None = None
    memory_bytes: int | None = None
    resources: Mapping[str, int] = field(default_factory=dict)
    hint: DeviceHint = field(default_factory=DeviceHint)
    vendor: str = ""

    @property
    def is_all(self) -> bool:
        """Whether every matching device is asked for."""
        return self.hint.strategy is AllocateStrategy.APPLY_FOR_ALL

    @property
    def is_whole(self) -> bool:
        """Whether nothing of a device is left for others."""
        has_memory = self.kind != GPU or self.memory_units == WHOLE
        return self.units == WHOLE and has_memory

    def memory_of(self, device: InventoryDevice) -> Fraction | None:
        """Return the units of this device's memory that are asked; None where the device's memory is not known.

        >>> half = DeviceDemand("gpu", 1, None, memory_bytes=40)
        >>> half.memory_of(InventoryDevice("gpu", 0, resources={GPU_MEMORY: 80}))
        Fraction(50, 1)
        """
        if self.memory_bytes is None:
            return Fraction(self.memory_units or 0)
        total = device.resources.get(GPU_MEMORY, 0)
        return Fraction(self.memory_bytes * WHOLE, total) if total else None


def read_demands(
    requests: Mapping[str, int], inventory: DeviceInventory, annotations: DeviceAnnotations
) -> tuple[DeviceDemand, ...]:
    """Return what is asked of each type: GPUs, NICs, FPGAs. Amounts of 0 ask for nothing. Raises DemandError."""
    asked = {name: amount for name, amount in requests.items() if amount and name in RESOURCES}
    gpus = {name: amount for name, amount in asked.items() if name not in OTHERS}
    demands = [_gpu_demand(gpus, inventory, annotations.hint(GPU))] if gpus else []
    for name, kind in OTHERS.items():
        if name in asked:
            hint = annotations.hint(kind)
            count, units = _count(name, asked[name], hint.strategy)
            demands.append(DeviceDemand(kind, count, units, resources={name: units}, hint=hint))
    return tuple(demands)


def _count(name: str, amount: int, strategy: AllocateStrategy) -> tuple[int, int]:
    """Return how many devices an amount asks for, and the units of each."""
    if strategy is AllocateStrategy.REQUESTS_AS_COUNT:
        return amount, 1
    if strategy is AllocateStrategy.APPLY_FOR_ALL:
        if amount > WHOLE:
            excess = f"{amount} of every device ({strategy}) is more than the {WHOLE} units that one has"
            raise DemandError(f"{name}: {excess}; ask for up to {WHOLE}")
        # 1 until `as_counted` has the number of devices that match.
        return 1, amount
    count, part = divmod(amount, WHOLE)
    if not count:
        return 1, part
    if part:
        neither = f"neither up to {WHOLE}, an amount of one device, nor a multiple of {WHOLE}, that many whole devices"
        raise DemandError(f"{name}: {amount} is {neither}; ask for {amount - part} or {amount - part + WHOLE}")
    return count, WHOLE


def _gpu_demand(asked: Mapping[str, int], inventory: DeviceInventory, hint: DeviceHint) -> DeviceDemand:
    whole = [name for name in (*WHOLE_GPUS, GPU_UNITS) if name in asked]
    shares = [name for name in GPU_SHARES if name in asked]
    if len(whole) + bool(shares) > 1:
        raise DemandError(f"{' and '.join((*whole, *shares))} ask for GPUs in different ways; ask in one of them")
    if not whole and not shares:
        raise DemandError(f"{GPU_SHARED}: says on how many GPUs; ask for {GPU_UNITS} or {GPU_MEMORY} too")
    if whole and whole[0] in WHOLE_GPUS:
        return _whole_gpus(whole[0], asked, hint)
    if shares == [GPU_CORE]:
        raise DemandError(f"{GPU_CORE} alone asks for no memory; add {GPU_MEMORY_RATIO} or {GPU_MEMORY}")
    if GPU_MEMORY in asked and GPU_MEMORY_RATIO in asked:
        raise DemandError(f"{GPU_MEMORY} and {GPU_MEMORY_RATIO} both ask for memory; leave one out")
    amounts = {name: amount for name, amount in asked.items() if name != GPU_SHARED}
    count, each = _spread(amounts, asked.get(GPU_SHARED, 0), inventory, hint.strategy)
    units = each.get(GPU_UNITS)
    core, memory_units = each.get(GPU_CORE, units), each.get(GPU_MEMORY_RATIO, units)
    return DeviceDemand(GPU, count, core, memory_units, each.get(GPU_MEMORY), resources=each, hint=hint)


def _whole_gpus(name: str, asked: Mapping[str, int], hint: DeviceHint) -> DeviceDemand:
    if GPU_SHARED in asked:
        raise DemandError(f"{name} asks for whole GPUs, and {GPU_SHARED} shares them; ask for {GPU_UNITS} instead")
    count = asked[name]
    if hint.strategy is AllocateStrategy.APPLY_FOR_ALL and count > 1:
        raise DemandError(f"{name}: {count} of every GPU ({hint.strategy}); ask for 1")
    return DeviceDemand(GPU, count, WHOLE, WHOLE, resources={name: 1}, hint=hint, vendor=VENDOR_OF[name])


def _spread(
    amounts: Mapping[str, int], shared: int, inventory: DeviceInventory, strategy: AllocateStrategy
) -> tuple[int, Mapping[str, int]]:
    """Return on how many GPUs amounts are spread, and what is taken of each: as many units, bytes rounded up."""
    if strategy is AllocateStrategy.REQUESTS_AS_COUNT:
        if list(amounts) != [GPU_UNITS] or shared:
            names = ", ".join((*amounts, *([GPU_SHARED] if shared else ())))
            raise DemandError(f"{names}: cannot be a number of GPUs ({strategy}); ask for {WHOLE_GPUS[0]}")
        return amounts[GPU_UNITS], {GPU_UNITS: 1}
    if shared and strategy is AllocateStrategy.APPLY_FOR_ALL:
        raise DemandError(f"{GPU_SHARED}: the hint asks for every GPU ({strategy}); leave one of them out")
    count = shared or _gpu_count(amounts, inventory, strategy)
    each = {name: -(-amount // count) for name, amount in amounts.items()}
    for name, amount in each.items():
        if name != GPU_MEMORY and amount > WHOLE:
            of_each = f"{amounts[name]} on {count} GPUs are {amount} of each"
            raise DemandError(f"{name}: {of_each}, which has {WHOLE}; ask for more GPUs")
        if name != GPU_MEMORY and amount * count != amounts[name]:
            even = " or ".join(str(units * count) for units in (amount - 1, amount) if units)
            raise DemandError(f"{name}: {amounts[name]} are no even parts of {count} GPUs; ask for {even}")
    return count, each


def _gpu_count(amounts: Mapping[str, int], inventory: DeviceInventory, strategy: AllocateStrategy) -> int:
    """Return how many GPUs the core says, else the memory. Both have to say the same where the core says several."""
    counts = {name: _count(name, amount, strategy)[0] for name, amount in amounts.items() if name != GPU_MEMORY}
    core = counts.get(GPU_CORE, 1)
    ratio = counts.get(GPU_MEMORY_RATIO, counts.get(GPU_UNITS))
    if ratio is None:
        is_each = core > 1 or strategy is AllocateStrategy.APPLY_FOR_ALL
        return core if is_each else _count_of_bytes(amounts[GPU_MEMORY], inventory.of(GPU))
    # Up to 100 of the core count as 1 GPU, and are spread over as many as the memory says.
    if core not in (1, ratio):
        of_memory = f"{GPU_MEMORY_RATIO}: {amounts[GPU_MEMORY_RATIO]} are {ratio}"
        remedy = f"ask for as many of both, or say on how many with {GPU_SHARED}"
        raise DemandError(f"{GPU_CORE}: {amounts[GPU_CORE]} are {core} GPUs, {of_memory}; {remedy}")
    return ratio


def _count_of_bytes(wanted: int, gpus: Sequence[InventoryDevice]) -> int:
    """Return how many GPUs have this memory: one, or as many as have it whole."""
    known = {gpu.resources.get(GPU_MEMORY, 0) for gpu in gpus if gpu.is_healthy}
    sizes = sorted(known - {0}, reverse=True)
    if not sizes or wanted <= sizes[0]:
        return 1
    # The largest first: the fewest GPUs.
    for size in sizes:
        if wanted % size == 0:
            return wanted // size
    excess = f"{bytes_text(wanted)} are more than the {bytes_text(sizes[0])} of a GPU and no multiple of it"
    raise DemandError(f"{GPU_MEMORY}: {excess}; say on how many GPUs with {GPU_SHARED}")


def as_counted(demand: DeviceDemand, matching: Iterable[InventoryDevice]) -> DeviceDemand:
    """Return the demand with the number of devices that match where all of them are asked for."""
    return replace(demand, count=len(tuple(matching))) if demand.is_all else demand
