"""Where the captured machines are, and what other programs said of them when they were captured.

Ours lie here. Those of other projects stay outside: tests use them in place where their folder is beside the checkout,
and are skipped where it is not.
"""

import tarfile
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from sysfs.archives.tar import MemoryTree, read_archive
from sysfs.cpuset import CpuSet
from sysfs.discover import discover_tree
from sysfs.model import Machine
from tests.stages import CAPTURES, NO_CAPTURES, is_absent

OURS = Path(__file__).parent
# Archives of other projects, and where a machine's root is in them.
DESKTOP, SERVER, BIG_SERVER = (
    ("topology-aware-sysfs.tar.bz2", f"sysfs/{name}") for name in ("desktop", "server", "4-socket-server-nosnc")
)
SCATTERED: Final = ("cpuallocator-sysfs.tar.bz2", "sysfs/2-socket-4-node-40-core")
CPUFREQ: Final = ("nri-server_2s4numa80cpu-cpufreq.tar.bz2", "sysfs/2-socket-4-node-40-core")
LAPTOP: Final = ("nri-hybrid-laptop_1s16cpu-4P8E-6clusters.tar.xz", "sample1")
MOVABLE: Final = ("nri-server_2s4numa112cpu-4pmem-movable-isolcpus.tar.xz", "sample2")
OTHER_MACHINES: Final = (DESKTOP, SERVER, BIG_SERVER, SCATTERED, CPUFREQ, LAPTOP, MOVABLE)
A_DISPLAY: Final = ("nri-pci-device-hints_minimal.tar.gz", "testdata")  # some files of a machine


@cache
def trees(file: Path) -> dict[str, MemoryTree]:
    return read_archive(file)


@cache
def ours(name: str) -> Machine:
    return discover_tree(trees(OURS / f"{name}.tar.xz")[name])


def folder_of_others(folder: Path = CAPTURES) -> Path:
    """Where other projects' captures are. Skips the test where there is no such folder, in CI too."""
    if is_absent(folder):
        pytest.skip(NO_CAPTURES)
    return folder


def others(file: str, root: str) -> MemoryTree:
    """A tree from another project's capture. One that is missing in the folder is an error."""
    return trees(folder_of_others() / file)[root]


@cache
def expectations(name: str) -> dict[str, str]:
    """The files below ``expect/`` of a capture of ours, by name."""
    found = {}
    with tarfile.open(OURS / f"{name}.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.startswith(f"{name}/expect/") else None
            if file is not None:
                found[Path(member.name).name] = file.read().decode()
    return found


def lscpu_groups(name: str, column: str) -> set[CpuSet]:
    lines = expectations(name)["lscpu-p.txt"].splitlines()
    header = [line for line in lines if line.startswith("# CPU,")][-1]
    index = header.removeprefix("# ").split(",").index(column)
    rows = [line.split(",") for line in lines if not line.startswith("#")]
    groups: dict[str, set[int]] = {}
    for row in rows:
        if row[-1] == "Y":
            groups.setdefault(row[index], set()).add(int(row[0]))
    return {CpuSet.of(cpus) for cpus in groups.values()}


def numactl(name: str) -> list[tuple[int, CpuSet, int, list[int]]]:
    """Node, CPUs, memory in MiB and distances as numactl -H showed them."""
    lines = [line.split() for line in expectations(name)["numactl-H.txt"].splitlines()]
    cpus = {int(w[1]): CpuSet.of(map(int, w[3:])) for w in lines if w[0] == "node" and w[2:3] == ["cpus:"]}
    mebibytes = {int(w[1]): int(w[3]) for w in lines if w[0] == "node" and w[2:3] == ["size:"]}
    rows = {int(w[0][:-1]): [int(d) for d in w[1:]] for w in lines if w[0][:-1].isdigit()}
    return [(node, cpus[node], mebibytes[node], rows[node]) for node in sorted(cpus)]
