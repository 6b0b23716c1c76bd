"""Random changes of all types on a real MariaDB and MySQL: the parsed log, applied to a dict, equals the server's SELECT."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from changefeed.mysql.binlog import Parser
from changefeed.mysql.binlog.json_diff import JsonDiff
from tests.mysql.binlog.histories import (
    DATABASE,
    JSON_COLUMNS,
    History,
    Tables,
    json_changes,
    kinds,
    kinds_of_mariadb,
    listed,
    listed_events,
    rows_of,
    selected,
)
from tests.services.database import Database, MariaDb, MariaDb118, MySql, MySql97

pytestmark = pytest.mark.nightly

MODES = {
    "mysql": [
        "SET SESSION binlog_row_image = MINIMAL",
        "SET SESSION binlog_row_image = NOBLOB",
        "SET SESSION binlog_row_value_options = PARTIAL_JSON",
        "SET SESSION binlog_row_value_options = PARTIAL_JSON, binlog_row_image = MINIMAL",
        "SET SESSION binlog_row_value_options = PARTIAL_JSON, binlog_row_image = NOBLOB, binlog_transaction_compression = ON",
        "SET SESSION binlog_transaction_compression = ON",
        "SET SESSION binlog_rows_query_log_events = ON",
    ],
    "mariadb": [
        "SET SESSION binlog_row_image = MINIMAL",
        "SET SESSION binlog_row_image = NOBLOB",
        "SET GLOBAL log_bin_compress = ON; SET GLOBAL log_bin_compress_min_len = 10",
        "SET GLOBAL log_bin_compress = OFF; SET GLOBAL binlog_checksum = NONE",
    ],
}


@pytest.fixture(
    scope="module", params=[MariaDb, MySql, MariaDb118, MySql97], ids=["mariadb", "mysql", "mariadb-11.8", "mysql-9.7"]
)
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        yield server


def read_with_list(database: Database, path: Path) -> tuple[bytes, Any]:
    """A file of the log, and the server's list of its events: MariaDB adds a BINLOG_CHECKPOINT to an ended file later."""
    while True:
        shown, data = listed(database, path.name), path.read_bytes()
        if listed(database, path.name) == shown:
            return data, shown


@pytest.mark.parametrize("seed", range(3))
def test_rows_from_the_log_equal_those_of_select(database: Database, seed: int) -> None:
    history = History(seed, kinds(database))
    database.execute(f"DROP DATABASE IF EXISTS {DATABASE}; FLUSH LOGS")
    first = len(database.binlogs()) - 1
    database.execute(history.create() + history.changes(60))
    for mode in MODES[database.connector]:
        database.execute(f"{mode};\n{history.changes(30)}")
    tables, parser = Tables(), Parser(complete=kinds_of_mariadb)
    for path in database.binlogs()[first:]:
        data, shown = read_with_list(database, path)
        events = list(parser.file(data))
        assert listed_events(events) == shown
        for event in rows_of(iter(events)):
            tables.apply(event)
    for table, rows in history.selected(database).items():
        assert tables.rows.get(table, {}).keys() == rows.keys(), table
        for key, row in rows.items():
            assert tables.rows[table][key] == row, (table, key)


@pytest.mark.parametrize("image", ["FULL", "MINIMAL", "NOBLOB"])
def test_diffs_of_json_apply_to_the_document_before(database: Database, image: str) -> None:
    if database.connector != "mysql":
        pytest.skip("MariaDB has no partial updates of JSON")
    database.execute(f"DROP DATABASE IF EXISTS {DATABASE}; FLUSH LOGS")
    first = len(database.binlogs()) - 1
    database.execute(json_changes(image, 60))
    tables, operations = Tables(), set()
    for path in database.binlogs()[first:]:
        for event in rows_of(Parser().file(path.read_bytes())):
            tables.apply(event)
            values = [value for _, after in event.rows for value in after or ()]
            operations |= {c.operation for value in values if isinstance(value, JsonDiff) for c in value.changes}
    assert operations == {"replace", "insert", "remove"}
    assert tables.rows["t0"] == selected(database, "t0", JSON_COLUMNS)
