"""Columns of every type and character set: the first copy and the log have the same rows, in the same types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from changefeed.frames.chunks import unpack
from changefeed.model.batch import TableBatch, table_schema
from changefeed.model.change import RowChange, changes
from changefeed.model.table import Column
from changefeed.sources.mysql import open_changes, reader
from changefeed.sources.mysql.reader import read
from tests.mysql.binlog.histories import DATABASE, History, json_changes, kinds
from tests.mysql.binlog.record import COMPRESSED
from tests.services.database import Database, MariaDb, MariaDb118, MySql, MySql97
from tests.sources.mysql.following import section
from tests.sources.mysql.kernel import needs_kernel

Rows = dict[str, dict[int, dict[str, Any]]]  # table -> id -> column -> value


@pytest.fixture(
    params=[MariaDb, *(pytest.param(server, marks=pytest.mark.nightly) for server in (MySql, MariaDb118, MySql97))],
    ids=["mariadb", "mysql", "mariadb-11.8", "mysql-9.7"],
)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        yield server


def applied(database: Database, **options: Any) -> tuple[Rows, dict[str, dict[str, Column]]]:
    """The rows at the end of what a new source reads, and the columns that each table's rows have shown."""
    source = open_changes(section(database, tables=[f"{DATABASE}.*"], **options))
    rows, columns, before = Rows(), dict[str, dict[str, Column]](), None
    while (plan := source.plan(before, None)) is not None:
        batches = [batch for part in plan.parts for chunks in read(plan.reading, part) for batch in _rows_of(chunks)]
        events = [change for batch in batches for change in changes(batch)]
        for change in sorted(events, key=_place):
            columns.setdefault(change.table, {}).update({c.name: c for c in change.columns or ()})
            table = rows.setdefault(change.table, {})
            row = table.pop(change.before["id"], {}) if change.before is not None else {}
            if change.after is not None:
                kept = {name: change.irregular.get(name, value) for name, value in change.after.items()}
                table[change.after["id"]] = row | kept
        before = plan.after.text()
    source.close()
    return rows, columns


def _place(change: RowChange) -> tuple[int, int, int]:
    assert change.position is not None
    return change.commit_ts or 0, change.position.offset, change.position.index or 0


def _rows_of(chunks: pa.RecordBatch) -> list[TableBatch]:
    return [_whole(row["payload"]) for row in chunks.to_pylist() if row["kind"] == "rows"]


def _whole(payload: bytes) -> TableBatch:
    """The batch of a payload, with NULL in the columns that are not in it."""
    batch = unpack(payload)
    schema = table_schema(batch.shape, "s")
    there = dict(zip(batch.rows.schema.names, batch.rows.columns, strict=True))
    arrays = [there[f.name] if f.name in there else pa.nulls(len(batch), f.type) for f in schema]
    return TableBatch(batch.shape, pa.RecordBatch.from_arrays(arrays, schema=schema))


@pytest.mark.nightly
def test_partial_updates_of_json_have_their_documents() -> None:
    with MySql() as server:
        server.execute(json_changes("FULL", 60))
        start = f"{server.binlogs()[0].name}:4"
        log, _ = applied(server, **{"snapshot.mode": "no_data", "starting-position": start})
        copy, _ = applied(server)
        assert log == copy
        assert copy["t0"]


@pytest.mark.parametrize(
    "seed, kernel, metadata",
    [(0, False, "FULL"), pytest.param(0, True, "MINIMAL", marks=needs_kernel), (1, None, "FULL")],
)
def test_copy_and_log_have_the_same_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch, seed: int, kernel: bool | None, metadata: str
) -> None:
    """The log is read with the kernel, without it, or as it is installed; half of its rows are compressed."""
    database.execute(f"SET GLOBAL binlog_row_metadata = {metadata}")
    if kernel is not None:
        monkeypatch.setattr(reader, "is_available", lambda: kernel)
    history = History(seed, kinds(database))
    database.execute(f"DROP DATABASE IF EXISTS {DATABASE}; FLUSH LOGS")
    start = f"{database.binlogs()[-1].name}:4"
    database.execute(history.create() + history.changes(30))
    database.execute(f"{COMPRESSED[database.connector]};{history.changes(30)}")
    log, columns_in_log = applied(database, **{"snapshot.mode": "no_data", "starting-position": start})
    copy, columns = applied(database, **{"chunk-rows": 3})
    assert sum(map(len, copy.values())) > 20
    assert columns == {table: columns_in_log[table] for table in columns}
    for table, rows in copy.items():
        assert rows.keys() == log[table].keys()
        for key, row in rows.items():
            different = {
                name: (value, log[table][key][name]) for name, value in row.items() if value != log[table][key][name]
            }
            assert not different, (table, key)
