"""Containers come and go on a nearly full machine under ``pack``: domains stay whole."""

import random

from policies.base import Allocations
from policies.preferences import PoolStrategy
from policies.topology_aware import TopologyAware
from sysfs.descriptions.machine import describe
from tests.unit.policies.build import options, placed, request

MACHINE = describe({"packages": 2, "nodes": 8, "cores": 8, "threads": 2, "memory": "32Gi"})
DOMAINS = [node.cpus for node in MACHINE.nodes]


def churn(strategy: PoolStrategy) -> tuple[int, float]:
    """How many owners span domains, and the mean of the largest idle part of a domain, at 85 % of 256 CPUs."""
    policy = TopologyAware(MACHINE, options(MACHINE, pool_choice=strategy))
    rng, held, free, spans = random.Random(1), Allocations(), MACHINE.online, 0
    largest: list[int] = []
    for number in range(300):
        used = len(MACHINE.online) - len(free)
        if used > 0.85 * len(MACHINE.online) or (used and rng.random() < 0.3):
            gone = held.grants[rng.randrange(len(held.grants))]
            held, free = held.without(gone.container), free | gone.owned
            continue
        wanted = request(f"{number:03}/c", 1000 * rng.choice((1, 1, 2, 2, 3, 4, 4, 6, 8)))
        grant = placed(policy.decide(held, wanted)).grant
        held, free = held.with_grants(grant), free - grant.owned
        if used > 0.7 * len(MACHINE.online):
            spans += all(grant.owned - domain for domain in DOMAINS)
            largest.append(max(len(domain & free) for domain in DOMAINS))
    return spans, sum(largest) / len(largest)


def test_packed_owners_do_not_span_and_leave_room_for_large_ones() -> None:
    spans, largest = churn(PoolStrategy.PACK)
    assert spans == 0
    assert largest >= 12


def test_spread_owners_leave_room_for_large_ones_once_half_of_the_machine_is_in_use() -> None:
    spans, largest = churn(PoolStrategy.SPREAD)
    assert spans <= 1
    assert largest >= 12
