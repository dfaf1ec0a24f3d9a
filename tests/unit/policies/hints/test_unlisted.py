import pytest

from policies.errors import PolicyOptionsError
from policies.hints import unlisted
from policies.hints.merge import merge
from policies.hints.model import Amount, Hint, Hints, Merged, MergeOptions, Nodes, Offers, Unlisted
from policies.hints.reach import TooManyHintsError
from policies.hints.search import SearchTooLongError, Steps
from policies.hints.unlisted import is_offered, is_preferred, single_node_hints

FOUR = Nodes(0b1111, ((10, 12, 30, 30), (12, 10, 30, 30), (30, 30, 10, 12), (30, 30, 12, 10)))
CPU = Unlisted((Amount((4, 4, 4, 8), 6),), preferred_size=1, within=0b1111)
GPU = Unlisted((Amount((0, 0, 1, 1), 1),), preferred_size=1, within=0b1100)


def merged(*resources: Hints, policy: str = "best-effort", closest: bool = False) -> Merged:
    offers: list[Offers] = [{f"r{i}": hints for i, hints in enumerate(resources)}]
    return merge(offers, FOUR, policy, MergeOptions(prefer_closest_numa_nodes=closest))


def test_a_set_is_offered_when_its_nodes_have_enough() -> None:
    assert [is_offered(CPU, mask) for mask in (0, 0b0001, 0b0011, 0b1000)] == [False, False, True, True]
    assert not is_offered(GPU, 0b0101)


def test_required_nodes_are_in_every_set() -> None:
    family = Unlisted(CPU.amounts, 1, 0b1111, required=0b0001)
    assert [is_offered(family, mask) for mask in (0b1000, 0b1001)] == [False, True]


def test_preferred_is_a_size_or_a_number_of_sockets() -> None:
    by_socket = Unlisted(CPU.amounts, 1, 0b1111, sockets=(0b0011, 0b1100), preferred_sockets=1)
    assert [is_preferred(CPU, mask) for mask in (0b1000, 0b1100)] == [True, False]
    assert [is_preferred(by_socket, mask) for mask in (0b1000, 0b1100, 0b0110)] == [True, True, False]


def test_the_node_that_serves_all_is_preferred() -> None:
    result = merged(CPU, GPU, None)
    assert (result.affinity, result.preferred) == (0b1000, True)
    assert [origin.hint.nodes for origin in result.rests_on] == [0b1000, 0b1000, None]


def test_where_nothing_is_preferred_the_overlap_is_as_wide_as_the_widest_request() -> None:
    wide = Unlisted((Amount((4, 4, 4, 4), 8),), preferred_size=1, within=0b1111)
    result = merged(wide, GPU)
    assert (result.affinity, result.preferred, result.admit) == (0b1100, False, True)
    assert merged(wide, GPU, policy="restricted").admit is False
    assert not merged(wide, GPU, policy="proposed-strict").has_hint


def test_sets_that_cannot_overlap_leave_all_nodes() -> None:
    low = Unlisted((Amount((1, 1, 0, 0), 1),), preferred_size=1, within=0b0011)
    result = merged(low, GPU)
    assert (result.affinity, result.preferred, result.rests_on) == (0b1111, False, ())


def test_a_family_without_any_set_is_as_an_empty_list() -> None:
    never = Unlisted((Amount((1, 1, 1, 1), 5),), preferred_size=1, within=0b1111)
    result = merged(never, GPU)
    assert (result.affinity, result.preferred) == (0b0100, False)
    assert result.rests_on[0].hint == Hint(None, False)
    assert single_node_hints(never) == (Hint(None, False),)


def test_listed_hints_stand_beside_a_family() -> None:
    """As the memory manager's groups: nodes that share memory serve together only."""
    memory = Unlisted((Amount((4, 0, 0, 0), 4),), preferred_size=2, within=0b0001, listed=(Hint(0b1100, True),))
    result = merged(memory, Unlisted(GPU.amounts, 2, 0b1100))
    assert (result.affinity, result.preferred) == (0b1100, True)


def test_the_closest_of_sets_of_the_same_size_is_taken() -> None:
    pair = Unlisted((Amount((3, 1, 2, 2), 4),), preferred_size=2, within=0b1111)
    far = Unlisted((Amount((0, 0, 1, 1), 1),), preferred_size=2, within=0b1111)
    assert merged(pair, far).affinity == 0b0101
    assert merged(pair, far, closest=True).affinity == 0b1100


def test_single_numa_node_looks_at_sets_of_one_node_only() -> None:
    result = merged(CPU, GPU, policy="single-numa-node")
    assert (result.affinity, result.preferred, result.admit) == (0b1000, True, True)


def test_a_policy_that_needs_every_hint_is_refused() -> None:
    with pytest.raises(
        PolicyOptionsError, match=r"policy: cannot use 'strict-2019': .* single-numa-node and proposed-strict"
    ):
        merged(CPU, policy="strict-2019")


def test_more_than_a_search_can_do_is_refused_on_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = Unlisted((Amount((1,) * 17, 4),), preferred_size=1, within=(1 << 17) - 1, listed=(Hint(0b0011, False),))
    other = Unlisted((Amount((1,) * 17, 1),), preferred_size=1, within=(1 << 17) - 1)
    nodes = Nodes((1 << 17) - 1)
    with pytest.raises(SearchTooLongError):
        merge([{"a": wide, "b": other}], nodes, "best-effort", steps=Steps(5))
    monkeypatch.setattr(unlisted, "MAX_BRANCHES", 1)
    with pytest.raises(TooManyHintsError):
        merge([{"a": wide, "b": other}], nodes, "best-effort")


def test_on_few_nodes_hints_are_listed_where_a_search_takes_too_long() -> None:
    two = Unlisted((Amount((1, 1, 1, 1), 4),), preferred_size=1, within=0b1111, listed=(Hint(0b0011, False),))
    for policy in ("best-effort", "restricted"):
        searched, listed = (merge([{"a": two, "b": CPU}], FOUR, policy, steps=Steps(most)) for most in (1000, 0))
        assert (searched.affinity, searched.preferred, searched.admit) == (0b0011, False, policy == "best-effort")
        assert (listed.affinity, listed.preferred, listed.admit) == (0b0011, False, policy == "best-effort")
