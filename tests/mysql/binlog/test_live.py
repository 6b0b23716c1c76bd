"""Random changes of all types on a real MariaDB and MySQL: the parsed log, applied to a dict, equals the server's SELECT."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from changefeed.mysql.binlog import Parser
from changefeed.mysql.binlog.json_diff import JsonDiff
from tests.mysql.binlog.histories import (
    DATABASE,
    History,
    Tables,
    kinds,
    kinds_of_mariadb,
    listed,
    listed_events,
    quoted,
    rows_of,
    selected,
)
from tests.services.database import Database, MariaDb, MySql

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

DOCUMENT = (
    '{"a": [1, 2.50, "é", {"k": 1e100}], "bb": {"x": null, "": "q"}, "é": 1.0, "q\\"x": [[]], '
    f'"pad": "{"p" * 200}"}}'
)
PATHS = [
    "$.a[0]", "$.a[1]", "$.a[3].k", "$.a[9]", "$.bb", "$.bb.x", '$.bb.""', '$."é"', '$."q\\"x"[0]', "$.n", "$.c", '$."a.b"',
]  # fmt: skip


@pytest.fixture(scope="module", params=[MariaDb, MySql], ids=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with request.param() as server:
        yield server


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
        events = list(parser.file(path.read_bytes()))
        assert listed_events(events) == listed(database, path.name)
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
    changes = random.Random(image)
    database.execute(f"DROP DATABASE IF EXISTS {DATABASE}; FLUSH LOGS")
    first = len(database.binlogs()) - 1
    lines = [
        f"CREATE DATABASE {DATABASE}; USE {DATABASE}",
        "CREATE TABLE t0 (id INT PRIMARY KEY, js JSON, i32 INT, js2 JSON)",
        f"SET SESSION binlog_row_value_options = PARTIAL_JSON, binlog_row_image = {image}",
    ]
    for _ in range(60):
        if changes.random() < 0.2:
            lines.append(f"REPLACE INTO t0 VALUES ({changes.randrange(4)}, {quoted(DOCUMENT)}, 1, {quoted(DOCUMENT)})")
        changed = ", ".join(_diff(changes, column) for column in changes.choice([["js"], ["js2"], ["js", "js2"]]))
        lines.append(f"UPDATE t0 SET {changed}, i32 = {changes.randrange(9)} WHERE id >= {changes.randrange(3)}")
    database.execute(";\n".join(lines))
    tables, operations = Tables(), set()
    for path in database.binlogs()[first:]:
        for event in rows_of(Parser().file(path.read_bytes())):
            tables.apply(event)
            values = [value for _, after in event.rows for value in after or ()]
            operations |= {c.operation for value in values if isinstance(value, JsonDiff) for c in value.changes}
    assert operations == {"replace", "insert", "remove"}
    assert tables.rows["t0"] == selected(database, "t0", ["js", "i32", "js2"])


def _diff(changes: random.Random, column: str) -> str:
    parts = column
    for _ in range(changes.randint(1, 3)):
        function = changes.choice(["JSON_SET", "JSON_SET", "JSON_REPLACE", "JSON_REMOVE"])
        path = changes.choice(PATHS)
        new = changes.choice(
            ["1", "2.5e0", "TRUE", "NULL", quoted("v\t"), "JSON_ARRAY(1, NULL)", "CAST('2024-01-02' AS DATE)"]
        )
        parts = f"{function}({parts}, {quoted(path)}{'' if function == 'JSON_REMOVE' else f', {new}'})"
    return f"{column} = {parts}"
