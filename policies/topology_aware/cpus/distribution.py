"""Pick CPUs in even parts over NUMA nodes, where no node can give all of them, or on cores of their own. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice
from typing import Final

from policies.hardware.pools import Pool, PoolTree
from policies.hardware.siblings import one_thread_per_core, siblings_of
from policies.topology_aware.cpus.picker import CandidateCpus, pick_cpus, reduced
from sysfs.model import NumaNode

_MOST_CHOICES: Final = 64
"""Sets of nodes tried for each number of nodes: some milliseconds where none of them can give even parts."""


def on_other_cores(tree: PoolTree, free: int, held: int) -> int:
    """Return one free CPU of each core that ``held`` has none of."""
    shifts = tree.sibling_shifts
    return one_thread_per_core(shifts, free & ~(held | siblings_of(shifts, held)))


def pick_evenly(candidates: CandidateCpus, pool: Pool, count: int, held: int) -> int:
    """Return ``count`` CPUs as a mask, with those ``held`` in even parts over the fewest nodes; 0 if impossible.

    Parts differ by a CPU, or a core where whole ones are wanted. One node that can give all of them is enough. Of as
    many nodes those nearest to each other, then the lowest.
    """
    nodes = [n for n in candidates.tree.machine.nodes if n.cpus.mask & pool.cpus & (candidates.free | held)]
    for size in range(1, len(nodes) + 1):
        for chosen in _nearest(nodes, size):
            if found := _parts(candidates, pool, count, held, chosen):
                return found
    return 0


def _nearest(nodes: Sequence[NumaNode], size: int) -> Iterator[tuple[NumaNode, ...]]:
    choices = islice(combinations(nodes, size), _MOST_CHOICES)
    yield from sorted(choices, key=lambda chosen: (_distance(chosen), [node.id for node in chosen]))


def _distance(nodes: Sequence[NumaNode]) -> int:
    ids = {node.id for node in nodes}
    return sum(distance for node in nodes for other, distance in node.distances if other in ids)


def _parts(candidates: CandidateCpus, pool: Pool, count: int, held: int, nodes: Sequence[NumaNode]) -> int:
    step = candidates.tree.threads_per_core if candidates.whole else 1
    steps, odd = divmod(count + held.bit_count(), step)
    # CPUs that it keeps on other nodes leave no even parts here.
    if odd or held & ~sum(node.cpus.mask for node in nodes) or steps < len(nodes):
        return 0
    least, more = divmod(steps, len(nodes))
    # The larger parts, by a CPU or a core, lie where most is left.
    fullest = sorted(nodes, key=lambda n: (-(n.cpus.mask & (candidates.free | held)).bit_count(), n.id))
    taken = 0
    for place, node in enumerate(fullest):
        missing = step * (least + (place < more)) - (held & node.cpus.mask).bit_count()
        if missing < 0:
            return 0
        limits = reduced(candidates.tree, candidates.limits, taken)
        part = replace(candidates, free=candidates.free & node.cpus.mask, limits=limits)
        found = pick_cpus(part, pool, missing) if missing else 0
        if found.bit_count() != missing:
            return 0
        taken |= found
    return taken
