import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cri_proxy.state.decisions import KEPT_WITHOUT_ROW, RECORD_BYTES, Outcome, pack
from cri_proxy.state.migrate import statements
from cri_proxy.state.rows import DisplacedGrant, GonePod, Saved
from cri_proxy.state.tables import apply, bound_decisions, change, read
from policies.base import ContainerKey
from tests.fakes.rows import make_record, make_row, make_sandbox


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(":memory:", isolation_level=None)
    apply(database, [(sql, ()) for sql in statements(0)])
    yield database
    database.close()


def test_rows_come_back_sorted_by_container(connection: sqlite3.Connection) -> None:
    later, earlier = make_row("u2"), make_row("u1")
    apply(connection, change([later, earlier, make_sandbox()], []))
    assert read(connection) == Saved((earlier, later), (make_sandbox(),))


def test_who_was_moved_for_a_container_is_remembered_with_it(connection: sqlite3.Connection) -> None:
    row = replace(make_row(), displaced=(DisplacedGrant(make_row("other").grant, 7),))
    apply(connection, change([row], []))
    assert read(connection).rows == (row,)


def test_deletes_come_before_puts(connection: sqlite3.Connection) -> None:
    apply(connection, change([make_row("u")], [ContainerKey("u", "c0")]))
    assert len(read(connection).rows) == 1


@pytest.mark.parametrize(("is_synced", "synchronous"), [(True, 2), (False, 1)])
def test_a_transaction_is_synced_as_asked(connection: sqlite3.Connection, is_synced: bool, synchronous: int) -> None:
    """As of SQLite's PRAGMA synchronous: 1 (NORMAL) leaves a commit in the write-ahead log to the kernel."""
    apply(connection, change([make_row()], []), is_synced=is_synced)
    assert connection.execute("PRAGMA synchronous").fetchone() == (synchronous,)


def test_a_failing_transaction_leaves_nothing(connection: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.Error):
        apply(connection, [*change([make_row()], []), ("INSERT INTO nowhere VALUES (1)", ())])
    assert read(connection) == Saved()


def test_a_record_goes_with_the_row_of_its_container(connection: sqlite3.Connection) -> None:
    record = pack(make_record())
    apply(connection, change([make_row(), record], []))
    assert read(connection).decisions == (record,)
    apply(connection, change([], [make_row().key]))
    assert read(connection) == Saved()


def test_the_record_of_a_refusal_outlives_the_row(connection: sqlite3.Connection) -> None:
    refused = pack(make_record(outcome=Outcome.REFUSED))
    apply(connection, change([make_row(), refused], []))
    apply(connection, change([], [make_row().key]))
    assert read(connection).decisions == (refused,)


def test_of_refusals_only_the_newest_are_kept(connection: sqlite3.Connection) -> None:
    refused = [pack(make_record(f"u{i}", outcome=Outcome.REFUSED, at_seconds=i)) for i in range(KEPT_WITHOUT_ROW + 2)]
    apply(connection, change([pack(make_record("live", at_seconds=0)), *refused], []))
    kept = read(connection).decisions
    assert [record.key.pod_uid for record in kept[:2]] == ["live", "u2"]
    assert len(kept) == 1 + KEPT_WITHOUT_ROW


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE grants SET state = 'dreaming'",
        "UPDATE grants SET value = '{'",
        'UPDATE grants SET value = \'{"pool": "root"}\'',
        "UPDATE grants SET acknowledged = '[]'",
        "UPDATE sandboxes SET annotations = '[[1]]'",
        "UPDATE grants SET warm_at_seconds = 'soon'",
    ],
)
def test_a_row_that_makes_no_sense_is_an_error(connection: sqlite3.Connection, damage: str) -> None:
    apply(connection, change([make_row(), make_sandbox()], []))
    connection.execute(damage)
    with pytest.raises(ValueError):  # JSON's and the codec's errors share only this
        read(connection)


def test_a_pod_that_is_gone_takes_all_its_decisions_with_it(connection: sqlite3.Connection) -> None:
    refused = [pack(make_record(uid, name, outcome=Outcome.REFUSED)) for uid in ("u1", "u2") for name in "ab"]
    apply(connection, change([*refused, make_row("u1")], []))
    apply(connection, change([], [GonePod("u1")]))
    kept = read(connection)
    assert [record.key.pod_uid for record in kept.decisions] == ["u2", "u2"]
    assert len(kept.rows) == 1  # a row is deleted by its key


def test_records_of_an_older_version_are_cut_in_the_file(connection: sqlite3.Connection) -> None:
    records = [pack(replace(make_record(f"u{i}", outcome=Outcome.NOT_CREATED), failure="marker")) for i in range(3)]
    apply(connection, change(records, []))
    connection.execute("UPDATE decisions SET value = replace(value, 'marker', ?)", ("x" * 400_000,))
    connection.execute("UPDATE decisions SET value = '{' || value WHERE pod_uid = 'u1'")
    apply(connection, bound_decisions(connection))
    kept = read(connection).decisions
    assert [record.key.pod_uid for record in kept] == ["u0", "u2"]  # a damaged one cannot be cut
    assert all(len(record.text) < RECORD_BYTES for record in kept)
    assert bound_decisions(connection) == ()
