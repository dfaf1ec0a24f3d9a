"""What is said of cost files to operators: where a problem is, what the files list, which devices say nothing. Pure."""

from collections.abc import Mapping
from typing import Final

from cri_proxy.in_force.file_state import Judged
from cri_proxy.in_force.text_files import FoundFiles
from policies.devices.costs import Inventory, Missing
from sysfs.text import plural, some

_SHOWN: Final = 5


def listed_text(found: FoundFiles, costs: Judged[Inventory]) -> str:
    """Return how many files there are, and how many devices of each type they list; '' without files."""
    if not costs.files:
        return ""
    devices = ", ".join(f"{kind} {len(names)}" for kind, names in costs.content.devices.items()) or "no devices"
    return f"{found.path}, {plural(len(costs.files), 'file')}: {devices}"


def wins_by_silence(inventory: Inventory) -> Mapping[str, tuple[str, ...]]:
    """Return the silent devices by type where an unknown cost counts as 0."""
    return inventory.silent if inventory.missing is Missing.ZERO else {}


def silent_text(inventory: Inventory) -> str:
    """Return which devices will be chosen for their silence, as a sentence; '' for none."""
    names = [name for names in wins_by_silence(inventory).values() for name in names]
    if not names:
        return ""
    say, their = ("says", "its") if len(names) == 1 else ("say", "their")
    return (
        f"{some(names, _SHOWN)} {say} nothing about costs, which counts as 0, while others of {their} "
        f"type do, and will be chosen first for that: list {their} costs, or set costs.missing to mirror"
    )
