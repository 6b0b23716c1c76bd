"""The last change of every key on Spark, compared with the same computed one change after the other in Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from changefeed.sinks.base import WriteRequest, write_alone
from changefeed.sinks.delta.sink import DeltaTables
from changefeed.sinks.writes import Load, Rewrite, Upsert, WriteId
from changefeed.stages.changes import schema_ddl
from changefeed.stages.latest import latest
from tests.stages.random_changes import CASES, TABLE, as_known, change, random_changes, reduced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(spark: SparkSession, changes: list[dict[str, Any]], *, partial: bool) -> dict[int, dict[str, Any] | None]:
    frame = spark.createDataFrame(changes, schema_ddl(TABLE)).repartition(3)
    rows = latest(frame, TABLE, partial=partial).collect()
    by_key = {row["c0"]: as_known(row, partial=partial) for row in rows}
    assert len(by_key) == len(rows), "a key twice"
    return by_key


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_many_changes_are_one_row_a_key(spark: SparkSession, seed: int, partial: bool) -> None:
    changes = random_changes(seed, partial=partial)
    assert run(spark, changes, partial=partial) == reduced(changes)


def test_cases_by_hand(spark: SparkSession) -> None:
    """All cases at once, each with a key of its own."""
    changes = [{**row, "c0": key} for key, (rows, _) in enumerate(CASES.values()) for row in rows]
    wanted = {k: w and {**w, "id": (k, None)} for k, (_, w) in enumerate(CASES.values())}
    assert dict(zip(CASES, run(spark, changes, partial=True).values(), strict=True)).keys() == CASES.keys()
    assert run(spark, changes, partial=True) == wanted == reduced(changes)


def test_without_commit_ts_the_order_is_the_partitions(spark: SparkSession) -> None:
    changes = [change(None, 0, 1, None), change(None, 1, 1, (1, "x", 1)), change(None, 2, 1, None)]
    assert run(spark, changes, partial=False) == {1: None}


@dataclass(frozen=True)
class Given:
    """Changes by hand; see `sinks.base.Changes`."""

    changes: list[dict[str, Any]]
    partial: bool

    @property
    def rows(self) -> int:
        return len(self.changes)

    least = read = rows

    @property
    def chunked(self) -> None:
        return None

    def frame(self, spark: SparkSession) -> DataFrame:
        return latest(spark.createDataFrame(self.changes, schema_ddl(TABLE)), TABLE, partial=self.partial)

    def batches(self) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


def test_merge_keeps_columns_that_partial_rows_leave_out_with_their_irregular_texts(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink, path = DeltaTables(str(tmp_path), ("_irregular",), spark, "test", native=False), str(tmp_path / "t")
    first = [
        change(1, 0, 1, (None, None, 1), _irregular={"a": "A", "it's": "T"}),
        change(1, 1, 2, (2, "two", 2)),
        change(1, 2, 3, (3, "three", 3)),
    ]
    second = [
        change(2, 0, 1, (None, "fine", None), _has=[True, False, True, False]),
        change(2, 1, 2, (None, None, None), _has=[True, True, False, False], _irregular={"a": "B"}),
        change(2, 2, 3, None),
        change(2, 3, 4, (None, "new", None), _has=[True, False, True, False]),
    ]
    write_alone(
        sink, WriteRequest(Load(path="t", number=1, table=TABLE), Given(first, partial=False), WriteId(1, 1, 1), "{}")
    )
    write_alone(
        sink, WriteRequest(Upsert(path="t", number=1, table=TABLE), Given(second, partial=True), WriteId(1, 2, 1), "{}")
    )
    rows = spark.read.format("delta").load(path).orderBy("id").collect()
    assert [tuple(row) for row in rows] == [
        (1, None, "fine", 1, {"a": "A"}),
        (2, None, "two", 2, {"a": "B"}),
        (4, None, "new", None, {}),
    ]


def test_rewrite_takes_irregular_texts_along(spark: SparkSession, tmp_path: Path) -> None:
    from changefeed.mysql import ddl
    from changefeed.pipeline.planning.evolution import altered, rewritten

    sink, path = DeltaTables(str(tmp_path), ("_irregular",), spark, "test", native=False), str(tmp_path / "t")
    rows = [change(1, 0, 1, (None, None, 1), _irregular={"a": "A", "it's": "T"}), change(1, 1, 2, (2, "two", 2))]
    write_alone(
        sink, WriteRequest(Load(path="t", number=1, table=TABLE), Given(rows, partial=False), WriteId(1, 1, 1), "{}")
    )
    action = "ALTER TABLE app.t DROP a, RENAME COLUMN `it's` TO s, ADD d DATE NOT NULL"
    statement: Any = ddl.parse(action, None)[0]
    change_ = altered(TABLE, statement, declared=True, lenient=False)
    expressions, texts = rewritten(TABLE, change_, sink.types, "keep") or ((), None)
    write = Rewrite(path="t", number=1, table=change_.table, expressions=expressions, texts=texts)
    write_alone(sink, WriteRequest(write, None, WriteId(1, 2, 1), "{}"))
    rewritten_rows = spark.read.format("delta").load(path).orderBy("id").collect()
    assert [row.asDict() for row in rewritten_rows] == [
        {"id": 1, "s": None, "b": 1, "d": None, "_irregular": {"s": "T", "d": "0000-00-00"}},
        {"id": 2, "s": "two", "b": 2, "d": None, "_irregular": {"d": "0000-00-00"}},
    ]
