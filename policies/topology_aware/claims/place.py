"""Grant a container exactly the CPUs that another allocator has chosen for it, or say what is in the way. Pure.

The pool is the narrowest that has all of them. Containers that share leave the CPUs, and move to wider pools where what
is left of theirs does not cover what they are granted. Owners never leave theirs, so two of them are a refusal.
"""

from collections.abc import Iterator

from policies.base import CpuKind, Decision, Grant, Placed, Reason, Rejected
from policies.claims import CpuClaim
from policies.hardware.pools import Pool, PoolTree
from policies.topology_aware import reasons as cpu_reasons
from policies.topology_aware.claims import reasons
from policies.topology_aware.memory.home import in_pools
from policies.topology_aware.memory.plan import memory_in, with_memory
from policies.topology_aware.migration import Clearing
from policies.topology_aware.supply.context import PlacementContext, aligned, with_moved
from sysfs.cpuset import CpuSet


def place_claimed(context: PlacementContext, claim: CpuClaim) -> Decision:
    """Return the grant of the claim's CPUs; of a container that has some of them already, of these."""
    # While one of them is offline, a container that has the others keeps these rather than be refused.
    cpus = _held(context, claim) or claim.cpus
    refusal = _in_the_way(context, claim, cpus)
    if refusal is not None:
        return Rejected(refusal)
    tree = context.tree
    pool = tree.around(cpus.mask)
    grant = Grant(
        aligned(context.request, None),  # what the hints of its resources say does not count: the CPUs are decided
        pool.name,
        CpuKind.EXCLUSIVE if cpus.mask & tree.root.sharable else CpuKind.ISOLATED,
        exclusive=CpuSet(cpus.mask & tree.root.sharable),
        isolated=CpuSet(cpus.mask & tree.root.isolated),
    )
    moved = _moved_away(context, pool, grant)
    # The root may be short as well, or lose the last CPU of sharers that are booked with none.
    if moved is None or not with_moved(context, moved).plus(grant).holds():
        return Rejected(reasons.too_few_left(claim, cpus, context.supply.granted_mcpu[0]))
    memory = memory_in(context, pool, moved, grant.owned)
    if isinstance(memory, Reason):
        return Rejected(memory)
    placed = with_memory(context, grant, moved, memory)
    why = (*_reasons(context, claim, grant), *((cpu_reasons.lifted(moved),) if moved else ()))
    return Placed(placed.grant, moved=placed.moved, reasons=(*placed.reasons, *why))


def available_part(tree: PoolTree, claim: CpuClaim) -> CpuSet:
    """Return those of the claim's CPUs that a container may own here."""
    return CpuSet(claim.cpus.mask & (tree.root.sharable | tree.root.isolated))


def _held(context: PlacementContext, claim: CpuClaim) -> CpuSet:
    """Return what the container has of this claim: it keeps that, also while some of the CPUs are offline."""
    own = context.own
    return own.owned if own is not None and own.request.claim == claim else CpuSet()


def _in_the_way(context: PlacementContext, claim: CpuClaim, cpus: CpuSet) -> Reason | None:
    """Return what makes it impossible to own these CPUs; None = nothing."""
    if not cpus <= available_part(context.tree, claim):
        return reasons.unavailable(claim, cpus, context.tree)
    others = tuple(grant for grant in context.others if not grant.owned.isdisjoint(cpus))
    if others:
        return reasons.owned(claim, cpus, others)
    contested = CpuSet(cpus.mask & context.supply.withheld)
    # It is placed again because others cannot be moved from its CPUs.
    is_to_leave = context.own is not None and context.own.owned and context.request.previous is None
    return reasons.contested_by_stuck(claim, contested) if contested and is_to_leave else None


def _moved_away(context: PlacementContext, pool: Pool, grant: Grant) -> tuple[Grant, ...] | None:
    """Return the shares that move to wider pools, so that the CPUs can be owned; None if that is not enough."""
    moves = Clearing(context).moves(pool, grant.exclusive.mask)
    return None if moves is None else in_pools(context.supply, moves)


def _reasons(context: PlacementContext, claim: CpuClaim, grant: Grant) -> Iterator[Reason]:
    yield reasons.decided_elsewhere(claim, grant)
    mcpu = context.request.cpu_request_mcpu
    if mcpu and mcpu != 1000 * len(claim.cpus):
        yield reasons.other_size(claim, mcpu)
    contested = CpuSet(grant.owned.mask & context.supply.withheld)
    if contested:
        yield reasons.contested(contested)
