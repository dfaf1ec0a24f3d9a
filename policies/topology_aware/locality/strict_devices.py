"""The strict preference to be near devices: which pools it leaves, and which of their CPUs."""

from policies.hardware.pools import Pool
from policies.topology_aware.locality.devices import local_cpus
from policies.topology_aware.supply.context import PlacementContext

ANYWHERE = -1  # every CPU, as a mask


def reach_in(context: PlacementContext, pool: Pool) -> int:
    """Return the CPUs that the container may own in this pool, as a mask; 0 rules the pool out.

    Without a strict preference all. With one: all where the whole pool is near the devices and has CPUs near each;
    else, if nothing shared is asked for, those near any. Near each device there must then be one (``is_near_each``).
    """
    if not context.demand.strict_hints:
        return ANYWHERE
    near = _near(context)
    if not near:
        return ANYWHERE
    together = 0
    for cpus in near:
        together |= cpus
    usable = pool.sharable | pool.isolated
    if not usable & ~together and all(usable & cpus for cpus in near):
        return ANYWHERE
    return usable & together if context.demand.whole and not context.demand.shared_mcpu else 0


def is_near_each(context: PlacementContext, reach: int, owned: int) -> bool:
    """Return whether some of these CPUs are near each device, where ``reach`` makes this a condition.

    One CPU cannot be near two devices in two packages: the strict preference refuses that.
    """
    return reach == ANYWHERE or all(owned & cpus for cpus in _near(context))


def _near(context: PlacementContext) -> tuple[int, ...]:
    """Return the CPUs near each device whose locality is known; none of them may be online."""
    found = (local_cpus(context.tree.machine, hint) for hint in context.request.hints)
    return tuple(dict.fromkeys(cpus for cpus in found if cpus is not None))
