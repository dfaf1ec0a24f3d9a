"""Records of decisions."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from cri_proxy.state.decisions import DecisionRecord, Named, Outcome, granted_of, named, pack, unpack
from policies.base import Pinning
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.rows import make_row, records

GRANT = make_row().grant


@pytest.mark.parametrize(
    ("outcome", "outlives"),
    [
        (Outcome.PLACED, False),
        (Outcome.REFUSED, True),
        (Outcome.NOT_CREATED, True),
        (Outcome.ADOPTED, False),
        (Outcome.RESTORED, False),
    ],
)
def test_only_the_record_of_a_container_that_holds_nothing_outlives_its_row(outcome: Outcome, outlives: bool) -> None:
    assert DecisionRecord(GRANT.request, outcome, 1.0).outlives_row is outlives


def test_a_record_belongs_to_the_container() -> None:
    assert DecisionRecord(GRANT.request, Outcome.PLACED, 1.0).key == GRANT.container


def test_names_are_those_that_people_use() -> None:
    assert (named(GRANT.request), str(named(GRANT.request))) == (Named("default", "web", "c0"), "default/web/c0")


def test_of_a_grant_everything_but_its_request_is_kept() -> None:
    granted = granted_of(GRANT, Pinning(CpuSet.parse("2-3"), NodeSet.parse("0")))
    assert (granted.pool, granted.kind, granted.exclusive) == (GRANT.pool, GRANT.kind, GRANT.exclusive)


@given(records())
@settings(max_examples=40, deadline=None)
def test_a_record_survives_its_packing(record: DecisionRecord) -> None:
    packed = pack(record)
    assert unpack(packed) == record
    assert (packed.key, packed.outlives_row, packed.who) == (record.key, record.outlives_row, named(record.request))


@pytest.mark.parametrize("text", ["{", "7", "[]", "{}", '{"outcome": "dreamt"}', "[" * 100_000])
def test_a_record_that_makes_no_sense_says_so(text: str) -> None:
    with pytest.raises(ValueError):  # JSON's and the codec's errors share only this
        unpack(replace(pack(DecisionRecord(GRANT.request, Outcome.PLACED, 1.0)), text=text))


def test_a_record_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    packed = pack(DecisionRecord(GRANT.request, Outcome.PLACED, 1.0))
    later = replace(packed, text=packed.text[:-1] + ',"charm":3}')
    assert unpack(later) == unpack(packed)
