from dataclasses import replace

import pytest

from cri_proxy.state.rows import GrantStore, Row, Saved
from policies.base import ContainerKey, Pinning
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.rows import make_row
from tests.fakes.store import MemoryStore


def test_a_row_belongs_to_pod_uid_and_container_name() -> None:
    assert make_row("u", "c").key == ContainerKey("u", "c")


def test_a_row_cannot_be_changed() -> None:
    row: Row = make_row()
    with pytest.raises(AttributeError):
        row.state = "exited"  # type: ignore[misc]  # the point of the test


def test_the_fake_is_a_store() -> None:
    store: GrantStore = MemoryStore(Saved((make_row(),)))
    assert store.load().rows == (make_row(),)


def test_after_an_update_without_a_known_outcome_the_container_may_be_on_both_sets() -> None:
    row = replace(make_row(), acknowledged=Pinning(CpuSet.parse("1"), NodeSet.parse("0")))
    sent = row.after_unknown(Pinning(CpuSet.parse("2")))
    assert sent.known == Pinning(CpuSet.parse("1-2"), NodeSet.parse("0"))
    assert sent.unconfirmed == Pinning(CpuSet.parse("2"))


def test_a_confirmed_update_settles_what_it_wrote_and_leaves_the_rest() -> None:
    row = replace(make_row(), acknowledged=Pinning(CpuSet.parse("1"), NodeSet.parse("0")))
    sent = row.after_unknown(Pinning(CpuSet.parse("2"), NodeSet.parse("1")))
    half = sent.after(Pinning(CpuSet.parse("2")))
    assert half.known == Pinning(CpuSet.parse("2"), NodeSet.parse("0-1"))
    assert half.unconfirmed == Pinning(None, NodeSet.parse("1"))
    assert half.after(Pinning(None, NodeSet.parse("1"))).unconfirmed is None
