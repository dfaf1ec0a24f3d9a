"""Why a pool, and why not the others."""

from policies.base import Allocations
from tests.unit.policies.build import BEST_EFFORT, fill, four_nodes, placed, rejected, request, topology_aware

POLICY = topology_aware(four_nodes(), "0")


def test_every_pool_is_told_with_what_came_of_it() -> None:
    decision = placed(POLICY.decide(Allocations(), request("a/c", 5000)))
    assert {r.pool: r.outcome for r in decision.ranking} == {
        "root": "not tried",
        "socket #0": "not tried",
        "socket #1": "chosen",
        **{f"NUMA node #{n}": "too small: 4000m free, of which 4 CPUs can be owned" for n in (1, 2, 3)},
        "NUMA node #0": "too small: 3000m free, of which 3 CPUs can be owned",
    }


def test_the_best_pool_below_a_displaced_container_is_told_as_such() -> None:
    decision = placed(POLICY.decide(Allocations(), request("a/c", 1000, levels_up=1)))
    outcomes = {r.pool: r.outcome for r in decision.ranking}
    assert outcomes["NUMA node #1"] == "best; socket #0 is above it, as requested"


def test_a_shared_set_that_is_used_up_is_told() -> None:
    held = fill(POLICY, *(request(f"idle-{n}/c", 0, BEST_EFFORT) for n in range(4)))
    decision = placed(POLICY.decide(held, request("big/c", 15000)))
    assert "shared-emptied" in [r.code for r in decision.reasons]


def test_a_refusal_ranks_all_pools_and_tells_what_was_free() -> None:
    refusal = rejected(POLICY.decide(Allocations(), request("a/c", 16000)))
    assert len(refusal.ranking) == 7
    assert "free in root: 15000m shared capacity, 15 CPUs to own" in refusal.reason.text
