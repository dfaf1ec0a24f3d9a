from dataclasses import replace

from cri_proxy.node.ledger.restore_rows import rows_as_before
from cri_proxy.state.rows import Row
from policies.device_grants import DeviceGrant
from tests.fakes.grants import ledger_with, request, row

GPU = DeviceGrant("gpu", 0, 100)


def with_device(known: Row) -> Row:
    grant = known.grant
    return replace(known, grant=replace(grant, request=replace(grant.request, given=(GPU,)), devices=(GPU,)))


def test_a_container_that_was_moved_is_back_where_it_was() -> None:
    before, moved = row("a", owned="1"), row("a", owned="2")
    assert rows_as_before(ledger_with(moved), [before], request("other", 1000).container) == (before,)


def test_one_that_is_gone_or_was_resized_meanwhile_is_left_alone() -> None:
    own = request("other", 1000).container
    before = row("a", owned="1")
    assert rows_as_before(ledger_with(), [before], own) == ()
    assert rows_as_before(ledger_with(row("a", owned="2-3")), [before], own) == ()
    assert rows_as_before(ledger_with(replace(row("a", owned="2"), created_order=2)), [before], own) == ()


def test_where_others_have_been_placed_meanwhile_nothing_moves() -> None:
    ledger = ledger_with(row("a", owned="2"), row("b", owned="1"))
    assert rows_as_before(ledger, [row("a", owned="1")], request("other", 1000).container) == ()


def test_an_earlier_attempt_is_back_and_its_outcome_is_asked_for() -> None:
    before = replace(row("a", owned="1"), state="reserved", container_id="")
    assert rows_as_before(ledger_with(), [before], before.key) == (replace(before, state="pending"),)


def test_a_device_that_became_known_meanwhile_stays_held() -> None:
    before, moved = row("a", owned="1"), with_device(row("a", owned="2"))
    for own in (before.key, request("other", 1000).container):
        assert rows_as_before(ledger_with(moved), [before], own) == (with_device(before),)
