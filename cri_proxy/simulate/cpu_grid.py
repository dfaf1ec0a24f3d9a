"""The CPUs of a machine as rows of letters: who owns which, what is shared, what is kept (pure)."""

from collections.abc import Mapping
from dataclasses import dataclass
from string import ascii_uppercase

from cri_proxy.simulate.outcome import Seen
from sysfs.cpuset import CpuSet
from sysfs.model import Machine, NumaNode

SHARED, RESERVED, ISOLATED, MANY = "·", "r", "i", "#"
LEGEND = f"a letter: owned by that container alone   {SHARED} shared   {RESERVED} reserved   {ISOLATED} isolated, free"


@dataclass(frozen=True, slots=True)
class Owners:
    """The letters of containers, given in the order in which they first owned CPUs, and kept."""

    letters: tuple[tuple[str, str], ...] = ()

    def letter(self, container: str) -> str:
        """Its letter, or '' when it never owned any."""
        return dict(self.letters).get(container, "")

    def with_owners(self, seen: Mapping[str, Seen]) -> "Owners":
        """The same, and a letter for whoever owns CPUs now and has none; past Z everybody is ``#``."""
        letters = list(self.letters)
        known = dict(letters)
        for name, container in seen.items():
            if (container.exclusive or container.isolated) and name not in known:
                letters.append((name, ascii_uppercase[len(letters)] if len(letters) < len(ascii_uppercase) else MANY))
        return Owners(tuple(letters))


def grid(machine: Machine, reserved: CpuSet, seen: Mapping[str, Seen], owners: Owners) -> list[str]:
    """A row for each package: its NUMA nodes with their CPUs, thread siblings side by side."""
    marks = dict.fromkeys(machine.online, SHARED)
    marks |= dict.fromkeys(machine.isolated, ISOLATED)
    marks |= dict.fromkeys(reserved, RESERVED)
    for name, container in seen.items():
        marks |= dict.fromkeys(container.exclusive | container.isolated, owners.letter(name))
    rows = []
    for package in machine.packages:
        nodes = [node for node in machine.nodes if not node.cpus.isdisjoint(package.cpus)]
        cells = (f"node {node.id}  {_cores(machine, node, marks)}" for node in nodes)
        rows.append(f"package {package.id}   {'    '.join(cells)}")
    return rows


def _cores(machine: Machine, node: NumaNode, marks: Mapping[int, str]) -> str:
    cores = (core.cpus & node.cpus for core in machine.cores)
    return " ".join("".join(marks[cpu] for cpu in cpus) for cpus in cores if cpus)
