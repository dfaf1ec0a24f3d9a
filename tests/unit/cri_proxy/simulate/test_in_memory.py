import asyncio
from collections.abc import Sequence

import pytest

from cri_proxy.clock import SystemClock
from cri_proxy.node.decision_log.summary import record_of_grant
from cri_proxy.node.persistence import Persistence
from cri_proxy.simulate.in_memory import PromptPersistence, PromptRuntime, WholeRecords
from cri_proxy.state.decisions import Outcome, pack
from cri_proxy.state.memory_store import MemoryStore
from cri_proxy.state.rows import Deletable, GonePod, Saveable
from cri_proxy.tasks import Tasks
from sysfs.descriptions.machine import describe
from tests.fakes.grants import row

GRANT = row("web").grant
RECORD = record_of_grant(GRANT, Outcome.PLACED, at_seconds=1.0)


async def test_a_save_is_done_when_the_call_returns() -> None:
    store, tasks = MemoryStore(), Tasks()
    PromptPersistence(store, tasks, lambda _: None).save_later([pack(RECORD)])
    assert len(tasks) == 0
    assert [decision.key for decision in store.load().decisions] == [RECORD.key]


async def test_a_store_that_waits_is_a_fault() -> None:
    class Slow(MemoryStore):
        async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
            await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="waits"):
        PromptPersistence(Slow(), Tasks(), lambda _: None).save_later([], [GonePod("u")])


async def test_records_are_kept_whole_and_come_back_after_a_restart() -> None:
    store, tasks = MemoryStore(), Tasks()
    persistence: Persistence = PromptPersistence(store, tasks, lambda _: None)
    first = WholeRecords(SystemClock(), lambda _: None)
    first.recall(store.load(), persistence)
    first.changed(None, GRANT, "it ran before")
    again = WholeRecords(SystemClock(), lambda _: None)
    again.recall(store.load(), persistence)
    assert again.get(GRANT.container) == first.get(GRANT.container)
    assert first.get(GRANT.container) is not None


async def test_the_runtime_answers_without_a_time_limit() -> None:
    runtime = PromptRuntime(describe({}))
    assert await runtime.unary("/runtime.v1.RuntimeService/Version", b"", timeout_seconds=0)
