"""The order of a Debezium snapshot: its schema changes, then its rows, then what was streamed."""

from __future__ import annotations

from collections import Counter

import pyarrow.compute as pc

from changefeed import record_log
from changefeed.frames.transactions import SIGNAL
from changefeed.model.event import SchemaChange
from changefeed.pipeline.pending.chunk_info import chunk_info
from changefeed.stages.decode import RecordReader
from tests.protocols.conformance.cases import DATA

SNAPSHOT = DATA / "debezium-mysql" / "mariadb-types_snapshot.jsonl.gz"
SIGNALS = DATA / "debezium-mysql" / "mariadb-signal_incremental.jsonl.gz"


def test_schema_changes_come_right_before_the_position_that_rows_share() -> None:
    read = RecordReader("debezium-mysql", {})
    for records in record_log.read(SNAPSHOT):
        decoded = read(records)
        changes = {e.commit_ts for e in decoded.control if isinstance(e, SchemaChange) and "snapshot" in e.origin}
        rows = {
            ts
            for table in decoded.tables
            for ts in table.rows.filter(pc.equal(table.rows.column("op"), "read")).column("commit_ts").to_pylist()
        }
        assert {ts - 1 for ts in rows} == changes
        assert len(rows) == 1


def test_chunks_distinguish_rows_of_snapshots_and_signals_from_streamed_rows() -> None:
    read, marks = RecordReader("debezium-mysql", {}), Counter[str | None]()
    for records in record_log.read(SIGNALS):
        for row in read.pack(read(records), records).to_pylist():
            lines = chunk_info("1", row).transactions
            if lines is not None:
                marks.update(lines.column("snapshot").to_pylist())
    assert marks["last"] == 1
    assert marks["incremental"] == 3
    assert marks[SIGNAL] == 7
    assert marks["true"] == 13
