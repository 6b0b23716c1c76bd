"""Writing Delta tables: one function a kind of write, each a single commit that carries its stamp.

Plain tables only: no column mapping, no deletion vectors, no type widening, so that every Delta reader can read them.
What these features would do in the metadata (drop, rename or retype a column) is a rewrite of the table.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from changefeed.errors import FencedError, SinkError
from changefeed.frames.types import sink_type
from changefeed.model.definition import Table
from changefeed.sinks.delta.log import Snapshot, Stamp, snapshot
from changefeed.sinks.merge import merge_sql, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONFLICTS = ("ConcurrentTransactionException", "MetadataChangedException", "ProtocolChangedException")
_RETRIED = ("ConcurrentAppendException", "ConcurrentDeleteReadException", "ConcurrentDeleteDeleteException")


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the tables of one pipeline in one session.

    Attributes:
        application: the pipeline's name, as Delta's transaction identifier.
        extra: columns of ours in every table -> (type, expression over the change).
    """

    spark: SparkSession
    application: str
    extra: Mapping[str, tuple[str, str]]

    def state(self, path: str) -> Snapshot | None:
        """The table's newest state, or None when there is none."""
        return snapshot(self.spark, path, self.application)

    def create(self, path: str, table: Table, stamp: Stamp, note: str) -> None:
        """Makes the table at `path` exist, empty, with these columns; what was there stays in its history."""
        self._replace(path, self._empty(table), stamp, note)

    def load(self, path: str, table: Table, latest: DataFrame, stamp: Stamp, note: str) -> None:
        """Makes the table hold just what `latest` says."""
        self._replace(path, self._rows(latest, table), stamp, note)

    def append(self, path: str, table: Table, latest: DataFrame, stamp: Stamp, note: str) -> None:
        """Adds the rows to the table."""
        with translated(path):
            writer = self._rows(latest, table).write.format("delta").mode("append")
            writer.options(**self._options(stamp, note)).save(path)
        self._landed(path, stamp)

    def merge(self, path: str, table: Table, latest: DataFrame, stamp: Stamp, note: str, *, partial: bool) -> None:
        """Updates, inserts and deletes by key."""
        view = f"changes_{uuid.uuid4().hex}"
        latest.createOrReplaceTempView(view)
        extra = {name: expression for name, (_, expression) in self.extra.items()}
        session = latest.sparkSession
        try:
            with self._stamped(session, stamp, note), translated(path):
                session.sql(merge_sql(_named(path), view, table, extra, partial=partial))
        finally:
            session.catalog.dropTempView(view)
        self._landed(path, stamp)

    def add_columns(self, path: str, table: Table, stamp: Stamp, note: str) -> None:
        """Adds the columns that `table` has and the Delta table lacks, at their places, NULL in every row.

        Not fenced by Delta (no transaction number in an ALTER): it is harmless to repeat, for only what is missing is
        added. The empty append after it stamps the table.
        """
        state = self.state(path)
        have = set(state.columns) if state else set()
        after, clauses = "FIRST", []
        for column in table.columns:
            if column.name not in have:
                clauses.append(f"{quoted(column.name)} {sink_type(column.type).sql} {after}")
            after = f"AFTER {quoted(column.name)}"
        with translated(path):
            if any("timestamp_ntz" in clause for clause in clauses):
                feature = "'delta.feature.timestampNtz' = 'supported'"
                self.spark.sql(f"ALTER TABLE {_named(path)} SET TBLPROPERTIES ({feature})")
            if clauses:
                self.spark.sql(f"ALTER TABLE {_named(path)} ADD COLUMNS ({', '.join(clauses)})")
            self._empty(table).write.format("delta").mode("append").options(**self._options(stamp, note)).save(path)
        self._landed(path, stamp)

    def rewrite(self, path: str, table: Table, expressions: Mapping[str, str], stamp: Stamp, note: str) -> None:
        """Replaces every row by expressions over the old one, column -> SQL, and the columns by those of `table`.

        A column of ours stays as it is, unless there is an expression for it.
        """
        names = [c.name for c in table.columns]
        selected = [f"{expressions[n]} AS {quoted(n)}" for n in names]
        selected += [f"{expressions.get(n, quoted(n))} AS {quoted(n)}" for n in self.extra]
        self._replace(path, self.spark.read.format("delta").load(path).selectExpr(*selected), stamp, note)

    def copy(self, source: str, path: str, stamp: Stamp, note: str) -> None:
        """Makes the table at `path` hold what the one at `source` holds."""
        self._replace(path, self.spark.read.format("delta").load(source), stamp, note)

    def _empty(self, table: Table) -> DataFrame:
        columns = [(c.name, sink_type(c.type).sql) for c in table.columns]
        columns += [(name, kind) for name, (kind, _) in self.extra.items()]
        return self.spark.range(0).selectExpr(*[f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in columns])

    def _rows(self, latest: DataFrame, table: Table) -> DataFrame:
        columns = [f"c{i} AS {quoted(c.name)}" for i, c in enumerate(table.columns)]
        columns += [f"{expression.replace('s.', '')} AS {quoted(name)}" for name, (_, expression) in self.extra.items()]
        return latest.where("NOT _deleted").selectExpr(*columns)

    def _replace(self, path: str, rows: DataFrame, stamp: Stamp, note: str) -> None:
        with translated(path):
            writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
            writer.options(**self._options(stamp, note)).save(path)
        self._landed(path, stamp)

    def _options(self, stamp: Stamp, note: str) -> dict[str, str]:
        return {"txnAppId": self.application, "txnVersion": str(stamp.pack()), "userMetadata": note}

    @contextmanager
    def _stamped(self, session: SparkSession, stamp: Stamp, note: str) -> Iterator[None]:
        settings = {
            "spark.databricks.delta.write.txnAppId": self.application,
            "spark.databricks.delta.write.txnVersion": str(stamp.pack()),
            "spark.databricks.delta.commitInfo.userMetadata": note,
        }
        for name, value in settings.items():
            session.conf.set(name, value)
        try:
            yield
        finally:
            for name in settings:
                session.conf.unset(name)

    def _landed(self, path: str, stamp: Stamp) -> None:
        """Delta skips a write in silence when a newer one is there: ask the table who wrote last."""
        state = self.state(path)
        if state is None or state.stamp is None or state.stamp < stamp:
            raise SinkError(f"{path}: a commit was answered but is not in the table's log")
        if state.stamp.epoch > stamp.epoch:
            raise FencedError(
                f"{path}: epoch {state.stamp.epoch} of pipeline {self.application} writes this table now; this run is "
                f"epoch {stamp.epoch} and stops"
            )


def _named(path: str) -> str:
    return f"delta.{quoted(path)}"


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Delta's conflicts as ours: they arrive as bare Java errors."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        name = error.java_exception.getClass().getSimpleName()
        said = str(error.java_exception.getMessage()).splitlines()[0]
        if name in _CONFLICTS:
            raise FencedError(
                f"{path}: another writer of this pipeline committed at the same time ({name}: {said})"
            ) from error
        if name in _RETRIED:
            raise SinkError(f"{path}: {name}: {said}", transient=True) from error
        raise
