import contextlib
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.errors import StoreError
from cri_proxy.foreign_text import SENTENCE_BYTES
from cri_proxy.state.database import open_database, require_known_version
from cri_proxy.state.decisions import Outcome, pack, unpack
from cri_proxy.state.migrate import STEPS
from cri_proxy.state.rows import Saved
from cri_proxy.state.tables import apply, change
from tests.fakes.rows import make_record, make_row
from tests.golden.stores import version_5, version_7, version_8, version_9

STORES = Path(__file__).parents[3] / "golden" / "stores"
VERSION_1, VERSION_5, VERSION_7, VERSION_8, VERSION_9 = (STORES / f"version-{number}.db" for number in (1, 5, 7, 8, 9))


def fill(path: Path) -> None:
    connection, _ = open_database(path)
    apply(connection, change([make_row(f"u{i}") for i in range(40)], []))
    connection.close()


def pragma(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(sql)
    connection.close()


def test_every_file_is_ours_alone(tmp_path: Path) -> None:
    connection, _ = open_database(tmp_path / "state" / "state.db")
    modes = {entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in (tmp_path / "state").iterdir()}
    connection.close()
    assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}


def test_commits_wait_for_the_disk(tmp_path: Path) -> None:
    connection, _ = open_database(tmp_path / "state.db")
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


@pytest.mark.parametrize("at", [0, 4096])
def test_a_damaged_file_is_moved_aside_and_reported(tmp_path: Path, at: int) -> None:
    path = tmp_path / "state.db"
    fill(path)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\x5a" * 4096)
    connection, opened = open_database(path)
    connection.close()
    assert opened.saved == Saved()
    assert opened.recovered is not None
    assert f"is now {tmp_path}/state.db.damaged-1" in opened.recovered
    assert (tmp_path / "state.db.damaged-1").read_bytes()[at : at + 1] == b"\x5a"


def test_earlier_damaged_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for _ in range(2):
        path.write_bytes(b"not a database at all, " * 200)
        open_database(path)[0].close()
    assert sorted(p.name for p in tmp_path.glob("*.damaged-?")) == ["state.db.damaged-1", "state.db.damaged-2"]


def test_a_row_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    fill(tmp_path / "state.db")
    pragma(tmp_path / "state.db", "UPDATE grants SET value = 'x' WHERE pod_uid = 'u7'")
    connection, opened = open_database(tmp_path / "state.db")
    connection.close()
    assert opened.recovered is not None


def test_a_store_of_version_1_is_taken_over_whole(tmp_path: Path) -> None:
    """The file was written by the program whose newest version that was."""
    shutil.copy(VERSION_1, tmp_path / "state.db")
    connection, opened = open_database(tmp_path / "state.db")
    connection.close()
    rows = [(row.sandbox_id, row.key.name, row.state, str(row.grant.exclusive)) for row in opened.saved.rows]
    assert rows == [
        ("s-web", "c0", "running", "4-5"),
        ("s-web", "init", "exited", "4-5"),
        ("s-job", "c0", "reserved", ""),
    ]
    assert [sandbox.pod.name for sandbox in opened.saved.sandboxes] == ["web"]
    assert opened.recovered is None


def test_a_store_of_version_5_keeps_every_field_of_every_request(tmp_path: Path) -> None:
    """The file was written by the program whose newest version that was, from values as those of ``version_5``."""
    shutil.copy(VERSION_5, tmp_path / "state.db")
    connection, opened = open_database(tmp_path / "state.db")
    connection.close()
    assert opened.recovered is None
    assert opened.saved.rows == version_5.ROWS
    assert opened.saved.sandboxes == (version_5.SANDBOX,)
    assert [unpack(decision) for decision in opened.saved.decisions] == [version_5.DECISION]


def test_a_store_of_version_7_keeps_all_devices_of_both_lists_in_one(tmp_path: Path) -> None:
    """The file was written by the program whose newest version that was, from values as those of ``version_7``."""
    shutil.copy(VERSION_7, tmp_path / "state.db")
    connection, opened = open_database(tmp_path / "state.db")
    connection.close()
    assert opened.recovered is None
    assert opened.saved.rows == version_7.ROWS
    assert [unpack(decision) for decision in opened.saved.decisions] == list(version_7.DECISIONS)


def test_a_store_of_version_8_keeps_all_that_requests_ask_for_in_one_value(tmp_path: Path) -> None:
    """The file was written by the program whose newest version that was, from values as those of ``version_8``."""
    shutil.copy(VERSION_8, tmp_path / "state.db")
    connection, opened = open_database(tmp_path / "state.db")
    connection.close()
    assert opened.recovered is None
    assert opened.saved.rows == version_8.ROWS
    assert [unpack(decision) for decision in opened.saved.decisions] == list(version_8.DECISIONS)


def test_a_store_of_version_9_keeps_the_localities_of_requests_under_their_new_name(tmp_path: Path) -> None:
    """The file was written by the program whose newest version that was, from values as those of ``version_9``."""
    shutil.copy(VERSION_9, tmp_path / "state.db")
    connection, opened = open_database(tmp_path / "state.db")
    connection.close()
    assert opened.recovered is None
    assert opened.saved.rows == version_9.ROWS
    assert [unpack(decision) for decision in opened.saved.decisions] == list(version_9.DECISIONS)


def test_a_damaged_row_of_version_5_is_damage_still(tmp_path: Path) -> None:
    shutil.copy(VERSION_5, tmp_path / "state.db")
    pragma(tmp_path / "state.db", """UPDATE grants SET value = value || '["tell",'""")
    connection, opened = open_database(tmp_path / "state.db")
    connection.close()
    assert opened.recovered is not None


def test_a_migrated_row_can_be_written_again_with_what_is_new(tmp_path: Path) -> None:
    shutil.copy(VERSION_1, tmp_path / "state.db")
    connection, opened = open_database(tmp_path / "state.db")
    cold = replace(opened.saved.rows[0], warm_at_seconds=1790000000.5)
    apply(connection, change([cold], []))
    connection.close()
    connection, again = open_database(tmp_path / "state.db")
    connection.close()
    assert again.saved.rows == (cold, *opened.saved.rows[1:])


def test_a_newer_schema_is_moved_aside_whole_and_an_empty_store_takes_its_place(tmp_path: Path) -> None:
    fill(tmp_path / "state.db")
    pragma(tmp_path / "state.db", "PRAGMA user_version = 99")
    connection, opened = open_database(tmp_path / "state.db")
    connection.close()
    assert opened.saved == Saved()
    assert opened.recovered == (
        f"{tmp_path}/state.db was newer than this program (has schema version 99, this program supports up to "
        f"{len(STEPS)}) and is now {tmp_path}/state.db.newer-1"
    )
    pragma(tmp_path / "state.db.newer-1", f"PRAGMA user_version = {len(STEPS)}")
    connection, kept = open_database(tmp_path / "state.db.newer-1")
    connection.close()
    assert (kept.recovered, bool(kept.saved.rows)) == (None, True)


@pytest.mark.parametrize("name", ["state.db", "state.db-wal", "state.db-shm"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_moved_aside_with_all_that_belongs_to_the_store(
    tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    if name != "state.db":
        fill(tmp_path / "state.db")
    (tmp_path / name).unlink(missing_ok=True)
    make(tmp_path / name)
    for number in (1, 2):
        connection, opened = open_database(tmp_path / "state.db")
        connection.close()
        assert (opened.saved, bool(opened.recovered)) == (Saved(), number == 1)
    aside = tmp_path / name.replace("state.db", "state.db.damaged-1")
    assert aside.exists()
    assert not aside.is_file()


def test_whether_the_schema_is_newer_can_be_asked_while_another_process_has_the_file(tmp_path: Path) -> None:
    with contextlib.closing(open_database(tmp_path / "state.db")[0]) as used:
        require_known_version(tmp_path / "state.db")
        used.execute("PRAGMA user_version = 99")
        with pytest.raises(StoreError, match=r"schema version 99.*start the newer program, or move the file away"):
            require_known_version(tmp_path / "state.db")


def test_a_store_that_is_not_there_is_not_newer(tmp_path: Path) -> None:
    require_known_version(tmp_path / "state.db")
    assert list(tmp_path.iterdir()) == []


def test_a_linked_companion_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.db-wal").symlink_to(tmp_path / "victim")
    with pytest.raises(StoreError, match="symbolic link"):
        open_database(tmp_path / "state.db")


def test_a_locked_database_is_not_damage(tmp_path: Path) -> None:
    fill(tmp_path / "state.db")
    holder = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="other processes that use the file"):
        open_database(tmp_path / "state.db", busy_seconds=0.01)
    holder.close()
    assert not list(tmp_path.glob("*.damaged-*"))


def test_a_file_that_an_older_version_filled_with_the_runtimes_words_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection, _ = open_database(path)
    records = [pack(replace(make_record(f"u{i}", outcome=Outcome.NOT_CREATED), failure="marker")) for i in range(60)]
    apply(connection, change([make_row(), *records], []))
    connection.execute("UPDATE decisions SET value = replace(value, 'marker', ?)", ("x" * 400_000,))
    connection.close()
    assert path.stat().st_size > 20 << 20
    connection, again = open_database(path)
    connection.close()
    assert path.stat().st_size < 1 << 20
    assert (len(again.saved.rows), len(again.saved.decisions)) == (1, 60)
    assert sum(len(record.text) for record in again.saved.decisions) < 60 * 2 * SENTENCE_BYTES
