from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from changefeed.errors import SchemaError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.change import Event, RowChange, changes, decoded, events
from changefeed.model.event import DeadLetter, Heartbeat, Instant, Resolved, SchemaChange, TransactionMark
from changefeed.model.position import Position
from changefeed.model.table import Column, TableShape
from changefeed.model.text import lines
from changefeed.model.types import ColumnType
from tests.examples import large_examples
from tests.model import strategies


@given(strategies.decoded())
@large_examples(100)
def test_events_are_the_batch_again(batch: Decoded) -> None:
    (again,) = decoded(events(batch)) if events(batch) else (Decoded(),)
    assert rows_of(again) == rows_of(batch)


def rows_of(batch: Decoded) -> list[str]:
    return [line for line in lines(batch) if not line.startswith('{"kind":"shape"')]


def one(mysql: str, ready: Any, **row: Any) -> RowChange:
    shape = TableShape("shop", "t", (Column("v", ColumnType.parse(mysql), key=True),))
    builder = BatchBuilder()
    builder.add(shape, Position("shop", 0, 7), "insert", before=None, after={"v": ready}, **row)
    ((batch,),) = (builder.build(),)
    (change,) = changes(batch)
    return change


@pytest.mark.parametrize(
    "mysql, ready, value",
    [
        ("bigint unsigned", 2**64 - 1, 2**64 - 1),
        ("decimal(12,2)", Decimal("-12.50"), Decimal("-12.50")),
        ("decimal", "-12.50", Decimal("-12.50")),
        ("float", 0.1, 0.1),
        ("vector(2)", [0.1, 2.0], [0.1, 2.0]),
        ("date", 20455, date(2026, 1, 2)),
        ("datetime(3)", 1767323045100000, datetime(2026, 1, 2, 3, 4, 5, 100000)),
        ("timestamp", 1767323045000000, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("time(3)", "-838:59:59.000", "-838:59:59.000"),
        ("varchar(9)", "naïve", "naïve"),
        ("blob", b"\xff", b"\xff"),
        ("enum('a','b')", "b", "b"),
        ("set", 5, 5),
        ("json", '{"a":1}', '{"a":1}'),
        ("point", {"srid": 4326, "wkb": b"\1"}, {"srid": 4326, "wkb": b"\1"}),
    ],
)
def test_values_are_python_s_own(mysql: str, ready: Any, value: Any) -> None:
    change = one(mysql, ready)
    assert change.after == {"v": value}
    assert type(change.after["v"]) is type(value)
    assert change.key == {"v": value}


def test_a_row_has_its_place_and_time_and_prints_as_decode_prints_it() -> None:
    change = one("int", 3, commit_ts=5, commit_time=1767225600123)
    assert change.commit_time == datetime(2026, 1, 1, 0, 0, 0, 123000, UTC)
    assert str(change.position) == "shop:0:7"
    assert str(change) == "insert shop.t {v: 3}  nothing else  at shop:0:7"
    assert pickle.loads(pickle.dumps(change)) == change


def test_other_events_have_a_position_and_print_too() -> None:
    place, ddl = Position("shop", 0, 7), "CREATE TABLE t (v INT)"
    time = Instant(1767225600123000, 3)
    shown: tuple[tuple[Event, str], ...] = (
        (
            SchemaChange("create_table", "shop", "t", ddl, place),
            f"schema create_table shop.t  {ddl}",
        ),
        (Resolved(5, place), "resolved 5"),
        (TransactionMark("begin", "gtid:1", place), "transaction begin gtid:1"),
        (Heartbeat(place, time), "heartbeat 2026-01-01T00:00:00.123Z"),
    )
    for event, text in shown:
        assert str(event) == f"{text}  at shop:0:7"
        assert event.position == place
    letter = DeadLetter("bad-json", "what is wrong (shop:0:7)", "ticdc-open", place, None, b"{")
    assert str(letter) == "dead_letter bad-json  what is wrong (shop:0:7)"


@pytest.mark.parametrize(
    "us, digits, text",
    [(0, 0, "1970-01-01T00:00:00Z"), (1_500_000, 3, "1970-01-01T00:00:01.500Z"), (1, 6, "1970-01-01T00:00:00.000001Z")],
)
def test_an_instant_is_a_datetime_with_its_digits(us: int, digits: int, text: str) -> None:
    instant = Instant(us, digits)
    assert str(instant) == text
    assert instant.datetime == datetime.fromisoformat(text)
    assert f"{instant:%H:%M:%S} {instant}" == f"{instant.datetime:%H:%M:%S} {text}"


def test_commit_time_is_a_datetime_in_utc_in_every_event_and_table() -> None:
    """The digits that a producer sends differ (Debezium: 3 or 6; tencent-dts: 0); type and meaning do not."""
    place, time = Position("t", 0, 0), datetime(2026, 1, 1, tzinfo=UTC)
    us = int(time.timestamp()) * 1_000_000
    for digits in (0, 3, 6):
        row = RowChange("insert", "shop", "t", None, {"id": 1}, keys=("id",), commit_time=time, time_digits=digits)
        events: list[Event] = [
            row,
            SchemaChange("other", "shop", "t", "…", place, instant=Instant(us, digits)),
            Resolved(5, place, Instant(us, digits)),
            TransactionMark("end", "1", place, instant=Instant(us, digits)),
            Heartbeat(place, Instant(us, digits)),
        ]
        assert [event.commit_time for event in events] == [time] * 5
        assert {type(event.commit_time) for event in events} == {datetime}
        (batch,) = decoded(events)
        assert [event.commit_time for event in batch.events()] == [time] * 5
        table = batch.tables[0].to_arrow()
        assert table.schema.field("_commit_time").type == pa.timestamp("us", tz="UTC")
        assert table.column("_commit_time").to_pylist() == [time]
    assert [event.commit_time for event in (Resolved(5, place), DeadLetter("x", "x", "x", place, None, None))] == [
        None,
        None,
    ]


def test_rows_made_by_hand_get_types_from_their_values() -> None:
    made = [
        RowChange("insert", "shop", "t", None, {"id": 1, "price": 2, "at": datetime(2026, 1, 2)}, keys=("id",)),
        RowChange("delete", "shop", "t", {"id": 2**63, "price": 2.5, "at": None}, None, keys=("id",)),
    ]
    (batch,) = decoded(made)
    (table,) = batch.tables
    assert [(c.name, str(c.type), c.key) for c in table.shape.columns] == [
        ("id", "bigint unsigned", True), ("price", "double", False), ("at", "datetime(6)", False)
    ]  # fmt: skip
    again = list(changes(table))
    assert [change.after for change in again] == [{"id": 1, "price": 2.0, "at": datetime(2026, 1, 2)}, None]
    assert [str(change.position) for change in again] == ["events:0:0", "events:0:1"]


COLUMNS = (Column("id", ColumnType.parse("tinyint")), Column("day", ColumnType.parse("date")))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"after": {"id": None}}, "shop.t: column id is None in every row: set `columns` of the change"),
        ({"after": {"id": {1, 2}}}, "shop.t: column id: {1, 2} has no MySQL type: set `columns` of the change"),
        ({"after": {"no": 1}, "columns": COLUMNS}, "shop.t has no column no: it has id, day"),
        (
            {"after": {"day": "2026-01-02"}, "columns": COLUMNS},
            "shop.t: column day: '2026-01-02' is not a date: expected date (events:0:0)",
        ),
        (
            {"op": "replace"},
            "'replace' is not an op, expected one of insert, update, delete, read, upsert (events:0:0)",
        ),
        (
            {"commit_time": datetime(2026, 1, 2)},
            "commit_time datetime.datetime(2026, 1, 2, 0, 0) has no time zone (events:0:0)",
        ),
        (
            {"commit_time": datetime(2026, 1, 2, tzinfo=UTC), "time_digits": 4},
            "time_digits is 4, expected 0, 3 or 6",
        ),
    ],
)
def test_changes_that_cannot_be_written_are_refused_with_the_reason(change: dict[str, Any], message: str) -> None:
    made = RowChange(**{"op": "insert", "database": "shop", "table": "t", "after": {"id": 1}, **change})
    with pytest.raises(SchemaError) as raised:
        list(decoded([made]))
    assert str(raised.value) == message


def test_a_value_that_its_column_cannot_hold_is_an_error() -> None:
    with pytest.raises(SchemaError, match="a value does not fit the type of its column: Value 300 too large"):
        list(decoded([RowChange("insert", "shop", "t", after={"id": 300}, columns=COLUMNS)]))


def test_a_batch_ends_after_a_record() -> None:
    first, second = Position("t", 0, 1, 0), Position("t", 0, 1, 1)
    marks = [Resolved(1, first), Resolved(2, second), Resolved(3, Position("t", 0, 2))]
    assert [len(batch.control) for batch in decoded(marks, batch_events=1)] == [2, 1]
