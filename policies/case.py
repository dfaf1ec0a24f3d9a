"""One request in its circumstances: what every step of a placement looks at."""

from dataclasses import dataclass

from policies.base import Grant, Request
from policies.demand import Demand
from policies.options import PolicyOptions
from policies.pools import PoolTree
from policies.supply import Supply


@dataclass(frozen=True, slots=True)
class Case:
    """One request in its circumstances. ``supply`` and ``others`` are without a grant of the container itself.

    ``holds``: there is such a grant, so this is about a new size.
    """

    tree: PoolTree
    options: PolicyOptions
    supply: Supply
    others: tuple[Grant, ...]
    request: Request
    demand: Demand
    holds: bool = False
