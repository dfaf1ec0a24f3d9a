"""Refusals by topology hints are repeated while nothing has changed, and forgotten as soon as something has."""

from dataclasses import replace

import pytest

from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.node import MOST_KEPT, Refusals, refusal_of
from cri_proxy.signals import Signal
from policies.base import Reason, Rejected
from tests.fakes.grants import small_policy
from tests.fakes.rows import make_row
from tests.unit.policies.build import request

NO = Rejected(Reason("strict-topology", "no NUMA node has it all"))
ASKED = request("a/c", 5000)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(small_policy(), Signal())


def test_the_same_request_gets_the_same_answer(ledger: Ledger) -> None:
    refusals = Refusals(ledger)
    refusals.keep(ASKED, NO)
    assert refusals.get(ASKED) is NO
    assert refusals.get(replace(ASKED, cpu_request_mcpu=4000)) is None


def test_a_change_of_a_grant_or_of_the_policy_makes_it_void(ledger: Ledger) -> None:
    refusals = Refusals(ledger)
    refusals.keep(ASKED, NO)
    ledger.put(make_row())
    assert (refusals.get(ASKED), len(refusals.known)) == (None, 0)
    refusals.keep(ASKED, NO)
    ledger.use_policy(small_policy(), ledger.allocations)
    assert refusals.get(ASKED) is None


def test_other_refusals_are_not_kept_for_an_exit_may_have_made_room(ledger: Ledger) -> None:
    refusals = Refusals(ledger)
    refusals.keep(ASKED, Rejected(Reason("cpu-full", "full")))
    assert len(refusals.known) == 0


def test_the_oldest_goes_where_there_are_too_many(ledger: Ledger) -> None:
    refusals = Refusals(ledger)
    for number in range(MOST_KEPT + 1):
        refusals.keep(request(f"{number}/c", 5000), NO)
    assert (len(refusals.known), refusals.get(request("0/c", 5000))) == (MOST_KEPT, None)


def test_a_strict_refusal_is_no_want_of_room() -> None:
    assert [refusal_of(Rejected(Reason(code, "x"))).kind for code in ("strict-topology", "cpu-full")] == [
        "strict",
        "full",
    ]
