"""Machines of the stories that no short description can give, made up and kept as captures beside the stories.

``python -m tests.golden.scenarios.odd_machines`` writes them anew.
"""

from collections.abc import Iterable
from pathlib import Path

from sysfs.archives.capture import capture_tree
from sysfs.assemble import CpuFacts, MachineFacts, NodeFacts, assemble
from sysfs.cpuset import CpuSet
from sysfs.memory_kind import MemoryFacts
from sysfs.model import Cache, Machine
from tests.fakes.sysfs_tree import tree_of

FOLDER = Path(__file__).parent / "odd"
GIB = 1 << 30


def _cpu(
    cpu: int, package: int, die: int, siblings: Iterable[int], *, base_ghz: int = 0, capacity: int = 0
) -> CpuFacts:
    """A CPU whose core is numbered as its lowest sibling."""
    core = CpuSet.of(siblings)
    return CpuFacts(cpu, package, die, min(core), core, base_frequency_khz=base_ghz * 1_000_000, capacity=capacity)


def _node(node: int, cpus: Iterable[int], distances: dict[int, int]) -> NodeFacts:
    return NodeFacts(node, CpuSet.of(cpus), MemoryFacts(4 * GIB), tuple(distances.items()))


def dies_share_a_node() -> Machine:
    """Two packages of one NUMA node each, in which two dies with an L3 cache each lie side by side."""
    return assemble(
        MachineFacts(
            cpus=[_cpu(cpu, cpu // 8, cpu // 4 % 2, {cpu & ~1, cpu | 1}) for cpu in range(16)],
            nodes=[_node(0, range(8), {0: 10, 1: 21}), _node(1, range(8, 16), {0: 21, 1: 10})],
            caches=[Cache(3, CpuSet.of(range(first, first + 4))) for first in range(0, 16, 4)],
        )
    )


def sparse_ids() -> Machine:
    """Packages 0 and 5, nodes 0 and 8, and CPU numbers with holes, up to beyond a thousand."""
    near = {0: 2, 2: 0, 4: 6, 6: 4}
    far = {100: 1100, 1100: 100, 102: 1102, 1102: 102}
    cpus = [_cpu(cpu, 0, 0, {cpu, sibling}) for cpu, sibling in near.items()]
    cpus += [_cpu(cpu, 5, 0, {cpu, sibling}) for cpu, sibling in far.items()]
    return assemble(MachineFacts(cpus=cpus, nodes=[_node(0, near, {0: 10, 8: 21}), _node(8, far, {0: 21, 8: 10})]))


def fast_cores() -> Machine:
    """One node of eight cores, of which the last two have a higher base frequency (as with Speed Select)."""
    return assemble(
        MachineFacts(
            cpus=[_cpu(cpu, 0, 0, {cpu}, base_ghz=3 if cpu >= 6 else 2) for cpu in range(8)],
            nodes=[_node(0, range(8), {0: 10})],
        )
    )


def _sockets(sizes: Iterable[int], *nodes: Iterable[int]) -> Machine:
    """Packages of so many cores with an L3 cache each, as hypervisors make them up, in these NUMA nodes."""
    homes = [package for package, size in enumerate(sizes) for _ in range(size)]
    alike = [CpuSet.of(cpu for cpu, home in enumerate(homes) if home == package) for package in set(homes)]
    far = [{other: 10 if other == node else 20 for other in range(len(nodes))} for node in range(len(nodes))]
    return assemble(
        MachineFacts(
            cpus=[_cpu(cpu, package, 0, {cpu}) for cpu, package in enumerate(homes)],
            nodes=[_node(node, cpus, far[node]) for node, cpus in enumerate(nodes)],
            caches=[Cache(3, cpus) for cpus in alike],
        )
    )


def large_and_small_cores() -> Machine:
    """Four small cores and three large ones, told apart by their capacity alone, and one a little faster than these."""
    capacities = [530] * 4 + [990] * 3 + [1024]
    return assemble(
        MachineFacts(
            cpus=[_cpu(cpu, 0, 0, {cpu}, capacity=capacity) for cpu, capacity in enumerate(capacities)],
            nodes=[_node(0, range(8), {0: 10})],
        )
    )


MACHINES = {
    "large-and-small-cores": large_and_small_cores,
    "nodes-across-sockets": lambda: _sockets([4, 4, 4], range(6), range(6, 12)),
    "sockets-of-one-cpu": lambda: _sockets([1] * 8, range(8)),
    "sockets-of-two-cpus": lambda: _sockets([2] * 4, range(8)),
    "sockets-in-two-nodes": lambda: _sockets([1] * 16, range(8), range(8, 16)),
    "dies-share-a-node": dies_share_a_node,
    "fast-cores": fast_cores,
    "sparse-ids": sparse_ids,
}


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.tar.xz"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, machine in MACHINES.items():
        capture_tree(tree_of(machine()), path_of(name))
