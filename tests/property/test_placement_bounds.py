"""What an oracle says of owners and of the reserved CPUs in random histories (``benchmarks/placement.py``)."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.placement import domains_beside_sharers, owners, reserve
from benchmarks.placement_machines import SHAPES
from benchmarks.placement_measures import MEASURES, Tally, value_of
from benchmarks.placement_resizes import life

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
