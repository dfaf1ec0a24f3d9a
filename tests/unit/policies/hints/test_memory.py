"""Hints of memory: the same sets for every kind of it, and nodes in groups."""

from dataclasses import replace

import pytest

from policies.hints import AssignedMemory, MemoryAmounts, MemoryProvider, TooManyNodesError, idle_memory
from sysfs.descriptions.machine import describe
from tests.unit.policies.hints.build import shown


def node(memory: int, free: int | None = None, pages: int = 0) -> MemoryAmounts:
    amounts = {"memory": memory, "hugepages-2Mi": pages}
    return MemoryAmounts(amounts, amounts if free is None else amounts | {"memory": free})


HALF = AssignedMemory(1, {"memory": 2})
FOUR = {number: node(8) for number in range(4)}


def hints(provider: MemoryProvider, resource: str = "memory") -> list[str]:
    offers = provider.offers()
    assert offers is not None
    return shown(offers[resource])


def test_every_set_with_room_is_offered_and_the_smallest_are_preferred() -> None:
    assert hints(MemoryProvider({0: node(8), 1: node(4)}, {"memory": 6})) == ["0!", "0-1"]
    assert hints(MemoryProvider({0: node(8), 1: node(4)}, {"memory": 10})) == ["0-1!"]


def test_preferred_is_what_would_do_on_an_idle_machine() -> None:
    assert hints(MemoryProvider({0: node(8, 3), 1: node(8, 3)}, {"memory": 6})) == ["0-1"]


def test_all_kinds_of_memory_get_the_hints_of_all_together() -> None:
    """Memory alone would fit on either node, the huge pages take both."""
    provider = MemoryProvider({0: node(8, pages=2), 1: node(8, pages=2)}, {"memory": 4, "hugepages-2Mi": 3})
    assert hints(provider) == hints(provider, "hugepages-2Mi") == ["0-1!"]


def test_what_a_node_does_not_name_it_has_none_of() -> None:
    pages = {"hugepages-2Mi": 1}
    provider = MemoryProvider({0: MemoryAmounts({}, {}), 1: MemoryAmounts(pages, pages)}, pages)
    assert hints(provider, "hugepages-2Mi") == ["1!", "0-1"]
    used_up = MemoryProvider({0: MemoryAmounts(pages, {})}, pages, groups=frozenset({0b1}))
    assert used_up.offers() is None


def test_a_node_in_a_group_does_not_serve_alone() -> None:
    provider = MemoryProvider({0: node(8), 1: node(8), 2: node(8)}, {"memory": 2}, groups=frozenset({0b011}))
    assert hints(provider) == ["2!", "0-1"]


def test_a_node_that_serves_alone_joins_no_group() -> None:
    provider = MemoryProvider({0: node(8), 1: node(8), 2: node(8)}, {"memory": 12}, groups=frozenset({0b001}))
    assert hints(provider) == ["1-2!"]
    assert hints(replace(provider, request={"memory": 4})) == ["0!", "1!", "2!", "1-2"]


def test_what_init_containers_had_counts_for_exactly_their_nodes() -> None:
    provider = MemoryProvider({0: node(8, 1), 1: node(8)}, {"memory": 4}, reusable={0b01: {"memory": 3}})
    assert hints(provider) == ["0!", "1!"]
    assert hints(replace(provider, reusable={0b11: {"memory": 3}}, request={"memory": 10})) == ["0-1!"]


def test_what_init_containers_had_makes_a_node_no_larger_than_it_is() -> None:
    assert MemoryProvider({0: node(4)}, {"memory": 6}, reusable={0b1: {"memory": 4}}).offers() is None


def test_memory_that_is_held_gives_its_own_nodes() -> None:
    held = AssignedMemory(0b10, {"memory": 4})
    assert hints(MemoryProvider({0: node(8), 1: node(8, 0)}, {"memory": 4}, allocated=held)) == ["1!"]


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param(MemoryProvider(FOUR, {}), id="no request"),
        pytest.param(
            MemoryProvider(FOUR, {"memory": 4}, allocated=AssignedMemory(1, {"memory": 2})), id="changed request"
        ),
        pytest.param(MemoryProvider(FOUR, {"memory": 33}), id="larger than the machine"),
    ],
)
def test_there_is_no_opinion_where_the_memory_manager_has_none(provider: MemoryProvider) -> None:
    assert provider.offers() is None


def test_of_more_nodes_than_can_be_listed_those_without_any_of_it_do_not_count() -> None:
    nodes = {number: node(8 if number in (3, 7, 9) else 0, pages=1) for number in range(20)}
    provider = MemoryProvider(nodes, {"memory": 12}, groups=frozenset({1 << 9}))
    assert hints(provider) == ["3,7!"]
    with pytest.raises(TooManyNodesError):
        replace(provider, request={"memory": 12, "hugepages-2Mi": 1}).offers()


def test_nodes_that_do_not_count_are_in_no_hint() -> None:
    provider = MemoryProvider(FOUR, {"memory": 6}, groups=frozenset({0b1010})).within(0b0011)
    assert hints(provider) == ["0!"]
    assert replace(provider, request={"memory": 9}).offers() is None


def test_the_memory_of_an_idle_node_is_free_and_its_huge_pages_are_not_ordinary_memory() -> None:
    amounts = {"memory": 960 << 20, "hugepages-2Mi": 64 << 20}
    machine = describe({"packages": 2, "memory": "1Gi", "hugepages": {"2Mi": 32}})
    assert idle_memory(machine) == dict.fromkeys((0, 1), MemoryAmounts(amounts, amounts))


def test_nodes_without_known_memory_are_no_nodes_whatever_counts() -> None:
    provider = MemoryProvider({0: node(8), 1: node(8), 2: node(8)}, {"memory": 6})
    assert hints(provider.within(0b1011)) == ["0!", "1!", "0-1"]
