"""Machines for tests: small ones by description, random ones for properties, and the same one renumbered.

machine = small_machine(packages=2, cores=2, threads=2)
@given(machines())
def test_rule(machine: Machine) -> None: ...
"""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import strategies as st

from sysfs.assemble import CacheFacts, CpuFacts, Facts, NodeFacts, assemble
from sysfs.cpuset import CpuSet
from sysfs.describe import describe
from sysfs.memory_kind import MemoryFacts
from sysfs.model import Machine

MEBIBYTE = 1 << 20


def small_machine(**keys: object) -> Machine:
    """The described machine; without keys 2 packages with a node each, of 2 cores with 2 threads, 2Gi per node."""
    return describe({"packages": 2, "cores": 2, "threads": 2, "memory": "2Gi"} | keys)


def facts_of(machine: Machine) -> Facts:
    """The facts that ``assemble`` makes this machine of."""
    siblings = {core.index: core.cpus for core in machine.cores}
    ids = {core.index: core.core_id for core in machine.cores}
    return Facts(
        cpus=[
            CpuFacts(
                c.id, c.package, c.die, ids[c.core], siblings[c.core], c.kind, c.base_frequency_khz, c.energy_preference
            )
            for c in machine.cpus
        ],
        nodes=[
            NodeFacts(n.id, n.cpus, MemoryFacts(n.memory_bytes, n.is_normal_memory, kind=n.kind), n.distances)
            for n in machine.nodes
        ],
        caches=[CacheFacts(c.level, c.cpus, c.size_bytes) for c in machine.caches],
        devices=machine.devices,
        offline=machine.offline,
        isolated=machine.isolated,
        notes=machine.notes,
    )


def renumber(machine: Machine, cpus: Mapping[int, int], nodes: Mapping[int, int] | None = None) -> Machine:
    """The same hardware with CPU n called ``cpus[n]`` and node n ``nodes[n]``; what is not named keeps its number.

    The new numbers must be different from each other. ``core_id`` and the ids of packages and dies stay.
    """
    to_node = nodes or {}

    def cpu_set(old: CpuSet) -> CpuSet:
        return CpuSet.of(cpus.get(cpu, cpu) for cpu in old)

    facts = facts_of(machine)
    return assemble(
        replace(
            facts,
            cpus=[replace(c, id=cpus.get(c.id, c.id), siblings=cpu_set(c.siblings)) for c in facts.cpus],
            nodes=[
                replace(
                    n,
                    id=to_node.get(n.id, n.id),
                    cpus=cpu_set(n.cpus),
                    distances=tuple((to_node.get(other, other), distance) for other, distance in n.distances),
                )
                for n in facts.nodes
            ],
            caches=[replace(c, cpus=cpu_set(c.cpus)) for c in facts.caches],
            devices=[
                replace(d, local_cpus=cpu_set(d.local_cpus), node=to_node.get(d.node, d.node)) for d in facts.devices
            ],
            offline=cpu_set(facts.offline),
            isolated=cpu_set(facts.isolated),
        )
    )


def merge_nodes(machine: Machine, kept: int, gone: int) -> Machine:
    """The same machine with two of its nodes made one: a node that spans what they stood in."""
    facts = facts_of(machine)
    by_id = {n.id: n for n in facts.nodes}
    a, b = by_id[kept], by_id[gone]
    memory = replace(a.memory, memory_bytes=a.memory.memory_bytes + b.memory.memory_bytes)
    merged = replace(a, cpus=a.cpus | b.cpus, memory=memory)
    nodes = [
        replace(n, distances=tuple((other, d) for other, d in n.distances if other != gone))
        for n in (merged if n.id == kept else n for n in facts.nodes)
        if n.id != gone
    ]
    return assemble(replace(facts, nodes=nodes))


@st.composite
def shapes(draw: st.DrawFn, max_packages: int = 8, max_cpus: int = 96) -> dict[str, object]:
    """A random description: counts, numbering, memory (some nodes without), memory-only nodes, L3, CPU states."""
    packages = draw(st.integers(1, max_packages))
    left = max_cpus // packages
    counts = {"packages": packages}
    for key, most in (("threads", 2), ("nodes", 4), ("cores", 6), ("dies", 3)):
        counts[key] = draw(st.integers(1, max(1, min(most, left))))
        left //= counts[key]
    nodes = packages * counts["dies"] * counts["nodes"]
    per_node = counts["cores"] * counts["threads"]
    cpus = nodes * per_node
    memory = [draw(st.sampled_from([0, 512, 1024, 1024, 4096])) * MEBIBYTE for _ in range(nodes)]
    memory[draw(st.integers(0, nodes - 1))] = 2048 * MEBIBYTE
    shape: dict[str, object] = {**counts, "numbering": draw(st.sampled_from(["linear", "split"])), "memory": memory}
    shape["memory_nodes"] = draw(st.lists(_memory_node(nodes), max_size=3))
    if draw(st.booleans()):  # L3 domains of one or two cores' worth of CPUs, as they stand in linear numbering
        step = counts["threads"] * draw(st.integers(1, 2))
        shape |= {"numbering": "linear", "l3": [f"{i}-{min(i + step, cpus) - 1}" for i in range(0, cpus, step)]}
    some = st.lists(st.integers(0, cpus - 1), unique=True, max_size=max(0, min(cpus // 3, 12)))
    keep = draw(st.integers(0, cpus - 1))  # every kernel has a housekeeping CPU
    for key in ("offline", "isolated", "efficiency"):
        if draw(st.integers(0, 2)) == 0:
            shape[key] = [cpu for cpu in draw(some) if cpu != keep]
    return shape


def _memory_node(nodes: int) -> st.SearchStrategy[dict[str, object]]:
    near = st.dictionaries(st.integers(0, nodes - 1), st.integers(13, 19), min_size=1, max_size=2)
    amount = st.integers(1, 16).map(lambda n: n * 512 * MEBIBYTE)
    kinds = st.sampled_from(["dram", "pmem", "hbm"])
    plain: dict[str, st.SearchStrategy[object]] = {"memory": amount, "near": near}
    return st.fixed_dictionaries(plain, optional={"kind": kinds, "movable": st.booleans()})


@st.composite
def machines(draw: st.DrawFn, *, max_packages: int = 8, max_cpus: int = 96, odd: bool = True) -> Machine:
    """A random machine; always one online CPU that is not isolated and one node with memory.

    With ``odd`` also nodes that span dies, sparse node ids, and CPU numbers that are sparse, large or shuffled.
    """
    machine = describe(draw(shapes(max_packages, max_cpus)))
    if not odd:
        return machine
    if len(machine.dies) > 1 and draw(st.booleans()):
        package = machine.cpus[0].package
        first = {c.node for c in machine.cpus if c.package == package}
        if len(first) > 1:
            machine = merge_nodes(machine, min(first), max(first))
    everyone = [*machine.online, *machine.offline]
    match draw(st.sampled_from(["as described", "sparse", "large", "shuffled"])):
        case "sparse":
            return renumber(machine, {cpu: 2 * cpu for cpu in everyone}, {n.id: 3 * n.id for n in machine.nodes})
        case "large":
            return renumber(machine, {cpu: cpu + 1000 for cpu in everyone}, {n.id: n.id + 5 for n in machine.nodes})
        case "shuffled":
            return renumber(machine, dict(zip(everyone, draw(st.permutations(everyone)), strict=True)))
        case _:
            return machine
