"""Plan several orders of arrival in processes of their own, and return the worst of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from cri_proxy.simulate.plan.nodes import Cluster, plan
from cri_proxy.simulate.plan.pods import PlannedPod, shuffled
from cri_proxy.simulate.plan.result import PlanResult
from cri_proxy.simulate.processes import in_processes

IN_ORDER = "in the order of the manifests"


def order_text(seed: int) -> str:
    """Return what an order is called."""
    return f"in the random order of seed {seed}"


def planned(cluster: Cluster, arrivals: Sequence[PlannedPod], seed: int | None) -> PlanResult:
    """Return the plan of one order; ``seed`` None: that of the manifests."""
    if seed is None:
        return plan(cluster, arrivals, IN_ORDER)
    return plan(cluster, shuffled(arrivals, seed), order_text(seed))


def worst_of(cluster: Cluster, arrivals: Sequence[PlannedPod], seeds: Sequence[int | None]) -> PlanResult:
    """Return the worst of these orders, of equal ones the first; with the refused pods of each."""
    if len(seeds) == 1:
        return planned(cluster, arrivals, seeds[0])
    found = list(in_processes(partial(_badness, cluster, arrivals), seeds))
    worst = max(range(len(found)), key=lambda index: (found[index], -index))
    result = planned(cluster, arrivals, seeds[worst])
    return replace(result, worst_of=tuple(badness[0] for badness in found))


def _badness(cluster: Cluster, arrivals: Sequence[PlannedPod], seed: int | None) -> tuple[int, ...]:
    return planned(cluster, arrivals, seed).badness
