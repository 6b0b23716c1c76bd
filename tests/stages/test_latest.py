"""The last change of every key on Spark, compared with the same computed one change after the other in Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from changefeed.model.definition import Table
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.sinks.base import WriteRequest, write_alone
from changefeed.sinks.delta.sink import DeltaTables
from changefeed.sinks.writes import Load, Rewrite, Upsert, WriteId
from changefeed.stages.changes import schema_ddl
from changefeed.stages.latest import latest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INT, TEXT = ColumnType("int"), ColumnType("varchar")
TABLE = Table(
    "app", "t", (Column("id", INT, key=True), Column("a", INT), Column("it's", TEXT), Column("b", INT)), ("id",)
)
NAMES = [c.name for c in TABLE.columns]
ALL = [True] * 4


def change(ts: int | None, offset: int, key: int, values: tuple[Any, ...] | None, **metadata: Any) -> dict[str, Any]:
    """A change of `key`: the other columns' values, or None for a delete."""
    full = values if values is not None else (None, None, None)
    row = {f"c{i}": value for i, value in enumerate((key, *full))}
    return {
        **row, "_has": None, "_deleted": values is None, "_irregular": {}, "_ts": ts, "_topic": "t", "_partition": 0,
        "_offset": offset, "_index": None, "_half": 0 if values is None else 1, "_op": "update",
        "_time": datetime(2026, 1, 1, tzinfo=UTC), **metadata,
    }  # fmt: skip


def reduced(changes: list[dict[str, Any]]) -> dict[int, dict[str, Any] | None]:
    """Key -> column -> (value, irregular text) of the known columns; None for a deleted row.

    Unknown columns keep the sink's values.
    """
    rows: dict[int, dict[str, Any] | None] = {}
    gone: set[int] = set()
    for row in sorted(changes, key=lambda c: (c["_ts"], c["_half"], c["_partition"], c["_offset"])):
        key, has = row["c0"], row["_has"] or ALL
        if row["_deleted"]:
            rows[key] = None
            gone.add(key)
            continue
        old = rows.get(key) or (dict.fromkeys(NAMES, (None, None)) if key in gone else {})
        new = {n: (row[f"c{i}"], row["_irregular"].get(n)) for i, n in enumerate(NAMES) if has[i]}
        rows[key] = {**old, **new}
    return rows


def as_known(row: Any, *, partial: bool) -> dict[str, Any] | None:
    """A row of `latest` in the same form."""
    if row["_deleted"]:
        return None
    has = row["_has"] if partial else ALL
    return {n: (row[f"c{i}"], row["_irregular"].get(n)) for i, n in enumerate(NAMES) if has[i]}


def run(spark: SparkSession, changes: list[dict[str, Any]], *, partial: bool) -> dict[int, dict[str, Any] | None]:
    frame = spark.createDataFrame(changes, schema_ddl(TABLE)).repartition(3)
    rows = latest(frame, TABLE, partial=partial).collect()
    by_key = {row["c0"]: as_known(row, partial=partial) for row in rows}
    assert len(by_key) == len(rows), "a key twice"
    return by_key


def random_changes(seed: int, *, partial: bool) -> list[dict[str, Any]]:
    """Transactions that change every key at most once, except a key that is deleted and inserted in the same one."""
    random, changes = Random(seed), list[dict[str, Any]]()
    for ts in range(1, 90):
        for key in random.sample(range(15), random.randint(1, 5)):
            gone, left = random.random() < 0.2, random.random() < 0.1
            place = {"_partition": random.randint(0, 2)}
            if gone or left:
                changes.append(change(ts, len(changes), key, None, **place))
            if gone:
                continue
            has = (
                [True, *random.choices([True, False], k=3)] if partial and random.random() < 0.6 and not left else None
            )
            values = [random.choice([None, f"{len(changes)}"]) for _ in range(3)]
            values = [v if h else None for v, h in zip(values, (has or ALL)[1:], strict=True)]
            irregular = {"a": "odd"} if values[0] is None and (has or ALL)[1] and random.random() < 0.3 else {}
            number = [None if values[i] is None else int(values[i] or 0) for i in (0, 2)]
            row = change(ts, len(changes), key, (number[0], values[1], number[1]), _has=has, _irregular=irregular)
            changes.append({**row, "_partition": random.randint(0, 2)})
    return changes


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_many_changes_are_one_row_a_key(spark: SparkSession, seed: int, partial: bool) -> None:
    changes = random_changes(seed, partial=partial)
    assert run(spark, changes, partial=partial) == reduced(changes)


CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any] | None]] = {
    "several versions": (
        [change(1, 0, 1, (1, "x", 1)), change(3, 1, 1, (3, "z", 3)), change(2, 2, 1, (2, "y", 2))],
        {"id": (1, None), "a": (3, None), "it's": ("z", None), "b": (3, None)},
    ),
    "absent is not NULL": (
        [change(1, 0, 1, (None, "x", None), _has=[True, True, True, False]),
         change(2, 1, 1, (None, None, None), _has=[True, False, True, False])],
        {"id": (1, None), "a": (None, None), "it's": (None, None)},
    ),
    "a partial insert after a delete has NULL in what it leaves out": (
        [change(1, 0, 1, (1, "x", 1)), change(2, 1, 1, None),
         change(3, 2, 1, (None, "new", None), _has=[True, False, True, False])],
        {"id": (1, None), "a": (None, None), "it's": ("new", None), "b": (None, None)},
    ),
    "deleted last": (
        [change(1, 0, 1, (1, "x", 1)), change(2, 1, 1, (None, "y", None), _has=[True, False, True, False]),
         change(3, 2, 1, None)],
        None,
    ),
    "one row leaves the key, another takes it, in one transaction": (
        [change(1, 5, 1, (7, "moved in", 7), _partition=0), change(1, 3, 1, None, _partition=1)],
        {"id": (1, None), "a": (7, None), "it's": ("moved in", None), "b": (7, None)},
    ),
    "irregular texts belong to their values": (
        [change(1, 0, 1, (None, None, 1), _irregular={"a": "A", "it's": "T"}),
         change(2, 1, 1, (None, "fine", None), _has=[True, False, True, False])],
        {"id": (1, None), "a": (None, "A"), "it's": ("fine", None), "b": (1, None)},
    ),
}  # fmt: skip


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
