import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cri_proxy.errors import StoreError
from cri_proxy.node.persistence import Persistence
from cri_proxy.state.decisions import PackedDecision
from cri_proxy.state.memory_store import MemoryStore
from cri_proxy.state.rows import Deletable, GonePod, Saveable
from cri_proxy.state.store import Store
from cri_proxy.tasks import Tasks
from policies.base import Pinning
from sysfs.cpuset import CpuSet
from tests.fakes.rows import keys, make_row, make_sandbox, packed, rows, sandboxes
from tests.fakes.waiting import holds
from tests.unit.cri_proxy.node.stage import background

Change = tuple[list[Saveable], list[Deletable]]
ROW = make_row()
REFUSED = PackedDecision(ROW.key, ROW.name, outlives_row=True, at_seconds=1.0, text="{}")
PLACED = PackedDecision(ROW.key, ROW.name, outlives_row=False, at_seconds=2.0, text="{}")
DISK = StoreError("state.db", "disk full")


class Desk:
    """A store, what saves to it, and the problems that were told."""

    def __init__(self) -> None:
        self.store, self.tasks, self.told = MemoryStore(), Tasks(), list[str]()
        self.everything: list[Saveable] = [ROW]
        self.saver = Persistence(self.store, self.tasks, self.told.append, everything=lambda: self.everything)


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def test_saves_take_effect_in_the_order_of_the_calls(desk: Desk) -> None:
    desk.saver.save_later([ROW])
    assert await desk.saver.save([], [ROW.key])
    await desk.tasks.join()
    assert desk.store.load().rows == ()


async def test_a_caller_that_goes_away_does_not_withdraw_its_save(desk: Desk) -> None:
    saving = background(desk.saver.save([ROW]))
    await asyncio.sleep(0)
    saving.cancel()
    await asyncio.wait([saving])
    await desk.tasks.join()
    assert desk.store.load().rows == (ROW,)


async def test_a_failure_is_told_once_and_lasts_until_a_save_succeeds(desk: Desk) -> None:
    desk.store.failure = DISK
    assert [await desk.saver.save([ROW]) for _ in range(2)] == [False, False]
    assert (desk.told, desk.saver.problem, desk.saver.failures) == ([str(DISK)], str(DISK), 2)
    desk.store.failure = None
    assert await desk.saver.save([ROW])
    assert desk.saver.problem == ""


async def test_after_a_failure_everything_is_saved_again_once(desk: Desk) -> None:
    desk.store.failure = DISK
    await desk.saver.save([ROW])
    desk.store.failure = None
    assert desk.saver.is_behind
    desk.saver.catch_up()
    desk.saver.catch_up()
    await desk.tasks.join()
    assert (desk.store.load().rows, desk.saver.is_behind) == ((ROW,), False)


async def test_the_first_success_brings_the_rest(desk: Desk) -> None:
    desk.everything = [ROW, make_sandbox()]
    desk.saver.mark_incomplete("the disk was full from the start")
    assert (desk.saver.problem, desk.saver.is_behind) == ("the disk was full from the start", True)
    await desk.saver.save([ROW])
    await desk.tasks.join()
    assert (desk.store.load().sandboxes, desk.saver.is_behind) == ((make_sandbox(),), False)


async def test_what_can_never_be_saved_is_tried_again_by_the_slow_check_only(desk: Desk) -> None:
    class PickyStore(MemoryStore):
        async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
            if ROW in puts:
                raise DISK
            await super().save(puts, deletes)

    saver = Persistence(PickyStore(), desk.tasks, desk.told.append, everything=lambda: [ROW, make_sandbox()])
    await saver.save([ROW])
    for _ in range(3):
        await saver.save([make_sandbox()])
        await desk.tasks.join()
    assert (saver.failures, saver.is_behind) == (2, True)


async def test_a_fault_in_a_save_is_no_success_and_holds_nobody_up(desk: Desk) -> None:
    faults: list[BaseException] = []
    saver = Persistence(desk.store, Tasks(faults.append), desk.told.append)
    desk.store.failure = ValueError("ours")  # type: ignore[assignment]  # what a store must not raise
    assert not await saver.save([ROW])
    await asyncio.sleep(0)
    assert [str(fault) for fault in faults] == ["ours"]


async def test_a_save_that_succeeds_is_timed_and_one_that_fails_is_not(desk: Desk) -> None:
    times: list[float] = []
    saver = Persistence(desk.store, desk.tasks, desk.told.append, on_saved=times.append)
    await saver.save([ROW])
    desk.store.failure = DISK
    await saver.save([ROW])
    assert len(times) == 1
    assert 0 <= times[0] < 5


gone_pods = st.sampled_from([GonePod("u1"), GonePod("u2")])
changes = st.tuples(
    st.lists(rows | sandboxes | packed, max_size=3),
    st.lists(keys | gone_pods | st.sampled_from(["s1", "s2"]), max_size=2),
)


@given(st.lists(changes | st.none(), max_size=8))
@example([([REFUSED], []), None, ([PLACED], []), ([], [REFUSED.key])])
@example([([PLACED], []), ([], [REFUSED.key]), ([REFUSED], []), ([], [REFUSED.key])])
@settings(max_examples=200, deadline=None)
async def test_what_is_gathered_is_what_the_saves_would_have_made(history: list[Change | None]) -> None:
    tasks, plain, gathering = Tasks(), MemoryStore(), MemoryStore()
    at_once = Persistence(plain, tasks, lambda _: None)
    later = Persistence(gathering, tasks, lambda _: None, gather_seconds=60)
    for change in history:
        if change is None:
            assert await later.save([])
            await tasks.join()
            assert gathering.load() == plain.load()
        else:
            at_once.save_later(*change)
            later.save_later(*change)
            await tasks.join()
    later.stop_gathering()
    await tasks.join()
    assert gathering.load() == plain.load()


async def test_a_save_takes_along_what_was_gathered_before_it(desk: Desk) -> None:
    desk.saver.gather_seconds = 60
    created = replace(ROW, state="created")
    desk.saver.save_later([created])
    await desk.tasks.join()
    assert desk.store.load().rows == ()
    assert await desk.saver.save([make_sandbox()])
    await desk.tasks.join()
    assert desk.store.load().rows == (created,)
    desk.saver.stop_gathering()


async def test_what_must_be_on_the_disk_is_not_gathered(desk: Desk) -> None:
    desk.saver.gather_seconds = 60
    doubted = replace(ROW, state="running", unconfirmed=Pinning(CpuSet.of([1])))
    for row in (replace(ROW, state="reserved"), doubted):
        desk.saver.save_later([row])
        await desk.tasks.join()
        assert desk.store.load().rows == (row,)


async def test_what_no_list_shows_is_saved_at_once(desk: Desk) -> None:
    desk.saver.gather_seconds = 60
    desk.saver.save_now(make_sandbox())
    await desk.tasks.join()
    assert desk.store.load().sandboxes == (make_sandbox(),)


async def test_what_was_gathered_and_put_off_is_saved_in_time_and_at_the_end(desk: Desk) -> None:
    desk.saver.gather_seconds = 0.01
    desk.saver.late = lambda: desk.saver.save_later([make_sandbox()])
    desk.saver.save_later([replace(ROW, state="created")])
    await holds("both are saved", lambda: bool(desk.store.load().rows and desk.store.load().sandboxes))
    desk.saver.gather_seconds = 60
    desk.saver.save_later([], [ROW.key, "s1"])
    desk.saver.late = lambda: None
    desk.saver.stop_gathering()
    desk.saver.save_later([replace(ROW, state="exited")])
    await desk.tasks.join()
    assert [row.state for row in desk.store.load().rows] == ["exited"]


async def test_an_error_in_what_was_put_off_is_reported_and_the_rest_is_saved() -> None:
    def fail() -> None:
        raise ValueError("ours")

    faults: list[BaseException] = []
    store, tasks = MemoryStore(), Tasks(faults.append)
    saver = Persistence(store, tasks, lambda _: None, gather_seconds=60)
    saver.late = fail
    saver.save_later([replace(ROW, state="created")])
    saver.stop_gathering()
    await tasks.join()
    assert ([str(fault) for fault in faults], len(store.load().rows)) == (["ours"], 1)


async def test_a_lost_state_directory_is_noticed_without_a_decision_and_filled_again(tmp_path: Path) -> None:
    store, tasks, told = Store.open(tmp_path / "state" / "state.db"), Tasks(), list[str]()
    seconds: list[float] = []
    saver = Persistence(store, tasks, told.append, on_saved=seconds.append, everything=lambda: [ROW])
    saver.catch_up()
    await tasks.join()
    assert (told, seconds) == ([], [])
    shutil.rmtree(tmp_path / "state")
    saver.catch_up()
    await tasks.join()
    assert "the file was removed or replaced while in use" in saver.problem
    saver.catch_up()
    await tasks.join()
    assert (saver.problem, store.load().rows) == ("", (ROW,))
    await store.close()
