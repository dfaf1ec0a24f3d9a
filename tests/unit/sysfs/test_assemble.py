from sysfs.assemble import CpuFacts, MachineFacts, NodeFacts, assemble
from sysfs.cpuset import CpuSet
from sysfs.memory_kind import MemoryFacts
from sysfs.model import Cache, Machine

Row = tuple[tuple[int, int], ...]


def cpu(number: int, core_id: int, siblings: str, package: int = 0, die: int = 0) -> CpuFacts:
    return CpuFacts(number, package, die, core_id, CpuSet.parse(siblings))


def node(number: int, cpus: str, distances: Row) -> NodeFacts:
    return NodeFacts(number, CpuSet.parse(cpus), MemoryFacts(1 << 30), distances)


def machine_of(cpus: list[CpuFacts], *nodes: NodeFacts, caches: tuple[Cache, ...] = ()) -> Machine:
    return assemble(MachineFacts(cpus, nodes, caches))


def test_cores_are_numbered_by_their_lowest_cpu_and_may_share_a_core_id() -> None:
    machine = machine_of([cpu(0, 0, "0,2"), cpu(2, 0, "0,2"), cpu(1, 0, "1", package=1)])
    assert [(c.index, c.package, c.core_id, str(c.cpus)) for c in machine.cores] == [(0, 0, 0, "0,2"), (1, 1, 0, "1")]
    assert [c.core for c in machine.cpus] == [0, 1, 0]


def test_die_ids_restart_in_each_package() -> None:
    machine = machine_of([cpu(n, n, str(n), package=n // 2, die=n % 2) for n in range(4)])
    assert [(d.package, d.id, str(d.cpus)) for d in machine.dies] == [
        (0, 0, "0"),
        (0, 1, "1"),
        (1, 0, "2"),
        (1, 1, "3"),
    ]


def test_asymmetric_distances_are_averaged_and_noted() -> None:
    nodes = node(0, "0", ((0, 10), (3, 20))), node(3, "1", ((0, 31), (3, 10)))
    machine = machine_of([cpu(0, 0, "0"), cpu(1, 1, "1")], *nodes)
    assert machine.nodes[0].distance_to(3) == machine.nodes[1].distance_to(0) == 25
    assert machine.notes == ("distances differ by direction (nodes 0-3): averaged",)


def test_caches_are_indexed_per_level_by_lowest_cpu() -> None:
    caches = tuple(Cache(level, CpuSet.parse(text)) for level, text in ((3, "2-3"), (2, "2"), (3, "0-1"), (2, "")))
    machine = machine_of([cpu(n, n, str(n)) for n in range(4)], caches=caches)
    assert [(c.level, c.index, str(c.cpus)) for c in machine.caches] == [(2, 0, "2"), (3, 0, "0-1"), (3, 1, "2-3")]


def test_isolated_cpus_are_cut_to_the_online_ones() -> None:
    facts = MachineFacts([cpu(0, 0, "0")], (), isolated=CpuSet.parse("0-3"), offline=CpuSet.parse("0-1"))
    machine = assemble(facts)
    assert (str(machine.isolated), str(machine.offline), machine.cpus[0].node) == ("0", "1", -1)
