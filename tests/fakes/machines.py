"""Machines for tests: small ones by description, random ones for properties, and the same one renumbered or unplugged.

machine = small_machine(packages=2, cores=2, threads=2)
@given(machines())
def test_rule(machine: Machine) -> None: ...
machine = random_machine(random.Random(7))
"""

import random
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import strategies as st

from sysfs.assemble import CpuFacts, MachineFacts, NodeFacts, assemble
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from sysfs.memory_kind import MemoryFacts
from sysfs.model import Cache, Machine

MEBIBYTE = 1 << 20


def small_machine(**keys: object) -> Machine:
    return describe({"packages": 2, "cores": 2, "threads": 2, "memory": "2Gi"} | keys)


def facts_of(machine: Machine) -> MachineFacts:
    """The facts that ``assemble`` makes this machine of."""
    siblings = {core.index: core.cpus for core in machine.cores}
    ids = {core.index: core.core_id for core in machine.cores}
    return MachineFacts(
        cpus=[
            CpuFacts(
                c.id,
                c.package,
                c.die,
                ids[c.core],
                siblings[c.core],
                c.kind,
                c.base_frequency_khz,
                c.energy_preference,
                c.capacity,
            )
            for c in machine.cpus
        ],
        nodes=[
            NodeFacts(
                n.id, n.cpus, MemoryFacts(n.memory_bytes, n.is_normal_memory, kind=n.kind), n.distances, n.huge_pages
            )
            for n in machine.nodes
        ],
        caches=[Cache(c.level, c.cpus, c.size_bytes) for c in machine.caches],
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


def with_caches(machine: Machine, level: int, *cpu_lists: str) -> Machine:
    """The same machine with these caches in place of those of this level."""
    facts = facts_of(machine)
    others = [cache for cache in facts.caches if cache.level != level]
    size_bytes = MEBIBYTE
    return assemble(
        replace(facts, caches=[*others, *(Cache(level, CpuSet.parse(cpus), size_bytes) for cpus in cpu_lists)])
    )


def unplugged(machine: Machine, gone: CpuSet, empty: NodeSet = NodeSet()) -> Machine:
    """The same machine with these CPUs offline and the memory of these nodes taken out."""
    facts = facts_of(machine)
    return assemble(
        replace(
            facts,
            cpus=[replace(c, siblings=c.siblings - gone) for c in facts.cpus if c.id not in gone],
            nodes=[
                replace(n, cpus=n.cpus - gone, memory=replace(n.memory, memory_bytes=0) if n.id in empty else n.memory)
                for n in facts.nodes
            ],
            caches=[replace(c, cpus=c.cpus - gone) for c in facts.caches],
            devices=[replace(d, local_cpus=d.local_cpus - gone) for d in facts.devices],
            offline=facts.offline | gone,
        )
    )


def random_shape(rng: random.Random, *, max_packages: int = 8, max_cpus: int = 96) -> dict[str, object]:
    """A random description: counts, numbering, memory (some nodes without), memory-only nodes, L3, CPU states."""
    packages = rng.randint(1, max_packages)
    left = max_cpus // packages
    counts = {"packages": packages}
    for key, most in (("threads", 2), ("nodes", 4), ("cores", 6), ("dies", 3)):
        counts[key] = rng.randint(1, max(1, min(most, left)))
        left //= counts[key]
    nodes = packages * counts["dies"] * counts["nodes"]
    per_node = counts["cores"] * counts["threads"]
    cpus = nodes * per_node
    memory = [rng.choice([0, 512, 1024, 1024, 4096]) * MEBIBYTE for _ in range(nodes)]
    memory[rng.randrange(nodes)] = 2048 * MEBIBYTE
    shape: dict[str, object] = {**counts, "numbering": rng.choice(["linear", "split"]), "memory": memory}
    shape["memory_nodes"] = [_memory_node(rng, nodes) for _ in range(rng.randint(0, 3))]
    if rng.randint(0, 1):  # L3 domains of one or two cores' worth of CPUs, as they stand in linear numbering
        step = counts["threads"] * rng.randint(1, 2)
        shape |= {"numbering": "linear", "l3": [f"{i}-{min(i + step, cpus) - 1}" for i in range(0, cpus, step)]}
    most = min(cpus // 3, 12)
    keep = rng.randrange(cpus)  # every kernel has a housekeeping CPU
    for key in ("offline", "isolated", "efficiency"):
        if rng.randint(0, 2) == 0:
            shape[key] = [cpu for cpu in sorted(rng.sample(range(cpus), rng.randint(0, most))) if cpu != keep]
    return shape


def _memory_node(rng: random.Random, nodes: int) -> dict[str, object]:
    near = rng.sample(range(nodes), rng.randint(1, min(2, nodes)))
    node: dict[str, object] = {
        "memory": rng.randint(1, 16) * 512 * MEBIBYTE,
        "near": {other: rng.randint(13, 19) for other in near},
    }
    if rng.randint(0, 1):
        node["kind"] = rng.choice(["dram", "pmem", "hbm"])
    if rng.randint(0, 1):
        node["movable"] = rng.choice([False, True])
    return node


def random_machine(rng: random.Random, *, max_packages: int = 8, max_cpus: int = 96, odd: bool = True) -> Machine:
    """A random machine; always one online CPU that is not isolated and one node with memory.

    With ``odd`` also nodes that span dies, cores that differ in speed, sparse node ids, and CPU numbers that are
    sparse, large or shuffled.
    """
    machine = describe(random_shape(rng, max_packages=max_packages, max_cpus=max_cpus))
    if not odd:
        return machine
    if len(machine.dies) > 1 and rng.randint(0, 1):
        package = machine.cpus[0].package
        first = {c.node for c in machine.cpus if c.package == package}
        if len(first) > 1:
            machine = merge_nodes(machine, min(first), max(first))
    if rng.randint(0, 3) == 0:
        machine = _with_speeds(machine, rng)
    everyone = [*machine.online, *machine.offline]
    match rng.choice(["as described", "sparse", "large", "shuffled"]):
        case "sparse":
            return renumber(machine, {cpu: 2 * cpu for cpu in everyone}, {n.id: 3 * n.id for n in machine.nodes})
        case "large":
            return renumber(machine, {cpu: cpu + 1000 for cpu in everyone}, {n.id: n.id + 5 for n in machine.nodes})
        case "shuffled":
            return renumber(machine, dict(zip(everyone, rng.sample(everyone, len(everyone)), strict=True)))
        case _:
            return machine


def _with_speeds(machine: Machine, rng: random.Random) -> Machine:
    """Some cores are faster than others, or to be spared (cpufreq/base_frequency, energy_performance_preference)."""
    speeds = {core.cpus.mask: (rng.choice((2_000_000, 2_800_000)), rng.choice(("", "power"))) for core in machine.cores}
    facts = facts_of(machine)
    cpus = []
    for cpu in facts.cpus:
        frequency_khz, preference = speeds[cpu.siblings.mask]
        cpus.append(replace(cpu, base_frequency_khz=frequency_khz, energy_preference=preference))
    return assemble(replace(facts, cpus=cpus))


def machines(*, max_packages: int = 8, max_cpus: int = 96, odd: bool = True) -> st.SearchStrategy[Machine]:
    return st.randoms(use_true_random=False).map(
        lambda rng: random_machine(rng, max_packages=max_packages, max_cpus=max_cpus, odd=odd)
    )
