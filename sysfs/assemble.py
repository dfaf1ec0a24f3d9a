"""Build a ``Machine`` from facts about CPUs, nodes, caches and devices: index them and average distances. Pure.

Discovery and descriptions share this, so a described machine has exactly the form of a discovered one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sysfs.cpuset import CpuSet, NodeSet, grouped
from sysfs.memory_kind import MemoryFacts, closest, memory_kind
from sysfs.model import Cache, Core, CoreKind, Cpu, Device, Die, HugePages, Machine, MemoryKind, NumaNode, Package


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """One online CPU by its topology directory; ``siblings`` holds online CPUs only, this one included."""

    id: int
    package: int
    die: int
    core_id: int
    siblings: CpuSet
    kind: CoreKind = CoreKind.PERFORMANCE
    base_frequency_khz: int = 0
    energy_preference: str = ""
    capacity: int = 0


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One NUMA node; ``distances`` is its row of the SLIT, which need not be symmetric."""

    id: int
    cpus: CpuSet
    memory: MemoryFacts
    distances: tuple[tuple[int, int], ...]
    huge_pages: tuple[HugePages, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The input of ``assemble``: everything about a machine, in any order and without indexes."""

    cpus: Sequence[CpuFacts]
    nodes: Sequence[NodeFacts]
    caches: Sequence[Cache] = ()
    devices: Sequence[Device] = ()
    offline: CpuSet = CpuSet()
    isolated: CpuSet = CpuSet()
    notes: Sequence[str] = ()


def assemble(facts: MachineFacts) -> Machine:
    """Return the machine of these facts. Asymmetric distances are averaged and noted."""
    cores = _cores(facts.cpus)
    nodes, notes = _nodes(facts.nodes)
    core_of = {cpu: core.index for core in cores for cpu in core.cpus}
    node_of = {cpu: node.id for node in nodes for cpu in node.cpus}
    dies = grouped(((cpu.package, cpu.die), cpu.id) for cpu in facts.cpus)
    packages = grouped((cpu.package, cpu.id) for cpu in facts.cpus)
    online = CpuSet.of(cpu.id for cpu in facts.cpus)
    return Machine(
        cpus=tuple(
            _cpu(cpu, node_of.get(cpu.id, -1), core_of[cpu.id]) for cpu in sorted(facts.cpus, key=lambda c: c.id)
        ),
        cores=cores,
        dies=tuple(Die(*key, dies[key]) for key in sorted(dies)),
        packages=tuple(Package(key, packages[key]) for key in sorted(packages)),
        nodes=nodes,
        caches=_caches(facts.caches),
        devices=tuple(sorted(facts.devices, key=lambda d: d.address)),
        online=online,
        offline=facts.offline - online,
        isolated=facts.isolated & online,
        notes=(*facts.notes, *notes),
    )


def _cpu(cpu: CpuFacts, node: int, core: int) -> Cpu:
    speed = (cpu.kind, cpu.base_frequency_khz, cpu.energy_preference, cpu.capacity)
    return Cpu(cpu.id, cpu.package, cpu.die, node, core, *speed)


def _cores(cpus: Sequence[CpuFacts]) -> tuple[Core, ...]:
    """Return the cores, numbered by lowest CPU."""
    # Grouped by thread siblings: core_id repeats between packages and dies.
    first: dict[int, CpuFacts] = {}
    for cpu in sorted(cpus, key=lambda c: c.id):
        first.setdefault(cpu.siblings.mask, cpu)
    return tuple(Core(i, c.package, c.die, c.core_id, c.siblings) for i, c in enumerate(first.values()))


def _caches(caches: Iterable[Cache]) -> tuple[Cache, ...]:
    """Return the caches by level, then by lowest CPU, indexed within the level."""
    ordered = sorted((c.level, c.cpus.mask & -c.cpus.mask, c.cpus.mask, c.size_bytes) for c in caches if c.cpus)
    found: list[Cache] = []
    for level, _, mask, size_bytes in ordered:
        index = found[-1].index + 1 if found and found[-1].level == level else 0
        found.append(Cache(level, CpuSet(mask), size_bytes, index))
    return tuple(found)


def _nodes(nodes: Sequence[NodeFacts]) -> tuple[tuple[NumaNode, ...], list[str]]:
    """Return the nodes, and a note when distances had to be averaged."""
    rows, notes = _symmetric({n.id: dict(n.distances) for n in nodes})
    with_cpus = NodeSet.of(n.id for n in nodes if n.cpus)
    dram = {n.id: n.memory for n in nodes if n.cpus and n.memory.memory_bytes}
    found = []
    for node in sorted(nodes, key=lambda n: n.id):
        near = NodeSet() if node.cpus else closest(rows[node.id], with_cpus)
        kind = node.memory.kind or MemoryKind.DRAM
        if not node.cpus:
            kind = memory_kind(node.memory, [dram[i] for i in near if i in dram], list(dram.values()))
        memory, pages = node.memory, tuple(sorted(node.huge_pages, key=lambda p: p.page_bytes))
        found.append(
            NumaNode(node.id, node.cpus, memory.memory_bytes, kind, memory.is_normal, rows[node.id], near, pages)
        )
    return tuple(found), notes


def _symmetric(rows: Mapping[int, Mapping[int, int]]) -> tuple[dict[int, tuple[tuple[int, int], ...]], list[str]]:
    """Average both directions of each distance, rounded down; a missing direction takes the value of the other."""
    uneven = [
        (a, b) for a in sorted(rows) for b in sorted(rows[a]) if a < b and rows.get(b, {}).get(a) != rows[a].get(b)
    ]
    both = {
        a: tuple((b, (d + rows.get(b, {}).get(a, d)) // 2) for b, d in sorted(row.items())) for a, row in rows.items()
    }
    pairs = ", ".join(f"{a}-{b}" for a, b in uneven[:4])
    return both, [f"distances differ by direction (nodes {pairs}): averaged"] if uneven else []
