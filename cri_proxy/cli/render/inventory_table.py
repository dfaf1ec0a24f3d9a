"""Format who holds which devices of the inventory: a line per type, and one for each further container. Pure."""

from collections.abc import Iterator, Sequence
from typing import Final

from cri_proxy.cli.render.columns import Cells, column_widths, layout, paragraph
from cri_proxy.node.status.inventory import HolderView, InventoryDeviceView, state_of
from policies.device_grants import WHOLE
from sysfs.cpuset import NodeSet

_HEADER: Final = ("INVENTORY", "LISTED", "HELD", "FREE", "HELD BY")
_LIMITS: Final = (10, 6, 4, 16, 36)
_SHARES: Final = f"1:25 is 25 of the {WHOLE} units of device 1"


def inventory_table(devices: Sequence[InventoryDeviceView], *, colours: bool, width: int) -> list[str]:
    """Return the lines of the table; none where every device is free."""
    if all(state_of(device) == "free" for device in devices):
        return []
    rows = [Cells(_HEADER, ("dim",) * len(_HEADER))]
    for kind in dict.fromkeys(device.type for device in devices):
        of = [device for device in devices if device.type == kind]
        listed = sum(not device.is_missing for device in of)
        held = sum(bool(device.holders) for device in of)
        first, *more = list(_remarks(of)) or ["-"]
        rows.append(Cells((kind, str(listed), str(held), _free(of) or "-", first)))
        rows += [Cells(("", "", "", "", text)) for text in more]
    lines = layout(rows, column_widths(rows, _LIMITS, flexible=4, total=width), colours=colours)
    has_shares = any(_is_share(holder) for device in devices for holder in device.holders)
    return lines + (paragraph(_SHARES, "  ", width=width) if has_shares else [])


def _free(devices: Sequence[InventoryDeviceView]) -> str:
    """Return the devices that are free, then those of which a part is."""
    whole = NodeSet.of(device.minor for device in devices if state_of(device) == "free")
    parts = [f"{device.minor}:{device.free}" for device in devices if device.holders and device.free]
    return ",".join([*([str(whole)] if whole else []), *parts])


def _remarks(devices: Sequence[InventoryDeviceView]) -> Iterator[str]:
    """Yield the devices of each container, then those that no container gets."""
    whole: dict[str, list[int]] = {}
    parts: dict[str, list[str]] = {}
    alone = {(h.container, h.exclusive) for device in devices for h in device.holders if h.exclusive}
    for device in devices:
        for holder in device.holders:
            parts.setdefault(holder.container, [])
            if holder.vf or _is_share(holder):
                part = f"{device.minor}@{holder.vf}" if holder.vf else f"{device.minor}:{holder.amount}"
                parts[holder.container].append(part)
            else:
                whole.setdefault(holder.container, []).append(device.minor)
    for container, words in sorted(parts.items()):
        minors = NodeSet.of(whole.get(container, ()))
        policies = ", ".join(sorted(policy for who, policy in alone if who == container))
        named = f" ({policies})" if policies else ""
        yield f"{container}: {','.join([*([str(minors)] if minors else []), *words])}{named}"
    sick = [device for device in devices if not device.is_healthy]
    ailments = {device.ailment: [d.minor for d in sick if d.ailment == device.ailment] for device in sick}
    cut = NodeSet.of(device.minor for device in devices if state_of(device) == "cut")
    missing = NodeSet.of(device.minor for device in devices if device.is_missing)
    for ailment, numbers in ailments.items():
        yield f"unhealthy: {NodeSet.of(numbers)}{f' ({ailment})' if ailment else ''}"
    if cut:
        yield f"cut into parts (MIG): {cut}"
    if missing:
        yield f"no longer listed: {missing}"


def _is_share(holder: HolderView) -> bool:
    return not holder.vf and holder.amount < WHOLE
