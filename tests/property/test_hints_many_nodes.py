"""Hints of devices near several nodes beside those of CPUs or memory, on machines of 9 to 16 NUMA nodes.

What they must be is restated by folding every set of nodes of one resource with those of the next, as far as that ends.
"""

import random
from collections.abc import Iterator, Sequence

import pytest

from policies.hints import Amount, DeviceProvider, DeviceRequest, Nodes, Offers, enough, fewest_nodes, hints_of, merge

Flagged = list[tuple[int, bool]]


def devices_of(rng: random.Random, count: int) -> DeviceRequest:
    """Up to four devices that a container has, each near a row of nodes."""
    places = {}
    for i in range(rng.randrange(1, 5)):
        first, wide = rng.randrange(count), rng.randrange(1, count)
        places[f"d{i}"] = sum(1 << (first + node) % count for node in range(wide))
    return DeviceRequest(len(places), places, frozenset(), allocated=frozenset(places))


def amount_of(rng: random.Random, count: int) -> tuple[Amount, int]:
    """What each node has of CPUs or memory and how much is asked; and how many nodes that takes on an idle machine."""
    most = rng.choice((2, 8))
    free = tuple(rng.randint(0, most) for _ in range(count))
    wanted = rng.randint(1, max(1, sum(free) // rng.choice((1, 2, 4, 8))))
    return Amount(free, wanted), fewest_nodes(count, [Amount((most,) * count, wanted)])


def offers_of(rng: random.Random, count: int) -> tuple[list[Offers], list[Flagged]]:
    """Return the offers of up to two resources of devices and two others, and every set that they stand for."""
    requests = {f"devices{i}": devices_of(rng, count) for i in range(rng.choice((1, 2)))}
    amounts = {f"amount{i}": amount_of(rng, count) for i in range(rng.choice((1, 2)))}
    listed = {name: hints_of(range(count), enough(count, [each]), size) for name, (each, size) in amounts.items()}
    offers: list[Offers] = [DeviceProvider((1 << count) - 1, requests).offers(), listed]
    sets = [list(sets_of_devices(each, count)) for each in requests.values()]
    return offers, sets + [list(sets_of_amounts(each, size, count)) for each, size in amounts.values()]


def sets_of_devices(request: DeviceRequest, count: int) -> Iterator[tuple[int, bool]]:
    masks = [mask or 0 for mask in request.nodes.values()]
    within = 0
    for mask in masks:
        within |= mask
    fitting = [s for s in range(1, 1 << count) if not s & ~within and all(s & mask for mask in masks)]
    least = min(s.bit_count() for s in fitting)
    return ((s, s.bit_count() == least) for s in fitting)


def sets_of_amounts(amount: Amount, size: int, count: int) -> Iterator[tuple[int, bool]]:
    totals = [0]
    for has in amount.has:
        totals += [total + has for total in totals]
    return ((s, s.bit_count() == size) for s in range(1, 1 << count) if totals[s] >= amount.request)


def agreed(resources: Sequence[Flagged]) -> int:
    """The best set that all prefer; 0 = there is none."""
    common = set.intersection(*({s for s, preferred in flagged if preferred} for flagged in resources))
    return min(common, key=lambda s: (s.bit_count(), s), default=0)


def best_overlap(resources: Sequence[Flagged], count: int) -> int:
    """The overlap whose size is next to that of the widest of the smallest sets, smaller ones first."""
    full = (1 << count) - 1
    known = {full}
    for flagged in resources:
        known = {one & other for one in known for other, _ in flagged}
    wanted = max((min(s.bit_count() for s, _ in flagged) for flagged in resources if flagged), default=0)
    known.discard(0)
    return min(known, key=lambda s: (s.bit_count() > wanted, abs(s.bit_count() - wanted), s), default=full)


@pytest.mark.parametrize("count", [9, 10])
def test_the_merge_is_that_of_every_combination(count: int) -> None:
    rng, kinds = random.Random(count), set()
    for _ in range(30):
        offers, resources = offers_of(rng, count)
        merged = merge(offers, Nodes((1 << count) - 1), "best-effort")
        preferred = agreed(resources)
        kinds.add(merged.preferred)
        assert (merged.affinity, merged.preferred) == (preferred or best_overlap(resources, count), preferred > 0), (
            offers
        )
    assert kinds == {True, False}


@pytest.mark.parametrize("count", range(11, 17))
def test_strict_policies_admit_what_all_resources_prefer_and_nothing_else(count: int) -> None:
    rng = random.Random(count)
    for _ in range(4):
        offers, resources = offers_of(rng, count)
        merged = merge(offers, Nodes((1 << count) - 1), "restricted")
        preferred = agreed(resources)
        assert (merged.admit, merged.affinity if preferred else 0) == (preferred > 0, preferred), offers
        single = merge(offers, Nodes((1 << count) - 1), "single-numa-node")
        alone = agreed([[(s, flag) for s, flag in flagged if s.bit_count() == 1] for flagged in resources])
        assert (single.admit, single.affinity or 0) == (alone > 0, alone)
