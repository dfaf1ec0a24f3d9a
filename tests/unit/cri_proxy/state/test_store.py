import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.errors import StoreError
from cri_proxy.state.rows import GrantStore, RowState, Saveable, Saved
from cri_proxy.state.session import LocalSession, Written
from cri_proxy.state.store import Store
from cri_proxy.state.tables import Statement
from policies.base import ContainerKey, Pinning
from sysfs.cpuset import CpuSet
from tests.fakes.rows import keys, make_row, make_sandbox, packed, rows, sandboxes
from tests.fakes.store import MemoryStore
from tests.unit.cri_proxy.node.stage import background

Change = tuple[list[Saveable], list[ContainerKey | str]]
STATES: tuple[RowState, ...] = ("reserved", "created", "running", "exited")
changes = st.tuples(
    st.lists(rows | sandboxes | packed, max_size=3), st.lists(keys | st.sampled_from(["s1", "s2"]), max_size=2)
)


async def save_and_reopen(path: Path, history: list[Change | None], model: MemoryStore) -> None:
    store = Store.open(path)
    for change in history:
        if change is None:
            await store.close()
            store = Store.open(path)
        else:
            await asyncio.gather(store.save(*change), model.save(*change))
        assert store.load() == model.load()
    await store.close()


@given(st.lists(changes | st.none(), max_size=6))
@settings(max_examples=25, deadline=None)
async def test_any_history_of_saves_and_reopens_gives_the_models_content(history: list[Change | None]) -> None:
    with TemporaryDirectory() as directory:
        await save_and_reopen(Path(directory) / "state" / "state.db", history, MemoryStore())


async def test_concurrent_saves_take_effect_in_order(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "state.db")
    await asyncio.gather(*(store.save([make_row(order=i)]) for i in range(200)))
    saved = store.load()
    await store.close()
    assert [row.created_order for row in saved.rows] == [199]


class Counting(LocalSession):
    """Counts the transactions, those that wait for the disk, and the grants that they write."""

    commits = 0
    syncs = 0
    grants = 0

    def write(self, statements: Sequence[Statement], is_synced: bool = True) -> Written:
        self.commits += 1
        self.syncs += is_synced
        self.grants += sum(sql.startswith("INSERT OR REPLACE INTO grants") for sql, _ in statements)
        return super().write(statements, is_synced)


async def test_saves_of_one_turn_of_the_loop_share_a_commit(tmp_path: Path) -> None:
    session = Counting(tmp_path / "state.db")
    store = Store(tmp_path / "state.db", session, session.open(1.0))
    await asyncio.gather(store.save([make_row("a")]), store.save([make_row("b")]))
    await store.close()
    assert session.commits == 1


async def test_a_grant_that_the_file_has_is_not_written_again(tmp_path: Path) -> None:
    session = Counting(tmp_path / "state.db")
    store = Store(tmp_path / "state.db", session, session.open(1.0))
    row = make_row()
    for state in STATES:
        await store.save([replace(row, state=state)])
    assert (session.grants, store.load().rows) == (1, (replace(row, state=STATES[-1]),))
    await store.close()


@pytest.mark.parametrize(
    ("puts", "syncs"),
    [
        ([replace(make_row(), state="reserved")], 1),
        ([make_row("a"), replace(make_row("b"), unconfirmed=Pinning(CpuSet.of([1])))], 1),
        ([make_row(), make_sandbox()], 0),
    ],
)
async def test_the_disk_is_waited_for_where_the_runtime_is_yet_to_hear_of_it(
    tmp_path: Path, puts: list[Saveable], syncs: int
) -> None:
    session = Counting(tmp_path / "state.db")
    store = Store(tmp_path / "state.db", session, session.open(1.0))
    await store.save(puts)
    await store.save([], ["s1"])
    await store.close()
    assert (session.commits, session.syncs) == (2, syncs)


async def test_what_waits_is_saved_at_the_end(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "state.db")
    saving = background(store.save([make_row()]))
    await asyncio.sleep(0)
    await store.close()
    await saving
    assert Store.open(tmp_path / "state.db").load().rows == (make_row(),)


async def test_after_a_delete_and_after_a_failure_a_row_is_written_in_whole(tmp_path: Path) -> None:
    session = Counting(tmp_path / "state.db")
    store = Store(tmp_path / "state.db", session, session.open(1.0))
    row = make_row()
    await store.save([row])
    await store.save([], [row.key])
    await store.save([row])
    (tmp_path / "state.db").unlink()
    with pytest.raises(StoreError, match="removed"):
        await store.save([row])
    await store.save([replace(row, state="running")])
    assert (session.grants, store.load().rows) == (3, (replace(row, state="running"),))
    await store.close()


async def test_what_waits_while_a_commit_runs_shares_the_next_one(tmp_path: Path) -> None:
    session = Counting(tmp_path / "state.db")
    store = Store(tmp_path / "state.db", session, session.open(1.0))
    await asyncio.gather(*(store.save([make_row(f"u{i}")]) for i in range(500)))
    await store.close()
    assert session.commits < 100


async def test_a_cancelled_caller_does_not_withdraw_its_save(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "state.db")
    task = asyncio.get_running_loop().create_task(store.save([make_row()]))
    await asyncio.sleep(0)
    task.cancel()
    saved = store.load()
    await store.close()
    assert saved.rows == (make_row(),)


async def test_a_failed_commit_tells_everybody_and_saves_nothing(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "state.db", busy_seconds=0.01)
    blocker = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    outcomes = await asyncio.gather(store.save([make_row()]), store.save([make_sandbox()]), return_exceptions=True)
    blocker.close()
    saved = store.load()
    await store.close()
    assert [type(outcome) for outcome in outcomes] == [StoreError, StoreError]
    assert saved == Saved()


async def test_a_value_that_cannot_be_saved_fails_alone(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "state.db")
    saves = (store.save([make_row("a")]), store.save([make_row("b", order=1 << 70)]), store.save([make_row("c")]))
    outcomes = await asyncio.gather(*saves, return_exceptions=True)
    saved = store.load()
    await store.close()
    assert [type(outcome) for outcome in outcomes] == [type(None), StoreError, type(None)]
    assert [row.key.pod_uid for row in saved.rows] == ["a", "c"]


async def test_after_a_failed_commit_the_next_one_works(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "state.db", busy_seconds=0.01)
    blocker = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="cannot save"):
        await store.save([make_row()])
    blocker.close()
    await store.save([make_sandbox()])
    saved = store.load()
    await store.close()
    assert saved == Saved((), (make_sandbox(),))


async def test_a_file_that_is_removed_while_in_use_is_missed_once_and_made_again(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "state.db")
    await store.save([make_row()])
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"state.db{end}").unlink(missing_ok=True)
    with pytest.raises(StoreError, match="removed"):
        await store.save([make_row()])
    await store.save([make_row()])
    await store.close()
    again = Store.open(tmp_path / "state.db")
    assert [row.key for row in again.load().rows] == [make_row().key]
    await again.close()


async def test_a_file_that_cannot_be_opened_is_opened_by_the_first_save_that_can(tmp_path: Path) -> None:
    blocker = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    (tmp_path / "state.db").chmod(0o600)
    blocker.execute("BEGIN EXCLUSIVE")
    store = Store.open_or_wait(tmp_path / "state.db", busy_seconds=0.01)
    assert (store.load(), "cannot open: database is locked" in store.problem) == (Saved(), True)
    blocker.close()
    await store.save([make_row()])
    assert store.load().rows == (make_row(),)
    await store.close()


def test_what_only_a_person_can_mend_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "state.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic link"):
        Store.open_or_wait(tmp_path / "state.db")


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store: GrantStore = Store.open(tmp_path / "state.db")
    await store.close()
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.save([make_row()])


async def test_a_damaged_store_opens_empty_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"garbage" * 1000)
    store = Store.open(tmp_path / "state.db")
    assert store.load() == Saved()
    assert "damaged-1" in (store.recovered or "")
    await store.close()


_SAVE_UNTIL_KILLED = """
import asyncio, pathlib, sys
from cri_proxy.state.store import Store
from tests.fakes.rows import make_row

async def main():
    store = Store.open(pathlib.Path(sys.argv[1]))
    async def worker(w):
        for i in range(1_000_000):
            await store.save([make_row(f"{w}-{i}")])
            print(f"{w}-{i}", flush=True)
    await asyncio.gather(*(worker(w) for w in range(4)))

asyncio.run(main())
"""


async def test_a_kill_in_the_middle_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with subprocess.Popen([sys.executable, "-c", _SAVE_UNTIL_KILLED, str(path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        acknowledged = [child.stdout.readline().split()[0].decode() for _ in range(40)]
        os.kill(child.pid, signal.SIGKILL)
        acknowledged += [line.decode().strip() for line in child.stdout if line.endswith(b"\n")]
    store = Store.open(path)
    saved = {row.key.pod_uid for row in store.load().rows}
    await store.close()
    assert store.recovered is None
    assert set(acknowledged) <= saved


class Faulty(LocalSession):
    """Raises at the first write what no disk would."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._faults = [KeyError("a bug")]

    def write(self, statements: Sequence[Statement], is_synced: bool = True) -> Written:
        if self._faults:
            raise self._faults.pop()
        return super().write(statements, is_synced)


async def test_an_unexpected_error_fails_its_save_and_no_later_one(tmp_path: Path) -> None:
    session = Faulty(tmp_path / "state.db")
    store = Store(tmp_path / "state.db", session, session.open(1.0))
    with pytest.raises(StoreError, match=r"internal error: KeyError\('a bug'\)"):
        await store.save([make_row("a")])
    await store.save([make_row("b")])
    assert [row.key.pod_uid for row in store.load().rows] == ["b"]
    await store.close()
