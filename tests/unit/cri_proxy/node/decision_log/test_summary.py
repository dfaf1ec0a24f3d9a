from dataclasses import replace

import pytest

from cri_proxy.node.decision_log.summary import (
    Circumstances,
    after_earlier,
    change_code,
    change_text,
    outcome_text,
    record_of,
    with_history,
)
from cri_proxy.state.decisions import (
    KEPT_CHANGES,
    KEPT_DISPLACED,
    KEPT_POOLS,
    GrantMove,
    HistoryEntry,
    Outcome,
    PinningChange,
)
from policies.base import Allocations, Pinning, Placed, Ranked, Reason, Rejected, Update
from policies.container_name import ContainerName
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.grants import request, row, small_policy
from tests.fakes.rows import make_record

REJECTED = Rejected(Reason("cpu-full", "no room"))
OTHER = row("b", owned="2-3").grant


def placed() -> Placed:
    decision = small_policy().decide(Allocations(), request("a", 2000))
    assert isinstance(decision, Placed)
    return decision


def pools(count: int, chosen: int) -> tuple[Ranked, ...]:
    return tuple(Ranked(f"p{i}", (("fits", 1),), "chosen" if i == chosen else "not tried") for i in range(count))


def test_a_place_is_kept_with_its_parts_and_reasons() -> None:
    decision = placed()
    record = record_of(request("a", 2000), decision, Circumstances(), at_seconds=7.0)
    assert record.granted is not None
    assert (record.outcome, record.decided_at_seconds, record.is_confirmed) == (Outcome.PLACED, 7.0, False)
    assert (record.granted.exclusive, record.reasons) == (decision.grant.owned, decision.reasons)


def test_a_refusal_is_kept_with_its_ranking_and_nothing_held() -> None:
    record = record_of(request("a", 1), replace(REJECTED, ranking=pools(2, -1)), Circumstances(), at_seconds=7.0)
    assert (record.outcome, record.granted, len(record.ranking)) == (Outcome.REFUSED, None, 2)


def test_of_many_pools_the_best_are_kept_and_the_chosen_one() -> None:
    decision = replace(placed(), ranking=pools(300, 200))
    record = record_of(request("a", 2000), decision, Circumstances(), at_seconds=0)
    assert [row.pool for row in record.ranking] == [*(f"p{i}" for i in range(KEPT_POOLS)), "p200"]
    assert record.pools_considered == 300


def test_whoever_changed_is_kept_by_name_with_what_it_was_on() -> None:
    before, after = Pinning(CpuSet.parse("1-7"), None), Pinning(CpuSet.parse("1-3"), None)
    known = Circumstances(held=Allocations((OTHER,)), pinnings={OTHER.container: before})
    decision = replace(placed(), updates=(Update(OTHER.container, after),) * (KEPT_DISPLACED + 1))
    record = record_of(request("a", 2000), decision, known, at_seconds=0)
    assert record.displaced[0] == PinningChange.of(ContainerName("default", "pod-1", "b"), before, after)
    assert (len(record.displaced), record.displaced_count) == (KEPT_DISPLACED, KEPT_DISPLACED + 1)


def test_whoever_moved_is_kept_with_both_places() -> None:
    lifted = replace(OTHER, pool="socket #1", mems=NodeSet.parse("0-1"))
    record = record_of(
        request("a", 2000), replace(placed(), moved=(lifted,)), Circumstances(held=Allocations((OTHER,))), at_seconds=0
    )
    (moved,) = record.moves
    text = "from root to socket #1, memory nodes from none to 0-1, to make room"
    assert (moved.code, moved.text) == ("lifted", text)


def test_one_that_moved_to_a_better_place_made_no_room() -> None:
    decision = replace(placed(), moved=(replace(OTHER, pool="socket #1"),), rebalanced=(OTHER.container,))
    record = record_of(request("a", 2000), decision, Circumstances(held=Allocations((OTHER,))), at_seconds=0)
    (moved,) = record.moves
    assert (moved.code, moved.text) == ("rebalanced", "from root to socket #1, as too few CPUs were left")


@pytest.mark.parametrize(("before", "after", "code"), [("0", "0-1", "widened"), ("0-1", "0", "narrowed")])
def test_who_stays_in_its_pool_has_its_memory_widened_or_narrowed(before: str, after: str, code: str) -> None:
    moved = GrantMove(ContainerName("n", "p", "c"), "root", "root", NodeSet.parse(before), NodeSet.parse(after))
    assert moved.code == code


def test_a_change_is_named_by_what_it_changes() -> None:
    zone = replace(OTHER, mems=NodeSet.parse("0-1"))
    codes = [
        change_code(OTHER, replace(OTHER, pool="socket #1")),
        change_code(zone, replace(zone, mems=NodeSet.of([0]))),
        change_code(replace(zone, mems=NodeSet.of([0])), zone),
        change_code(replace(zone, mems=NodeSet.of([0])), replace(zone, mems=NodeSet.of([1]))),
        change_code(replace(zone, is_cold=True), zone),
    ]
    assert codes == ["re-placed", "narrowed", "widened", "memory-moved", "cold_start_ended"]


def test_of_many_changes_the_newest_are_kept() -> None:
    record = with_history(make_record(), *(HistoryEntry(i, "lifted", str(i)) for i in range(KEPT_CHANGES + 3)))
    assert record.history[0].text == "3"
    assert len(record.history) == KEPT_CHANGES


def test_a_new_decision_goes_on_with_the_history_of_the_container() -> None:
    earlier = with_history(make_record(at_seconds=5.0), HistoryEntry(6.0, "lifted", "up"))
    assert after_earlier(make_record(), earlier).history == (
        HistoryEntry(6.0, "lifted", "up"),
        HistoryEntry(5.0, "placed", "placed"),
    )


def test_a_refusal_that_is_repeated_is_no_news() -> None:
    refused = make_record(outcome=Outcome.REFUSED)
    assert after_earlier(refused, refused).history == ()


def test_what_came_of_a_decision_is_a_sentence() -> None:
    refused = replace(make_record(outcome=Outcome.REFUSED), reasons=(REJECTED.reason,))
    failed = replace(make_record(outcome=Outcome.NOT_CREATED), failure="no such image")
    good = record_of(request("a", 2000), placed(), Circumstances(), at_seconds=0)
    assert outcome_text(refused) == "refused: no room"
    assert outcome_text(failed) == "not created: no such image"
    assert outcome_text(good).startswith("placed in socket #")


def test_what_differs_between_two_grants_is_said() -> None:
    after = replace(OTHER, exclusive=CpuSet.parse("2"), shared_mcpu=500, mems=NodeSet.of([1]))
    assert change_text(OTHER, after) == (
        "its own CPUs from 2-3 to 2, memory nodes from none to 1, shared CPU from 0m to 500m"
    )
    assert change_text(replace(OTHER, is_cold=True), OTHER) == "its cold start is over"
