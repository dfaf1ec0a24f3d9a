from dataclasses import replace

import pytest
from hypothesis import given, settings

from cri_proxy.foreign_text import SENTENCE_BYTES, admit
from cri_proxy.state.decisions import (
    KEPT_CHANGES,
    KEPT_PROBLEMS,
    PROBLEM_BYTES,
    RECORD_BYTES,
    DecisionRecord,
    HistoryEntry,
    Outcome,
    RankedPool,
    bounded,
    granted_of,
    pack,
    unpack,
    with_reasons,
)
from policies.base import Pinning, Ranked
from policies.container_name import ContainerName
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
    assert (GRANT.request.full_name, str(GRANT.request.full_name)) == (
        ContainerName("default", "web", "c0"),
        "default/web/c0",
    )


def test_of_a_grant_everything_but_its_request_is_kept() -> None:
    granted = granted_of(GRANT, Pinning(CpuSet.parse("2-3"), NodeSet.parse("0")))
    assert (granted.pool, granted.kind, granted.exclusive) == (GRANT.pool, GRANT.kind, GRANT.exclusive)


def ranked(*pools: tuple[str, tuple[int, ...], str]) -> tuple[RankedPool, ...]:
    names = ("fits", "depth", "left")
    return with_reasons(
        [Ranked(pool, tuple(zip(names, values, strict=True)), outcome) for pool, values, outcome in pools]
    )


def whys(*pools: tuple[str, tuple[int, ...], str]) -> list[str]:
    return [pool.why for pool in ranked(*pools)]


def test_a_pool_behind_the_chosen_one_lost_by_the_first_field_that_differs() -> None:
    assert whys(("a", (1, 2, 100), "chosen"), ("b", (1, 1, 900), "not tried")) == ["", "is larger"]


def test_a_pool_before_the_chosen_one_could_not_be_had() -> None:
    better = ("a", (1, 2, 900), "best; root is above it, as requested")
    tried = ("b", (1, 2, 100), "not tried")
    assert whys(better, tried, ("root", (1, 0, 100), "chosen")) == [
        "best; root is above it, as requested",
        "ranks higher, but could not give what is asked",
        "",
    ]


def test_of_a_refusal_each_pool_says_itself_why_it_was_no_choice() -> None:
    (row,) = ranked(("a", (0, 1, 1), "too small: 0m free"))
    assert (row.outcome, row.why) == ("too small: 0m free", "")


def test_a_packed_ranking_names_its_fields_once() -> None:
    pools = ranked(("a", (1, 2, 100), "chosen"), ("b", (1, 1, 900), "not tried"))
    packed = pack(DecisionRecord(GRANT.request, Outcome.PLACED, 1.0, ranking=pools))
    assert packed.text.count("depth") == 1
    assert unpack(packed).ranking == pools


@given(records())
@settings(max_examples=40, deadline=None)
def test_a_record_survives_its_packing(record: DecisionRecord) -> None:
    packed = pack(record)
    assert unpack(packed) == record
    assert (packed.key, packed.outlives_row, packed.name) == (record.key, record.outlives_row, record.request.full_name)


@pytest.mark.parametrize("text", ["{", "7", "[]", "{}", '{"outcome": "dreamt"}', "[" * 100_000])
def test_a_record_that_makes_no_sense_says_so(text: str) -> None:
    with pytest.raises(ValueError):  # JSON's and the codec's errors share only this
        unpack(replace(pack(DecisionRecord(GRANT.request, Outcome.PLACED, 1.0)), text=text))


def test_a_record_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    packed = pack(DecisionRecord(GRANT.request, Outcome.PLACED, 1.0))
    assert unpack(replace(packed, text=packed.text[:-1] + ',"charm":3}')) == unpack(packed)


def failing(
    failure: str = "", history: tuple[HistoryEntry, ...] = (), problems: tuple[str, ...] = ()
) -> DecisionRecord:
    return DecisionRecord(GRANT.request, Outcome.NOT_CREATED, 1.0, failure=failure, history=history, problems=problems)


def test_a_record_holds_little_of_what_the_runtime_said() -> None:
    record = failing(failure="x" * 400_000, history=(HistoryEntry(1.0, "not created", "\x1b[2J" + "y" * 400_000),))
    assert record.failure.endswith("more bytes were cut)")
    assert record.history[0].text.startswith("\\x1b[2Jy")
    assert len(pack(record).text) < 2 * SENTENCE_BYTES + 1000


def test_a_history_is_bounded_in_bytes_and_keeps_the_newest() -> None:
    record = failing(history=tuple(HistoryEntry(i, "resized", f"{i} {'x' * 2000}") for i in range(KEPT_CHANGES * 2)))
    assert [entry.at_seconds for entry in record.history] == [28, 29, 30, 31]
    short = failing(history=tuple(HistoryEntry(i, "resized", f"{i}") for i in range(KEPT_CHANGES * 2)))
    assert len(short.history) == KEPT_CHANGES


def test_of_many_annotations_that_cannot_be_read_the_first_are_kept() -> None:
    record = failing(problems=tuple(f"annotation {i}: {'x' * 1000}" for i in range(300)))
    assert (len(record.problems), record.problems[-1]) == (KEPT_PROBLEMS, "and 285 more annotations")
    assert all(len(problem) <= PROBLEM_BYTES for problem in record.problems)
    assert replace(record).problems == record.problems


@pytest.mark.parametrize("character", ["x", "\u202e", "👍"])
def test_a_record_that_is_too_large_goes_without_what_the_pod_wrote(character: str) -> None:
    words = character * 100_000
    labels = tuple((f"key-{i}", words) for i in range(10))
    asked = replace(GRANT.request, pod=replace(GRANT.request.pod, labels=labels), labels=labels)
    record = replace(failing(failure=words, history=(HistoryEntry(1.0, "not created", words),)), request=asked)
    kept = pack(record)
    assert len(kept.text) <= RECORD_BYTES
    assert kept.text.isascii()  # a character is a byte of memory
    assert unpack(kept) == replace(record, request=GRANT.request)


def test_what_an_older_version_kept_is_cut_when_it_is_read() -> None:
    old = pack(failing(failure="marker"))
    old = replace(old, text=old.text.replace("marker", "x" * 400_000))
    new = bounded(old)
    assert len(new.text) < RECORD_BYTES
    assert unpack(new).failure == unpack(old).failure == admit("x" * 400_000, SENTENCE_BYTES)
    assert bounded(new) is new


def test_the_same_failure_with_another_id_is_the_same() -> None:
    one, other = (HistoryEntry(1.0, "not created", f"runc: {i}/start: exit {n}") for i, n in (("4f6a", 1), ("77b", 13)))
    assert one.repeats(other)
    assert one.again(replace(other, at_seconds=7.0)) == HistoryEntry(1.0, "not created", other.text, 2, 7.0)


def test_a_move_to_other_cpus_is_another_move() -> None:
    assert not HistoryEntry(1.0, "re-placed", "to CPUs 2-3").repeats(HistoryEntry(2.0, "re-placed", "to CPUs 4-5"))
