"""Delta tables as a sink: implements the contract of `sinks.base`.

Writes of rows are native unless `native/step.py` has a reason against it: many tables in one Spark job, and each commit
without Spark. Every other write is one commit of Delta's own writer.

Plain tables: no column mapping, no type widening, so that every Delta reader can read them. What these features would do in
the metadata (drop, rename or retype a column) is a rewrite of the table. Tables with a key have deletion vectors where
`sink.write-mode` is `merge-on-read`.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError, DamagedError, FencedError, SinkError
from changefeed.frames.types import sink_type
from changefeed.local_files import local_path
from changefeed.model.definition import Table
from changefeed.model.escaped_names import NOT_IN_NAMES, escaped
from changefeed.sinks.apply.compaction import CompactionRules
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.base import Applied, Changes, Commit, PreparedWrite, TableSnapshot, WriteRequest
from changefeed.sinks.delta import log, read
from changefeed.sinks.delta.errors import translated
from changefeed.sinks.delta.log_names import commit_name
from changefeed.sinks.delta.log_store import commit_by_links
from changefeed.sinks.delta.native.columns import with_missing
from changefeed.sinks.delta.native.incomplete import take_back
from changefeed.sinks.delta.native.log_file import NTZ, PROPERTY
from changefeed.sinks.delta.native.opened import WAY_OUT
from changefeed.sinks.delta.native.step import NativeWrites, is_native
from changefeed.sinks.sql import METADATA_SQL, SparkTypes, merge_sql, quoted, rewritten
from changefeed.sinks.ways_out import NO_DELTA, NOT_BY_SPARK, TABLE_WITHOUT_DELTA
from changefeed.sinks.writes import (
    METADATA,
    AddColumns,
    Append,
    Copy,
    Create,
    Import,
    Load,
    Restore,
    Rewrite,
    Touch,
    Upsert,
    Write,
    WriteId,
    metadata_clash,
)
from changefeed.spark_runtime.files import file_system, file_system_without_spark, has_files, is_local, read_bytes
from changefeed.spark_runtime.session import another, compiled, has_jars_of
from changefeed.storage.local import LocalFolder
from changefeed.storage.objects import ObjectFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# From here on it is worth the seconds that it takes to compile the plan of a write: `bench/merge_plans.py`.
_MANY_ROWS, _MANY_BYTES = 50_000, 2 * 2**20


@dataclass(slots=True)
class DeltaTables:
    """Delta tables below a folder or URL.

    Attributes:
        root: folder or URL of the tables, without a slash at the end.
        metadata_columns: the metadata columns that every table gets.
        session: the Spark session; None to use only methods that need no Spark.
        owner: the pipeline's owner text, which is Delta's application id; empty if unknown.
        native: whether to use native writes where possible; otherwise Spark makes all writes.
        merges_on_read: whether tables with a key get deletion vectors.
        compaction: when to compact such tables; None for never.
        limits: sizes for the files that are written natively.
        folder: the folder of the tables, if it is in an object store.
        has_delta: whether the session has the jars of Delta.
    """

    root: str
    metadata_columns: tuple[str, ...] = ()
    session: SparkSession | None = None
    owner: str = ""
    native: bool = True
    merges_on_read: bool = False
    compaction: CompactionRules | None = None
    limits: Limits = field(default_factory=Limits)
    types: SparkTypes = field(default_factory=SparkTypes)
    folder: ObjectFolder | None = None
    has_delta: bool = field(init=False)
    _idle: list[SparkSession] = field(default_factory=list)  # sessions that no write uses now, the given one first
    _native: NativeWrites | None = None

    def __post_init__(self) -> None:
        self.has_delta = self.session is not None and has_jars_of(self.session, "delta")
        if self.native and self._native is None:
            folder = self.folder or (LocalFolder(os.path.abspath(self.root)) if is_native(self.root) else None)
            if folder is not None:
                self._native = NativeWrites(
                    folder, self.metadata_columns, self.merges_on_read, self.compaction, self.limits,
                    by_spark=self.folder is None and (self.session is None or self.has_delta),
                )  # fmt: skip
        if self.session is not None and self._native is None and not self.has_delta:
            if not self.native:
                raise ConfigError(f"sink.writer is `spark`. {NO_DELTA}. Or leave out sink.writer")
            raise ConfigError(f"{self.root}: {NO_DELTA}. Or use a local folder, s3://, abfss:// or gs://")
        if self.session is not None and self.session not in self._idle:
            self._idle.append(self.session)

    def owned_by(self, owner: str) -> DeltaTables:
        """See `TableSink`."""
        return replace(self, owner=owner, _native=None)  # what was prepared is the other pipeline's

    def location(self, path: str) -> str:
        """See `TableSink`."""
        return f"{self.root}/{path}"

    @property
    def spark(self) -> SparkSession:
        """The Spark session, for methods that need one."""
        assert self.session is not None, "the sink was opened without a session"
        return self.session

    # What is there.

    def refusal(self, table: Table, *, exists: bool = False) -> str | None:
        """See `TableSink`."""
        for name in (column.name for column in table.columns):
            if character := next((c for c in name if c in NOT_IN_NAMES), None):
                fix = f"Set sink.column-names to `escaped`, which makes it {escaped(name)}, or name the table in pipeline.exclude"
                return f"column {name!r}: plain Delta tables have no {character!r} in names of columns. {fix}"
            if clash := metadata_clash(name, self.metadata_columns):
                return clash
        return None

    def fallback(self, path: str) -> str | None:
        """See `TableSink`."""
        if self._native is not None:
            return self._native.refused(path, self.owner)
        return "sink.path is neither a local folder nor in an object store" if self.native else "sink.writer is `spark`"

    def write_mode(self, path: str) -> str:
        """See `TableSink`."""
        if not self.merges_on_read:
            return "copy-on-write"
        if self._native is not None and self._native.refused(path, self.owner) is None:
            reason = self._native.unmarked(path, self.owner)
        else:  # Delta's own writer asks the table
            properties = read.properties(self.location(path))
            enabled = properties is None or properties.get(PROPERTY, "").lower() == "true"
            reason = None if enabled else f"the table was made without: {WAY_OUT}"
        return f"copy-on-write ({reason})" if reason else "merge-on-read"

    def partitions(self, path: str, table: Table) -> tuple[str, ...]:
        """See `TableSink`: those of a table that is there; new ones have none."""
        return () if self._native is None else self._native.partitions(path, self.owner)

    def sort_order(self, path: str, table: Table) -> tuple[str, ...]:
        """See `TableSink`."""
        return ()

    def has_written(self, path: str) -> bool | None:
        """See `TableSink`."""
        if self.folder is None or self._native is None:
            return read.wrote(self.location(path), self.owner)
        snapshot = self._native.snapshot(path, self.owner)
        return None if snapshot is None else snapshot.write_id is not None

    def tables(self) -> Iterator[str]:
        """See `TableSink`."""
        if self.folder is not None and self._native is not None:
            yield from self._native.tables(self.owner)
            return
        top, files = file_system(self.spark, self.root)
        for database in files.listStatus(top) if files.exists(top) else ():
            name = str(database.getPath().getName())
            if name == "_changefeed" or not database.isDirectory():
                continue
            for table in files.listStatus(database.getPath()):
                path = f"{name}/{table.getPath().getName()}"
                if table.isDirectory() and self.snapshot(path) is not None:
                    yield path

    def snapshot(self, path: str) -> TableSnapshot | None:
        """See `TableSink`."""
        if self._native is not None:
            try:
                return self._native.snapshot(path, self.owner)
            except SinkError as error:  # Delta's own reader reports what else is wrong with a log
                if not self._is_read_by_delta(error):
                    raise
        snapshot = log.snapshot(self.spark, self.location(path), self.owner)
        if snapshot is None:
            return None
        return TableSnapshot(snapshot.version, snapshot.columns, snapshot.write_id, snapshot.applications)

    def _is_read_by_delta(self, error: SinkError) -> bool:
        """Whether Delta's own reader is asked for a table that was not read natively, for this reason.

        In an object store it is not: the session may have no way there, and would report that as damage of the table.
        """
        return self.folder is None and self.has_delta and not isinstance(error, DamagedError)

    @property
    def needs_session(self) -> bool:
        """See `TableSink`."""
        return self._native is None

    def is_newest(self, path: str, revision: int) -> bool:
        """See `TableSink`."""
        if self._native is not None:
            snapshot = self.snapshot(path)
            return snapshot is not None and snapshot.revision == revision
        return log.is_newest(self.spark, self.location(path), revision)

    def distance(self, path: str, after: int, through: int) -> int | None:
        """See `TableSink`: versions count commits."""
        return through - after if after <= through else None

    def commits(self, path: str, after: int, through: int) -> Iterator[Commit]:
        """See `TableSink`."""
        read = partial(self._commit_text if self._native is None else self._native.commit_text, path)
        for commit in log.commits(read, self.location(path), after, through):
            number = commit.transactions.get(self.owner)
            write_id = None if number is None else log.unpack(number)
            yield Commit(commit.version, commit.operation, write_id, commit.changes_table)

    def damaged_files(self, path: str, revision: int) -> list[str]:
        """See `TableSink`."""
        if self._native is not None:
            try:
                return self._native.damaged_files(path, revision)
            except SinkError as error:
                if not self._is_read_by_delta(error):
                    raise
        return log.missing_files(self.spark, self.location(path), revision)

    def take_back(self, path: str, revision: int) -> list[int]:
        """See `TableSink`."""
        root = local_path(self.root)
        return [] if root is None else take_back(f"{root}/{path}", revision, self.owner)

    def publish(self, cut: str, revisions: Mapping[str, int]) -> None:
        """See `TableSink`: revisions have no names."""

    def has_files(self, path: str) -> bool:
        """See `TableSink`."""
        location = self.location(path)
        if self.folder is not None:
            folder = self.folder.subfolder(path)
            return bool(folder.files() or folder.folders())
        if self.session is None or is_local(location):
            return read.has_files(location)
        return has_files(self.session, location)

    def delete(self, path: str) -> None:
        """See `TableSink`: the log is deleted first, so that an interrupted deletion leaves no table."""
        if self._native is not None:
            self._native.forget(path)
        if self.folder is not None:
            self.folder.delete_folder(f"{path}/_delta_log")
            self.folder.delete_folder(path)
            return
        system, place = file_system_without_spark(self.location(path))
        for local in (f"{place}/_delta_log", place):
            try:
                if system.exists(local):
                    system.rm(local, recursive=True)
            except OSError as error:
                raise SinkError(f"{local}: {error}", transient=True) from error

    def differences(self, path: str, table: Table) -> list[str]:
        """See `TableSink`."""
        if self._native is not None and (differences := self._native.differences(path, self.owner, table)) is not None:
            return differences
        if not self.has_delta:
            raise SinkError(f"{self.location(path)}: {self.fallback(path)}")
        snapshot = log.snapshot(self.spark, self.location(path), self.owner)
        has = {field["name"]: field["type"] for field in json.loads(snapshot.schema)["fields"]} if snapshot else {}
        wants = {f.name: f.jsonValue()["type"] for f in self._empty(self.spark, table).schema.fields}
        names = {**wants, **has}
        return [f"{n} ({has.get(n)}, not {wants.get(n)})" for n in names if has.get(n) != wants.get(n)]

    # Writing.

    def prepare(self, requests: Sequence[WriteRequest]) -> Sequence[PreparedWrite]:
        """See `TableSink`."""
        if self._native is not None and requests:
            return self._native.prepare(self.session, self.owner, requests)
        return [PreparedWrite(request) for request in requests]

    def apply(self, prepared: PreparedWrite) -> Applied:
        """See `TableSink`."""
        request = prepared.request
        write, at = request.write, self.location(request.write.path)
        with translated(at):
            applied = self._native.apply(self.session, self.owner, prepared) if self._native is not None else None
        if applied is not None:
            return applied
        if not isinstance(write, Create | Load | Copy | Import) and self.snapshot(write.path) is None:
            raise SinkError(f"{at}: there is no table, which {type(write).__name__} needs")
        if self._native is not None and (self.folder is not None or not self.has_delta):
            reason = self._native.why_not(request, self.owner)
            raise SinkError(f"{at}: {reason}. {TABLE_WITHOUT_DELTA if self.folder is None else NOT_BY_SPARK}")
        if local_path(self.root) is not None:
            commit_by_links(self.spark)
        with self._session() as spark, translated(at):
            has_vectors = self.merges_on_read and bool(write.table.keys)
            properties = {PROPERTY: "true"} if has_vectors else {}
            commit = _Commit(spark, at, self.owner, request.write_id, request.note, properties)
            with compiled(spark) if self._is_large(write, request.changes) else nullcontext():
                self._write(write, request.changes, commit)
        self._check_landed(write.path, request.write_id)
        return Applied()

    def _commit_text(self, path: str, version: int) -> bytes | None:
        return read_bytes(self.spark, f"{self.location(path)}/_delta_log/{commit_name(version)}")

    def _write(self, write: Write, changes: Changes | None, commit: _Commit) -> None:
        spark = commit.spark
        match write:
            case Create():
                commit.replace(self._empty(spark, write.table))
            case AddColumns():
                commit.add_columns([f.jsonValue() for f in self._empty(spark, write.table).schema.fields])
            case Rewrite():
                rows = spark.read.format("delta").load(commit.path)
                commit.replace(rewritten(rows, write, self.metadata_columns))
            case Copy(source=source):
                commit.replace(spark.read.format("delta").load(self.location(source)))
            case Import(source=source):
                commit.replace(spark.read.format("delta").load(source))
            case Restore(revision=version):
                with log.readable(commit.path):
                    commit.replace(spark.read.format("delta").option("versionAsOf", version).load(commit.path))
            case Touch():
                commit.touch()
            case Load() | Append() | Upsert():
                assert changes is not None
                self._apply_changes(write, changes, commit)

    def _apply_changes(self, write: Load | Append | Upsert, changes: Changes, commit: _Commit) -> None:
        frame = changes.frame(commit.spark)
        match write:
            case Load():
                commit.replace(self._rows(frame, write.table))
            case Append():
                commit.append(self._rows(frame, write.table))
            case Upsert():
                extra = {name: METADATA_SQL[name] for name in self.metadata_columns}
                commit.merge(frame, write.table, extra, partial=changes.partial)

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        """Returns a session for one write: the transaction identifier of a MERGE is a setting of its session."""
        try:
            spark = self._idle.pop(0)
        except IndexError:
            spark = another(self.spark)
        try:
            yield spark
        finally:
            self._idle.insert(0 if spark is self.session else len(self._idle), spark)

    def _is_large(self, write: Write, changes: Changes | None) -> bool:
        """Whether many rows are written to the table, or may have to be read."""
        if changes is not None and changes.rows >= _MANY_ROWS:
            return True
        at = self.location(write.source if isinstance(write, Copy) else write.path)
        snapshot = log.snapshot(self.spark, at, self.owner)
        return snapshot is not None and snapshot.size >= _MANY_BYTES

    def _empty(self, spark: SparkSession, table: Table) -> DataFrame:
        columns = [(c.name, sink_type(c.type).sql) for c in table.columns]
        columns += [(name, METADATA[name].sql) for name in self.metadata_columns]
        return spark.range(0).selectExpr(*[f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in columns])

    def _rows(self, changes: DataFrame, table: Table) -> DataFrame:
        columns = [f"c{i} AS {quoted(c.name)}" for i, c in enumerate(table.columns)]
        columns += [f"{METADATA_SQL[name].replace('s.', '')} AS {quoted(name)}" for name in self.metadata_columns]
        return changes.where("NOT _deleted").selectExpr(*columns)

    def _check_landed(self, path: str, write_id: WriteId) -> None:
        """Checks that the commit is in the table: Delta silently skips a write if the table has a newer one."""
        snapshot, at = self.snapshot(path), self.location(path)
        if snapshot is None or snapshot.write_id is None or snapshot.write_id < write_id:
            raise SinkError(f"{at}: a commit was confirmed but is not in the table's log")
        if snapshot.write_id.epoch > write_id.epoch:
            raise FencedError(
                f"{at}: epoch {snapshot.write_id.epoch} of the pipeline writes this table now; this run is epoch "
                f"{write_id.epoch} and stops"
            )


@dataclass(frozen=True, slots=True)
class _Commit:
    """One commit to the Delta table at `path`, in a session of its own.

    Attributes:
        properties: the table properties that a new table gets.
    """

    spark: SparkSession
    path: str
    owner: str
    write_id: WriteId
    note: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def replace(self, rows: DataFrame) -> None:
        """Replaces the table's columns and rows.

        An overwrite cannot add a table feature to an existing table, so the first column of type timestamp_ntz needs a
        transaction of its own kind.
        """
        if self._needs_ntz(rows):
            self._transaction(lambda transaction: self._replaced(transaction, rows))
            return
        writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.options(**self._options(), **self.properties).save(self.path)

    def append(self, rows: DataFrame) -> None:
        """Appends rows."""
        rows.write.format("delta").mode("append").options(**self._options()).save(self.path)

    def merge(self, changes: DataFrame, table: Table, extra: dict[str, str], *, partial: bool) -> None:
        """Updates, inserts and deletes by key."""
        view = f"changes_{uuid.uuid4().hex}"
        changes.createOrReplaceTempView(view)
        try:
            with self._settings():
                target = f"delta.{quoted(self.path)}"
                self.spark.sql(merge_sql(target, view, table, extra, partial=partial))
        finally:
            self.spark.catalog.dropTempView(view)

    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        """Adds the fields that the table lacks, in one commit of metadata through Delta's own transaction.

        An ALTER TABLE has no transaction identifier, so a late one of a fenced run could add a column again that was
        dropped since.
        """

        def change(transaction: Any) -> list[Any]:
            metadata = json.loads(transaction.metadata().json())
            _add_fields(metadata["metaData"], fields)
            transaction.updateMetadata(self._action(metadata), False)
            return []

        self._transaction(change)

    def touch(self) -> None:
        """Commits only the transaction identifier."""
        self._transaction(lambda transaction: [])

    def _needs_ntz(self, rows: DataFrame) -> bool:
        """Whether the rows have a timestamp_ntz column, and the table exists without the table feature for it."""
        from pyspark.sql.types import TimestampNTZType

        if not any(isinstance(field.dataType, TimestampNTZType) for field in rows.schema.fields):
            return False
        none = self.spark._jvm.scala.Option.empty()  # type: ignore[union-attr]
        snapshot = log.delta_log(self.spark, self.path).update(False, none, none)
        return int(snapshot.version()) >= 0 and NTZ not in str(snapshot.protocol().json())

    def _replaced(self, transaction: Any, rows: DataFrame) -> list[Any]:
        """Writes the rows to files; returns the actions that replace the table's columns and files by them."""
        frame: Any = rows._jdf
        metadata = json.loads(transaction.metadata().json())
        metadata["metaData"]["schemaString"] = frame.schema().asNullable().json()
        metadata["metaData"]["configuration"][f"delta.feature.{NTZ}"] = "supported"
        old = _listed(self.spark, transaction.filterFiles())
        transaction.updateMetadata(self._action(metadata), False)
        return [file.remove() for file in old] + _listed(self.spark, transaction.writeFiles(frame))

    def _transaction(self, change: Callable[[Any], list[Any]]) -> None:
        """Makes one commit through Delta's own transaction; none if the table has this write id or a higher one.

        Args:
            change: modifies the transaction, and returns actions for its commit.
        """
        with self._settings():
            transaction = log.delta_log(self.spark, self.path).startTransaction()
            last = int(transaction.txnVersion(self.owner))  # read, so a newer write id is a conflict
            version = log.pack(self.write_id)
            if last >= version:
                return
            actions = change(transaction)
            txn = {"appId": self.owner, "version": version, "lastUpdated": int(time.time() * 1000)}
            self._commit(transaction, [self._action({"txn": txn}), *actions])

    def _action(self, action: Mapping[str, Any]) -> Any:
        """Creates an action of Delta's log from JSON of the Delta protocol."""
        actions = self.spark._jvm.org.apache.spark.sql.delta.actions  # type: ignore[union-attr]
        return getattr(getattr(actions, "Action$"), "MODULE$").fromJson(json.dumps(action))

    def _commit(self, transaction: Any, actions: Sequence[Any]) -> None:
        jvm: Any = self.spark._jvm
        java = jvm.java.util.ArrayList()
        for action in actions:
            java.add(action)
        manual = getattr(getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$ManualUpdate$"), "MODULE$")
        transaction.commit(jvm.scala.jdk.javaapi.CollectionConverters.asScala(java).toSeq(), manual)

    def _options(self) -> dict[str, str]:
        return {"txnAppId": self.owner, "txnVersion": str(log.pack(self.write_id)), "userMetadata": self.note}

    @contextmanager
    def _settings(self) -> Iterator[None]:
        settings = {
            "spark.databricks.delta.write.txnAppId": self.owner,
            "spark.databricks.delta.write.txnVersion": str(log.pack(self.write_id)),
            "spark.databricks.delta.commitInfo.userMetadata": self.note,
        }
        for name, value in settings.items():
            self.spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in settings:
                self.spark.conf.unset(name)


def _add_fields(metadata: dict[str, Any], wanted: Iterable[Mapping[str, Any]]) -> None:
    """Adds the fields `wanted` that the metadata of a Delta table lacks, at their places."""
    schema, wanted = json.loads(metadata["schemaString"]), list(wanted)
    metadata["schemaString"] = json.dumps(schema | {"fields": with_missing(schema["fields"], wanted)})
    have = {field["name"] for field in schema["fields"]}
    if any(field["type"] == "timestamp_ntz" for field in wanted if field["name"] not in have):
        metadata["configuration"][f"delta.feature.{NTZ}"] = "supported"


def _listed(spark: SparkSession, files: Any) -> list[Any]:
    """Converts a Scala sequence of files to a Python list."""
    jvm: Any = spark._jvm
    return list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(files))
