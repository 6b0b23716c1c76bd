"""Records that do not match a table's schema: dead letters, values that do not fit, columns and definitions added later."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from changefeed import record_log
from changefeed.codec.decoding import decoder
from changefeed.errors import ConfigError, SchemaError
from changefeed.model.batch import record_batch
from changefeed.model.event import SchemaChange
from changefeed.protocols.base import unfinished
from changefeed.spark.known import Known, Look
from changefeed.spark.options import ReadOptions, read_options
from changefeed.spark.reading import ReadPlan, Rows, one_table
from changefeed.spark.shapes import AllTables
from changefeed.spark.types import spark_schema
from changefeed.stages.transcode import Language
from tests.pipeline.kit.history import HistoryBuilder
from tests.spark.shop import OPEN, SPLIT, Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPEN_PROTOCOL = Language("ticdc-open", {})


def history(path: Path) -> pa.RecordBatch:
    """One record each: CREATE, two rows, a column added, a row with it."""
    h = HistoryBuilder(partitions=1)
    h.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`qty` INT,PRIMARY KEY(`id`))")
    h.rows(("orders", None, {"id": 1, "qty": 1}))
    h.rows(("orders", {"id": 1, "qty": 1}, {"id": 1, "qty": 2}))
    h.schema("app", "orders", "ALTER TABLE `app`.`orders` ADD COLUMN `note` VARCHAR(20) NULL")
    h.rows(("orders", None, {"id": 2, "qty": 5, "note": "late"}))
    log = h.write(path / "app.jsonl")
    return pa.Table.from_batches(record_log.read(log)).combine_chunks().to_batches()[0]


def reading(known_from: pa.RecordBatch, *, schema: Any = None, **options: Any) -> Rows:
    chosen = ReadOptions(protocol="ticdc-open", table="app.orders", **options)
    known = Look("app.orders").read([known_from], OPEN_PROTOCOL).known(OPEN_PROTOCOL)
    return Rows(ReadPlan(OPEN_PROTOCOL, one_table(chosen, known, schema), known))


def test_columns_that_a_row_lacks_are_null(tmp_path: Path) -> None:
    records = history(tmp_path)
    [rows] = reading(records).read([records])
    assert rows.column("note").to_pylist() == [None, None, "late"]
    assert rows.column("_op").to_pylist() == ["insert", "update", "insert"]


def test_a_row_with_a_column_that_the_schema_lacks_ends_the_read_with_its_position(tmp_path: Path) -> None:
    records = history(tmp_path)
    with pytest.raises(SchemaError) as caught:
        list(reading(records.slice(0, 2)).read([records]))
    assert str(caught.value) == (
        "app.orders.note is not in the schema of this read, but the row at app:0:4 has it. Start the read again: it then finds "
        "the columns in the first `schema-records` records of the log; or set the columns that you want with .schema(…)"
    )


def test_of_a_schema_that_the_user_gave_other_columns_are_not_wanted(tmp_path: Path) -> None:
    records = history(tmp_path)
    schema = spark_schema(pa.schema([("QTY", pa.int64()), ("_op", pa.string())]))
    [rows] = reading(records, schema=schema).read([records])
    assert rows.schema.names == ["QTY", "_op"]
    assert rows.column("QTY").to_pylist() == [1, 2, 5]


def test_a_definition_that_was_not_known_ends_the_read_where_it_changes_a_type(tmp_path: Path) -> None:
    h = HistoryBuilder(partitions=1)
    h.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`qty` INT,PRIMARY KEY(`id`))")
    h.rows(("orders", None, {"id": 1, "qty": 1}))
    h.schema("app", "orders", "ALTER TABLE `app`.`orders` MODIFY COLUMN `qty` BIGINT")
    h.rows(("orders", None, {"id": 2, "qty": 2}))
    [records] = record_log.read(h.write(tmp_path / "app.jsonl"))
    with pytest.raises(SchemaError) as caught:
        list(reading(records.slice(0, 2)).read([records]))
    assert str(caught.value) == (
        "app.orders.qty becomes bigint at app:0:2, but the columns of this read are fixed. Start the read again: it then finds "
        "the schema changes in the first `schema-records` records of the log"
    )
    [rows] = reading(records).read([records.slice(3)])
    assert rows.schema.field("qty").type == pa.int64()
    assert rows.column("qty").to_pylist() == [2]


def test_wrong_values_of_a_column_name_it_and_the_record(tmp_path: Path) -> None:
    records = history(tmp_path)
    schema = spark_schema(pa.schema([("qty", pa.date32())]))
    with pytest.raises(SchemaError) as caught:
        list(reading(records.slice(1, 1), schema=schema).read([records.slice(1, 1)]))
    assert str(caught.value) == ("app.orders.qty: a column of type date cannot take values of type int (from app:0:1)")


@pytest.mark.parametrize("irregular, shown", [("null", None), ("keep", [("qty", "300")]), ("fail", ...)])
def test_a_value_that_a_column_cannot_hold(irregular: str, shown: Any, tmp_path: Path) -> None:
    h = HistoryBuilder(partitions=1)
    h.rows(("orders", None, {"id": 1, "qty": 300}))
    [records] = record_log.read(h.write(tmp_path / "app.jsonl"))
    fields = [("qty", pa.int8())] + ([("_irregular", pa.map_(pa.string(), pa.string()))] if irregular == "keep" else [])
    read = reading(records, schema=spark_schema(pa.schema(fields)), irregular=irregular)
    if shown is ...:
        with pytest.raises(SchemaError) as caught:
            list(read.read([records]))
        assert str(caught.value) == (
            "app.orders.qty holds '300' at app:0:0, which its type cannot hold, and `irregular: fail` is set. Correct it "
            "upstream, or set irregular to `keep` or `null`"
        )
        return
    [rows] = read.read([records])
    assert rows.column("qty").to_pylist() == [None]
    if irregular == "keep":
        assert rows.column("_irregular").to_pylist() == [shown]


def test_a_dead_letter_ends_the_read_or_is_a_row(tmp_path: Path, spark: SparkSession) -> None:
    records = history(tmp_path).to_pylist()
    records[2]["value"] = b"\x00"
    record_log.write(tmp_path / "broken.jsonl", [record_batch(records)])
    log = Log("ticdc-open", "broken")
    for table in ({}, {"table": "app.orders"}):
        with pytest.raises(Exception, match=r"app:0:2.*Set dead-letters to `rows` to read on"):
            log.reader(spark, **table).load(str(tmp_path / "broken.jsonl")).collect()
        frame = log.reader(spark, **table, **{"dead-letters": "rows"}).load(str(tmp_path / "broken.jsonl"))
        own = "_" if table else ""
        rows = frame.orderBy(f"{own}position").collect()
        assert [row[f"{own}op"] for row in rows] == ["insert", None, "insert"]
        letter = rows[1][f"{own}dead_letter"]
        assert (letter.reason, bytes(letter.value), rows[1][f"{own}position"].offset) == ("truncated", b"\x00", 2)
        assert rows[0][f"{own}dead_letter"] is None


def test_records_that_wait_where_a_log_ends_are_dead_letters(tmp_path: Path, spark: SparkSession) -> None:
    records = SPLIT.records()
    record_log.write(tmp_path / "cut.jsonl", [records.slice(0, len(records) - 1)])
    frame = SPLIT.reader(spark, **{"dead-letters": "rows"}).load(str(tmp_path / "cut.jsonl"))
    reference = decoder("tencent-dts")
    reference.decode(records.slice(0, len(records) - 1))
    wanted = [letter.place.offset for letter in unfinished(reference, "tencent-dts")]
    rows = frame.where("dead_letter is not null").select("position.offset", "dead_letter.reason").collect()
    assert sorted(row.offset for row in rows) == sorted(wanted)
    assert {row.reason for row in rows} <= {"incomplete-group"}
    assert ReadPlan(Language("tencent-dts", {}), AllTables(letters=True)).in_order


@pytest.mark.parametrize(
    "options, message",
    [
        (
            {"protocol": "ticdc-open", "tabel": "x"},
            'unknown option of changefeed and ticdc-open "tabel". Did you mean "table"?',
        ),
        ({"protocol": "ticdc-opn"}, 'unknown protocol "ticdc-opn". Did you mean "ticdc-open"?'),
        (
            {"protocol": "ticdc-open", "dead-letters": "drop"},
            'changefeed: unknown dead-letters "drop". Known: fail, rows',
        ),
    ],
)
def test_options_that_are_wrong(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_options(options)
    assert str(caught.value).startswith(message)


def test_options_are_found_in_any_case_and_with_underscores() -> None:
    own, others, _ = read_options(
        {"PROTOCOL": "ticdc-open", "dead_letters": "rows", "Time_Zone": "UTC", "Before": "true"}
    )
    assert (own.dead_letters, own.before, others) == ("rows", True, {"time-zone": "UTC"})


def test_a_table_that_is_not_there_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Look("app.order").read([history(tmp_path)], OPEN_PROTOCOL).known(OPEN_PROTOCOL).required("app.order")
    assert str(caught.value) == 'unknown table "app.order". Did you mean "app.orders"? Known: app.orders'


def test_known_schema_changes_are_in_the_order_of_the_upstream() -> None:
    looks = [Look("shop.orders").read([part], OPEN_PROTOCOL) for part in _halves()]
    looks[1].join(looks[0])
    joined = looks[1].known(OPEN_PROTOCOL)
    whole = Look("shop.orders").read([OPEN.records()], OPEN_PROTOCOL).known(OPEN_PROTOCOL)
    assert isinstance(joined, Known)
    assert joined.table == whole.table
    assert [c.commit_ts for c in joined.changes] == sorted(c.commit_ts or 0 for c in whole.changes)
    assert all(isinstance(change, SchemaChange) for change in joined.changes)


def _halves() -> list[pa.RecordBatch]:
    records = OPEN.records()
    return [records.slice(0, len(records) // 2), records.slice(len(records) // 2)]
