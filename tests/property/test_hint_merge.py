"""Every policy against every combination of hints, on random machines; and the hints that a result rests on."""

import random
from collections.abc import Sequence

import pytest

from policies.hints import POLICIES, Hint, Merged, MergeOptions, Nodes, Offers, merge
from tests.property import hint_oracle

CASES = 3_000
MOST_COMBINATIONS = 600


def some_nodes(rng: random.Random) -> Nodes:
    count = rng.choice((1, 2, 2, 3, 3, 4, 5, 6, 8))
    distances = tuple(tuple(10 if a == b else rng.choice((11, 12, 21)) for b in range(count)) for a in range(count))
    return Nodes((1 << count) - 1, distances)


def some_hints(rng: random.Random, nodes: int, most: int) -> tuple[Hint, ...] | None:
    """Any hints for any node, duplicates, the empty set, nodes that the machine lacks."""
    if rng.random() < 0.08:
        return None if rng.random() < 0.5 else ()
    likely = rng.choice((0.2, 0.5, 0.9))

    def some_hint() -> Hint:
        if rng.random() < 0.07:
            return Hint(None, rng.random() < 0.5)
        beyond = rng.random() < 0.1
        least = 0 if rng.random() < 0.05 else 1
        return Hint(rng.randrange(least, 1 << nodes + beyond), rng.random() < likely)

    hints = [some_hint() for _ in range(rng.randint(1, most))]
    return (*hints, rng.choice(hints)) if rng.random() < 0.1 else tuple(hints)


def some_offers(rng: random.Random, nodes: int) -> list[Offers]:
    """Up to four resources, in one provider or several, some of which have no opinion."""
    count = rng.choice((0, 1, 2, 2, 3, 3, 4))
    most = max(2, int(MOST_COMBINATIONS ** (1 / max(count, 1))) - 1)
    found: list[Offers] = [None] if rng.random() < 0.1 else []
    for i in range(count):
        hints = some_hints(rng, nodes, min(most, 12))
        last = found[-1] if found else None
        if last and rng.random() < 0.3:
            found[-1] = {**last, f"r{i}": hints}
        else:
            found.append({f"r{i}": hints})
    return found


def shape(merged: Merged) -> hint_oracle.Result:
    return (merged.affinity, merged.preferred, merged.admit) if merged.has_hint else None


def check_origins(merged: Merged, offers: Sequence[Offers], nodes: Nodes) -> None:
    """The hints that a result rests on were offered, one for each resource, and give it."""
    if not merged.rests_on:
        return
    lists = hint_oracle.lists_of(offers)
    assert len(merged.rests_on) == len(lists)
    assert all(origin.hint in hints for origin, hints in zip(merged.rests_on, lists, strict=True))
    together = hint_oracle.overlap(tuple(origin.hint for origin in merged.rests_on), nodes.mask)
    assert merged.affinity in (together, None)
    if merged.preferred:
        assert all(origin.hint.preferred for origin in merged.rests_on)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_answer_is_that_of_trying_every_combination(policy: str) -> None:
    rng = random.Random(policy)
    for _ in range(CASES):
        nodes = some_nodes(rng)
        offers = some_offers(rng, nodes.mask.bit_length())
        closest = rng.random() < 0.4
        merged = merge(offers, nodes, policy, MergeOptions(prefer_closest_numa_nodes=closest))
        assert shape(merged) == hint_oracle.expected(offers, nodes, policy, closest=closest), (nodes, offers, closest)
        check_origins(merged, offers, nodes)
