"""Why a strict wish for device hints leaves a container, or a pool, without each other; in words."""

from dataclasses import replace

from policies.base import Reason, Threads
from policies.hardware.pools import Pool
from policies.topology_aware import reasons
from policies.topology_aware.cpus.offer import offers_of
from policies.topology_aware.locality.devices import local_cpus
from policies.topology_aware.locality.strict_devices import ANYWHERE, reach_in
from policies.topology_aware.supply.case import Case
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.supply.supply import Room
from sysfs.cpuset import CpuSet


def hints_unmet(case: Case, room: Room) -> Reason | None:
    """The refusal, if there is a place for the container but none near its devices; else None."""
    if not case.demand.strict_hints:
        return None
    lenient = replace(case, demand=replace(case.demand, strict_hints=False, threads=Threads.ANY))
    if not any(offer.fits for offer in offers_of(lenient, room, room)):
        return None
    near = []
    for hint in case.request.hints:
        cpus = local_cpus(case.tree.machine, hint)
        if cpus is not None:
            near.append((hint.source, _where(case, cpus), _gives_near(case, room, cpus)))
    home, mcpu = "", -1  # a full pool is one all the same
    for pool in case.tree.pools:
        free = max(0, room.free_mcpu[pool.index])
        if reach_in(case, pool) == ANYWHERE and free > mcpu:
            home, mcpu = pool.name, free
    return reasons.hints_unmet(case.demand, tuple(near), home, mcpu)


def why_not_near(case: Case, pool: Pool) -> str:
    """Why this pool is refused for the sake of the devices; empty when they are not the reason."""
    reach = reach_in(case, pool)
    if reach == ANYWHERE:
        return ""
    if not reach:
        return "not near each of its devices"
    free = (_ownable(case, pool) & reach).bit_count()
    return f"too few CPUs near its devices: {free} free" if free < case.demand.whole else ""


def _gives_near(case: Case, room: Room, cpus: int) -> int:
    """How many of these CPUs the container could own, all of one kind; not those that others who share there need."""
    isolated = (case.supply.free_isolated(0) & cpus).bit_count()
    if case.demand.isolation is Isolation.REQUIRE:
        return isolated
    around = max((p for p in case.tree.pools if not cpus & ~p.hardware), key=lambda p: p.depth, default=case.tree.root)
    ordinary = case.supply.shared[0] & ~case.supply.withheld & cpus
    given = min(ordinary.bit_count(), room.give[around.index])
    return given if case.demand.isolation is Isolation.NO else max(given, isolated)


def _ownable(case: Case, pool: Pool) -> int:
    isolated = case.supply.free_isolated(pool.index)
    if case.demand.isolation is Isolation.REQUIRE:
        return isolated
    return isolated | case.supply.shared[pool.index] & ~case.supply.withheld


def _where(case: Case, cpus: int) -> str:
    """The pool that these CPUs are, else their list."""
    pool = next((p.name for p in case.tree.pools if p.hardware == cpus), "")
    return pool or (f"CPUs {CpuSet(cpus)}" if cpus else "no CPU of this machine")
