"""Listings of derived costs, as a cost by pair."""

from collections.abc import Mapping

from policies.devices.costs import CostListing, MachineCosts
from sysfs.descriptions.machine import describe
from sysfs.model import Machine

TWO_SOCKETS: Mapping[str, object] = {
    "packages": 2,
    "cores": 4,
    "threads": 2,
    "memory": "4Gi",
    "l3": ["0-3", "4-7", "8-15"],
    "memory_nodes": [{"memory": "8Gi", "near": {0: 17, 1: 28}}],
    "pci": [
        {"address": "3b:00.0", "class": 0x030200, "node": 0, "parent": "3a:00.0"},
        {"address": "3b:00.1", "class": 0x030200, "node": 0, "parent": "3a:00.0"},
        {"address": "3c:00.0", "class": 0x020000, "node": 0, "parent": "3a:00.0"},
        {"address": "5e:00.0", "class": 0x020000, "node": 0},
        {"address": "af:00.0", "class": 0x020000, "node": 1},
        {"address": "d8:00.0", "class": 0x020000},
    ],
}


def machine(**changes: object) -> Machine:
    return describe({**TWO_SOCKETS, **changes})


def by_pair(listing: CostListing) -> dict[tuple[str, str], int]:
    """The cost of each pair that is said; a pair said twice has to have one cost."""
    found: dict[tuple[str, str], int] = {}
    for line in listing.lines:
        for source in line.sources:
            for target in line.targets:
                if source != target:
                    assert found.setdefault((source, target), int(line.cost)) == line.cost
    return found


def derived(known: Machine) -> dict[tuple[str, str], int]:
    return by_pair(MachineCosts(known).listing())
