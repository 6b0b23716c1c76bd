"""A commit_ts that an int64 cannot hold is a dead letter: protocols allow it, and no order of a table has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changefeed.model.batch import record_batch
from changefeed.protocols.ticdc_open import framing
from changefeed.stages.decode import RecordReader
from tests.protocols.debezium_mysql.records import SOURCE, value
from tests.protocols.debezium_mysql.records import record as row_record

HIGHEST = 2**63 - 2
ROW = {"u": {"id": {"t": 3, "h": True, "f": 11, "v": 1}}}
EVENTS: dict[str, tuple[dict[str, Any], Any]] = {
    "rows": ({"scm": "shop", "tbl": "t", "t": 1}, ROW),
    "schema": ({"scm": "shop", "tbl": "t", "t": 2}, {"q": "CREATE TABLE t (id INT PRIMARY KEY)", "t": 3}),
    "resolved": ({"t": 3}, None),
}


@pytest.mark.parametrize("ts", [HIGHEST + 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("kind", EVENTS)
def test_a_higher_commit_ts_is_a_dead_letter(kind: str, ts: int) -> None:
    read = RecordReader("ticdc-open", {})
    records = record_batch([record(0, kind, 5), record(1, kind, ts), record(2, kind, 7)])
    decoded = read(records)
    assert [(letter.reason, letter.error) for letter in decoded.dead] == [
        (
            "protocol",
            f"ticdc-open: commit_ts {ts} is above 9223372036854775806, the highest that a table can reach (log:0:1)",
        )
    ]
    (letter,) = decoded.dead
    assert letter.table == (None if kind == "resolved" else "t")
    assert record(1, kind, ts)["value"] == letter.value
    chunks = read.pack(decoded, records).to_pylist()
    assert {chunk["max_commit_ts"] for chunk in chunks if chunk["kind"] == kind} <= {5, 7}
    assert sum(chunk["rows"] for chunk in chunks if chunk["kind"] == kind) == 2


@pytest.mark.parametrize("kind", EVENTS)
def test_the_highest_commit_ts_is_applied(kind: str) -> None:
    read = RecordReader("ticdc-open", {})
    records = record_batch([record(0, kind, HIGHEST)])
    decoded = read(records)
    assert not decoded.dead
    chunks = read.pack(decoded, records).to_pylist()
    assert [chunk["max_commit_ts"] for chunk in chunks if chunk["kind"] == kind] == [HIGHEST]


@pytest.mark.parametrize("file", [1 << 23, (1 << 24) - 1])
@pytest.mark.parametrize("op", ["c", "d"])
def test_the_position_of_a_row_may_be_too_high(file: int, op: str) -> None:
    read = RecordReader("debezium-mysql", {})
    far = debezium(1, op, file)
    records = record_batch([debezium(0, "c", 2), far, {**far, "offset": 2, "value": None}, debezium(3, "d", 3)])
    decoded = read(records)
    reason = f"debezium-mysql: commit_ts {file << 40 | 13400} is above 9223372036854775806, the highest that a table"
    dead = {letter.place.offset: letter.error for letter in decoded.dead}
    assert dead.keys() == ({1} if op == "d" else {1, 2})
    assert all(error.startswith(reason) for error in dead.values())
    kept = [row for table in decoded.tables for row in table.rows.select(["offset", "commit_ts"]).to_pylist()]
    assert kept == [{"offset": at, "commit_ts": number << 40 | 13400} for at, number in ((0, 2), (3, 3))]


def debezium(offset: int, op: str, file: int) -> dict[str, object]:
    """A row of the binlog file of this number."""
    source = SOURCE.replace("mysql-bin.000001", f"mysql-bin.{file:06}")
    images = ('{"id":1}', "null") if op == "d" else ("null", '{"id":1}')
    return row_record(b'{"id":1}', value(images[1], images[0], op, source), offset=offset)


def record(offset: int, kind: str, ts: int) -> dict[str, object]:
    key, value = EVENTS[kind]
    text = b"" if value is None else json.dumps(value).encode()
    framed_key, framed_value = framing.join([(json.dumps({"ts": ts, **key}).encode(), text)])
    return {"topic": "log", "partition": 0, "offset": offset, "key": framed_key, "value": framed_value}
