"""Describe common servers and cloud shapes by name; each with the published facts that it follows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sysfs.descriptions.machine import SAME_NODE, SAME_PACKAGE

_OTHER_EPYC: Final = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """A machine by name: its description, the cores that share an L3 (0: all of a die), and who says so."""

    name: str
    text: str
    source: str
    counts: Mapping[str, object] = field(hash=False)
    l3_cores: int = 0

    def description(self) -> dict[str, object]:
        """Return the description as ``describe`` takes it, with each L3 spelled out."""
        plain = dict(self.counts)
        return plain | {"l3": _l3_lists(plain, self.l3_cores)} if self.l3_cores else plain


def _l3_lists(counts: Mapping[str, object], l3_cores: int) -> list[str]:
    """Return the CPUs of each L3 where all first threads are numbered before all second ones."""
    sizes = [counts.get(key, 1) for key in ("packages", "dies", "nodes", "cores", "threads")]
    cores = threads = 1
    for size in sizes[:-1]:
        cores *= size if isinstance(size, int) else 1
    threads = sizes[-1] if isinstance(sizes[-1], int) else 1
    firsts = range(0, cores, l3_cores)
    return [
        ",".join(f"{first + thread * cores}-{first + thread * cores + l3_cores - 1}" for thread in range(threads))
        for first in firsts
    ]


def _x86(packages: int, nodes: int, cores: int, memory: str) -> dict[str, object]:
    counts = {"packages": packages, "nodes": nodes, "cores": cores, "threads": 2, "numbering": "split"}
    return {**counts, "memory": memory}


def _epyc(nodes: int, cores: int, memory: str) -> dict[str, object]:
    """Return two packages of AMD EPYC, whose firmware gives the other package a greater distance than the default."""
    places = [package for package in range(2) for _ in range(nodes)]
    rows = [[_OTHER_EPYC if other != own else SAME_PACKAGE for other in places] for own in places]
    for node, row in enumerate(rows):
        row[node] = SAME_NODE
    return {**_x86(2, nodes, cores, memory), "distances": rows}


_MILAN = "AMD EPYC 7003 data sheet (8 cores and 32 MB of L3 a complex) and tuning guide (NPS)"
_GENOA = "AMD EPYC 9004 data sheet (8 cores and 32 MB of L3 a complex) and tuning guide (NPS)"
_ARK = "Intel's product specifications (ark.intel.com)"
_AWS = "Amazon EC2 instance types (vCPUs and memory)"

CATALOG: Final = (
    Shape("epyc-7763-2s", "2 x 64 cores, one node a package (NPS1)", _MILAN, _epyc(1, 64, "512Gi"), 8),
    Shape("epyc-7763-2s-nps4", "2 x 64 cores, four nodes a package (NPS4)", _MILAN, _epyc(4, 16, "128Gi"), 8),
    Shape("epyc-9654-2s", "2 x 96 cores, one node a package (NPS1)", _GENOA, _epyc(1, 96, "768Gi"), 8),
    Shape("epyc-9654-2s-nps4", "2 x 96 cores, four nodes a package (NPS4)", _GENOA, _epyc(4, 24, "192Gi"), 8),
    Shape("xeon-6248-2s", "2 x 20 cores", _ARK, _x86(2, 1, 20, "192Gi")),
    Shape("xeon-8380-2s", "2 x 40 cores", _ARK, _x86(2, 1, 40, "256Gi")),
    Shape("xeon-8380-2s-snc2", "2 x 40 cores, two nodes a package (SNC2)", _ARK, _x86(2, 2, 20, "128Gi")),
    Shape("xeon-8480-2s", "2 x 56 cores", _ARK, _x86(2, 1, 56, "512Gi")),
    Shape("xeon-8480-2s-snc4", "2 x 56 cores, four nodes a package (SNC4)", _ARK, _x86(2, 4, 14, "128Gi")),
    Shape(
        "altra-q80-1s",
        "80 cores of one thread, one node",
        "Ampere Altra product brief",
        {"cores": 80, "memory": "256Gi"},
    ),
    Shape(
        "dgx-a100",
        "2 x 64 cores, four nodes a package (EPYC 7742: 4 cores an L3), without its devices",
        "NVIDIA DGX A100 user guide; AMD EPYC 7002 data sheet",
        _epyc(4, 16, "128Gi"),
        4,
    ),
    Shape("dgx-h100", "2 x 56 cores, without its devices", "NVIDIA DGX H100 user guide", _x86(2, 1, 56, "1Ti")),
    Shape("aws-m5.4xlarge", "16 vCPUs, 64 GiB", _AWS, _x86(1, 1, 8, "64Gi")),
    Shape("aws-m5.24xlarge", "96 vCPUs, 384 GiB", _AWS, _x86(2, 1, 24, "192Gi")),
    Shape("aws-c5.18xlarge", "72 vCPUs, 144 GiB", _AWS, _x86(2, 1, 18, "72Gi")),
    Shape("aws-m6i.32xlarge", "128 vCPUs, 512 GiB", _AWS, _x86(2, 1, 32, "256Gi")),
    Shape("aws-m6g.16xlarge", "64 vCPUs of one thread, 256 GiB", _AWS, {"cores": 64, "memory": "256Gi"}),
)

BY_NAME: Final = {shape.name: shape for shape in CATALOG}
