"""Records of decisions."""

import pytest

from cri_proxy.state.decisions import DecisionRecord, Named, Outcome, granted_of, named
from policies.base import Pinning
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.rows import make_row

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
