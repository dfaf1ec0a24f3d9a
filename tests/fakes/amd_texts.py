"""What AMD's tools print of a machine's links: a table for each kind of fact, made from what is told of each pair."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

Told = Callable[[int, int], str]
WIDTH: Final = 90


@dataclass(frozen=True, slots=True)
class AmdMachine:
    """GPUs on NUMA nodes, by position; what is told of each two of them."""

    nodes: Sequence[int]
    kind: Told
    hops: Told
    weight: Told
    bandwidth: Told = lambda one, other: "50000-50000"

    @property
    def count(self) -> int:
        return len(self.nodes)

    @property
    def addresses(self) -> list[str]:
        return [f"0000:{5 + 16 * i:02x}:00.0" for i in range(self.count)]


def islands(count: int = 8, size: int = 4) -> AmdMachine:
    """Sets of GPUs that XGMI links, each on a node of its own, and PCIe between them."""

    def same(one: int, other: int) -> bool:
        return one // size == other // size

    return AmdMachine(
        [i // size for i in range(count)],
        lambda one, other: "XGMI" if same(one, other) else "PCIE",
        lambda one, other: "1" if same(one, other) else "3",
        lambda one, other: "15" if same(one, other) else "72",
        lambda one, other: "50000-50000" if same(one, other) else "N/A",
    )


def packages() -> AmdMachine:
    """Four packages of two dies as MI250X: four links inside of one, one to the next, two hops to the one across."""

    def far(one: int, other: int) -> int:
        apart = abs(one // 2 - other // 2)
        return min(apart, 4 - apart)

    return AmdMachine(
        [i // 2 for i in range(8)],
        lambda one, other: "XGMI",
        lambda one, other: "2" if far(one, other) > 1 else "1",
        lambda one, other: "30" if far(one, other) > 1 else "15",
        lambda one, other: ("50000-200000", "50000-50000", "N/A")[far(one, other)],
    )


def rocm_smi(machine: AmdMachine) -> str:
    """``rocm-smi --showtopo``."""
    names = [f"GPU{i}" for i in range(machine.count)]
    lines = ["", _title("ROCm System Management Interface")]
    tables = (("Weight", machine.weight), ("Hops", machine.hops), ("Link Type", machine.kind))
    for what, told in tables:
        lines += [_title(f"{what} between two GPUs"), *_table(names, told, 7, "0"), ""]
    lines.append(_title("Numa Nodes"))
    for name, node in zip(names, machine.nodes, strict=True):
        lines += [f"GPU[{name[3:]}]\t\t: (Topology) Numa {what}: {node}" for what in ("Node", "Affinity")]
    return "\n".join([*lines, _title("End of ROCm SMI Log"), ""])


def amd_smi(machine: AmdMachine) -> str:
    """``amd-smi topology``."""
    tables: list[tuple[str, Told, str]] = [
        ("ACCESS", lambda one, other: "ENABLED", "ENABLED"),
        ("WEIGHT", machine.weight, "0"),
        ("HOPS", machine.hops, "0"),
        ("LINK TYPE", machine.kind, "SELF"),
        ("NUMA BW", machine.bandwidth, "N/A"),
        *((title, _always(word), "SELF") for title, word in _CAPABILITIES.values()),
    ]
    parts = ["\n".join([f"{title} TABLE:", *_table(machine.addresses, told, 13, own)]) for title, told, own in tables]
    return "\n\n".join(parts) + _LEGEND


_CAPABILITIES: Final = {
    "coherent": ("CACHE COHERANCY", "NC"),
    "atomics": ("ATOMICS", "64,32"),
    "dma": ("DMA", "T"),
    "bi_dir": ("BI-DIRECTIONAL", "T"),
}
"""What amd-smi of ROCm 6.3 and later tells of each pair beside its link: the JSON's field, the title and a word."""
_LEGEND: Final = """


Legend:
  SELF = Current GPU
  ENABLED / DISABLED = Link is enabled or disabled
  <BW from>-<BW to>
"""


def amd_smi_json(machine: AmdMachine) -> str:
    """``amd-smi topology --json``."""

    def link(one: int, other: int) -> dict[str, object]:
        is_self = one == other
        return {
            "gpu": other,
            "bdf": machine.addresses[other],
            "weight": 0 if is_self else int(machine.weight(one, other)),
            "link_status": "ENABLED",
            "link_type": "SELF" if is_self else machine.kind(one, other),
            "num_hops": 0 if is_self else int(machine.hops(one, other)),
            "bandwidth": "N/A" if is_self else machine.bandwidth(one, other),
            **{field: "SELF" if is_self else word for field, (_, word) in _CAPABILITIES.items()},
        }

    order = range(machine.count)
    entries = [{"gpu": i, "bdf": machine.addresses[i], "links": [link(i, other) for other in order]} for i in order]
    return json.dumps(entries, indent=4)


def former_amd_smi_json(machine: AmdMachine) -> str:
    """``amd-smi topology --json`` before ROCm 6.3."""
    tables: tuple[tuple[str, Callable[[int, int], object], object], ...] = (
        ("link_accessibility", lambda one, other: "ENABLED", "ENABLED"),
        ("weight", lambda one, other: int(machine.weight(one, other)), 0),
        ("hops", lambda one, other: int(machine.hops(one, other)), 0),
        ("link_type", machine.kind, "SELF"),
        ("numa_bandwidth", machine.bandwidth, "N/A"),
    )
    order = range(machine.count)
    entries = [
        {"gpu": i, **{name: {f"gpu_{j}": own if i == j else told(i, j) for j in order} for name, told, own in tables}}
        for i in order
    ]
    return json.dumps(entries, indent=4)


def rocm_smi_json(machine: AmdMachine) -> str:
    """``rocm-smi --showtopo --json``: a key for each pair, once."""
    tables = (("Weight", machine.weight), ("Hops", machine.hops), ("Link type", machine.kind))
    system = {
        f"(Topology) {what} between DRM devices {one} and {other}": told(one, other)
        for what, told in tables
        for one, other in combinations(range(machine.count), 2)
    }
    cards = {
        f"card{i}": {"(Topology) Numa Node": str(node), "(Topology) Numa Affinity": str(node)}
        for i, node in enumerate(machine.nodes)
    }
    return json.dumps({"system": system, **cards})


def _always(word: str) -> Told:
    return lambda one, other: word


def _title(text: str) -> str:
    return f" {text} ".center(WIDTH, "=")


def _table(names: Sequence[str], told: Told, margin: int, own: str) -> list[str]:
    lines = [" " * margin + "".join(f"{name:<13}" for name in names)]
    for i, name in enumerate(names):
        cells = (own if i == other else told(i, other) for other in range(len(names)))
        lines.append(f"{name:<{margin}}" + "".join(f"{cell:<13}" for cell in cells))
    return lines
