import json
import sqlite3

import pytest

from cri_proxy.state.decisions import DecisionRecord, GrantMove, Outcome, PinningChange, unpack
from cri_proxy.state.migrate import STEPS, create, statements, unite_decision_records
from cri_proxy.state.tables import read
from sysfs.cpuset import CpuSet, NodeSet

# A record as versions 3 to 5 of the schema kept it.
OLD_REQUEST = {
    "container": {"pod_uid": "u", "name": "c"},
    "pod": {"uid": "u", "name": "web", "namespace": "shop", "qos": "Guaranteed"},
    "cpu_request_mcpu": 2000,
}
OLD_NAME = {"namespace": "shop", "pod": "db", "name": "ö"}
OLD_RECORD = {
    "request": OLD_REQUEST,
    "outcome": "placed",
    "decided_at_seconds": 1_700_000_000.25,
    "fields": ["fits", "depth"],
    "ranking": [
        {"pool": "a", "values": [1, 2], "outcome": "chosen"},
        {"pool": "root", "values": [1, 0], "outcome": "not tried"},
    ],
    "displaced": [
        {"who": OLD_NAME, "before": None, "after": {"cpus": "1", "mems": None}},
        {"who": OLD_NAME, "before": {"cpus": "1-3", "mems": "0"}, "after": {"cpus": "1", "mems": "0"}},
    ],
    "displaced_count": 2,
    "moved": [{"who": OLD_NAME, "pool_before": "a", "pool": "root", "mems_before": "0", "mems": "0-1"}],
    "company": [{"code": "affinity", "text": "db draws it"}],
    "history": [{"at_seconds": 1.5, "what": "refused", "text": "refused: no room"}],
}


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


def migrated(text: str) -> str:
    connection = sqlite3.connect(":memory:")
    step = STEPS.index(unite_decision_records)
    for sql in statements(0, STEPS[:step]):
        connection.execute(sql)
    connection.execute("INSERT INTO decisions VALUES ('u', 'c', 'shop', 'web', 0, 7.5, ?)", (text,))
    for sql in statements(step):
        connection.execute(sql)
    (found,) = connection.execute("SELECT value FROM decisions").fetchone()
    connection.close()
    return str(found)


def record_of(plain: dict[str, object]) -> DecisionRecord:
    connection = sqlite3.connect(":memory:")
    for sql in statements(0):
        connection.execute(sql)
    text = migrated(json.dumps(plain, ensure_ascii=False))
    connection.execute("INSERT INTO decisions VALUES ('u', 'c', 'shop', 'web', 0, 7.5, ?)", (text,))
    (packed,) = read(connection).decisions
    connection.close()
    return unpack(packed)


def test_an_older_record_keeps_all_that_it_says() -> None:
    record = record_of(OLD_RECORD)
    cpus, nodes = CpuSet.parse, NodeSet.parse
    assert record.displaced == (
        PinningChange("shop", "db", "ö", cpus("1"), None),
        PinningChange("shop", "db", "ö", cpus("1"), nodes("0"), cpus("1-3"), nodes("0")),
    )
    (move,) = record.moves
    assert isinstance(move, GrantMove)
    assert (str(move.who), move.pool_before, str(move.mems)) == ("shop/db/ö", "a", "0-1")
    assert (record.affinity_reasons, record.history[0].what) == (("db draws it",), "refused")
    assert [pool.why for pool in record.ranking] == ["", "is larger"]
    assert (record.decided_at_seconds, record.restored_at_seconds) == (1_700_000_000.25, None)


def test_an_older_restored_record_has_no_time_of_decision() -> None:
    record = record_of({"request": OLD_REQUEST, "outcome": "restored", "decided_at_seconds": 7.5})
    assert (record.outcome, record.decided_at_seconds, record.restored_at_seconds) == (Outcome.RESTORED, None, 7.5)


@pytest.mark.parametrize("text", ["{", "", "7", "[]", "[" * 100_000, '{"displaced": 1, "moved": null, "company": {}}'])
def test_an_older_record_that_makes_no_sense_is_left_as_it_is(text: str) -> None:
    assert migrated(text) == text
