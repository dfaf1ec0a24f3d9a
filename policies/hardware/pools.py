"""Build the pool tree from the hardware: name, CPUs (sharable, isolated, reserved) and memory nodes of each pool.

Levels: root > package > die > NUMA node > L3 domain (docs/placement.md, Machine and pools). A level is left out where
the hardware has a single child. Pools without available CPUs are dropped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from policies.errors import PolicyOptionsError
from policies.hardware.domains import Domain, Domains, Level, build_domains, cores_inside
from policies.hardware.priorities import PriorityMasks, priority_masks_of
from policies.hardware.reserve import split_cores_note
from policies.hardware.siblings import Shifts, sibling_shifts, siblings_of
from policies.options import PolicyOptions
from sysfs.cpuset import CpuSet
from sysfs.model import Machine, NumaNode

KINDS = {Level.ROOT: "root", Level.PACKAGE: "package", Level.DIE: "die", Level.NODE: "node", Level.L3: "l3"}
ROOT = "root"
_MANY_ISOLATED: Final = 3
"""Isolated CPUs for each other one that may be shared: from there on most pods of a usual node crowd on few CPUs."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool; sets are masks. ``index`` counts depth first, so that a subtree is ``range(index, end)``.

    ``sharable`` are available CPUs that are neither reserved nor kernel-isolated; ``loose`` those of them that
    lie in no child. ``path`` is the way up, this pool first, the root last; ``parent`` is -1 for the root.
    ``distances`` has all memory nodes, the nearest first, those at the same distance as one mask: how much farther than
    the nearest they are from its CPUs, and these from each other, in hundredths.
    """

    index: int
    end: int
    name: str
    kind: str
    depth: int
    path: tuple[int, ...]
    parent: int
    children: tuple[int, ...]
    hardware: int
    cpus: int
    sharable: int
    loose: int
    isolated: int
    reserved: int
    mems: int
    distances: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PoolTree:
    """The pools, parents before children, and the hardware tree below them."""

    machine: Machine
    domains: Domains
    pools: tuple[Pool, ...]
    by_name: Mapping[str, int]
    by_hardware: Mapping[int, int]  # CPU mask of a domain -> its pool
    cores: tuple[int, ...]  # masks of the online CPUs of each core that lies inside one domain
    in_cores: int  # mask of all CPUs of these cores
    smallest_core: int  # the fewest threads of a core
    threads_per_core: int  # the most
    sibling_shifts: Shifts
    beside_reserved: int  # mask of the CPUs on cores of reserved ones
    priority_masks: PriorityMasks
    notes: tuple[str, ...]

    @property
    def root(self) -> Pool:
        """The pool of all available CPUs."""
        return self.pools[0]

    def around(self, cpus: int) -> Pool:
        """Return the deepest pool whose hardware has all of these CPUs; the root where none has, or there are none."""
        pool = self.root
        inside = iter(pool.children if cpus else ())
        while (child := next((self.pools[i] for i in inside if not cpus & ~self.pools[i].hardware), None)) is not None:
            pool, inside = child, iter(child.children)
        return pool

    def named(self, name: str) -> Pool:
        """Return the pool of this name, or the root if there is none (a grant of another machine)."""
        return self.pools[self.by_name.get(name, 0)]


@dataclass(frozen=True, slots=True)
class _Site:
    """A machine and its available CPUs by what they may be used for."""

    machine: Machine
    l3_pools: bool | None
    available: int
    sharable: int
    isolated: int
    reserved: int


def build_pools(machine: Machine, options: PolicyOptions, *, l3_pools: bool | None = None) -> PoolTree:
    """Build the pool tree. Raises PolicyOptionsError if no CPU is available.

    ``l3_pools`` None: pools per L3 domain only if a NUMA node has several with two or more cores.
    """
    site, notes = _site_of(machine, options, l3_pools)
    domains = build_domains(machine)
    pools: list[Pool] = []
    _add(pools, site, domains.root, ())
    cores = [c.cpus.mask for c in machine.cores]
    nested = cores_inside(domains.root)
    inside = tuple(core for core in cores if core in nested)
    sizes = [core.bit_count() for core in cores]
    shifts = sibling_shifts(cores)
    return PoolTree(
        machine=machine,
        domains=domains,
        pools=tuple(pools),
        by_name=MappingProxyType({p.name: p.index for p in pools}),
        by_hardware=MappingProxyType({p.hardware: p.index for p in pools}),
        cores=inside,
        in_cores=sum(inside),  # cores are disjoint
        smallest_core=min(sizes),
        threads_per_core=max(sizes),
        sibling_shifts=shifts,
        beside_reserved=siblings_of(shifts, pools[0].reserved),
        priority_masks=priority_masks_of(machine),
        notes=domains.notes + notes,
    )


def _site_of(machine: Machine, options: PolicyOptions, l3_pools: bool | None) -> tuple[_Site, tuple[str, ...]]:
    available = options.available.mask & machine.online.mask
    if not available:
        problem = f"none of these CPUs is online; the online ones are {machine.online}"
        raise PolicyOptionsError("availableResources.cpu", str(options.available), problem)
    reserved = options.reserved.mask & available
    isolated = machine.isolated.mask & available & ~reserved
    sharable = available & ~reserved & ~isolated
    site = _Site(machine, l3_pools, available, sharable, isolated, reserved)
    if sharable:
        split = split_cores_note(machine, options.available, CpuSet(reserved))
        return site, (*_few_ordinary(sharable, isolated), *((split,) if split else ()))
    if not reserved:
        # A container needs some CPU to share: if every CPU is isolated, isolation cannot be kept.
        note = f"every available CPU ({CpuSet(isolated)}) is kernel-isolated, none reserved: used as ordinary CPUs"
        return replace(site, sharable=isolated, isolated=0), (note,)
    others = f"the others ({CpuSet(isolated)}) are kernel-isolated" if isolated else "there are no others"
    note = f"no available CPU is left to share: {CpuSet(reserved)} reserved, {others}; requests for a share are refused"
    return site, (note,)


def _few_ordinary(sharable: int, isolated: int) -> tuple[str, ...]:
    """Return a note where isolated CPUs leave few others, on which every container runs that owns none of them."""
    left, taken = sharable.bit_count(), isolated.bit_count()
    if taken < _MANY_ISOLATED * left:
        return ()
    note = f"{taken} available CPUs ({CpuSet(isolated)}) are kernel-isolated, which leaves {left} ({CpuSet(sharable)})"
    return (
        f"{note} to share; a container of several CPUs gets isolated ones only where it asks, or no others are left",
    )


def _add(pools: list[Pool], site: _Site, domain: Domain, parents: tuple[int, ...]) -> int:
    """Append the pool of this domain and of everything below. Return its index."""
    index = len(pools)
    leaf = _leaf_pool(site, domain, index, tuple(pools[i] for i in parents))
    pools.append(leaf)
    inside = [child for child in _pool_children(site, domain) if child.cpus & site.available]
    children = tuple(_add(pools, site, child, (index, *parents)) for child in inside)
    if children:
        covered = sum(pools[child].sharable for child in children)  # children are disjoint
        pools[index] = replace(leaf, end=len(pools), children=children, loose=leaf.sharable & ~covered)
    return index


def _leaf_pool(site: _Site, domain: Domain, index: int, parents: tuple[Pool, ...]) -> Pool:
    """Return the pool as it is without children."""
    machine = site.machine
    sharable = domain.cpus & site.sharable
    return Pool(
        index=index,
        end=index + 1,
        name=_name(machine, domain, parents),
        kind=KINDS[domain.level],
        depth=len(parents),
        path=(index, *(p.index for p in parents)),
        parent=parents[0].index if parents else -1,
        children=(),
        hardware=domain.cpus,
        cpus=domain.cpus & site.available,
        sharable=sharable,
        loose=sharable,
        isolated=domain.cpus & site.isolated,
        reserved=domain.cpus & site.reserved,
        mems=machine.memory_nodes.mask if domain.level is Level.ROOT else memory_at(machine, domain.cpus),
        distances=_memory_distances(machine, domain.cpus),
    )


def memory_at(machine: Machine, cpus: int) -> int:
    """Return the nodes with memory of these CPUs, and the CPU-less ones nearest to them; else the nearest memory.

    To CPUs of no node, which discovery never finds, all memory is as near.
    """
    homes = [node for node in machine.nodes if node.cpus.mask & cpus]
    ids = sum(1 << home.id for home in homes)
    local = sum(1 << n.id for n in machine.nodes if n.memory_bytes and (ids >> n.id & 1 or n.near.mask & ids))
    if local:
        return local
    there = [n.id for n in machine.nodes if n.memory_bytes]
    away = [(min((home.distance_to(n) for home in homes), default=0), 1 << n) for n in there]
    least = min((distance for distance, _ in away), default=0)
    return sum(node for distance, node in away if distance == least)


def _memory_distances(machine: Machine, cpus: int) -> tuple[tuple[int, int], ...]:
    """Return ``Pool.distances`` of these CPUs.

    CPUs without memory of their own are at no disadvantage: whatever runs on them, its memory is as far.
    """
    homes = [node for node in machine.nodes if node.cpus.mask & cpus]
    there = [node.id for node in machine.nodes if node.memory_bytes]
    nearest = [min((home.distance_to(n) for n in there), default=0) for home in homes]
    apart = _mean_distance_apart(homes, cpus)
    groups: dict[int, int] = {}
    for n in there:
        farther = (home.distance_to(n) - least for home, least in zip(homes, nearest, strict=True))
        distance = apart + 100 * min(farther, default=0)
        groups[distance] = groups.get(distance, 0) | 1 << n
    return tuple(sorted(groups.items()))


def _mean_distance_apart(homes: Sequence[NumaNode], cpus: int) -> int:
    """Return how far it is between two of the CPUs, beyond the distance within a node, in hundredths.

    That is what a thread loses that moves between them: its memory stays where it was allocated.
    """
    counts = [(home, (home.cpus.mask & cpus).bit_count()) for home in homes]
    own = {home.id: home.distance_to(home.id) for home, _ in counts}
    total = sum(n * m * (one.distance_to(other.id) - own[one.id]) for one, n in counts for other, m in counts)
    return 100 * total // max(1, sum(n for _, n in counts) ** 2)


def _name(machine: Machine, domain: Domain, parents: tuple[Pool, ...]) -> str:
    match domain.level:
        case Level.PACKAGE:
            return f"socket #{domain.id}"
        case Level.DIE:
            return f"die #{domain.package}/{domain.id}"
        case Level.NODE:
            return f"NUMA node #{domain.id}"
        case Level.L3:
            # The NUMA level may have been left out; the name still says where the cache is.
            node = next((n.id for n in machine.nodes if not domain.cpus & ~n.cpus.mask), None)
            home = f"NUMA node #{node}" if node is not None else parents[0].name
            return f"{home}/L3 #{domain.id}"
        case _:
            return ROOT


def _pool_children(site: _Site, domain: Domain) -> tuple[Domain, ...]:
    """Return the domains that become child pools. An only child is left out in favour of its own children."""
    children = tuple(c for c in domain.children if c.level <= Level.L3)
    # Counted in hardware, available or not: pool names must not change when the available CPUs do.
    if len(children) == 1:
        return _pool_children(site, children[0])
    return children if any(c.level < Level.L3 for c in children) or _wants_l3(site, children) else ()


def _wants_l3(site: _Site, caches: tuple[Domain, ...]) -> bool:
    if site.l3_pools is not None:
        return site.l3_pools
    cores = (sum(1 for core in site.machine.cores if core.cpus.mask & cache.cpus) for cache in caches)
    return sum(n >= 2 for n in cores) >= 2
