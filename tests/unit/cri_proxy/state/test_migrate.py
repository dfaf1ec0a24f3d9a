"""Schema versions."""

import sqlite3

import pytest

from cri_proxy.state.migrate import STEPS, create, statements


def rename() -> tuple[str, ...]:
    """A made-up step: 1 -> 2."""
    return ("ALTER TABLE grants RENAME COLUMN state TO phase",)


def test_a_new_file_gets_every_step() -> None:
    steps = [sql for step in STEPS for sql in step()]
    assert statements(0) == (*steps, f"PRAGMA user_version = {len(STEPS)}")


def test_an_older_store_gets_only_what_it_lacks() -> None:
    assert statements(1, (create, rename)) == (*rename(), "PRAGMA user_version = 2")


@pytest.mark.parametrize("version", [-1, len(STEPS) + 1])
def test_an_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(ValueError, match="schema version"):
        statements(version)


def test_old_rows_survive_a_step() -> None:
    connection = sqlite3.connect(":memory:")
    for sql in statements(0, (create,)):
        connection.execute(sql)
    connection.execute("INSERT INTO grants VALUES ('u', 'c', 's', 'i', 'running', 1, NULL, '{}')")
    for sql in statements(1, (create, rename)):
        connection.execute(sql)
    assert connection.execute("SELECT pod_uid, phase FROM grants").fetchall() == [("u", "running")]
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.close()
