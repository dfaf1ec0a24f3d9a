"""``PlacementContext``: the input of all steps of one placement: request, demand, other grants, supply, options."""

from dataclasses import dataclass, replace

from policies.alignment import Alignment
from policies.base import Allocations, Grant, Request
from policies.hardware.pools import PoolTree
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.supply.demand import Demand, demand_of
from policies.topology_aware.supply.supply import Supply


@dataclass(frozen=True, slots=True)
class PlacementContext:
    """A request, and what the machine and others leave to it.

    ``supply`` and ``others`` are without a grant of the container itself. ``own`` is that grant, if the container runs
    and gets a new size.
    """

    tree: PoolTree
    options: TopologyAwareOptions
    supply: Supply
    others: tuple[Grant, ...]
    request: Request
    demand: Demand
    own: Grant | None = None


def context_of(options: TopologyAwareOptions, held: Allocations, supply: Supply, request: Request) -> PlacementContext:
    """Return the input for placing this request. ``supply`` is that of all grants in ``held``."""
    own, tree = held.get(request.container), supply.tree
    others = held.without(request.container).grants
    demand = demand_of(request, options, tree.threads_per_core)
    return PlacementContext(tree, options, supply if own is None else supply.minus(own), others, request, demand, own)


def aligned(request: Request, alignment: Alignment | None) -> Request:
    """Return the request of a container that is kept within these nodes; None = anywhere."""
    return request if request.alignment == alignment else replace(request, alignment=alignment)
