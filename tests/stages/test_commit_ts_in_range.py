"""A commit_ts that an int64 cannot hold is a dead letter: protocols allow it, and no order of a table has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changefeed.model.batch import record_batch
from changefeed.protocols.ticdc_open import framing
from changefeed.stages.decode import RecordReader

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


def record(offset: int, kind: str, ts: int) -> dict[str, object]:
    key, value = EVENTS[kind]
    text = b"" if value is None else json.dumps(value).encode()
    framed_key, framed_value = framing.join([(json.dumps({"ts": ts, **key}).encode(), text)])
    return {"topic": "log", "partition": 0, "offset": offset, "key": framed_key, "value": framed_value}
