"""Score the pools by ``PoolChoice``: ``pack`` fills domains one after the other, ``balanced`` weighs CPUs and memory.

``spread`` is the comparison without a score (docs/placement.md, Choosing the pool).
"""

from policies.hardware.pools import Pool
from policies.preferences import PoolStrategy
from policies.topology_aware.cpus.offer import Offer
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.memory_account import promised_bytes
from policies.topology_aware.supply.memory_packing import promised_inside
from policies.topology_aware.supply.supply import Supply

ChoiceScore = tuple[int, int | None]
"""``Key.choice`` of a pool, and ``left`` where it is not the CPU time left (``spread`` and ``balanced``: None)."""


def strategy_of(context: PlacementContext) -> PoolStrategy:
    """Return how equal pools are chosen for this container."""
    return context.request.preferences.pool_choice or context.options.pool_choice


def choice_score(context: PlacementContext, pool: Pool, offer: Offer) -> ChoiceScore:
    """Return the score of one pool; 0 everywhere under ``spread``."""
    match strategy_of(context):
        case PoolStrategy.PACK:
            return _packed(context, pool, offer)
        case PoolStrategy.BALANCED:
            return _balanced(context, pool, offer), None
        case _:
            return 0, None


def _packed(context: PlacementContext, pool: Pool, offer: Offer) -> ChoiceScore:
    """Prefer the pool with the least left; of those the one in the fullest wider pool.

    What has no request leaves untouched pools so: it fits everywhere, and goes where least is requested for each CPU.
    """
    supply, demand = context.supply, context.demand
    above = -_free_mcpu(supply, pool.parent) if pool.parent >= 0 else 0
    if demand.is_zero:
        return -int(_is_untouched(supply, pool)), above
    if offer.isolated:
        return -supply.free_isolated(pool.index).bit_count(), above
    return -_free_mcpu(supply, pool.index), above


def _balanced(context: PlacementContext, pool: Pool, offer: Offer) -> int:
    """Return what is left of the pool's CPUs and memory afterwards, by ``PoolWeights``, in 1/1000."""
    supply, demand = context.supply, context.demand
    nodes = supply.memory.nodes
    weights = context.options.weight_by_resource
    cpu = _free_mcpu(supply, pool.index) - 1000 * offer.sliced - demand.shared_mcpu
    memory = (
        nodes.capacity(pool.mems) - promised_inside(supply.memory.zones, pool.mems) - promised_bytes(context.request)
    )
    parts = (
        (weights.get("cpu", 0), cpu, 1000 * pool.sharable.bit_count()),
        (weights.get("memory", 0), memory, nodes.capacity(pool.mems)),
    )
    total = sum(weight for weight, _, whole in parts if whole)
    return round(sum(1000 * weight * left / whole for weight, left, whole in parts if whole) / total) if total else 0


def _free_mcpu(supply: Supply, pool: int) -> int:
    return 1000 * supply.shared[pool].bit_count() - supply.granted_mcpu[pool]


def _is_untouched(supply: Supply, pool: Pool) -> bool:
    used = supply.granted_mcpu[pool.index] or any(supply.unbooked_sharers[pool.index : pool.end])
    return not used and not supply.owned & pool.cpus
