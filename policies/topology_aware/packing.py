"""Score the pools by ``PoolChoice``: ``pack`` fills domains one after the other, ``balanced`` weighs CPUs and memory.

``spread`` is the comparison without a score (docs/placement.md, Choosing the pool).
"""

from dataclasses import dataclass

from policies.hardware.pools import Pool
from policies.preferences import PoolStrategy
from policies.topology_aware.cpus.offer import Offer
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.load import Load
from policies.topology_aware.supply.memory_account import promised_bytes
from policies.topology_aware.supply.memory_packing import promised_inside
from policies.topology_aware.supply.supply import Supply


def strategy_of(context: PlacementContext) -> PoolStrategy:
    """Return how equal pools are chosen for this container."""
    return context.request.preferences.pool_choice or context.options.pool_choice


@dataclass(frozen=True, slots=True)
class Filling:
    """How the machine fills up with one container: its strategy, and what is in use in each pool.

    ``is_tight``: the container owns CPUs, and more than half of the machine is in use with it. Then the pool with the
    least left that has room comes first: whole domains stay for those that are as large.
    """

    context: PlacementContext
    load: Load
    strategy: PoolStrategy
    is_tight: bool

    def choice(self, pool: Pool, offer: Offer) -> int:
        """Return ``Key.choice``; 0 everywhere under ``spread``."""
        match self.strategy:
            case PoolStrategy.PACK:
                return self._packed(pool, offer)
            case PoolStrategy.BALANCED if not self.is_tight:
                return _balanced(self.context, pool, offer)
            case _:
                return 0

    def used(self, pool: Pool, offer: Offer) -> tuple[int, ...]:
        """Return ``Key.used``: of the pool below the root that holds this one, down to this one, minus what is used."""
        if self.strategy is PoolStrategy.PACK or self.is_tight or offer.isolated:
            return ()
        # Not of the root, which all pools share.
        return tuple(-_used_mcpu(self.context, self.load, i) for i in pool.path[-2::-1])

    def full(self, pool: Pool, offer: Offer) -> int:
        """Return ``Key.full``: minus what is left in the pool above under ``pack``, else in the pool if it is tight."""
        if self.strategy is PoolStrategy.PACK:
            return -self._above(pool)
        return -_free_mcpu(self.context.supply, pool.index) if self.is_tight and not offer.isolated else 0

    def left(self, pool: Pool, offer: Offer) -> tuple[int, ...]:
        """Return ``Key.left``: isolated CPUs from the package down, or what is left above, or the CPUs to share."""
        if self.strategy is PoolStrategy.PACK:
            return ()
        if offer.isolated:
            return tuple(self.context.supply.free_isolated(i).bit_count() for i in pool.path[-2::-1])
        return (self._above(pool) if self.is_tight else pool.sharable.bit_count(),)

    def _above(self, pool: Pool) -> int:
        """Return what is left in the pool above this one."""
        return _free_mcpu(self.context.supply, pool.parent) if pool.parent >= 0 else 0

    def _packed(self, pool: Pool, offer: Offer) -> int:
        """Prefer the pool with the least left; of those the one in the fullest wider pool (``full``).

        What has no request leaves untouched pools so: it fits everywhere, and goes where least is requested per CPU.
        """
        supply = self.context.supply
        if self.context.demand.is_zero:
            return -int(_is_untouched(supply, pool))
        if offer.isolated:
            return -supply.free_isolated(pool.index).bit_count()
        return -_free_mcpu(supply, pool.index)


def filling_of(context: PlacementContext, load: Load) -> Filling:
    """Return how the machine fills up with this container."""
    demand, root = context.demand, context.tree.root
    after = _used_mcpu(context, load, root.index) + 1000 * demand.whole + demand.shared_mcpu
    # Spread to the end, owners would leave no domain whole: above half load they fill up those in use.
    is_tight = demand.whole > 0 and 2 * after > 1000 * (root.sharable | root.isolated).bit_count()
    return Filling(context, load, strategy_of(context), is_tight)


def _used_mcpu(context: PlacementContext, load: Load, pool: int) -> int:
    return 1000 * (context.supply.owned & context.tree.pools[pool].cpus).bit_count() + load.inside[pool]


def _balanced(context: PlacementContext, pool: Pool, offer: Offer) -> int:
    """Return what is left of the pool's CPUs and memory afterwards, by ``PoolWeights``, in 1/1000."""
    supply, demand = context.supply, context.demand
    nodes = supply.memory.nodes
    weights = context.options.weight_by_resource
    cpu = _free_mcpu(supply, pool.index) - 1000 * offer.sliced - demand.shared_mcpu
    promised = promised_inside(supply.memory.zones, pool.mems) + promised_bytes(context.request)
    memory = nodes.capacity(pool.mems) - promised
    parts = (
        (weights.get("cpu", 0), cpu, 1000 * pool.sharable.bit_count()),
        (weights.get("memory", 0), memory, nodes.capacity(pool.mems)),
    )
    # Weights may all be 0, and a pool without memory has no share left of it.
    total = sum(weight for weight, _, whole in parts if whole)
    return round(sum(1000 * weight * left / whole for weight, left, whole in parts if whole) / total) if total else 0


def _free_mcpu(supply: Supply, pool: int) -> int:
    return 1000 * supply.shared[pool].bit_count() - supply.granted_mcpu[pool]


def _is_untouched(supply: Supply, pool: Pool) -> bool:
    used = supply.granted_mcpu[pool.index] or any(supply.unbooked_sharers[pool.index : pool.end])
    return not used and not supply.owned & pool.cpus
