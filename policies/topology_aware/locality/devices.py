"""Score pools by nearness to a container's devices; find the CPUs near each, and those a strict preference allows."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from policies.base import DeviceLocality
from policies.hardware.pools import Pool, PoolTree
from policies.topology_aware.supply.context import PlacementContext
from sysfs.cpuset import NodeSet
from sysfs.model import Machine

ANYWHERE = -1  # every CPU, as a mask


@dataclass(frozen=True, slots=True)
class Locality:
    """CPUs (a mask) that are near one or more devices, which ``sources`` name."""

    sources: tuple[str, ...]
    cpus: int


def hint_scores(tree: PoolTree, hints: tuple[DeviceLocality, ...]) -> tuple[float, ...]:
    """Return per pool the mean nearness to each device: 0 (far from all) to 1 (at each). All 0 without localities.

    A pool is at a device when all of the pool is local to it, or all that is local to it is in the pool; in between
    counts the part. The mean, not the product: with two devices on different nodes, a pool that holds both wins.
    """
    known = [m for m in (_cpus_or_nodes(tree.machine, h) for h in hints) if m[0] or m[1]]
    if not known:
        return (0.0,) * len(tree.pools)
    return tuple(round(sum(_nearness(p, m) for m in known) / len(known), 6) for p in tree.pools)


def local_cpus(machine: Machine, hint: DeviceLocality) -> int | None:
    """Return the online CPUs near this device; None when all are, or nothing is known.

    CPUs count before nodes. Near a node without CPUs are those of the nodes closest to it.
    """
    cpus = hint.cpus.mask & machine.online.mask or _cpus_of(machine, hint.nodes)
    if not cpus:
        cpus = reduce(or_, (_cpus_of(machine, node.near) for node in machine.nodes if node.id in hint.nodes), 0)
    says_nothing = cpus == machine.online.mask or not (hint.cpus or hint.nodes)
    return None if says_nothing else cpus


def localities(machine: Machine, hints: Iterable[DeviceLocality], within: int) -> tuple[Locality, ...]:
    """Return the distinct sets of CPUs near devices, cut to ``within`` and less than all of it; the smallest first."""
    sources: dict[int, list[str]] = {}
    for hint in hints:
        cpus = (local_cpus(machine, hint) or 0) & within
        if cpus and cpus != within:
            names = sources.setdefault(cpus, [])
            if hint.source not in names:
                names.append(hint.source)
    order = sorted(sources, key=lambda cpus: (cpus.bit_count(), cpus & -cpus, cpus))
    return tuple(Locality(tuple(sources[cpus]), cpus) for cpus in order)


def _cpus_or_nodes(machine: Machine, hint: DeviceLocality) -> tuple[int, int]:
    """Return (CPU mask, node mask) of a locality: its CPUs, else those of its nodes. Nothing if it names all."""
    cpus = hint.cpus.mask & machine.online.mask or _cpus_of(machine, hint.nodes)
    if cpus == machine.online.mask:
        return 0, 0
    return cpus, (0 if cpus else hint.nodes.mask)


def _cpus_of(machine: Machine, nodes: NodeSet) -> int:
    return reduce(or_, (node.cpus.mask for node in machine.nodes if node.id in nodes), 0)


def _nearness(pool: Pool, local: tuple[int, int]) -> float:
    cpus, nodes = local
    if cpus:
        return (pool.hardware & cpus).bit_count() / min(pool.hardware.bit_count(), cpus.bit_count())
    return (pool.mems & nodes).bit_count() / nodes.bit_count()


def reach_in(context: PlacementContext, pool: Pool) -> int:
    """Return the CPUs that the container may own in this pool, as a mask; 0 rules the pool out.

    Without a strict preference: all. With one: all if the whole pool is near the devices and has CPUs near each;
    else, if nothing shared is asked for, those near any. Each device must then have one near it (``is_near_each``).
    """
    if context.demand.single_node and not in_one_node(context.tree.machine, pool):
        return 0
    near = _near(context) if context.demand.strict_hints else ()
    if not near:
        return ANYWHERE
    together = reduce(or_, near)
    usable = pool.sharable | pool.isolated
    if not usable & ~together and all(usable & cpus for cpus in near):
        return ANYWHERE
    return usable & together if context.demand.whole and not context.demand.shared_mcpu else 0


def in_one_node(machine: Machine, pool: Pool) -> bool:
    """Return whether all available CPUs of the pool are of one NUMA node."""
    return any(not pool.cpus & ~node.cpus.mask for node in machine.nodes)


def is_near_each(context: PlacementContext, reach: int, owned: int) -> bool:
    """Return whether some of these CPUs are near each device, if ``reach`` makes this a condition.

    One CPU cannot be near two devices in two packages: the strict preference refuses that.
    """
    return reach == ANYWHERE or all(owned & cpus for cpus in _near(context))


def _near(context: PlacementContext) -> tuple[int, ...]:
    """Return the CPUs near each device whose locality is known; none of them may be online."""
    found = (local_cpus(context.tree.machine, hint) for hint in context.request.hints)
    return tuple(dict.fromkeys(cpus for cpus in found if cpus is not None))
