import pytest

from cri_proxy.state.rows import GrantStore, Row, Saved
from policies.base import ContainerKey
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
