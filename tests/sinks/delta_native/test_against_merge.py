"""Natively written tables, compared with those that Spark's MERGE makes of the same changes, and read by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from changefeed.errors import FencedError, SinkError
from changefeed.sinks.apply.item import write_item
from changefeed.sinks.delta.log import commits, delta_log, pack, snapshot
from changefeed.sinks.delta.native.commit import commit
from changefeed.sinks.delta.sink import _Commit
from changefeed.sinks.sql import quoted, text
from changefeed.sinks.writes import WriteId
from tests.examples import by_turns
from tests.sinks.delta_native.applying import apply, commit_text, item, opened, payloads, read
from tests.sinks.delta_native.by_sink import SinkWriter
from tests.sinks.delta_native.by_spark import BySpark
from tests.sinks.delta_native.histories import History, all_types, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize(
    "keys, partial",
    [(("name", "clock"), True), pytest.param(("dec38", "moment", "day"), False, marks=pytest.mark.nightly)],
    ids=str,
)
def test_both_ways_make_the_same_tables(
    spark: SparkSession, tmp_path: Path, keys: tuple[str, ...], partial: bool
) -> None:
    """Spark creates the native table, with timestamps as INT96 in its files, and does some of its steps."""
    history = History(all_types(*keys), 5, partial=partial, irregular=True)
    by_spark = BySpark(spark, history)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    first = history.step(60)
    for path in (ours, theirs):
        by_spark.load(path, first, 1)
    for step in range(2, 5):
        chunks = history.step(60)
        by_spark.merge(theirs, chunks, step)
        if step == 3:
            by_spark.merge(ours, chunks, step)
        else:
            apply(ours, history.table, chunks, step, partial=partial)
    mine, others = (spark.read.format("delta").load(str(path)).toArrow() for path in (ours, theirs))
    assert mine.schema == others.schema
    assert sorted_rows(mine) == sorted_rows(others)
    assert sorted_rows(read(ours, mine.column_names)) == sorted_rows(others)
    expected = history.expected()
    assert sorted_rows(mine.select(expected.column_names)) == sorted_rows(expected)


@pytest.mark.heavy
def test_files_are_typed_as_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    history = History(all_types(), 5, irregular=True)
    by_spark = BySpark(spark, history)
    chunks = history.step(100)
    by_spark.load(tmp_path / "theirs", chunks, 1)
    by_spark.writer.create(str(tmp_path / "ours"), history.table, WriteId(1, 1, 1), "{}")
    apply(tmp_path / "ours", history.table, chunks, 2)
    columns = []
    for name in ("ours", "theirs"):
        path = tmp_path / name / DeltaTable(str(tmp_path / name)).file_uris()[0].rsplit("/", 1)[1]
        schema = pq.read_metadata(path).schema
        described = [schema.column(i) for i in range(len(schema))]
        columns.append([(c.path, c.physical_type, str(c.logical_type), c.max_definition_level) for c in described])
        assert b"org.apache.spark.version" in pq.read_metadata(path).metadata
    for ours, theirs in zip(*columns, strict=True):
        if theirs[1] == "INT96":
            assert ours[1] == "INT64"
            assert "microseconds" in ours[2]
        else:
            assert ours == theirs


SHARES = 3  # of a table's columns
OPERATORS = ("=", "<", ">=", "<=>", "<=", ">")


@pytest.fixture(scope="module")
def many_files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, History]:
    """A table of many small files with statistics of their own."""
    history = History(all_types(), 11, irregular=True)
    path = tmp_path_factory.mktemp("many") / "t"
    SinkWriter(spark, "test").create(str(path), history.table, WriteId(1, 1, 1), "{}")
    for step in range(2, 5):
        apply(path, history.table, history.step(200), step)
    assert len(DeltaTable(str(path)).file_uris()) > 6
    return path, history


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("share", by_turns(range(SHARES), SHARES))
def test_statistics_hide_no_row_from_spark(spark: SparkSession, many_files: tuple[Path, History], share: int) -> None:
    path, _ = many_files
    frame = spark.read.format("delta").load(str(path)).cache()
    try:
        wanted = list(predicates(frame, share))
        counted = frame.selectExpr(*[f"count_if({p}) AS p{i}" for i, p in enumerate(wanted)]).first()
    finally:
        frame.unpersist()
    counts_found: list[int] = []
    for start in range(0, len(wanted), 30):
        some = wanted[start : start + 30]
        counts = [f"SELECT {i} AS i, count(*) AS n FROM delta.`{path}` WHERE {p}" for i, p in enumerate(some)]
        counts_found += [
            row.n for row in spark.sql(f"SELECT * FROM ({' UNION ALL '.join(counts)}) ORDER BY i").collect()
        ]
    wrong = [
        (p, n, counts_found[i])
        for i, (p, n) in enumerate(zip(wanted, counted or (), strict=True))
        if n != counts_found[i]
    ]
    assert not wrong
    assert any(counts_found), "some of the predicates hold"


def predicates(frame: DataFrame, share: int) -> Iterator[str]:
    """Comparisons of each column of the share with some of its values."""
    random = Random(share)
    for name, kind in frame.dtypes[share::SHARES]:
        if kind.startswith(("struct", "array", "map")):
            continue
        values = [
            row[0] for row in frame.selectExpr(f"{written(name, kind)} AS v").distinct().collect() if row[0] is not None
        ]
        # Spark loses 0.0 of its own files too when it is asked for -0.0
        literals = [v for v in sorted(values) if not (kind in ("float", "double") and float(v) == 0)]
        for operator in random.sample(OPERATORS, 2):
            yield f"{quoted(name)} {operator} {read_back(random.choice(literals), kind)}"
        yield f"{quoted(name)} IS {random.choice(['', 'NOT '])}NULL"


def written(name: str, kind: str) -> str:
    return f"hex({quoted(name)})" if kind == "binary" else f"CAST({quoted(name)} AS STRING)"


def read_back(literal: str, kind: str) -> str:
    return f"unhex('{literal}')" if kind == "binary" else f"CAST({text(literal)} AS {kind})"


@pytest.mark.heavy
def test_files_are_skipped(spark: SparkSession, many_files: tuple[Path, History]) -> None:
    path, _ = many_files
    files = spark.read.format("delta").load(str(path)).where("_commit_ts > 595").inputFiles()
    assert len(files) < len(DeltaTable(str(path)).file_uris())


@pytest.mark.nightly
def test_native_writes_go_on_after_optimize_and_vacuum(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    history = History(all_types("name"), 21, partial=True, irregular=True)
    path = tmp_path / "t"
    SinkWriter(spark, "test").create(str(path), history.table, WriteId(1, 1, 1), "{}")
    for step in range(2, 4):
        apply(path, history.table, history.step(150), step, partial=True)
    many = len(DeltaTable(str(path)).file_uris())
    session.sql(f"OPTIMIZE delta.`{path}`").collect()
    session.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS").collect()
    assert len(DeltaTable(str(path)).file_uris()) == 1 < many
    assert len(list(path.glob("*.parquet"))) == 1
    apply(path, history.table, history.step(150), 4, partial=True)
    actual, wanted = spark.read.format("delta").load(str(path)).toArrow(), history.expected()
    assert sorted_rows(actual.select(wanted.column_names)) == sorted_rows(wanted)
    assert SinkWriter(spark, "test").missing_files(str(path), DeltaTable(str(path)).version()) == []


@pytest.mark.heavy
def test_spark_reads_a_native_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    from changefeed.sinks.delta.native.commit import checkpoint

    history, path = History(all_types(), 2, irregular=True), tmp_path / "t"
    writer = SinkWriter(spark, "test")
    writer.create(str(path), history.table, WriteId(1, 1, 1), "{}")
    for step in range(2, 12):
        apply(path, history.table, history.step(20), step)
    assert checkpoint(opened(path), opened(path).version)
    for commit_file in sorted((path / "_delta_log").glob("*.json"))[:-1]:
        commit_file.unlink()
    for sums in (path / "_delta_log").glob("*.crc"):
        sums.unlink()
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    state = writer.state(str(path))
    assert state is not None
    assert (state.revision, state.write_id) == (10, WriteId(1, 11, 1))
    actual, wanted = spark.read.format("delta").load(str(path)).toArrow(), history.expected()
    assert sorted_rows(actual.select(wanted.column_names)) == sorted_rows(wanted)


def test_the_log_is_read_by_this_project_as_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The parts of the log that guards read: state, write id, size, and the commits since a version."""
    history, path = History(all_types(), 2), str(tmp_path / "t")
    writer = SinkWriter(spark, "test")
    writer.create(path, history.table, WriteId(1, 1, 1), "{}")
    before = snapshot(spark, path, "test")
    apply(path, history.table, history.step(20), 2)
    after = snapshot(spark, path, "test")
    assert before is not None
    assert after is not None
    assert (after.version, after.write_id) == (1, WriteId(1, 2, 1))
    assert (after.columns, after.schema, after.properties) == (before.columns, before.schema, before.properties)
    assert after.size == sum(opened(path).files().column("size").to_pylist())
    [commit] = commits(partial(commit_text, path), path, 0, 1)
    assert (commit.operation, commit.transactions["test"], commit.note) == (
        "WRITE",
        pack(WriteId(1, 2, 1)),
        '{"step":2}',
    )
    assert commit.changes_table


def test_a_write_of_spark_in_between_fences(spark: SparkSession, tmp_path: Path) -> None:
    history, path = History(all_types(), 2), str(tmp_path / "t")
    writer = SinkWriter(spark, "test")
    writer.create(path, history.table, WriteId(1, 1, 1), "{}")
    chunks = history.step(20)
    at = opened(path)
    done = write_item(item(at, history.table), payloads(chunks))
    writer.touch(path, history.table, WriteId(2, 1, 1), "{}")
    with pytest.raises(FencedError):
        commit(at, [done], WriteId(1, 2, 1), "{}")
    assert spark.read.format("delta").load(path).count() == 0


@pytest.mark.heavy
def test_optimize_in_between_is_retried(spark: SparkSession, tmp_path: Path) -> None:
    history, path = History(all_types(), 2), str(tmp_path / "t")
    SinkWriter(spark, "test").create(path, history.table, WriteId(1, 1, 1), "{}")
    apply(path, history.table, history.step(100), 2)
    chunks, at = history.step(20), opened(path)
    done = write_item(item(at, history.table), payloads(chunks))
    spark.sql(f"OPTIMIZE delta.`{path}`").collect()
    with pytest.raises(SinkError) as caught:
        commit(at, [done], WriteId(1, 3, 1), "{}")
    assert caught.value.transient
    apply(path, history.table, chunks, 3)
    wanted = history.expected()
    assert sorted_rows(read(path, wanted.column_names)) == sorted_rows(wanted)


def test_a_write_of_spark_that_began_before_a_native_one_fails(spark: SparkSession, tmp_path: Path) -> None:
    """The reverse case: an older run still writes with Spark."""
    from py4j.protocol import Py4JJavaError

    history, path = History(all_types(), 2), str(tmp_path / "t")
    SinkWriter(spark, "test").create(path, history.table, WriteId(1, 1, 1), "{}")
    transaction: Any = delta_log(spark, path).startTransaction()
    transaction.txnVersion("test")
    at = opened(path)
    commit(at, [write_item(item(at, history.table), payloads(history.step(20)))], WriteId(2, 1, 1), "{}")
    late = {"txn": {"appId": "test", "version": pack(WriteId(1, 9, 9)), "lastUpdated": 1}}
    older = _Commit(spark, path, "test", WriteId(1, 9, 9), "{}")
    with pytest.raises(Py4JJavaError, match="ConcurrentTransactionException"):
        older._commit(transaction, [older._action(late)])
    assert opened(path).write_id == WriteId(2, 1, 1)
