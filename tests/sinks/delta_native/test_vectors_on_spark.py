"""Tables that merge on read, written natively and in SQL in turns: Spark, delta-rs and polars read the same rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from changefeed.model.definition import Table
from changefeed.sinks.apply import bitmaps
from changefeed.sinks.apply.item import TaskResult, write_item
from changefeed.sinks.apply.merge import Marked
from changefeed.sinks.delta.native import log_file, replay, vectors
from changefeed.sinks.delta.native.commit import commit
from changefeed.sinks.writes import WriteId
from changefeed.storage.local import LocalFolder
from tests.sinks.delta_native.applying import apply, create, inline, item, opened, payloads, read
from tests.sinks.delta_native.by_spark import BySpark
from tests.sinks.delta_native.histories import History, all_types, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    own.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    return own


def by_spark(spark: SparkSession, path: Path, wanted: pa.Table) -> Any:
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    return sorted_rows(spark.read.format("delta").load(str(path)).select(*wanted.column_names).toArrow())


def entries(path: Path) -> Mapping[str, Any]:
    return replay.state(LocalFolder(str(path))).files


TURNS = ("native", "sql", "native", "PURGE", "native", "VACUUM", "native", "OPTIMIZE")


@pytest.mark.nightly
def test_a_table_is_written_in_both_ways_by_turns(session: SparkSession, tmp_path: Path) -> None:
    """The table is optimized, purged and vacuumed in between; each way reads the vectors that the other has made."""
    history, path = History(all_types("name", "clock"), 7, partial=True, irregular=True), tmp_path / "a b'ü"
    create(path, history.table)
    sql, at = BySpark(session, history), f"delta.`{path}`"
    apply(path, history.table, history.step(150), 1, partial=True, marks=True)
    marked = set[str]()
    for step, way in enumerate(TURNS, 2):
        if way == "native":
            apply(path, history.table, history.step(25), step, partial=True, marks=True)
        elif way == "sql":
            sql.merge(path, history.step(25), step)
        elif way == "PURGE":
            session.sql(f"REORG TABLE {at} APPLY (PURGE)").collect()
            assert not any("deletionVector" in file for file in entries(path).values())
        else:
            session.sql(f"VACUUM {at} RETAIN 0 HOURS" if way == "VACUUM" else f"OPTIMIZE {at}").collect()
        if way in ("native", "sql"):
            newest = actions(path, DeltaTable(str(path)).version(), "add")
            marked |= {way for action in newest if "deletionVector" in action}
        if way in ("native", "OPTIMIZE"):
            wanted = history.expected()
            assert by_spark(session, path, wanted) == sorted_rows(wanted)
            names = [name for name in wanted.column_names if name != "moment"]  # delta-rs misreads old moments of Spark
            assert sorted_rows(read(path, names)) == sorted_rows(wanted.select(names))
    assert marked == {"native", "sql"}


@pytest.mark.heavy
def test_entries_are_those_of_delta(session: SparkSession, tmp_path: Path) -> None:
    """The same rows of a table and of its copy, deleted by DELETE and natively: twice, so that a vector grows."""
    history, theirs, ours = History(few_types(), 3), tmp_path / "theirs", tmp_path / "ours"
    create(theirs, history.table, extra=())
    apply(theirs, history.table, history.step(200), 1, marks=True)
    shutil.copytree(theirs, ours)
    for number, condition in enumerate(("id % 3 = 0", "id % 4 = 0"), 2):
        session.sql(f"DELETE FROM delta.`{theirs}` WHERE {condition}").collect()
        before, files, at = replay.state(LocalFolder(str(theirs)), number - 1).files, entries(theirs), opened(ours)
        removed, marked = [], []
        for path, old in before.items():
            if path not in files:
                removed.append((path, old["size"]))
            elif replay.vector(files[path]) != replay.vector(old):
                rows = _rows(theirs, files[path])
                count = json.loads(old["stats"])["numRecords"]
                marked.append(Marked(path, int(count), len(rows), bitmaps.encoded(rows)))
        commit(
            at,
            [TaskResult((), tuple(removed), 0, None, tuple(marked))],
            WriteId(1, number, 1),
            "{}",
            merges_on_read=True,
        )
        assert [comparable(file) for file in actions(ours, number, "add")] == [
            comparable(file) for file in actions(theirs, number, "add")
        ]
        assert [comparable(f) for f in actions(ours, number, "remove")] == [
            comparable(f) for f in actions(theirs, number, "remove")
        ]
    both = [sorted_rows(session.read.format("delta").load(str(path)).toArrow()) for path in (ours, theirs)]
    assert both[0] == both[1]


def few_types() -> Table:
    """A table with fewer columns than the limit for statistics: Delta counts the parts of nested columns too."""
    whole = all_types()
    return replace(whole, columns=tuple(c for c in whole.columns if c.name not in ("place", "vec", "index", "flags")))


def _rows(path: Path, file: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    return vectors.read(LocalFolder(str(path)), file["deletionVector"])


def actions(path: Path, version: int, kind: str) -> list[Any]:
    lines = (path / "_delta_log" / f"{version:020d}.json").read_text().split("\n")
    entries = [action[kind] for line in lines if line and kind in (action := json.loads(line))]
    return sorted(entries, key=lambda file: str(file["path"]))


def comparable(file: dict[str, Any]) -> dict[str, Any]:
    """An entry without the members that differ by chance: the file of the vectors, its time, and the place in that file."""
    vector = {n: v for n, v in (file.get("deletionVector") or {}).items() if n not in ("pathOrInlineDv", "offset")}
    stats = json.loads(file["stats"]) if "stats" in file else None
    return {**file, "deletionTimestamp": 0, "stats": stats, "deletionVector": vector}


@pytest.mark.heavy
def test_spark_counts_and_deletes_rows_of_our_vectors(session: SparkSession, tmp_path: Path) -> None:
    """Spark counts rows by the statistics alone."""
    history, path = History(all_types(), 3), tmp_path / "t"
    create(path, history.table)
    apply(path, history.table, history.step(200), 1, marks=True)
    apply(path, history.table, history.step(10), 2, marks=True)
    count = len(history.keys)
    assert session.sql(f"SELECT count(*) FROM delta.`{path}`").collect()[0][0] == count
    gone = sum(1 for key in history.keys if key[0] % 5 == 0)
    session.sql(f"DELETE FROM delta.`{path}` WHERE id % 5 = 0").collect()
    assert session.read.format("delta").load(str(path)).count() == count - gone
    assert len(read(path, ["id"])) == count - gone


@pytest.mark.nightly
def test_vacuum_of_delta_fails_on_a_vector_in_the_log(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is why no vector is written into the log. When this test fails, a newer Delta has fixed it."""
    from py4j.protocol import Py4JJavaError

    history, path = History(all_types(), 3), tmp_path / "t"
    create(path, history.table)
    apply(path, history.table, history.step(150), 1, marks=True)
    monkeypatch.setattr(log_file, "_in_a_file", inline)
    assert apply(path, history.table, history.step(10), 2, marks=True).marked
    with pytest.raises(Py4JJavaError, match="MatchError"):
        session.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS").collect()


def test_a_merge_of_sql_that_began_before_fails(spark: SparkSession, tmp_path: Path) -> None:
    """Delta notices rows that were marked meanwhile, as it notices other rewrites."""
    from py4j.protocol import Py4JJavaError

    from changefeed.sinks.delta.log import delta_log, pack
    from changefeed.sinks.delta.sink import _Commit

    history, path = History(all_types(), 2), tmp_path / "t"
    create(path, history.table)
    apply(path, history.table, history.step(100), 1, marks=True)
    transaction: Any = delta_log(spark, str(path)).startTransaction()
    transaction.txnVersion("test")
    at = opened(path)
    done = write_item(item(at, history.table, marks=True), payloads(history.step(20)))
    commit(at, [done], WriteId(2, 1, 1), "{}", merges_on_read=True)
    late = {"txn": {"appId": "test", "version": pack(WriteId(1, 9, 9)), "lastUpdated": 1}}
    older = _Commit(spark, str(path), "test", WriteId(1, 9, 9), "{}")
    with pytest.raises(Py4JJavaError, match="ConcurrentTransactionException"):
        older._commit(transaction, [older._action(late)])
    assert opened(path).write_id == WriteId(2, 1, 1)
