import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysfs.cpuset import MAX_ID, CpuSet, CpuSetError, NodeSet, changes_between
from tests.fakes.reference import reference_seconds

ids = st.sets(st.integers(0, 3000))


@settings(deadline=None)
@given(ids)
def test_a_list_reads_back_as_it_was_written(members: set[int]) -> None:
    assert set(CpuSet.parse(str(CpuSet.of(members)))) == members


@settings(deadline=None)
@given(ids)
def test_a_set_iterates_ascending_and_knows_its_size(members: set[int]) -> None:
    cpus = CpuSet.of(members)
    assert list(cpus) == sorted(members)
    assert (len(cpus), bool(cpus)) == (len(members), bool(members))


@settings(deadline=None)
@given(ids, ids)
def test_operators_are_those_of_sets(a: set[int], b: set[int]) -> None:
    left, right = CpuSet.of(a), CpuSet.of(b)
    assert (set(left & right), set(left | right), set(left - right)) == (a & b, a | b, a - b)
    assert (left <= right, left.isdisjoint(right)) == (a <= b, a.isdisjoint(b))


@pytest.mark.parametrize(
    "text",
    ["0-", "-", "a", "1,,2", "3-1", "0x1", "1 2", "-1", "١", str(MAX_ID + 1), f"0-{10**12}", "9" * 5000, "0" * 5000],
)
def test_garbage_is_never_the_empty_set(text: str) -> None:
    with pytest.raises(CpuSetError) as caught:
        CpuSet.parse(text)
    assert caught.value.text == text


@pytest.mark.parametrize(("text", "members"), [("", ""), (" 0-3,8\n", "0-3,8"), ("3,1-2", "1-3"), ("7-7", "7")])
def test_lists_as_the_kernel_and_people_write_them(text: str, members: str) -> None:
    assert str(CpuSet.parse(text)) == members


def test_sets_of_different_things_stay_what_they_are() -> None:
    assert isinstance(NodeSet.of([1]) | NodeSet.of([2]), NodeSet)
    assert repr(NodeSet.of([1, 2])) == "NodeSet('1-2')"


@pytest.mark.parametrize("text", ["x," * 10_000, "x" * 10_000, "9" * 10_000, "0" * 300_000])
def test_an_error_is_short_however_long_the_text(text: str) -> None:
    with pytest.raises(CpuSetError) as caught:
        CpuSet.parse(text)
    assert len(str(caught.value)) < 250


def test_the_widest_and_most_broken_set_is_read_and_written_at_once() -> None:
    """In tests/fuzz the time is held against the length; here it is what a page of sysfs may take at all."""
    widest = ",".join(map(str, range(0, MAX_ID, 2)))
    reference = reference_seconds()
    start = time.thread_time()
    assert str(CpuSet.parse(widest)) == widest
    assert str(CpuSet.parse(f"1-{MAX_ID}")) == f"1-{MAX_ID}"
    assert time.thread_time() - start < 20 * reference


@given(*(st.sets(st.sampled_from([chr(code) for code in range(97, 137)])).map(sorted) for _ in range(2)))
def test_changes_are_what_either_side_has_alone_in_its_order(old: list[str], new: list[str]) -> None:
    gone, come = changes_between(tuple(old), tuple(new))
    assert gone == tuple(each for each in old if each not in new)
    assert come == tuple(each for each in new if each not in old)


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_changes_of_few_among_many_are_found(more: set[int], fewer: set[int], others: set[int]) -> None:
    """Objects are compared, not values: one of the same value in the place of another is a change."""
    objects = {number: [number] for number in range(61)}
    old = tuple(objects[n] for n in range(61) if n not in more)
    new = tuple([n] if n in others else objects[n] for n in range(61) if n not in fewer)
    gone, come = changes_between(old, new)
    assert list(map(id, gone)) == [id(each) for each in old if all(each is not other for other in new)]
    assert list(map(id, come)) == [id(each) for each in new if all(each is not other for other in old)]
