"""CPUs of a machine that go offline and come back: the machine that discovery finds then (pure).

The kernel removes an offline CPU from every topology file and from its node; the numbers of the others stay.
"""

from dataclasses import replace

from sysfs.assemble import CacheFacts, CpuFacts, MachineFacts, NodeFacts, assemble
from sysfs.cpuset import CpuSet
from sysfs.memory_kind import MemoryFacts
from sysfs.model import Machine


def with_offline(machine: Machine, cpus: CpuSet) -> Machine:
    """The machine without these CPUs, which are not all of its online ones.

    >>> from sysfs.descriptions.machine import describe
    >>> str(with_offline(describe({"cores": 2, "threads": 2}), CpuSet.of([1, 2])).online)
    '0,3'
    """
    gone = cpus & machine.online
    if not gone:
        return machine
    core_ids = {cpu: core for core in machine.cores for cpu in core.cpus}
    return assemble(
        MachineFacts(
            cpus=[
                CpuFacts(
                    id=cpu.id,
                    package=cpu.package,
                    die=cpu.die,
                    core_id=core_ids[cpu.id].core_id,
                    siblings=core_ids[cpu.id].cpus - gone,
                    kind=cpu.kind,
                    base_frequency_khz=cpu.base_frequency_khz,
                    energy_preference=cpu.energy_preference,
                )
                for cpu in machine.cpus
                if cpu.id not in gone
            ],
            nodes=[
                NodeFacts(
                    node.id,
                    node.cpus - gone,
                    MemoryFacts(node.memory_bytes, is_normal=node.is_normal_memory, kind=node.kind),
                    node.distances,
                )
                for node in machine.nodes
            ],
            caches=[CacheFacts(cache.level, cache.cpus - gone, cache.size_bytes) for cache in machine.caches],
            devices=[replace(device, local_cpus=device.local_cpus - gone) for device in machine.devices],
            offline=machine.offline | gone,
            isolated=machine.isolated,
            notes=machine.notes,
        )
    )
