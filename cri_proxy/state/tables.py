"""Convert rows to SQL statements and back; run them as one transaction on a connection, read all tables. Blocks."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cri_proxy.codec import decode, encode
from cri_proxy.state.decisions import KEPT_WITHOUT_ROW, RECORD_BYTES, PackedDecision, bounded
from cri_proxy.state.rows import Deletable, GonePod, Row, SandboxRow, Saveable, Saved
from policies.base import ContainerKey, Grant, Labels, Pod
from policies.container_name import ContainerName

Statement = tuple[str, tuple[str | int | float | bytes | None, ...]]

# Columns are named: in a file of an older version those that a migration added stand last.
_PUT_ROW: Final = """INSERT OR REPLACE INTO grants
    (pod_uid, name, sandbox_id, container_id, state, created_order, acknowledged, doubted, warm_at_seconds, displaced,
     value)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_PUT_STATE: Final = """UPDATE grants SET
    sandbox_id = ?, container_id = ?, state = ?, created_order = ?, acknowledged = ?, doubted = ?, warm_at_seconds = ?,
    displaced = ? WHERE pod_uid = ? AND name = ?"""
_PUT_SANDBOX: Final = "INSERT OR REPLACE INTO sandboxes VALUES (?, ?, ?, ?, ?)"
_PUT_DECISION: Final = """INSERT OR REPLACE INTO decisions
    (pod_uid, name, namespace, pod, outlives_row, decided_at_seconds, value) VALUES (?, ?, ?, ?, ?, ?, ?)"""
_FORGET_OLD: Final = """DELETE FROM decisions WHERE outlives_row = 1 AND (pod_uid, name) NOT IN
    (SELECT pod_uid, name FROM decisions WHERE outlives_row = 1
     ORDER BY decided_at_seconds DESC, pod_uid DESC, name DESC LIMIT ?)"""
_DELETE_DECISION: Final = "DELETE FROM decisions WHERE pod_uid = ? AND name = ? AND outlives_row = 0"
_DELETE_DECISIONS: Final = "DELETE FROM decisions WHERE pod_uid = ?"
_DELETE_ROW: Final = "DELETE FROM grants WHERE pod_uid = ? AND name = ?"
_DELETE_SANDBOX: Final = "DELETE FROM sandboxes WHERE sandbox_id = ?"
_ROWS: Final = """SELECT
    value AS "grant", sandbox_id, container_id, state, created_order, acknowledged, doubted AS unconfirmed,
    warm_at_seconds, coalesce(displaced, '[]') AS displaced
    FROM grants ORDER BY pod_uid, name"""
_IN_JSON: Final = ("grant", "acknowledged", "unconfirmed", "displaced")  # fields of ``Row``
_DECISIONS: Final = """SELECT pod_uid, name, namespace, pod, outlives_row, decided_at_seconds, value
    FROM decisions ORDER BY decided_at_seconds, pod_uid, name"""
_LONG_DECISIONS: Final = """SELECT pod_uid, name, namespace, pod, outlives_row, decided_at_seconds, value
    FROM decisions WHERE length(value) > ?"""
_DELETE_ANY_DECISION: Final = "DELETE FROM decisions WHERE pod_uid = ? AND name = ?"
_SANDBOXES: Final = "SELECT sandbox_id, pod, annotations, cgroup_parent, config FROM sandboxes ORDER BY sandbox_id"


def _text(value: object) -> str:
    return json.dumps(encode(value, sparse=True), separators=(",", ":"), ensure_ascii=False)


def _put(row: Saveable, held: dict[ContainerKey, Grant]) -> Iterable[Statement]:
    match row:
        case SandboxRow():
            values = (row.sandbox_id, _text(row.pod), _text(row.annotations), row.cgroup_parent, row.config)
            yield _PUT_SANDBOX, values
        case PackedDecision():
            container = (row.key.pod_uid, row.key.name, row.name.namespace, row.name.pod)
            yield _PUT_DECISION, (*container, int(row.outlives_row), row.at_seconds, row.text)
            if row.outlives_row:
                yield _FORGET_OLD, (KEPT_WITHOUT_ROW,)
        case _:
            yield _put_row(row, held)


def _put_row(row: Row, held: dict[ContainerKey, Grant]) -> Statement:
    known = (None if pinning is None else _text(pinning) for pinning in (row.acknowledged, row.unconfirmed))
    key, displaced = row.key, _text(row.displaced) if row.displaced else None
    state = (row.sandbox_id, row.container_id, row.state, row.created_order, *known, row.warm_at_seconds, displaced)
    # A grant is the most of a row and changes least: its text is made once.
    if held.get(key) is row.grant:
        return _PUT_STATE, (*state, key.pod_uid, key.name)
    held[key] = row.grant
    return _PUT_ROW, (key.pod_uid, key.name, *state, _text(row.grant))


def _delete(key: Deletable, held: dict[ContainerKey, Grant]) -> Iterable[Statement]:
    match key:
        case GonePod():
            yield _DELETE_DECISIONS, (key.uid,)
        case ContainerKey():
            # The next row of this name is written in whole: an UPDATE would find no row to change.
            held.pop(key, None)
            yield _DELETE_ROW, (key.pod_uid, key.name)
            yield _DELETE_DECISION, (key.pod_uid, key.name)
        case _:
            yield _DELETE_SANDBOX, (key,)


def change(
    puts: Iterable[Saveable], deletes: Iterable[Deletable], held: dict[ContainerKey, Grant] | None = None
) -> tuple[Statement, ...]:
    """Return the statements of one save, deletes first.

    ``held`` are the grants that the table has, as far as that is known, and after this those that it will have: a row
    with the same grant is not written in whole.
    """
    held = {} if held is None else held
    deleting = [statement for key in deletes for statement in _delete(key, held)]
    return (*deleting, *(statement for row in puts for statement in _put(row, held)))


def apply(connection: sqlite3.Connection, statements: Sequence[Statement], *, is_synced: bool = True) -> None:
    """Run these statements as one transaction; roll it back on any error.

    A process that is killed after that loses nothing; where it is synced, neither does a machine without power.
    Raises sqlite3.Error, and ValueError or OverflowError for a value that SQLite cannot hold.
    """
    # Before BEGIN: inside a transaction SQLite refuses to change it.
    connection.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
    # The write lock now: a transaction that begins as a reader may get SQLITE_BUSY at its first write without any
    # waiting.
    connection.execute("BEGIN IMMEDIATE")
    try:
        for sql, values in statements:
            connection.execute(sql, values)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@dataclass(frozen=True, slots=True)
class _Annotations:
    """Names the type of a column that holds no dataclass, for the codec."""

    annotations: Labels


def _row(columns: sqlite3.Row) -> Row:
    """Decode a row; every value is checked, because SQLite keeps values of any type in any column."""
    named = dict(columns)
    parsed = {name: json.loads(named[name]) for name in _IN_JSON if named[name] is not None}
    return decode(Row, named | parsed)


def _sandbox(columns: sqlite3.Row) -> SandboxRow:
    sandbox_id, pod, annotations, cgroup_parent, config = columns
    pairs = decode(_Annotations, {"annotations": json.loads(annotations)}).annotations
    return SandboxRow(sandbox_id, decode(Pod, json.loads(pod)), pairs, cgroup_parent, config)


def bound_decisions(connection: sqlite3.Connection) -> tuple[Statement, ...]:
    """Return statements that bring records of an older version within today's bounds; a damaged one is deleted.

    One record is in memory at a time: an older version kept megabytes of the runtime's words in each.
    """
    statements: list[Statement] = []
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    for row in cursor.execute(_LONG_DECISIONS, (RECORD_BYTES,)):
        packed = _decision(row)
        try:
            statements += change([bounded(packed)], ())
        except ValueError:
            statements.append((_DELETE_ANY_DECISION, (packed.key.pod_uid, packed.key.name)))
    return tuple(statements)


def _decision(columns: sqlite3.Row) -> PackedDecision:
    pod_uid, name, namespace, pod, outlives_row, at_seconds, text = columns
    key, who = ContainerKey(pod_uid, name), ContainerName(namespace, pod, name)
    return PackedDecision(key, who, bool(outlives_row), at_seconds, text)


def read(connection: sqlite3.Connection) -> Saved:
    """Read all tables. Raises sqlite3.Error, or ValueError for an invalid row.

    The text of a decision is not parsed before it is asked for: no container depends on it.
    """
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    rows = tuple(map(_row, cursor.execute(_ROWS)))
    sandboxes = tuple(map(_sandbox, cursor.execute(_SANDBOXES)))
    decisions = tuple(map(_decision, cursor.execute(_DECISIONS)))
    return Saved(rows, sandboxes, decisions)
