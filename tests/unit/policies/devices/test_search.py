from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.devices.search import GroupOffer, cheapest_spread


def test_few_numa_nodes_come_before_few_groups_and_those_before_low_numbers() -> None:
    wide = [GroupOffer(0, 2), GroupOffer(1, 1), GroupOffer(1, 1), GroupOffer(1, 1)]
    found = cheapest_spread(wide, 3)
    assert found is not None
    assert found.counts == (0, 1, 1, 1)
    pair = cheapest_spread([GroupOffer(0, 1), GroupOffer(0, 2), GroupOffer(0, 2)], 2)
    assert pair is not None
    assert pair.counts == (0, 2, 0)


def test_a_group_in_use_is_preferred_to_an_idle_one() -> None:
    found = cheapest_spread([GroupOffer(0, 1), GroupOffer(0, 1, is_used=True)], 1)
    assert found is not None
    assert found.counts == (0, 1)


def test_a_node_in_use_is_preferred_to_an_idle_one_and_counts_before_groups() -> None:
    found = cheapest_spread([GroupOffer(0, 1, is_used=True), GroupOffer(1, 1, is_node_used=True)], 1)
    assert found is not None
    assert found.counts == (0, 1)


def test_needs_may_be_met_by_groups_or_by_nodes() -> None:
    offers = [GroupOffer(0, 1, gives=(1,)), GroupOffer(0, 1, gives=(0,)), GroupOffer(1, 1, gives=(3,))]
    assert cheapest_spread(offers, 1, (4,)) is None
    found = cheapest_spread(offers, 2, (4,))
    assert found is not None
    assert found.counts == (1, 0, 1)
    by_node = cheapest_spread([GroupOffer(0, 1, node_gives=(1,)), GroupOffer(1, 1, node_gives=(2,))], 1, (2,))
    assert by_node is not None
    assert by_node.counts == (0, 1)


def test_more_than_there_is_cannot_be_taken() -> None:
    assert cheapest_spread([GroupOffer(0, 1)], 2) is None
    assert cheapest_spread([], 1) is None


offers = st.builds(
    GroupOffer,
    node=st.just(0),
    most=st.integers(0, 2),
    far=st.integers(0, 1),
    unmatched=st.integers(0, 2),
    is_used=st.booleans(),
    gives=st.tuples(st.integers(0, 2)),
    node_gives=st.tuples(st.integers(0, 1)),
    least=st.sampled_from([0, 0, 0, 1]),
    is_node_used=st.booleans(),
)
spreads = st.lists(st.lists(offers, min_size=1, max_size=3), min_size=1, max_size=3)


@given(spreads, st.integers(1, 5), st.integers(0, 4))
def test_the_cheapest_of_all_spreads_is_found(nodes: list[list[GroupOffer]], wanted: int, need: int) -> None:
    flat = [
        replace(o, node=node, is_node_used=members[0].is_node_used)
        for node, members in enumerate(nodes)
        for o in members
    ]
    ways = [
        counts
        for counts in product(*(range(offer.least, offer.most + 1) for offer in flat))
        if sum(counts) == wanted and gained(flat, counts) >= need
    ]
    found = cheapest_spread(flat, wanted, (need,))
    assert (found is None) == (not ways)
    if found is not None:
        assert found.counts == min(ways, key=lambda counts: rank(flat, counts))


def gained(flat: list[GroupOffer], counts: tuple[int, ...]) -> int:
    """What the taken groups give, and for each node what the first of them gives for it."""
    total, nodes = 0, set()
    for offer, count in zip(flat, counts, strict=True):
        if count:
            total += offer.gives[0] + (0 if offer.node in nodes else offer.node_gives[0])
            nodes.add(offer.node)
    return total


def rank(flat: list[GroupOffer], counts: tuple[int, ...]) -> tuple[object, ...]:
    taken = [(offer, count) for offer, count in zip(flat, counts, strict=True) if count]
    return (
        len({offer.node for offer, _ in taken}),
        sum(offer.far * count for offer, count in taken),
        sum(offer.unmatched * count for offer, count in taken),
        len(taken),
        len({offer.node for offer, _ in taken if not offer.is_node_used}),
        sum(not offer.is_used for offer, _ in taken),
        [number for number, count in enumerate(counts) for _ in range(count)],
    )


@pytest.mark.parametrize(
    ("light", "heavy"),
    [
        pytest.param([GroupOffer(0, 9, is_used=True)], [GroupOffer(0, 9)], id="idle groups before lower numbers"),
        pytest.param([GroupOffer(0, 9)], [GroupOffer(0, 5, is_used=True)] * 2, id="groups before idle ones"),
        pytest.param([GroupOffer(0, 1)] * 9, [GroupOffer(0, 9, unmatched=1)], id="unmatched devices before groups"),
        pytest.param(
            [GroupOffer(0, 9, unmatched=9)], [GroupOffer(0, 9, far=1)], id="far devices before unmatched ones"
        ),
        pytest.param([GroupOffer(0, 9, far=9)], [GroupOffer(0, 5), GroupOffer(1, 5)], id="nodes before far devices"),
    ],
)
def test_no_number_of_lesser_costs_outweighs_one_graver(light: list[GroupOffer], heavy: list[GroupOffer]) -> None:
    """All nine are taken from the groups that are listed last, on a node of their own."""
    found = cheapest_spread([*heavy, *(replace(offer, node=7) for offer in light)], 9)
    assert found is not None
    assert found.counts[: len(heavy)] == (0,) * len(heavy)
