"""The store in memory: what differs from the durable one; the rest is held against it in test_store."""

import pytest

from cri_proxy.errors import StoreError
from cri_proxy.state.memory_store import MemoryStore
from tests.fakes.rows import make_row, make_sandbox


async def test_what_was_saved_can_be_carried_into_the_next_store() -> None:
    store = MemoryStore()
    await store.save([make_row(), make_sandbox()])
    assert MemoryStore(store.load()).load() == store.load()


async def test_a_closed_store_neither_loads_nor_saves() -> None:
    store = MemoryStore()
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        store.load()
    with pytest.raises(StoreError, match="closed"):
        await store.save([make_row()])


async def test_a_store_that_shall_fail_saves_nothing() -> None:
    store = MemoryStore()
    store.failure = StoreError("disk", "full")
    with pytest.raises(StoreError, match="full"):
        await store.save([make_row()])
    assert store.load().rows == ()
