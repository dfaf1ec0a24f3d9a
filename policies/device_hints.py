"""How near a pool is to the devices that a container uses: 0 (far from all) to 1 (at each of them)."""

from policies.base import TopologyHint
from policies.pools import Pool, PoolTree
from sysfs.model import Machine


def hint_scores(tree: PoolTree, hints: tuple[TopologyHint, ...]) -> tuple[float, ...]:
    """Per pool, the mean nearness to each hint. All zero when no hint says anything.

    A pool is at a device when all of the pool is local to it, or all that is local to it is in the pool; in between
    counts the part. The mean, not the product: with two devices on different nodes, a pool that holds both wins.
    """
    telling = [m for m in (_local_cpus(tree.machine, h) for h in hints) if m[0] or m[1]]
    if not telling:
        return (0.0,) * len(tree.pools)
    return tuple(round(sum(_nearness(p, m) for m in telling) / len(telling), 6) for p in tree.pools)


def _local_cpus(machine: Machine, hint: TopologyHint) -> tuple[int, int]:
    """(CPU mask, node mask) of the hint: CPUs first, else the CPUs of its nodes. Nothing if it names all."""
    cpus = hint.cpus.mask & machine.online.mask
    if not cpus:
        for node in machine.nodes:
            if node.id in hint.nodes:
                cpus |= node.cpus.mask
    if cpus == machine.online.mask:
        return 0, 0
    return cpus, (0 if cpus else hint.nodes.mask)


def _nearness(pool: Pool, local: tuple[int, int]) -> float:
    cpus, nodes = local
    if cpus:
        return (pool.hardware & cpus).bit_count() / min(pool.hardware.bit_count(), cpus.bit_count())
    return (pool.mems & nodes).bit_count() / nodes.bit_count()
