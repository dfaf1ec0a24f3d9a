"""The size of preferred hints: how many nodes a request takes on an idle machine."""

from random import Random

from policies.hints.model import Amount
from policies.hints.node_count import smallest_size

ALL_OF_40 = (1 << 40) - 1


def test_the_smallest_size_of_several_resources_is_that_of_a_set_with_enough_of_each() -> None:
    """Memory and huge pages lie on different nodes: one node has enough of either, two have both."""
    apart = [Amount((8, 0, 4), 8), Amount((0, 8, 4), 8)]
    assert smallest_size(apart, 0b111) == 2


def test_the_smallest_size_on_a_machine_with_many_nodes_needs_no_table() -> None:
    amounts = [Amount((4,) * 40, 40), Amount(tuple(node % 2 for node in range(40)), 12)]
    assert smallest_size(amounts, ALL_OF_40) == 12


def test_more_than_there_is_takes_all_nodes() -> None:
    assert smallest_size([Amount((1, 1), 5)], 0b11) == 2
    assert smallest_size([Amount((1, 1), 2), Amount((1, 1), 5)], 0b11) == 2


def test_what_is_not_asked_for_takes_one_node() -> None:
    assert smallest_size([], 0b11) == smallest_size([Amount((0, 0), 0)], 0b11) == 1
    assert smallest_size([], 0) == 0


def test_a_search_without_end_is_cut_off_with_a_size_that_suffices() -> None:
    """What one resource gains by a node the other loses: a search tells such nodes apart by trying them all."""
    random = Random(1)
    memory = tuple(random.randint(0, 1000) for _ in range(40))
    pages = tuple(1000 - amount for amount in memory)
    for request in (5_000, 9_001, 12_007):
        size = smallest_size([Amount(memory, request), Amount(pages, request)], ALL_OF_40)
        assert 2 * request / 1000 <= size <= 2 * request / 1000 + 2
