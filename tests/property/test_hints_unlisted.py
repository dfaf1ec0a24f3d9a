"""Hints that are not listed against the same hints in a list, on random small machines."""

import random
from collections.abc import Iterator

import pytest

from policies.hints.merge import merge
from policies.hints.model import Amount, Hint, Hints, Merged, MergeOptions, Nodes, Offers, Unlisted

CASES = 1_500


def sets_of(family: Unlisted, nodes: int) -> Iterator[int]:
    """All sets of the family, by its words."""
    for mask in range(1, 1 << nodes):
        members = [node for node in range(nodes) if mask >> node & 1]
        has_enough = all(sum(amount.free[node] for node in members) >= amount.request for amount in family.amounts)
        if mask & ~family.within == 0 and mask & family.required == family.required and has_enough:
            yield mask


def listed(family: Unlisted, nodes: int) -> tuple[Hint, ...]:
    found = []
    for mask in sets_of(family, nodes):
        touched = sum(1 for socket in family.sockets if mask & socket)
        is_preferred = mask.bit_count() == family.preferred_size or touched == (family.preferred_sockets or -1)
        found.append(Hint(mask, is_preferred))
    return (*found, *family.listed)


def some_family(rng: random.Random, nodes: int) -> Unlisted:
    """Amounts of one or two kinds, on all nodes or few; now and then sockets, nodes that must be in, listed hints."""
    most = rng.choice((1, 4, 16))
    amounts = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        free = tuple(rng.randint(0, most) for _ in range(nodes))
        amounts.append(Amount(free, rng.randint(0, max(1, round(sum(free) * rng.random())))))
    within = (1 << nodes) - 1 if rng.random() < 0.6 else rng.randrange(1, 1 << nodes)
    size = rng.randint(1, max(1, within.bit_count() // rng.choice((1, 2))))
    half = nodes // 2
    sockets = ((1 << half) - 1, (1 << nodes) - (1 << half)) if half and rng.random() < 0.15 else ()
    fixed = [Hint(rng.randrange(1, 1 << nodes), rng.random() < 0.5) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
    return Unlisted(
        tuple(amounts),
        preferred_size=size,
        within=within,
        required=rng.randrange(1 << nodes) & within & rng.randrange(1 << nodes) if rng.random() < 0.1 else 0,
        listed=tuple(fixed),
        sockets=sockets,
        preferred_sockets=rng.choice((1, 2)) if sockets else 0,
    )


def some_pair(rng: random.Random, nodes: int) -> tuple[list[Offers], list[Offers]]:
    """The offers of up to four resources, not listed where that is possible, and listed."""
    short: dict[str, Hints] = {}
    long: dict[str, Hints] = {}
    for i in range(rng.choice((1, 2, 2, 3, 4))):
        if i and rng.random() < 0.25:
            hints = tuple(Hint(rng.randrange(1, 1 << nodes), rng.random() < 0.5) for _ in range(rng.randint(0, 4)))
            short[f"r{i}"] = long[f"r{i}"] = rng.choice((hints, hints, None, (*hints, Hint(None, True))))
        else:
            family = some_family(rng, nodes)
            short[f"r{i}"], long[f"r{i}"] = family, listed(family, nodes)
    return [short], [long]


def shape(merged: Merged) -> tuple[object, ...]:
    return merged.affinity, merged.preferred, merged.admit, merged.has_hint


def check_origins(merged: Merged, offers: list[Offers], nodes: Nodes) -> None:
    """The hints that a result rests on are in the lists, and give it."""
    together = nodes.mask
    for origin in merged.rests_on:
        hints = (offers[origin.provider] or {})[origin.resource]
        assert not isinstance(hints, Unlisted)
        if hints is None:
            assert origin.hint == Hint(None, True)
        else:
            assert origin.hint in (hints or (Hint(None, False),))
        together &= nodes.mask if origin.hint.nodes is None else origin.hint.nodes
    assert not merged.rests_on or merged.affinity in (together, None)


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node", "proposed-strict"])
def test_the_answer_is_that_of_the_listed_form(policy: str) -> None:
    rng = random.Random(policy)
    for _ in range(CASES):
        count = rng.choice((1, 2, 3, 4, 5))
        distances = tuple(tuple(10 if a == b else rng.choice((12, 21)) for b in range(count)) for a in range(count))
        nodes = Nodes((1 << count) - 1, distances)
        short, long = some_pair(rng, count)
        options = MergeOptions(prefer_closest_numa_nodes=rng.random() < 0.4)
        merged = merge(short, nodes, policy, options)
        assert shape(merged) == shape(merge(long, nodes, policy, options)), (nodes, short, options)
        check_origins(merged, long, nodes)
