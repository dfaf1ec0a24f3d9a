"""Compute home zones: a container's memory nodes if there is room, without DRAM on a cold start, after a pool move."""

from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from policies.base import CpuKind, DeviceLocality, Grant, Request
from policies.hardware.pools import Pool
from policies.topology_aware.memory.hugepages import spread_nodes
from policies.topology_aware.memory.reasons import kinds_text
from policies.topology_aware.supply.memory_account import wanted_kinds
from policies.topology_aware.supply.memory_nodes import DEFAULT_KINDS, KINDS, MemoryNodes
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import NodeSet
from sysfs.model import Machine, MemoryKind


@dataclass(frozen=True, slots=True)
class Home:
    """A home zone. ``zone`` is 0 if a strict preference cannot be met: ``refused`` ends a sentence that says why.

    ``in_pool``: the pool itself has memory of every kind that is asked for. ``absent`` are kinds asked for that the
    machine lacks; ``added_normal`` are nodes added because all others have movable memory only.
    """

    zone: int
    in_pool: bool
    absent: tuple[MemoryKind, ...] = ()
    added_normal: int = 0
    refused: str = ""


def home_of(machine: Machine, nodes: MemoryNodes, pool: Pool, request: Request, *, owns: bool) -> Home:
    """Return the home zone in this pool. ``owns``: the container owns CPUs, which its devices may spread."""
    wanted = wanted_kinds(request)
    asked = request.preferences.memory_kinds
    mask = nodes.of_kinds(wanted)
    absent = tuple(kind for kind in asked if not nodes.of_kind(kind))
    # A cold start needs a pool with slow memory.
    needed = (*asked, MemoryKind.PMEM) if request.preferences.cold_start_seconds and nodes.pmem else asked
    in_pool = bool(pool.mems & mask) and all(pool.mems & nodes.of_kind(kind) for kind in needed)
    strict = request.preferences.strict_memory
    if strict and (absent or not mask):
        return Home(0, in_pool, absent, refused=f"this machine has no {kinds_text(absent or wanted)}")
    zone = _of_wanted_kinds(nodes, pool, request, _spread(machine, nodes, pool, request) if owns else 0)
    normal = _normal_for(nodes, zone, mask, strict=strict)
    if normal is None:
        return Home(0, in_pool, absent, refused="all of it is movable memory, in which the kernel cannot keep its part")
    return Home(zone | normal, in_pool, absent, normal)


def default_kinds_of(nodes: MemoryNodes, mems: int) -> int:
    """Return those of these nodes that every container may get; all of them if there is only HBM."""
    return mems & nodes.of_kinds(DEFAULT_KINDS) or mems


def _of_wanted_kinds(nodes: MemoryNodes, pool: Pool, request: Request, spread: int) -> int:
    """Return the pool's nodes of the wanted kinds (or ``spread``, near devices), and the nearest of kinds it lacks."""
    wanted = wanted_kinds(request)
    zone = spread or pool.mems & nodes.of_kinds(wanted)
    # A container that asks for no kind gets what its pool has, and no far PMEM.
    lacking = request.preferences.memory_kinds or (() if zone else wanted)
    start = zone or pool.mems
    for kind in lacking:
        if not start & nodes.of_kind(kind):
            zone |= nodes.nearest(start, nodes.of_kind(kind))
    return zone or default_kinds_of(nodes, pool.mems)


def _normal_for(nodes: MemoryNodes, zone: int, wanted: int, *, strict: bool) -> int | None:
    """Return normal memory for a zone without any: of the wanted kinds, else of another; None = not allowed."""
    if zone & nodes.normal or not nodes.normal:
        return 0
    if wanted & nodes.normal:
        return nodes.nearest(zone, wanted & nodes.normal)
    if strict:
        return None
    kinds = (nodes.nearest(zone, nodes.of_kind(kind) & nodes.normal) for kind in KINDS)
    return next((found for found in kinds if found), 0)


def _spread(machine: Machine, nodes: MemoryNodes, pool: Pool, request: Request) -> int:
    """Return the memory at the container's devices if they are at several places in the pool, else 0."""
    if request.preferences.spread_by_hints is False:
        return 0
    places = {_memory_at(machine, nodes, hint) for hint in request.hints}
    union = reduce(or_, places, 0)
    wanted = nodes.of_kinds(wanted_kinds(request))
    inside = 0 not in places and not union & ~(pool.mems & wanted)
    return union if len(places) > 1 and inside else 0


def _memory_at(machine: Machine, nodes: MemoryNodes, hint: DeviceLocality) -> int:
    """Return the memory nodes that a locality names, or those of the CPUs that it names."""
    if hint.nodes:
        return hint.nodes.mask & nodes.every
    return sum(1 << n.id for n in machine.nodes if n.cpus.mask & hint.cpus.mask) & nodes.every


@dataclass(frozen=True, slots=True)
class ColdStart:
    """A cold start. ``zone`` is home without DRAM; 0 if there is no cold start, and ``missing`` says why."""

    zone: int = 0
    missing: str = ""


def cold_start(nodes: MemoryNodes, home: Home, request: Request) -> ColdStart:
    """Return the zone of a container whose DRAM is withheld at first: PMEM, if it can do without other memory."""
    if not request.preferences.cold_start_seconds or not home.zone:
        return ColdStart()
    kinds = wanted_kinds(request)
    if MemoryKind.PMEM not in kinds or MemoryKind.DRAM not in kinds:
        return ColdStart(missing="memory-type does not name both DRAM and PMEM")
    if request.huge_pages:
        return ColdStart(missing="its huge pages have to be there from the beginning")
    needs = (
        (nodes.pmem, "its pool has no PMEM"),
        (nodes.dram, "its pool has no DRAM to withhold"),
        (nodes.pmem & nodes.normal, "the PMEM is movable memory, in which the kernel cannot keep its part"),
    )
    missing = next((text for needed, text in needs if not home.zone & needed), "")
    return ColdStart(missing=missing) if missing else ColdStart(home.zone & ~nodes.dram)


def is_ours(grant: Grant) -> bool:
    """Return whether cri-proxy writes the memory nodes of this container."""
    return bool(grant.mems) and grant.kind is not CpuKind.PRESERVE and not grant.request.preferences.preserve_memory


def home_zone(supply: Supply, grant: Grant) -> int:
    """Return the home zone of the grant in its pool, without DRAM while its cold start lasts; 0 if there is none."""
    if not is_ours(grant):
        return 0
    tree, nodes = supply.tree, supply.memory.nodes
    home = home_of(tree.machine, nodes, tree.named(grant.pool), grant.request, owns=bool(grant.owned))
    zone = cold_start(nodes, home, grant.request).zone if grant.is_cold else home.zone
    return zone | spread_nodes(supply.memory, grant.request)


def in_pool(supply: Supply, grant: Grant, pool: str) -> Grant:
    """Return the grant in another pool. Its zone grows by the home zone there, so that no page moves."""
    moved = replace(grant, pool=pool)
    return replace(moved, mems=grant.mems | NodeSet(home_zone(supply, moved)))


def after_cold_start(supply: Supply, grant: Grant) -> Grant:
    """Return the grant after its cold start, with DRAM in its zone.

    Others need not make room: a zone that grows leaves every promise as easy to keep as before.
    """
    grant = replace(grant, is_cold=False)
    return replace(grant, mems=grant.mems | NodeSet(home_zone(supply, grant)))
