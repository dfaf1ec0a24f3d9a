from dataclasses import replace
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.node.ledger.ordered_rows import ACTIVE, OrderedRows
from cri_proxy.state.rows import Row, RowState
from policies.base import ContainerKey
from policies.device_grants import DeviceGrant
from policies.preferences import Preferences
from tests.fakes.grants import row

CHANGES = st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from((*get_args(RowState), None))), max_size=20)


def put(*rows: Row) -> OrderedRows:
    made = OrderedRows()
    for each in rows:
        made.put(each)
    return made


@given(CHANGES)
def test_after_any_changes_all_are_there_once_in_order(changes: list[tuple[str, RowState | None]]) -> None:
    made, wanted = OrderedRows(), dict[ContainerKey, Row]()
    for name, state in changes:
        key = row(name).key
        if state is None:
            assert made.drop(key) == wanted.pop(key, None)
        else:
            assert made.put(row(name, state=state)) == wanted.get(key)
            wanted[key] = row(name, state=state)
    assert made.ordered() == tuple(wanted[key] for key in sorted(wanted))
    assert made.active() == tuple(r for r in made.ordered() if r.state in ACTIVE)
    assert [made.get(row(name).key) for name in "abcde"] == [wanted.get(row(name).key) for name in "abcde"]


def test_the_active_ones_are_the_same_object_until_something_changes() -> None:
    made = put(row("a"), row("b"))
    assert made.active() is made.active()
    made.put(replace(row("a"), state="exited"))
    assert [r.key.name for r in made.active()] == ["b"]


def preserving(name: str, *, state: RowState = "running") -> Row:
    made = row(name, state=state)
    request = replace(made.grant.request, preferences=Preferences(preserve_cpu=True))
    return replace(made, grant=replace(made.grant, request=request))


def with_device(name: str, *, state: RowState = "exited") -> Row:
    made = row(name, state=state)
    return replace(made, grant=replace(made.grant, devices=(DeviceGrant("gpu", 0, 100),)))


def test_rows_that_preserve_cpus_and_ended_ones_with_devices_are_at_hand() -> None:
    made = put(row("a"), preserving("b"), preserving("c", state="exited"), with_device("d"), with_device("e"))
    made.put(with_device("f", state="running"))
    assert ([k.name for k in made.preserving], [k.name for k in made.ended_with_devices]) == (["b"], ["d", "e"])
    other = made.copy()
    made.put(preserving("b", state="exited"))
    made.put(with_device("d", state="running"))
    made.drop(row("e").key)
    assert (made.preserving, made.ended_with_devices) == ({}, {})
    assert (len(other.preserving), len(other.ended_with_devices)) == (1, 2)


def test_a_copy_goes_its_own_way() -> None:
    made = put(row("a"), row("b"))
    other = made.copy()
    other.drop(row("a").key)
    other.put(row("c"))
    assert [[r.key.name for r in rows.ordered()] for rows in (made, other)] == [["a", "b"], ["b", "c"]]
    assert (row("a").key in made, row("a").key in other) == (True, False)


def test_what_is_dropped_is_not_among_the_active_ones_any_more() -> None:
    made = put(row("a"), row("b"))
    assert len(made.active()) == 2
    made.drop(row("a").key)
    assert [r.key.name for r in made.active()] == ["b"]
