"""Servers that send less row metadata, no checksums, or the temporal types of old tables: nothing is guessed."""

from __future__ import annotations

import dataclasses
import subprocess
from typing import Any

import pytest

from changefeed.mysql.binlog import Parser, Rows, TableMap
from changefeed.mysql.binlog.values import UnknownSign
from tests.mysql.binlog.histories import History, listed_events
from tests.services.database import Database, MariaDb, MySql

pytestmark = pytest.mark.nightly

SQL = """\
CREATE DATABASE m; USE m;
CREATE TABLE t (id INT PRIMARY KEY, u INT UNSIGNED, v VARCHAR(5), e ENUM('a','b'), s SET('x','y'), b BINARY(4));
INSERT INTO t VALUES (-1, 4294967295, 'é', 'b', 'x,y', 'a'), (5, 7, '', 'a', '', '')
"""
UNKNOWN = UnknownSign(-1, 2**32 - 1)


@pytest.mark.parametrize(
    "server, metadata, row",
    [
        (MariaDb, "NO_LOG", (UNKNOWN, UNKNOWN, "é".encode(), {"index": 2}, {"bits": 3}, b"a")),
        (MariaDb, "MINIMAL", (-1, 2**32 - 1, "é", {"index": 2}, {"bits": 3}, b"a\0\0\0")),
        (MySql, "MINIMAL", (-1, 2**32 - 1, "é", {"index": 2}, {"bits": 3}, b"a\0\0\0")),
    ],
)
def test_values_without_details_stay_as_they_are(
    server: type[Database], metadata: str, row: tuple[object, ...]
) -> None:
    with server(f"--binlog-row-metadata={metadata}", "--binlog-checksum=NONE") as database:
        database.execute(SQL)
        data = database.binlogs()[0].read_bytes()
        (event,) = [e for e in Parser().file(data) if isinstance(e, Rows)]
        assert event.rows[0] == (None, row)
        assert event.rows[1][1] is not None
        assert event.rows[1][1][:2] == (5, 7)
        (event,) = [e for e in Parser(complete=_definition).file(data) if isinstance(e, Rows)]
        assert event.images()[0][1] == {"id": -1, "u": 2**32 - 1, "v": "é", "e": "b", "s": "x,y", "b": b"a\0\0\0"}


def _definition(table: TableMap) -> TableMap:
    """The details of table t, as a caller has them from DDL."""
    details: list[dict[str, Any]] = [
        {"name": "id", "unsigned": False},
        {"name": "u", "unsigned": True},
        {"name": "v", "charset": "utf8mb4"},
        {"name": "e", "members": ("a", "b")},
        {"name": "s", "members": ("x", "y")},
        {"name": "b", "charset": "binary"},
    ]
    columns = (dataclasses.replace(c, **detail) for c, detail in zip(table.columns, details, strict=True))
    return dataclasses.replace(table, columns=tuple(columns))


def test_temporal_types_of_tables_from_before_mysql_5_6() -> None:
    with MariaDb("--mysql56-temporal-format=OFF") as database:
        database.execute("""\
CREATE DATABASE m; USE m; SET sql_mode = '';
CREATE TABLE t (id INT PRIMARY KEY, a TIME, b DATETIME, c TIMESTAMP NULL, d DATE);
INSERT INTO t VALUES (1, '-838:59:59', '9999-12-31 23:59:58', '2024-01-02 03:04:05', '2024-02-03'),
  (2, '00:00:01', '0000-00-00 00:00:00', '0000-00-00 00:00:00', '0000-00-00')""")
        (event,) = [e for e in Parser().file(database.binlogs()[0].read_bytes()) if isinstance(e, Rows)]
    assert [str(column.type) for column in event.table.columns] == ["int", "time", "datetime", "timestamp", "date"]
    assert [after for _, after in event.rows] == [
        (1, "-838:59:59", "9999-12-31 23:59:58", "2024-01-02T03:04:05Z", "2024-02-03"),
        (2, "00:00:01", "0000-00-00 00:00:00", "0000-00-00 00:00:00", "0000-00-00"),
    ]


def test_positions_equal_those_of_mariadb_binlog() -> None:
    history = History(5, ["i32", "vc_utf8mb4", "dt6"], tables=2)
    with MariaDb() as database:
        database.execute(f"{history.create()}{history.changes(20)}FLUSH LOGS")
        file = database.binlogs()[0]
        printed = subprocess.run(
            ["mariadb-binlog", "-vv", str(file)], capture_output=True, timeout=60, check=True
        ).stdout
        events = list(Parser().file(file.read_bytes()))
    positions = [int(line.removeprefix(b"# at ")) for line in printed.splitlines() if line.startswith(b"# at ")]
    assert positions == [position for position, _, _ in listed_events(events)]
    for statement, op in ((b"### INSERT", "insert"), (b"### UPDATE", "update"), (b"### DELETE", "delete")):
        rows = sum(len(event.rows) for event in events if isinstance(event, Rows) and event.op == op)
        assert rows == sum(line.startswith(statement) for line in printed.splitlines())
