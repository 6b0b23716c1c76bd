"""Recorded binlog files: rows equal those of SELECT, events those of SHOW BINLOG EVENTS."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changefeed.mysql.binlog import Parser, codes, split_file
from changefeed.mysql.binlog.cursor import EventCursor
from changefeed.mysql.binlog.events import (
    Event,
    Gtid,
    MariaDbGtid,
    PreviousGtids,
    Query,
    Rows,
    TransactionPayload,
    XaPrepare,
)
from changefeed.mysql.binlog.table_map import read_table_map
from tests.mysql.binlog.framing import framed
from tests.mysql.binlog.histories import Tables, kinds_of_mariadb, listed_events, rows_of
from tests.mysql.binlog.record import VECTORS

RECORDED = [
    "mariadb-types", "mariadb-events", "mysql-types", "mysql-events", "mysql-json", "mariadb-11.8-events", "mysql-9.7-events",
]  # fmt: skip


def events_of(name: str) -> list[Event]:
    return list(Parser(complete=kinds_of_mariadb).file((VECTORS / f"{name}.binlog").read_bytes()))


def described(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize("name", RECORDED)
def test_rows_equal_those_of_select(name: str) -> None:
    tables = Tables()
    for event in rows_of(iter(events_of(name))):
        tables.apply(event)
    for table, rows in described(name)["tables"].items():
        assert rows
        assert {str(key): row for key, row in tables.rows[table].items()} == rows


@pytest.mark.parametrize("name", RECORDED)
def test_events_equal_those_of_show_binlog_events(name: str) -> None:
    assert listed_events(events_of(name)) == described(name)["events"]


def test_transactions_of_mariadb_and_mysql_have_gtids_and_xa_identifiers() -> None:
    mariadb, mysql = events_of("mariadb-events"), events_of("mysql-events")
    assert [e.gtid for e in mariadb if isinstance(e, MariaDbGtid)][:3] == ["0-1-3", "0-1-4", "0-1-5"]
    assert [e.xid for e in mariadb if isinstance(e, MariaDbGtid) and e.xid] == [(7, b"g", b"b")] * 2
    assert next(e.gtid for e in mysql if isinstance(e, Gtid)) == "00008033-0000-4000-8000-000000000001:3"
    assert [(e.one_phase, e.format_id, e.gtrid, e.bqual) for e in mysql if isinstance(e, XaPrepare)] == [
        (False, 7, b"g", b"b"),
        (True, 1, b"h", b""),
    ]


def test_a_session_comes_with_its_statement() -> None:
    queries = [e for e in events_of("mysql-events") if isinstance(e, Query)]
    alter = next(e for e in queries if e.statement.startswith(b"ALTER"))
    assert (alter.text, alter.database) == ("ALTER TABLE s ADD COLUMN z INT", "logged")
    assert (alter.status.client, alter.status.updated_databases, alter.status.unread) == (45, ("logged",), b"")
    zones = {e.status.time_zone for e in queries}
    assert zones == {None, "+02:00"}


def test_columns_that_a_minimal_image_does_not_carry_are_absent() -> None:
    images = [
        (before, after)
        for event in events_of("mysql-events")
        if isinstance(event, Rows) and event.op == "update" and len(event.before_columns or ()) == 1
        for before, after in event.images()
    ]
    assert images
    assert all(list(before or ()) == ["id"] for before, _ in images)
    assert any("id" not in (after or ()) for _, after in images)


def test_a_payload_is_followed_by_its_events() -> None:
    events = events_of("mysql-events")
    payloads = [i for i, event in enumerate(events) if isinstance(event, TransactionPayload)]
    assert payloads
    for i in payloads:
        inner = [type(e).__name__ for e in events[i + 1 : i + 4]]
        assert inner == ["Query", "TableMapped", "Rows"]
        assert events[i + 1].header.position == events[i].header.position


def test_mysql_9_has_tagged_gtids_and_vectors() -> None:
    events = events_of("mysql-tagged")
    assert [(e.gtid, e.sequence_number, e.transaction_size) for e in events if isinstance(e, Gtid)] == [
        ("00009704-0000-4000-8000-000000000001:blue:1", 1, 320),
        ("00009704-0000-4000-8000-000000000001:blue:2", 2, 364),
        ("00008033-0000-4000-8000-000000000009:red:123456789", 3, 289),
        ("00009704-0000-4000-8000-000000000001:5", 4, 291),
        ("00008033-0000-4000-8000-000000000001:5", 5, 291),
    ]
    rows = [row for e in events if isinstance(e, Rows) for row in e.rows]
    assert rows[1] == ((1, [1.0, 2.5, -3e10], '{"a": 1}'), (1, [0.1, 0.2], '{"a": 1}'))
    (previous,) = [e for e in events_of("mysql-tagged-set") if isinstance(e, PreviousGtids)]
    assert previous.gtids == described("mysql-tagged-set")["gtids"]


@pytest.mark.parametrize(
    "body, charsets",
    [
        # id INT, e VECTOR(3), a, b VARCHAR(3), c VARCHAR(3) CHARACTER SET latin1, d VARCHAR(3): a default, and pairs
        (
            "6d000000000001000164000178000603f20f0f0f0f09040c000c0003000c003e0101000207fcff00003f03080d0103040d02696401650161016201"
            "6301640801000c01fc",
            [None, "binary", "utf8mb4", "utf8mb4", "latin1", "utf8mb4"],
        ),
        # id INT, a VARCHAR(3), e VECTOR(3), b VARBINARY(9), c CHAR(3) CHARACTER SET latin1, g GEOMETRY, j JSON: each
        (
            "700000000000010001640001770007030ff20ffefff5090c00040900fe0304047e0101000306fcff003f3f080701000d0103040f02696401610165"
            "016201630167016a0801000c01fe",
            [None, "utf8mb4", "binary", "binary", "latin1", None, None],
        ),
    ],
)
def test_a_vector_of_mysql_is_counted_with_the_texts(body: str, charsets: list[str | None]) -> None:
    table = read_table_map(EventCursor(bytes.fromhex(body), "event"), 6, mariadb=False)
    assert [column.charset for column in table.columns] == charsets


def test_events_carry_their_position_without_the_callers() -> None:
    parser = Parser()
    for frame in split_file((VECTORS / "mysql-events.binlog").read_bytes()):
        assert parser.feed(frame.data)[0].header.position == frame.position


def test_table_numbers_of_four_bytes_where_the_format_declares_them() -> None:
    description, *frames = split_file((VECTORS / "mysql-json.binlog").read_bytes())
    at = next(i for i, frame in enumerate(frames) if frame.data[4] == codes.TABLE_MAP)
    mapped, rows = frames[at : at + 2]
    body = bytearray(description.data[19:-4])
    for code in (codes.TABLE_MAP, rows.data[4]):
        body[57 + code - 1] = 6
    parser = Parser()
    parser.feed(framed(codes.FORMAT_DESCRIPTION, bytes(body)))
    short = [framed(frame.data[4], frame.data[19:23] + frame.data[25:-4]) for frame in (mapped, rows)]
    _, event = (parser.feed(data)[0] for data in short)
    assert isinstance(event, Rows)
    assert event.rows == next(e.rows for e in events_of("mysql-json") if isinstance(e, Rows))
