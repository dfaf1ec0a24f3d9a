"""Read the inventory of devices of a scenario, written out or as a file's path."""

from pathlib import Path

from cri_proxy.inventory.file import DIALECT, read_inventory
from cri_proxy.yaml_fields import YamlField
from policies.devices import DEVICE_TYPES, EMPTY_INVENTORY, DeviceInventory


def read_listed(value: YamlField, what: str) -> DeviceInventory:
    """Read an inventory, or the file that a path names from the directory of the scenario. Raises DocumentError."""
    if not value.is_scalar:
        return read_inventory(value)
    path = str(Path(value.source).parent / value.text(what))
    root = YamlField.only(YamlField.read_text(path, DIALECT.max_bytes), path, DIALECT, "an inventory file")
    return read_inventory(root) if root is not None else EMPTY_INVENTORY


def listed_words(inventory: DeviceInventory) -> dict[str, tuple[str, ...]]:
    """Return the devices of an inventory by type, as ``device_words`` names whole ones."""
    words = {kind: tuple(f"{kind}/{device.minor}" for device in inventory.of(kind)) for kind in DEVICE_TYPES}
    return {kind: found for kind, found in words.items() if found}
