"""What holds for every machine, however it was made."""

from collections.abc import Callable

from hypothesis import given, settings

from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.machines import machines, renumber


def some(rule: Callable[[Machine], None]) -> Callable[[], None]:
    """Thirty machines: building one costs far more than looking at it."""
    tested: Callable[[], None] = settings(max_examples=30, deadline=None)(given(machines())(rule))
    return tested


def union(sets: list[CpuSet]) -> CpuSet:
    whole = CpuSet()
    for cpus in sets:
        assert whole.isdisjoint(cpus)
        whole = whole | cpus
    return whole


@some
def test_packages_dies_cores_and_nodes_each_partition_the_online_cpus(machine: Machine) -> None:
    for level in (machine.packages, machine.dies, machine.cores, machine.nodes):
        assert union([holder.cpus for holder in level]) == machine.online
    assert machine.online == CpuSet.of(cpu.id for cpu in machine.cpus)


@some
def test_a_cpu_agrees_with_what_holds_it(machine: Machine) -> None:
    for cpu in machine.cpus:
        core = machine.cores[cpu.core]
        assert cpu.id in core.cpus
        assert (core.package, core.die) == (cpu.package, cpu.die)
        assert [node.id for node in machine.nodes if cpu.id in node.cpus] == [cpu.node]


@some
def test_tuples_are_sorted_and_distances_symmetric(machine: Machine) -> None:
    assert [c.id for c in machine.cpus] == list(machine.online)
    assert [c.index for c in machine.cores] == list(range(len(machine.cores)))
    assert [n.id for n in machine.nodes] == sorted(n.id for n in machine.nodes)
    for a in machine.nodes:
        assert [a.distance_to(b.id) for b in machine.nodes] == [b.distance_to(a.id) for b in machine.nodes]


@some
def test_only_nodes_without_cpus_are_near_others(machine: Machine) -> None:
    for node in machine.nodes:
        assert bool(node.near) == (not node.cpus)
        assert set(node.near) <= {other.id for other in machine.nodes if other.cpus}


@some
def test_there_is_a_cpu_to_run_on_and_memory_to_use(machine: Machine) -> None:
    assert machine.online - machine.isolated
    assert machine.memory_nodes
    assert machine.online.isdisjoint(machine.offline)
    assert machine.isolated <= machine.online


@some
def test_renumbering_to_the_same_numbers_changes_nothing(machine: Machine) -> None:
    assert renumber(machine, {}) == machine


@some
def test_renumbering_there_and_back_changes_nothing(machine: Machine) -> None:
    everyone = [*machine.online, *machine.offline]
    there = {cpu: 7 * cpu + 3 for cpu in everyone}
    back = {new: old for old, new in there.items()}
    assert renumber(renumber(machine, there), back) == machine
