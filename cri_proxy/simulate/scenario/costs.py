"""Read the costs and the inventory of a scenario, written in it or as a file's path; merge costs as the daemon does."""

import json
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.config.option_groups import CostOptions
from cri_proxy.costs.merge import merge, read_listing
from cri_proxy.in_force.text_files import MAX_FILE_BYTES, FoundFiles, TextFile
from cri_proxy.inventory.file import DIALECT, read_inventory, read_inventory_text
from cri_proxy.simulate.scenario.model import CostText
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.devices import DEVICE_TYPES, EMPTY_INVENTORY, DeviceInventory
from policies.devices.costs import NO_DEVICES, Inventory


@dataclass(frozen=True, slots=True)
class ListedDevices:
    """The content of a node's files: the costs of devices, None = no file, and the inventory."""

    costs: CostText | None = None
    inventory: DeviceInventory = EMPTY_INVENTORY


NOTHING_LISTED = ListedDevices()


def read_cost_text(value: YamlField, what: str) -> CostText:
    """Read a listing, or the file that a path names; it counts from the scenario's directory. Raises DocumentError."""
    if not value.is_scalar:
        return CostText(value.source, json.dumps(value.plain()), value.line)
    path = _beside(value, what)
    return CostText(path, YamlField.read_text(path, MAX_FILE_BYTES))


def inventory_of(costs: CostText | None, options: CostOptions) -> Inventory:
    """Return the devices of these costs. Raises DocumentError for a listing that cannot be used."""
    if costs is None:
        return NO_DEVICES
    path = Path(costs.source)
    try:
        read_listing(path.name, costs.text)  # which quotes what it refuses: a scenario is the reader's own
    except DocumentError as error:
        raise DocumentError(costs.source, costs.line or error.line, f"costs: {error.problem}") from None
    found = FoundFiles(path.parent, (TextFile(path.name, costs.text),))
    merged = merge(found, {}, options.normalize, options.missing)
    (file,) = merged.files
    if file.problem:
        raise DocumentError(costs.source, costs.line or file.line, f"costs: {file.problem}")
    return merged.content


def read_listed(value: YamlField, what: str) -> DeviceInventory:
    """Read an inventory, or the file that a path names from the directory of the scenario. Raises DocumentError."""
    if not value.is_scalar:
        return read_inventory(value)
    path = _beside(value, what)
    return read_inventory_text(YamlField.read_text(path, DIALECT.max_bytes), path)


def listed_words(inventory: DeviceInventory) -> dict[str, tuple[str, ...]]:
    """Return the devices of an inventory by type, as ``device_words`` names whole ones."""
    words = {kind: tuple(f"{kind}/{device.minor}" for device in inventory.of(kind)) for kind in DEVICE_TYPES}
    return {kind: found for kind, found in words.items() if found}


def _beside(value: YamlField, what: str) -> str:
    """Return a path that counts from the scenario's directory."""
    return str(Path(value.source).parent / value.text(what))
