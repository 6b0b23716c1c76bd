"""Records as transforms, converters and compaction leave them, in a pipeline in memory."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model import text
from changefeed.model.table import canonical
from changefeed.pipeline.planning import unplaced
from changefeed.protocols import protocol
from changefeed.stores import stores_of
from tests.pipeline.kit.debezium_made import table_change
from tests.pipeline.kit.record_runs import RecordRun, field_run, json_record

SIZES = [1, 2, 3, 1000]


@pytest.mark.parametrize("size", SIZES)
def test_a_tombstone_without_its_delete_deletes_the_row(size: int) -> None:
    run = field_run("compacted-topic-tombstone-alone", size)
    assert run.rows("shop.carts") == [(2, 2), (3, 3)]
    assert run.columns("shop.carts") == ["id bigint", "v int"]


@pytest.mark.parametrize("size", SIZES)
def test_columns_may_be_named_like_members_of_a_transaction_mark(size: int) -> None:
    assert field_run("unwrap-columns-of-a-transaction-mark", size).rows("shop.jobs") == [
        (1, "BEGIN", 3),
        (2, "done", 0),
    ]


@pytest.mark.parametrize("size", SIZES)
def test_fields_of_other_transforms_are_columns(size: int) -> None:
    run = field_run("unwrap-field-inserted-behind-deleted", size)
    assert run.rows("shop.parcels") == [(2, 2, 1764000000010)]
    assert run.columns("shop.parcels") == ["id bigint", "qty bigint", "ingested_at bigint"]


def test_a_key_as_text_does_not_hold_back_its_row() -> None:
    assert field_run("debezium-key-by-string-converter").rows("shop.orders") == [(1, 2)]


def test_a_moment_with_an_offset_is_that_moment() -> None:
    rows = field_run("debezium-timezone-converter").rows("shop.visits")
    moments = [(2024, 5, 6, 1, 38, 9, 500_000), (2024, 5, 6, 7, 8, 9, 123_456)]
    assert rows == [(number, datetime(*moment, tzinfo=UTC)) for number, moment in enumerate(moments, 1)]


def carts(*ops: tuple[int, str | None]) -> list[dict[str, Any]]:
    """Records of rows in one partition, 100 bytes of the binlog apart; an op None is a tombstone, whose delete is gone."""
    records = [
        json_record("srv", 0, {"databaseName": "shop"}, {"source": source(4), "databaseName": "shop", "ddl": CARTS})
    ]
    for place, (number, op) in enumerate(ops, 1):
        image = {"id": number, "v": place}
        value = {"before": image if op == "d" else None, "after": None if op == "d" else image, "op": op}
        value |= {"source": source(place * 100)}
        records.append(json_record("srv.shop.carts", place * 2, {"id": number}, value if op else None))
    return records


def source(pos: int) -> dict[str, Any]:
    return {
        "connector": "mysql",
        "name": "srv",
        "db": "shop",
        "table": "carts",
        "file": "bin.000003",
        "pos": pos,
        "row": 0,
    }


CARTS = "CREATE TABLE carts (id bigint NOT NULL, v int, PRIMARY KEY (id))"


@pytest.mark.parametrize("size", SIZES)
def test_tombstones_keep_their_place_between_rows(size: int) -> None:
    log = carts((1, None), (1, "c"), (2, "c"), (1, None), (2, None), (2, "c"), (3, "c"), (3, None))
    run = RecordRun({"name": "debezium-mysql"}).run(log, size)
    assert run.rows("shop.carts") == [(2, 6)]


@pytest.mark.parametrize("size", [1, 1000])
def test_tombstones_make_no_table_and_no_column(size: int) -> None:
    alone = [json_record("srv.shop.gone", 3, {"id": 1}, None)]
    other = [json_record("srv.shop.carts", 90, {"code": 7}, None)]
    run = RecordRun({"name": "debezium-mysql"}).run([*alone, *carts((1, "c")), *other], size)
    assert run.tables() == ["shop.carts"]
    assert run.rows("shop.carts") == [(1, 1)]
    assert run.columns("shop.carts") == ["id bigint", "v int"]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_with_whole_transactions_a_tombstone_is_applied_when_nothing_is_missing_before_it(size: int) -> None:
    records = carts((1, "c"), (2, "c"), (1, None), (3, "c"))  # the last row waits for a later one
    run = RecordRun({"name": "debezium-mysql"}, consistency="transaction").run(records, size)
    assert run.rows("shop.carts") == [(2, 2)]


@settings(deadline=None)
@given(
    keys=st.lists(st.integers(1, 3), min_size=1, max_size=8),
    restart=st.integers(0, 8),
    size=st.integers(1, 5),
    consistency=st.sampled_from(["key", "transaction"]),
    alone=st.booleans(),
)
def test_tombstones_that_are_sent_again_delete_nothing(
    keys: list[int], restart: int, size: int, consistency: str, alone: bool
) -> None:
    """Rows are written and deleted in turn; a connector that was killed sends everything from some change on again."""
    changes, rows = list[list[dict[str, Any]]](), dict[int, int]()
    for place, number in enumerate(keys, 1):
        image, is_gone = {"id": number, "v": place}, number in rows
        value = {
            "before": image if is_gone else None,
            "after": None if is_gone else image,
            "op": "d" if is_gone else "c",
        }
        sent = [] if is_gone and alone else [value | {"source": source(place * 100)}]
        changes.append([{"key": {"id": number}, "value": value} for value in [*sent, *([None] if is_gone else [])]])
        rows = {n: v for n, v in rows.items() if n != number} if is_gone else rows | {number: place}
    assume(
        restart >= len(changes) or changes[restart][0]["value"] is not None
    )  # see Rule 4 of `stages.lone_tombstones`
    last = [
        {
            "key": {"id": number},
            "value": {"before": None, "after": {"id": number, "v": 0}, "op": "c", "source": source(at)},
        }
        for number, at in ((9, 10_000), (10, 20_000))
    ]
    sent = [record for change in [*changes, *changes[restart:], last] for record in change]
    log = carts() + [json_record("srv.shop.carts", offset, r["key"], r["value"]) for offset, r in enumerate(sent)]
    run = RecordRun({"name": "debezium-mysql"}, consistency=consistency).run(log, size)
    assert [row for row in run.rows("shop.carts") if row[0] < 9] == sorted(rows.items())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("consistency", ["key", "transaction"])
def test_a_row_that_is_sent_again_before_the_name_of_its_table_is_known(size: int, consistency: str) -> None:
    """The table has lost its key under another name, but the connector sends the key with each row."""
    statements = {
        10: "CREATE TABLE carts_new (id bigint NOT NULL, v int, UNIQUE KEY u (id))",
        20: "ALTER TABLE carts_new DROP INDEX u",
        30: "RENAME TABLE carts_new TO carts",
    }
    schema = [
        json_record("srv", offset, {"databaseName": "shop"}, {"source": source(at), "databaseName": "shop", "ddl": ddl})
        for offset, (at, ddl) in enumerate(statements.items())
    ]
    rows = [
        json_record(
            "srv.shop.carts", offset, {"id": number}, {"before": None, "after": image, "op": "c", "source": source(at)}
        )
        for offset, (number, at) in enumerate([(1, 100), (2, 200), (1, 100), (2, 200), (3, 300), (4, 400)])
        for image in [{"id": number, "v": at}]
    ]
    run = RecordRun({"name": "debezium-mysql"}, consistency=consistency, keyless="append")
    run.run([*schema[:2], *rows[:4], schema[2], *rows[4:]], size)
    assert [row for row in run.rows("shop.carts") if row[0] < 4] == [(1, 100), (2, 200), (3, 300)]


@pytest.mark.parametrize("size", SIZES)
def test_a_table_like_one_that_is_not_known_has_the_key_that_the_producer_states(size: int) -> None:
    stated = [table_change("shop", "carts", "id BIGINT PRIMARY KEY, v INT")]
    statements = {10: ("CREATE TABLE carts LIKE model", stated), 20: ("DROP INDEX `PRIMARY` ON carts", [])}
    schema = [
        json_record(
            "srv",
            offset,
            {"databaseName": "shop"},
            {"source": source(at), "databaseName": "shop", "ddl": ddl, "tableChanges": changes},
        )
        for offset, (at, (ddl, changes)) in enumerate(statements.items())
    ]
    rows = [
        json_record(
            "srv.shop.carts", offset, {"id": number}, {"before": None, "after": image, "op": "c", "source": source(at)}
        )
        for offset, (number, at) in enumerate([(1, 100), (1, 200), (1, 100), (1, 200), (2, 300)])
        for image in [{"id": number, "v": at}]
    ]
    run = RecordRun({"name": "debezium-mysql"}, consistency="key", keyless="append").run([*schema, *rows], size)
    assert run.rows("shop.carts") == [(1, 100), (1, 200), (2, 300)]


def test_dates_as_text_by_a_converter_are_read_by_the_definition() -> None:
    with pytest.raises(SchemaError, match='has no offset from UTC; set the option "time-zone"'):
        field_run("debezium-datetime-text-by-converter")
    run = field_run("debezium-datetime-text-by-converter", options={"time-zone": "UTC"})
    assert [column.split()[1] for column in run.columns("shop.visits")] == [
        "bigint",
        "date",
        "time",
        "datetime(3)",
        "timestamp",
    ]
    (row,) = run.rows("shop.visits")
    assert [str(value) for value in row[:4]] == ["1", "2024-05-06", "17:29:04", "2024-05-06 07:08:09.123000"]


def test_avro_without_connects_names_is_read_by_the_definition() -> None:
    run = field_run("avro-without-connect-names")
    assert run.rows("shop.bills") == [(1, date(2024, 10, 5), Decimal("12.34"))]


@pytest.mark.parametrize("size", SIZES)
def test_rows_without_a_place_come_after_the_create_of_their_table(size: int) -> None:
    run = field_run("unwrap-rows-with-schema-changes", size)
    assert run.rows("shop.parcels") == [(1, 1, date(2024, 10, 5)), (3, 3, date(2024, 10, 7))]
    assert run.columns("shop.parcels") == ["id bigint", "qty int", "due date"]


def flat(*, placed: bool, ddl: str) -> list[dict[str, Any]]:
    """Rows 1 and 2 of carts without envelope, a schema change, and row 3."""
    records = [schema_change(0, 100, CARTS), schema_change(1, 400, ddl)]
    for number, pos in ((1, 200), (2, 300), (3, 500)):
        value = {"id": number, "v": number, "__deleted": "false"}
        place = {"__source_file": "bin.000003", "__source_pos": pos} if placed else {}
        records.append(json_record("srv.shop.carts", number, {"id": number}, value | place))
    return records


def schema_change(offset: int, pos: int, ddl: str) -> dict[str, Any]:
    return json_record(
        "srv", offset, {"databaseName": "shop"}, {"source": source(pos), "databaseName": "shop", "ddl": ddl}
    )


CHANGES = ["TRUNCATE TABLE carts", "ALTER TABLE carts ADD w int", "RENAME TABLE carts TO baskets", "DROP TABLE carts"]
FLAT = {"name": "debezium-mysql", "unwrap": True}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ddl", CHANGES)
def test_a_schema_change_between_rows_without_a_place_stops(ddl: str, size: int) -> None:
    with pytest.raises(UnsupportedError) as raised:
        RecordRun(FLAT).run(flat(placed=False, ddl=ddl), size)
    why = "so that rows before this schema change cannot be distinguished from rows after it"
    assert str(raised.value) == (
        f"{ddl!r} at srv:0:1: the rows of shop.carts have no place in the order of changes, {why}. {unplaced.WAY_OUT}"
    )


@pytest.mark.parametrize("size", SIZES)
def test_the_ways_out_for_rows_without_a_place_work(size: int) -> None:
    behavior: dict[str, Any] = {"schema.change.behavior": "try_evolve"}
    going_on = RecordRun(FLAT, **behavior).run(flat(placed=False, ddl=CHANGES[0]), size)
    assert going_on.rows("shop.carts") == [(1, 1), (2, 2), (3, 3)]
    rows_alone = [record for record in flat(placed=False, ddl=CHANGES[0]) if record["topic"] != "srv"]
    assert RecordRun(FLAT).run(rows_alone, size).rows("shop.carts") == [(1, 1), (2, 2), (3, 3)]
    results = {
        ddl: (run.tables(), [run.rows(name) for name in run.tables()])
        for ddl in CHANGES
        for run in [RecordRun(FLAT).run(flat(placed=True, ddl=ddl), size)]
    }
    assert results["TRUNCATE TABLE carts"] == (["shop.carts"], [[(3, 3)]])
    assert results["ALTER TABLE carts ADD w int"] == (["shop.carts"], [[(1, 1, None), (2, 2, None), (3, 3, None)]])
    assert results["RENAME TABLE carts TO baskets"] == (["shop.baskets", "shop.carts"], [[(1, 1), (2, 2)], [(3, 3)]])
    assert results["DROP TABLE carts"] == (["shop.carts"], [[(3, 3)]])


def test_a_table_remembers_that_its_rows_have_no_place() -> None:
    run = RecordRun(FLAT).run([record for record in flat(placed=False, ddl="") if record["topic"] != "srv"])
    with pytest.raises(UnsupportedError, match="have no place in the order of changes"):
        run.run([schema_change(0, 900, CHANGES[0])])


@pytest.mark.parametrize("size", SIZES)
def test_columns_have_the_names_of_the_definition(size: int) -> None:
    run = field_run("debezium-field-names-adjusted-for-avro", size)
    assert run.columns("shop.bills") == ["id bigint", "bill-no varchar(10)", "1st date", "amt-eur decimal(10,2)"]
    due = date(2024, 10, 7), date(2024, 10, 6)
    assert run.rows("shop.bills") == [(1, "B1", due[0], Decimal("12.35")), (2, "B2", due[1], Decimal("12.34"))]


@pytest.mark.parametrize("size", SIZES)
def test_a_key_has_the_name_of_the_definition(size: int) -> None:
    run = field_run("debezium-key-name-adjusted-for-avro", size)
    assert (run.columns("shop.bills"), run.rows("shop.bills")) == (
        ["bill-no varchar(10)", "due date"],
        [("A", date(2024, 10, 7))],
    )


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("consistency", ["transaction", "key"])
@pytest.mark.parametrize(
    "ddl, again, left",
    [
        ("TRUNCATE TABLE `shop`.`bill-s`", False, {"bill-s": [3]}),
        ("DROP TABLE `shop`.`bill-s`", True, {"bill-s": [3]}),
        ("DROP TABLE `shop`.`bill-s`", False, {}),
        ("RENAME TABLE `shop`.`bill-s` TO `shop`.`sold`", True, {"bill-s": [3], "sold": [1, 2]}),
        ("RENAME TABLE `shop`.`bill-s` TO `shop`.`sold`", False, {"sold": [1, 2]}),
    ],
)
def test_schema_changes_of_the_true_name_reach_rows_in_avro(
    ddl: str, again: bool, left: dict[str, list[int]], consistency: str, size: int, tmp_path: Path
) -> None:
    """`again`: the table is created again afterwards, and has another row; `left`: the tables at the end, with their rows."""
    columns = [
        {"name": name, "type": t, "nullable": False, "key": t == "int"}
        for name, t in (("id", "int"), ("bill-no", "varchar"))
    ]
    shape = {"kind": "shape", "shape": "s", "database": "shop", "table": "bill-s", "columns": columns, "wire": None}
    create = "CREATE TABLE `shop`.`bill-s` (`id` int NOT NULL, `bill-no` varchar(10) NOT NULL, PRIMARY KEY (`id`))"

    def schema(text: str) -> dict[str, Any]:
        return {"kind": "schema", "type": "other", "database": "shop", "table": "bill-s", "ddl": text}

    def row(number: int) -> dict[str, Any]:
        names = {"database": "shop", "table": "bill-s", "shape": "s", "keys": ["id"]}
        return {
            "kind": "row",
            "op": "insert",
            **names,
            "before": None,
            "after": {"id": number, "bill-no": f"B{number}"},
        }

    events = [
        schema(create),
        row(1),
        row(2),
        schema(ddl),
        *([schema(create)] if again else []),
        *([row(3)] if "bill-s" in left else []),
        {"kind": "resolved"},
    ]
    ts = 450_000_000_000_000_000
    lines = [shape, *(e | {"commit_ts": ts + (at << 18), "position": f"bills:0:{at}"} for at, e in enumerate(events))]
    options = {
        "schema-registry": str(tmp_path / "schemas.json"),
        "enable-tidb-extension": "true",
        "avro-enable-watermark": "true",
    }
    avro = protocol("ticdc-avro")
    chosen = avro.read_options(options)
    encoder = avro.encoder(chosen, stores_of(chosen))
    records = [r for changes in text.parse(map(canonical, lines)) for r in encoder.encode(changes).to_pylist()]
    run = RecordRun({"name": "ticdc-avro", **options}, consistency=consistency).run(records, size)
    assert {table.removeprefix("shop."): [row[0] for row in run.rows(table)] for table in run.tables()} == left
    assert all(run.columns(table) == ["id int", "bill-no varchar(10)"] for table in run.tables())
