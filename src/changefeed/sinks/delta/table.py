"""Writing Delta tables: one function a kind of write, each a single commit that carries its stamp.

Plain tables only: no column mapping, no deletion vectors, no type widening, so that every Delta reader can read them.
What these features would do in the metadata (drop, rename or retype a column) is a rewrite of the table.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changefeed.errors import FencedError, SinkError
from changefeed.frames.types import sink_type
from changefeed.model.definition import Table
from changefeed.sinks.delta.log import (
    Commit,
    Snapshot,
    Stamp,
    commits,
    delta_log,
    first_line,
    is_newest,
    missing_files,
    readable,
    snapshot,
)
from changefeed.sinks.merge import merge_sql, quoted
from changefeed.spark.files import file_system

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONFLICTS = ("ConcurrentTransactionException", "MetadataChangedException", "ProtocolChangedException")
_OTHER_COLUMNS = (
    "DELTA_METADATA_MISMATCH", "DELTA_FAILED_TO_MERGE_FIELDS", "DELTA_MERGE_UNRESOLVED_EXPRESSION", "UNRESOLVED_COLUMN",
)  # fmt: skip
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

    def commits(self, path: str, after: int, upto: int) -> Iterator[Commit]:
        """The table's commits with after < version <= upto."""
        return commits(self.spark, path, after, upto)

    def fields(self, table: Table) -> dict[str, Any]:
        """Column -> type, in Spark's JSON, of the Delta table that `table` becomes."""
        return {f.name: f.jsonValue()["type"] for f in self._empty(table).schema.fields}

    def has_files(self, path: str) -> bool:
        """Whether there is a folder that is not empty."""
        folder, files = file_system(self.spark, path)
        return bool(files.exists(folder)) and len(files.listStatus(folder)) > 0

    def is_newest(self, path: str, version: int) -> bool:
        """Whether the table is at this version."""
        return is_newest(self.spark, path, version)

    def missing_files(self, path: str, version: int) -> list[str]:
        """Data files of a version that are gone, or have another size than the table's log says."""
        return missing_files(self.spark, path, version)

    def create(self, path: str, table: Table, stamp: Stamp, note: str) -> None:
        """Makes the table at `path` exist, empty, with these columns; what was there stays in its history."""
        self._replace(path, self._empty(table), stamp, note)

    def load(self, path: str, table: Table, latest: DataFrame, stamp: Stamp, note: str) -> None:
        """Makes the table hold just what `latest` says."""
        self._replace(path, self._rows(latest, table), stamp, note)

    def append(self, path: str, table: Table, latest: DataFrame | None, stamp: Stamp, note: str) -> None:
        """Adds the rows to the table; None for no row."""
        with translated(path):
            rows = self._empty(table) if latest is None else self._rows(latest, table)
            writer = rows.write.format("delta").mode("append")
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

        One commit of metadata that carries the stamp, through Delta's own transaction: an ALTER TABLE carries none, so a
        late one of a fenced run could bring back a column that was dropped since.
        """
        with self._stamped(self.spark, stamp, note), translated(path):
            transaction = delta_log(self.spark, path).startTransaction()
            last = int(transaction.txnVersion(self.application))  # read, so a newer stamp is a conflict
            if last < stamp.pack():
                metadata = json.loads(transaction.metadata().json())
                _add_fields(metadata["metaData"], [f.jsonValue() for f in self._empty(table).schema.fields])
                transaction.updateMetadata(self._action(metadata), False)
                stamped = {
                    "txn": {"appId": self.application, "version": stamp.pack(), "lastUpdated": int(time.time() * 1000)}
                }
                self._commit(transaction, [stamped])
        self._landed(path, stamp)

    def adopt(self, path: str, table: Table, stamp: Stamp, note: str) -> None:
        """Takes over a table that somebody else has made: its rows stay, and it carries the stamp."""
        self.append(path, table, None, stamp, note)

    def _action(self, action: Mapping[str, Any]) -> Any:
        """An action of Delta's log, from the JSON of the Delta protocol."""
        actions = self.spark._jvm.org.apache.spark.sql.delta.actions  # type: ignore[union-attr]
        return getattr(getattr(actions, "Action$"), "MODULE$").fromJson(json.dumps(action))

    def _commit(self, transaction: Any, actions: Sequence[Mapping[str, Any]]) -> None:
        jvm: Any = self.spark._jvm
        java = jvm.java.util.ArrayList()
        for action in actions:
            java.add(self._action(action))
        manual = getattr(getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$ManualUpdate$"), "MODULE$")
        transaction.commit(jvm.scala.jdk.javaapi.CollectionConverters.asScala(java).toSeq(), manual)

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

    def restore(self, path: str, version: int, stamp: Stamp, note: str) -> None:
        """Makes the table hold what it held at a version, whose files must be there."""
        with readable(path):
            rows = self.spark.read.format("delta").option("versionAsOf", version).load(path)
            self._replace(path, rows, stamp, note)

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


def _add_fields(metadata: dict[str, Any], wanted: Iterable[Mapping[str, Any]]) -> None:
    """Puts those of the fields `wanted` that the metadata of a Delta table lacks at their places."""
    schema = json.loads(metadata["schemaString"])
    have = {field["name"]: field for field in schema["fields"]}
    fields = {field["name"]: have.get(field["name"], field) for field in wanted}
    missing = [field for name, field in fields.items() if name not in have]
    metadata["schemaString"] = json.dumps(schema | {"fields": list((fields | have).values())})
    if any(field["type"] == "timestamp_ntz" for field in missing):
        metadata["configuration"]["delta.feature.timestampNtz"] = "supported"


def _named(path: str) -> str:
    return f"delta.{quoted(path)}"


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Delta's errors as ours: conflicts arrive as bare Java errors."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        if (error.getCondition() or "").startswith(_OTHER_COLUMNS):
            raise SinkError(
                f"{path}: its columns are not those that this pipeline gave it: somebody else has changed them "
                f"({str(error).splitlines()[0]}). Restore it, or build all tables anew from the source: "
                "changefeed repair --rebuild --all"
            ) from error
        raise
    except Py4JJavaError as error:
        name, said = error.java_exception.getClass().getSimpleName(), first_line(error)
        if name in _CONFLICTS:
            raise FencedError(
                f"{path}: another writer of this pipeline committed at the same time ({name}: {said})"
            ) from error
        if name in _RETRIED:
            raise SinkError(f"{path}: {name}: {said}", transient=True) from error
        raise
