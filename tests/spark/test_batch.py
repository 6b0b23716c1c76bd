"""A record log is read by `spark.read.format("changefeed")`: every change, in either shape, in every protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed import record_log
from tests.examples import by_turns
from tests.spark.shop import LOGS, OPEN, SPLIT, Log, changes, comparable, expected, final, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.heavy
@pytest.mark.parametrize("log", LOGS, ids=str)
def test_all_tables_have_every_change_with_its_values(log: Log, spark: SparkSession) -> None:
    actual, wanted = shown(log.reader(spark).load(str(log.path))), changes(log)
    for row in wanted:
        row["commit_time"] = row["commit_time"] and row["commit_time"].timestamp()
    assert len(actual) == len(wanted) > 1000
    for one, other in zip(actual, wanted, strict=True):
        assert one == other


@pytest.mark.parametrize(
    "log", [log if log in (OPEN, SPLIT) else pytest.param(log, marks=pytest.mark.nightly) for log in LOGS], ids=str
)
@pytest.mark.parametrize("table, key", [("customers", "id"), ("refunds", "id")])
def test_a_table_s_changes_end_in_the_rows_that_were_recorded(
    log: Log, table: str, key: str, spark: SparkSession
) -> None:
    frame = log.reader(spark, table=f"shop.{table}", before="true").load(str(log.path))
    wanted = expected(table)
    columns = list(wanted[0])
    assert comparable(final(frame, key), columns, log.doubles) == comparable(wanted, columns, log.doubles)


@pytest.mark.heavy
@pytest.mark.parametrize("log", by_turns([OPEN, SPLIT], 2), ids=str)
def test_a_history_in_several_files_is_one(log: Log, spark: SparkSession, tmp_path: Path) -> None:
    """Partitions continue in the next file, also within a group of records, and after schema changes of the file before."""
    records = log.records()
    step = len(records) // 7
    for number, at in enumerate(range(0, len(records), step)):
        record_log.write(tmp_path / f"{number:03}.jsonl", [records.slice(at, step)])
    whole, parts = log.reader(spark).load(str(log.path)), log.reader(spark).load(f"{tmp_path}/*.jsonl")
    assert shown(parts) == shown(whole)
    whole, parts = (
        log.reader(spark, table="shop.orders").load(path) for path in (str(log.path), f"{tmp_path}/*.jsonl")
    )
    assert parts.schema == whole.schema
    assert parts.exceptAll(whole).count() == 0 == whole.exceptAll(parts).count()


def test_records_are_shown_as_they_are_without_a_protocol(spark: SparkSession) -> None:
    OPEN.reader(spark)
    frame = spark.read.format("changefeed").load(str(OPEN.path))
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert frame.count() == len(OPEN.records())
