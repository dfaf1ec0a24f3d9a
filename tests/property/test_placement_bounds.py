"""What an oracle says of owners and of the reserved CPUs in random histories (``benchmarks/placement.py``)."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.placement import domains_beside_sharers, owners, reserve
from benchmarks.placement_machines import FILLED, SHAPES
from benchmarks.placement_measures import MEASURES, Tally, value_of
from benchmarks.placement_resizes import life
from benchmarks.placement_spread import EQUAL, PODS, apart, beside_kubelet, evenly
from policies.preferences import PoolStrategy

OF_OWNERS = (
    "more packages",
    "more nodes",
    "more nodes after moves",
    "more caches",
    "torn cores",
    "farther nodes",
    "whole domain",
    "newly shared cores",
)


@pytest.fixture(scope="module")
def tally() -> Tally:
    """One history for each shape of machine."""
    result = Tally()
    owners(result, 1)
    domains_beside_sharers(result, 1)
    return result


def test_the_histories_have_placements_that_span_domains(tally: Tally) -> None:
    assert tally.occasions["more nodes"] > 50


@pytest.mark.parametrize("name", OF_OWNERS)
def test_a_bound_of_exclusive_placements_is_kept(tally: Tally, name: str) -> None:
    measure = next(measure for measure in MEASURES if measure.name == name)
    assert measure.keeps(value_of(measure, tally)), measure.title


def test_no_more_is_asked_of_reserved_cpus_than_they_have_while_others_are_free() -> None:
    tally = Tally()
    reserve(tally, 1)
    assert tally.occasions["reserve"] > 50
    assert (tally.counts["reserve"], tally.counts["reserve after checks"]) == (0, 0)


@settings(max_examples=max(3, settings().max_examples // 10))
@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 1 << 32))
def test_a_resize_keeps_the_cpus_that_it_can_and_is_refused_for_want_of_room_alone(shape: str, seed: int) -> None:
    assert [resize for resize in life(shape, random.Random(seed)) if not resize.is_right] == []


@pytest.mark.parametrize("kind", EQUAL)
@pytest.mark.parametrize("choice", [PoolStrategy.SPREAD, PoolStrategy.BALANCED])
def test_below_half_load_the_fullest_domain_has_one_container_more_at_most(kind: str, choice: PoolStrategy) -> None:
    assert {shape: sum(evenly(shape, kind, choice)) for shape in FILLED} == dict.fromkeys(FILLED, 0)


@pytest.mark.parametrize("choice", PoolStrategy)
def test_owners_span_domains_no_more_than_those_of_the_kubelet_at_high_load(choice: PoolStrategy) -> None:
    pairs = list(beside_kubelet("2 sockets, 4 nodes of 16 each", 0, choice))
    assert sum(ours for ours, _ in pairs) <= sum(theirs for _, theirs in pairs)


@pytest.mark.parametrize("kind", PODS)
def test_a_pod_of_an_idle_machine_is_on_one_socket(kind: str) -> None:
    assert [shape for shape in FILLED if any(apart(shape, kind))] == []
