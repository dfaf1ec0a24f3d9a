import random
from collections.abc import Sequence
from functools import reduce
from itertools import combinations, product
from operator import and_

import pytest

from policies.hints import reach
from policies.hints.reach import Reach, TooManyHintsError


def narrow(position: int, mask: int) -> tuple[int, int]:
    return mask.bit_count(), mask


def by_trying(lists: Sequence[set[int]], full: int) -> set[int]:
    return {reduce(and_, masks, full) for masks in product(*lists)}


def test_the_intersection_of_no_list_is_the_machine() -> None:
    assert Reach([], 0b11).masks == {0b11}
    assert Reach([], 0b11).combination(0b11, narrow) == []


@pytest.mark.parametrize("nodes", range(1, 8))
def test_the_intersections_are_those_of_all_combinations(nodes: int) -> None:
    """Long lists over few nodes go through the table, short ones over many through pairs."""
    rng, full = random.Random(nodes), (1 << nodes) - 1
    for _ in range(20):
        lists = [{rng.randrange(full + 1) for _ in range(rng.randint(1, 20))} for _ in range(3)]
        found = Reach(lists, full)
        assert found.masks == by_trying(lists, full)
        for target in found.masks:
            parts = found.combination(target, narrow)
            assert reduce(and_, parts) == target
            assert all(part in masks for part, masks in zip(parts, lists, strict=True))


def test_a_table_serves_many_nodes_of_which_few_are_told_apart() -> None:
    full = (1 << 40) - 1
    low, high, odd = (1 << 20) - 1, full ^ (1 << 20) - 1, full // 3
    lists = [{low, high, full}, {odd, full ^ odd, full, low}] * 2
    found = Reach(lists, full)
    assert found.masks == by_trying(lists, full)
    assert reduce(and_, found.combination(low & odd, narrow)) == low & odd


def test_long_lists_over_many_nodes_of_which_few_are_told_apart_go_through_the_table() -> None:
    blocks = [((1 << 10) - 1) << 10 * i for i in range(4)]
    lists = [{sum(some) for size in (1, 2, 3) for some in combinations(blocks, size)}] * 2
    full = sum(blocks)
    assert Reach(lists, full).masks == by_trying(lists, full)


def test_a_mask_of_low_rank_that_does_not_end_in_the_target_is_passed_over() -> None:
    """Node 0 of twenty is told apart: the first block of the table is the node of its position, others are not."""
    full = (1 << 20) - 1
    found = Reach([{0b0111}, {0b0011, 0b1001}], full)
    assert found.combination(0b0001, lambda position, mask: (mask,)) == [0b0111, 0b1001]


def test_many_nodes_told_apart_by_short_lists_are_tried_in_pairs() -> None:
    full = (1 << 20) - 1
    lists = [{full ^ 1 << node for node in range(20)}] * 2
    found = Reach(lists, full)
    assert found.masks == by_trying(lists, full)
    target = full ^ 0b11
    assert sorted(found.combination(target, narrow)) == [full ^ 0b10, full ^ 0b01]


def test_lists_that_would_take_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    full = (1 << 20) - 1
    monkeypatch.setattr(reach, "MAX_PAIRS", 400)
    assert Reach([{full ^ 1 << node for node in range(20)}] * 2, full).masks
    monkeypatch.setattr(reach, "MAX_PAIRS", 399)
    with pytest.raises(TooManyHintsError, match="more than 16 NUMA nodes"):
        Reach([{full ^ 1 << node for node in range(20)}] * 2, full)


def test_of_the_masks_that_fit_the_one_of_the_lowest_rank_is_taken() -> None:
    found = Reach([{0b001, 0b011}, {0b101, 0b111, 0b001}], 0b111)
    assert found.combination(0b001, narrow) == [0b001, 0b001]
    assert found.combination(0b001, lambda position, mask: (-mask,)) == [0b001, 0b111]
