"""Render an inventory of devices as a tree of NUMA nodes and PCIe groups."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Final

from cri_proxy.cli.render.columns import Cells, column_widths, layout, paragraph, terminal_width
from policies.device_grants import WHOLE, DeviceGrant, DeviceKey
from policies.devices import (
    GPU,
    GPU_MEMORY,
    DeviceInventory,
    DeviceUse,
    InventoryDevice,
    ailment_of,
    links_of,
    pcie_groups,
    usage_of,
)
from sysfs.cpuset import NodeSet
from sysfs.gpu_partitions import is_partition
from sysfs.quantity import bytes_text
from sysfs.text import plural, some

_HOLDERS_SHOWN: Final = 4


def device_tree(
    inventory: DeviceInventory,
    held: Sequence[DeviceGrant] = (),
    holders: Mapping[DeviceKey, Sequence[str]] = MappingProxyType({}),
) -> str:
    """Return the devices by NUMA node and PCIe, with what containers hold of them; then the partitions of GPUs.

    ``holders`` are the names of these containers, as far as they are known.
    """
    groups = pcie_groups(inventory.devices)
    usage = usage_of(held, inventory, groups)
    rows: list[Cells] = []
    node: object = ()
    for group in groups:
        if group.numa != node:
            node = group.numa
            rows.append(_heading("NUMA node unknown" if group.numa is None else f"NUMA node {group.numa}", ""))
        rows.append(_heading(f"PCIe {group.pcie or 'unknown'}", "  "))
        rows += (_row(device, usage.of(device), holders.get(device.key, ())) for device in group.devices)
    lines = layout(rows, column_widths(rows, (30, 16, 40), flexible=2, total=terminal_width()))
    more = (*_partition_lines(inventory), *_link_lines(inventory))
    return "\n".join([*(line.rstrip() for line in lines), *more]) or "no devices"


def _heading(text: str, lead: str) -> Cells:
    return Cells((text, "", ""), lead=lead, rest=lead)


def _row(device: InventoryDevice, use: DeviceUse, holders: Sequence[str]) -> Cells:
    words = [] if device.is_healthy else [ailment_of(device)]
    if device.resources.get(GPU_MEMORY):
        words.append(f"{bytes_text(device.resources[GPU_MEMORY])} of memory")
    vfs = [vf.bus for group in device.vf_groups for vf in group.vfs]
    if vfs:
        taken = len(use.vfs & set(vfs))
        words.append(plural(len(vfs), "VF") + (f" ({taken} in use)" if taken else ""))
    if device.parts:
        words.append(f"{plural(len(device.parts), 'part')} (MIG)")
    words += (f"{key}={value}" for key, value in sorted(device.labels.items()))
    if not use.is_idle:
        words.append(f"{WHOLE - max(use.units, use.memory.numerator // use.memory.denominator)} of {WHOLE} free")
    if holders:
        words.append(f"held by {some(list(dict.fromkeys(holders)), _HOLDERS_SHOWN)}")
    name = device.uuid if is_partition(device.uuid) else device.path.bus
    return Cells((f"{device.kind} {device.minor}", name, ", ".join(words)), lead="    ", rest="      ")


def _partition_lines(inventory: DeviceInventory) -> Iterator[str]:
    by_size: dict[int, list[str]] = {}
    for partition in inventory.partitions or ():
        by_size.setdefault(len(partition.minors), []).append(f"{{{NodeSet.of(partition.minors)}}}")
    if by_size:
        yield "partitions of GPUs"
    for size, sets in sorted(by_size.items()):
        yield from paragraph(" ".join(sets), " " * 6, first=f"  {size:<2}  ")


def _link_lines(inventory: DeviceInventory) -> Iterator[str]:
    """Yield the links of each two GPUs by their word, the most frequent words last."""
    links = links_of(inventory.links, inventory.of(GPU))
    if links is None:
        return
    pairs: dict[str, list[str]] = {}
    for one, other in combinations(sorted(links.indices), 2):
        pairs.setdefault(links.link(one, other).word, []).append(f"{one}-{other}")
    if pairs:
        yield "links between GPUs"
    for word, names in sorted(pairs.items(), key=lambda pair: (len(pair[1]), pair[0])):
        yield from paragraph(" ".join(names), " " * 8, first=f"  {word:<4}  ")
