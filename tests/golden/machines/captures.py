"""Where the captured machines are, and what other programs said of them when they were captured."""

import os
import tarfile
from functools import cache
from pathlib import Path

import pytest

from sysfs.archives.tar import MemoryTree, read_archive
from sysfs.cpuset import CpuSet
from sysfs.discover import discover_tree
from sysfs.model import Machine

OURS = Path(__file__).parent
# Captures of real hardware from other projects, used in place where a checkout has them beside it.
OTHERS = Path(__file__).resolve().parents[4] / "shared" / "sysfs"


@cache
def trees(file: Path) -> dict[str, MemoryTree]:
    return read_archive(file)


@cache
def ours(name: str) -> Machine:
    return discover_tree(trees(OURS / f"{name}.tar.xz")[name])


def others(file: str, root: str) -> MemoryTree:
    """A tree from another project's capture. Skips where they are not at hand, except in CI."""
    if not OTHERS.is_dir():
        reason = f"no captures of real hardware at {OTHERS}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return trees(OTHERS / file)[root]


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
