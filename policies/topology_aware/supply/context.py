"""What every step of a placement looks at."""

from dataclasses import dataclass

from policies.base import Grant, Request
from policies.hardware.pools import PoolTree
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.supply.demand import Demand
from policies.topology_aware.supply.supply import Supply


@dataclass(frozen=True, slots=True)
class PlacementContext:
    """A request, and what the machine and others leave to it.

    ``supply`` and ``others`` are without a grant of the container itself. ``own`` is that grant, where a container
    that runs gets a new size.
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
        """Return whether the container has a grant already."""
        return self.own is not None
