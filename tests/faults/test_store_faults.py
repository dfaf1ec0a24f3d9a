"""The store fails at any of its saves, for a while: containers run or are refused as the operator chose."""

from collections.abc import Sequence

import pytest

from cri_proxy.config.model import Config
from cri_proxy.errors import StoreError
from cri_proxy.state.rows import Deletable, Saveable
from tests.faults.sweep import Scene, SlowStore, as_far_as_it_goes, going_on


class FailingStore(SlowStore):
    """Fails from its ``first`` save on, ``times`` times."""

    first, times = 10**9, 0

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        self.first -= 1
        if self.first < 0 < self.times:
            self.times -= 1
            raise StoreError("state.db", "cannot save: database or disk is full")
        await super().save(puts, deletes)


@pytest.mark.parametrize("first", range(0, 40, 7))
@pytest.mark.parametrize("choice", ["continue", "reject"])
@pytest.mark.parametrize("times", [1, 1000], ids=["once", "until it is mended"])
async def test_any_save_may_fail(first: int, choice: str, times: int) -> None:
    rules = Config(on_store_error="reject") if choice == "reject" else Config()
    scene = Scene(rules=rules)
    store = scene.store = FailingStore()
    async with going_on(scene):
        store.first, store.times = first, times
        await as_far_as_it_goes(scene.story())
        await scene.node.settle()
        store.times = 0
    assert scene.log.errors == []


@pytest.mark.parametrize("first", range(0, 40, 9))
async def test_after_a_failure_a_restart_finds_everything(first: int) -> None:
    scene = Scene()
    store = scene.store = FailingStore()
    async with going_on(scene):
        store.first, store.times = first, 1000
        await as_far_as_it_goes(scene.story())
        await scene.node.settle()
        store.times = 0
        await scene.open(scene.look)
