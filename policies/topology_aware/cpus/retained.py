"""Find the earlier CPUs to keep in a container's old pool or one above, and rank it (deeper is higher). Pure."""

from dataclasses import replace

from policies.base import Previous
from policies.hardware.pools import Pool
from policies.preferences import Threads
from policies.topology_aware.cpus.cores import on_free_cores
from policies.topology_aware.cpus.picker import CandidateCpus, pick_cpus, within_limits
from policies.topology_aware.locality.devices import near_devices
from policies.topology_aware.supply.context import ANYWHERE, PlacementContext
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.supply.supply import Room


def retained(context: PlacementContext, room: Room, pool: Pool, reach: int) -> tuple[int, int]:
    """Return (rank, CPUs to keep) if this is the container's earlier pool or a pool above it, else zeros.

    The rank is higher for deeper pools. CPUs outside ``reach`` are not kept.
    """
    previous = context.request.previous
    if previous is None:
        return 0, 0
    home = context.tree.by_name.get(previous.pool)
    # A pool that is gone, as after a hotplug, says nothing: its CPUs alone tell where it was.
    is_around = home is None or pool.index in context.tree.pools[home].path
    # One that was wider than its CPUs, and must be in one node by now.
    if not is_around and not (context.keeps and context.demand.single_node and not previous.owned.mask & ~pool.cpus):
        return 0, 0
    owned = _worth_keeping(context, previous)
    # One that lost some of its CPUs moves anyway: in a wider pool the rest could tear it over two packages.
    if (home is None and not owned) or (previous.only_there and home not in (None, pool.index)):
        return 0, 0
    rank = pool.depth + 1
    if not context.demand.whole or not owned:
        return rank, 0
    keep = _keepable(context, pool, owned, reach)
    below = keep & context.supply.shared[pool.index]
    if not keep or keep & ~reach or not within_limits(context.tree, pool, below, room.give):
        return 0, 0
    return rank, keep


def keeps_enough(context: PlacementContext, keep: int) -> bool:
    """Return whether these are all of its CPUs or as many as it asks for, where it has no place without them."""
    if not context.keeps or context.own is None:
        return True
    return keep.bit_count() == min(context.demand.whole, len(context.own.owned))


def _worth_keeping(context: PlacementContext, previous: Previous) -> int:
    """Return the earlier CPUs; of a container that lost some, and prefers whole cores, those of cores that are whole.

    It moves anyway: the thread of a core that it cannot have whole any more must not keep it from another core.
    """
    if not previous.only_there or context.demand.threads is Threads.ANY:
        return previous.owned.mask
    tree, supply = context.tree, context.supply
    ordinary = on_free_cores(tree, supply.shared[0] & ~supply.withheld)
    return previous.owned.mask & (ordinary | on_free_cores(tree, supply.free_isolated(0)))


def _keepable(context: PlacementContext, pool: Pool, owned: int, reach: int) -> int:
    """Return all earlier CPUs if no fewer are requested, else as many as are; 0 if they are not free."""
    ordinary = owned & context.supply.shared[pool.index] & ~context.supply.withheld
    isolated = owned & context.supply.free_isolated(pool.index)
    count = context.demand.whole
    free = isolated if context.demand.isolation is Isolation.REQUIRE else ordinary | isolated
    if owned.bit_count() <= count:
        return owned if free == owned else 0
    if free.bit_count() < count:
        return 0
    # The oldest ones may be near one device alone, and a strict preference wants some near each.
    first = 0 if reach == ANYWHERE else _one_near_each(context, pool, free)
    return _oldest(context, pool, free, count, first if first.bit_count() <= count else 0)


def _one_near_each(context: PlacementContext, pool: Pool, free: int) -> int:
    """Return one of the free earlier CPUs (a core, where whole ones are preferred) near each device, old ones first."""
    step = 1 if context.demand.threads is Threads.ANY else context.tree.threads_per_core
    kept = 0
    for near in near_devices(context):
        if not near & kept:
            here = free & near
            kept = _oldest(context, pool, here | kept, kept.bit_count() + min(step, here.bit_count()), kept)
    return kept


def _oldest(context: PlacementContext, pool: Pool, free: int, count: int, kept: int = 0) -> int:
    """Return ``count`` of the free earlier CPUs, ``kept`` among them, without those added last.

    See docs/placement.md, Enactment.
    """
    for batch in additions(context.request.previous):
        here, missing = free & batch & ~kept, count - kept.bit_count()
        if here.bit_count() >= missing:
            return kept | _pick_of_batch(context, pool, here, missing, kept)
        kept |= here
    return kept


def _pick_of_batch(context: PlacementContext, pool: Pool, cpus: int, count: int, near: int) -> int:
    """Return ``count`` of one batch: isolated CPUs if they are preferred and enough, else ordinary ones first."""
    isolated, ordinary = cpus & pool.isolated, cpus & ~pool.isolated
    if context.demand.isolation is not Isolation.NO and isolated.bit_count() >= count:
        return _pick_among(context, pool, isolated, count, near)
    if ordinary.bit_count() >= count:
        return _pick_among(context, pool, ordinary, count, near)
    more = count - ordinary.bit_count()
    return ordinary | _pick_among(context, pool, isolated, more, near | ordinary)


def _pick_among(context: PlacementContext, pool: Pool, cpus: int, count: int, near: int) -> int:
    """Return ``count`` of these, on whole cores if such are preferred and the earlier ones were."""
    unbounded = [cpus.bit_count()] * len(context.tree.pools)
    candidates = CandidateCpus(context.tree, cpus, unbounded, near, context.demand.priority)
    if context.demand.threads is not Threads.ANY and (cores := pick_cpus(replace(candidates, whole=True), pool, count)):
        return cores
    return pick_cpus(candidates, pool, count)


def additions(previous: Previous | None) -> tuple[int, ...]:
    """Return the earlier CPUs as one mask per batch, in the order they were added; every CPU is in one of them."""
    if previous is None:
        return ()
    batches: list[int] = []
    left = previous.owned.mask
    for later in reversed(previous.added):
        batches.append(later.mask & left)
        left &= ~later.mask
    return tuple(batch for batch in (left, *reversed(batches)) if batch)
