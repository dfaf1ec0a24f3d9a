"""Load a scenario's machine and the CPUs that are offline at first; derive the machine that has given CPUs offline."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cri_proxy.simulate.scenario.model import Scenario
from sysfs.assemble import CpuFacts, MachineFacts, NodeFacts, assemble
from sysfs.cpuset import CpuSet
from sysfs.memory_kind import MemoryFacts
from sysfs.model import Core, Cpu, Machine, NumaNode
from sysfs.sources import load_machine


def with_offline(machine: Machine, cpus: CpuSet) -> Machine:
    """Return the machine without these CPUs, which are not all of its online ones.

    The kernel removes an offline CPU from every topology file and from its node; the numbers of the others stay.

    >>> from sysfs.descriptions.machine import describe
    >>> str(with_offline(describe({"cores": 2, "threads": 2}), CpuSet.of([1, 2])).online)
    '0,3'
    """
    gone = cpus & machine.online
    if not gone:
        return machine
    core_of = {cpu: core for core in machine.cores for cpu in core.cpus}
    return assemble(
        MachineFacts(
            [_cpu_without(gone, cpu, core_of[cpu.id]) for cpu in machine.cpus if cpu.id not in gone],
            [_node_without(gone, node) for node in machine.nodes],
            [replace(cache, cpus=cache.cpus - gone) for cache in machine.caches],
            [replace(device, local_cpus=device.local_cpus - gone) for device in machine.devices],
            machine.offline | gone,
            machine.isolated,
            machine.notes,
        )
    )


def _cpu_without(gone: CpuSet, cpu: Cpu, core: Core) -> CpuFacts:
    speed = (cpu.kind, cpu.base_frequency_khz, cpu.energy_preference, cpu.capacity)
    return CpuFacts(cpu.id, cpu.package, cpu.die, core.core_id, core.cpus - gone, *speed)


def _node_without(gone: CpuSet, node: NumaNode) -> NodeFacts:
    memory = MemoryFacts(node.memory_bytes, is_normal=node.is_normal_memory, kind=node.kind)
    return NodeFacts(node.id, node.cpus - gone, memory, node.distances, node.huge_pages)


def whole_machine(source: Machine | str | Mapping[str, object]) -> tuple[Machine, CpuSet]:
    """Return the machine with every CPU that can come online, and the CPUs that are offline at first.

    A capture has no details of CPUs that were offline then, so only a description has any. Raises SysfsBaseError.
    """
    if isinstance(source, Machine):
        return source, CpuSet()
    if not isinstance(source, Mapping) or "offline" not in source:
        return load_machine(source), CpuSet()
    offline = load_machine(source).offline
    return load_machine({key: value for key, value in source.items() if key != "offline"}), offline


def machine_source(scenario: Scenario) -> Machine | str | Mapping[str, object]:
    """Return the machine as ``load_machine`` takes it; a path in the scenario's directory goes first."""
    machine = scenario.machine
    if isinstance(machine, Mapping | Machine) or machine == "host" or Path(machine).is_absolute():
        return machine
    beside = Path(scenario.source).parent / machine.partition(".tar.xz:")[0]
    is_archive = ".tar.xz:" in machine and beside.with_name(f"{beside.name}.tar.xz").exists()
    return str(Path(scenario.source).parent / machine) if beside.exists() or is_archive else machine
