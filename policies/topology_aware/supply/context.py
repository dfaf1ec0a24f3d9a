"""One request in its circumstances: what every step of a placement looks at."""

from dataclasses import dataclass

from policies.base import Grant, Request
from policies.hardware.pools import PoolTree
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.supply.demand import Demand
from policies.topology_aware.supply.supply import Supply


@dataclass(frozen=True, slots=True)
class PlacementContext:
    """One request in its circumstances. ``supply`` and ``others`` are without a grant of the container itself.

    ``own`` is that grant: where there is one this is about a new size of a container that runs.
    """

    tree: PoolTree
    options: TopologyAwareOptions
    supply: Supply
    others: tuple[Grant, ...]
    request: Request
    demand: Demand
    own: Grant | None = None

    @property
    def holds(self) -> bool:
        """Whether the container has a grant already."""
        return self.own is not None
