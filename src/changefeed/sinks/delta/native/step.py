"""Native writes of a step: the data files of all writes together, then one commit for each write.

    prepare   open tables ──▶ items ──▶ `apply.step` writes files that no commit refers to yet
    apply     the files of a write ──▶ commit, as the version after the one that was opened

If somebody else has committed in between, a write is made once more, on what is there now (`_twice`).

After the commit of a table that merges on read, its files are compacted if it is worth it, in a separate commit that changes
no row and has no write id.

`_reason` returns why Spark must make a write (`sink.py`). Files that were prepared and not committed remain until VACUUM.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from changefeed.errors import DamagedError, SinkError
from changefeed.frames.types import sink_type
from changefeed.model.definition import Table
from changefeed.sinks.apply.compaction import CompactionRules, groups
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.apply.item import Item, TaskResult
from changefeed.sinks.apply.step import HERE_BYTES, compact_files, item_of, no_files, too_large, write_files
from changefeed.sinks.apply.target import Target
from changefeed.sinks.base import Applied, Changes, PreparedWrite, TableSnapshot, WriteRequest
from changefeed.sinks.delta.native import replay
from changefeed.sinks.delta.native.columns import changed, copied, has_place_for, replaced, size
from changefeed.sinks.delta.native.commit import checkpoint, commit, compact, create, fenced, forget_lost_checkpoint
from changefeed.sinks.delta.native.layout import DeltaLayout
from changefeed.sinks.delta.native.opened import Opened, arrow_schema, delta_fields, open_table
from changefeed.sinks.delta.native.replay import TableLog
from changefeed.sinks.delta.native.snapshot import damaged_files, table_snapshot
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
)
from changefeed.storage import Folder
from changefeed.storage.base import in_parallel
from changefeed.storage.local import LocalFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _WithFiles(PreparedWrite):
    """A write whose files have been written, but not committed.

    Attributes:
        opened: the table at the version for which the files were written; None if the table does not exist yet.
        schema: the columns of the table's files.
    """

    opened: Opened | None
    schema: pa.Schema
    written: TaskResult


@dataclass(frozen=True, slots=True)
class _There:
    """The content of a path: a table, nothing, or a log that cannot be read.

    Attributes:
        unreadable: why the log cannot be read; None if it can.
    """

    opened: Opened | None
    unreadable: str | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether there is no table."""
        return self.opened is None and self.unreadable is None

    def is_next(self, request: WriteRequest) -> bool:
        """Whether the write has not been made yet. The sink handles one that has: skips it or raises FencedError."""
        if self.opened is None:
            return self.unreadable is None
        return self.opened.write_id is None or self.opened.write_id < request.write_id


@dataclass(frozen=True, slots=True)
class NativeWrites:
    """The native writes of one sink.

    Attributes:
        root: the folder of the tables.
        metadata_columns: the metadata columns that every table gets.
        merges_on_read: whether tables with a key get deletion vectors.
        compaction: when to compact such tables; None for never.
        by_spark: whether Spark makes large writes, with all of its tasks: it has Delta, and its commits exclude each other.
    """

    root: Folder
    metadata_columns: tuple[str, ...]
    merges_on_read: bool = False
    compaction: CompactionRules | None = None
    limits: Limits = field(default_factory=Limits)
    by_spark: bool = True
    _defaults: list[bool] = field(default_factory=list)
    _logs: dict[str, TableLog] = field(default_factory=dict)  # path -> the log, with the state that was read last

    def prepare(self, spark: SparkSession | None, owner: str, requests: Sequence[WriteRequest]) -> list[PreparedWrite]:
        """Writes the data files of all requests that are native; returns every request, in order.

        Raises:
            SinkError: a data file cannot be read or written.
        """
        prepared = [PreparedWrite(request) for request in requests]
        native = list[tuple[int, Opened | None, Changes, Item]]()
        of_rows = [(place, request) for place, request in enumerate(requests) if request.changes is not None]
        for (place, request), there in zip(of_rows, self._all_there([r for _, r in of_rows], owner), strict=True):
            write, changes = request.write, request.changes
            if not isinstance(write, Load | Upsert | Append) or changes is None:
                continue
            if there.is_next(request) and self._reason(write, changes, there.opened, spark) is None:
                native.append((place, there.opened, changes, self._item(write, changes, there.opened)))
        results = write_files(spark, [(changes, item) for _, _, changes, item in native])
        for (place, opened, _, item), written in zip(native, results, strict=True):
            prepared[place] = _WithFiles(requests[place], opened, item.target.schema, written)
        return prepared

    def apply(self, spark: SparkSession | None, owner: str, prepared: PreparedWrite) -> Applied | None:
        """Makes a write if it is native; returns None if Spark must make it.

        Raises:
            FencedError: a newer run writes this table.
            SinkError: as `prepare`, or the commit cannot be made.
        """
        if isinstance(prepared, _WithFiles):
            return self._apply_files(spark, owner, prepared)
        request = prepared.request
        if (made := self._made_before(owner, request)) is not None:
            return made
        match request.write:
            case Touch():
                is_made = self._touch(owner, request)
            case Create() if self._there(request.write.path, owner).is_nothing:
                is_made = self._create(spark, owner, request)
            case AddColumns() | Rewrite() | Create() as write:
                is_made = self._twice(owner, request, partial(self._change_columns, owner, request, write))
            case Load() | Upsert() | Append():  # when it was prepared, another write of the step was not made
                (again,) = self.prepare(spark, owner, [request])
                return self._apply_files(spark, owner, again) if isinstance(again, _WithFiles) else None
            case Copy() | Import() | Restore():
                is_made = self._twice(owner, request, partial(self._copy, spark, owner, request))
            case _:
                is_made = False
        return Applied() if is_made else None

    def _made_before(self, owner: str, request: WriteRequest) -> Applied | None:
        """Returns `Applied` if the table has the write or a later one; raises FencedError if that is a newer run's."""
        opened = self._there(request.write.path, owner).opened
        if opened is None or opened.write_id is None or opened.write_id < request.write_id:
            return None
        if opened.write_id.epoch > request.write_id.epoch:
            raise fenced(opened.folder.path, owner, opened.write_id, request.write_id)
        return Applied()

    def _apply_files(self, spark: SparkSession | None, owner: str, prepared: _WithFiles) -> Applied:
        """Commits the files of a write; if somebody else has committed meanwhile, those for the table as it is now."""
        request = prepared.request
        try:
            self._commit(prepared, owner)
        except SinkError as error:
            if not self._is_overtaken(error, owner, request):
                raise
            (again,) = self.prepare(spark, owner, [request])
            if not isinstance(again, _WithFiles):
                raise
            self._commit(again, owner)
            prepared = again
        if (
            prepared.opened is not None
            and self.compaction is not None
            and self._has_vectors(request.write.table, prepared.opened)
        ):
            try:
                self._compact(spark, owner, prepared.opened, self.compaction)
            except SinkError as error:  # the write stands, and the table is whole without
                _log.warning("%s", error)
        is_chunked = request.changes is not None and request.changes.chunked is not None
        written = prepared.written
        size = sum(file.size for file in written.added)
        return Applied(written.read if is_chunked else None, len(written.added), size)

    def _twice(self, owner: str, request: WriteRequest, attempt: Callable[[], bool]) -> bool:
        """Calls `attempt`, and once more if somebody else has committed meanwhile; returns what it returns."""
        try:
            return attempt()
        except SinkError as error:
            if not self._is_overtaken(error, owner, request):
                raise
            return attempt()

    def _is_overtaken(self, error: SinkError, owner: str, request: WriteRequest) -> bool:
        """Whether a write has failed because somebody else has committed, and is still to be made."""
        return error.transient and self._there(request.write.path, owner).is_next(request)

    def _commit(self, prepared: _WithFiles, owner: str) -> None:
        request, opened = prepared.request, prepared.opened
        merges_on_read = self._has_vectors(request.write.table, opened)
        if opened is None:
            create(
                self._log(request.write.path), owner, prepared.schema, [prepared.written], request.write_id, request.note,
                merges_on_read=merges_on_read,
            )  # fmt: skip
            return
        commit(
            opened, [prepared.written], request.write_id, request.note, merges_on_read=merges_on_read,
            columns=None if opened.has_columns(prepared.schema) else prepared.schema,
        )  # fmt: skip
        _checkpoint(opened)

    def _compact(self, spark: SparkSession | None, owner: str, written: Opened, rules: CompactionRules) -> None:
        """Compacts the table that was just committed, if its version is due and compaction is worth it."""
        if (written.version + 1) % rules.every:
            return
        opened = open_table(written.folder, owner, written.log)
        if opened is None or opened.version % rules.every:
            return
        chosen = [group for stored in opened.stored_files() for group in groups(stored, rules)]
        if not chosen:
            return
        compact(opened, compact_files(spark, opened.target((), ()), opened.files(), chosen, Limits()))
        _checkpoint(opened)

    def _create(self, spark: SparkSession | None, owner: str, request: WriteRequest) -> bool:
        """Makes a table without rows where there is none."""
        if self._has_defaults(spark):
            return False
        write = request.write
        create(
            self._log(write.path), owner, arrow_schema(self._columns(write.table)), [], request.write_id, request.note,
            merges_on_read=self._has_vectors(write.table, None),
        )  # fmt: skip
        return True

    def _change_columns(self, owner: str, request: WriteRequest, write: AddColumns | Rewrite | Create) -> bool:
        """Changes a table's columns, and rewrites its rows if they are few."""
        opened, columns = self._natively(owner, request), arrow_schema(self._columns(write.table))
        if opened is None or (isinstance(write, Rewrite) and self._is_large(opened)):
            return False
        if not changed(opened, write, columns, self.limits, request.write_id, request.note):
            return False
        _checkpoint(opened)
        return True

    def _copy(self, spark: SparkSession | None, owner: str, request: WriteRequest) -> bool:
        """Replaces a table's columns and rows by those of another, or by those of an older version, if the rows are few."""
        source = self._source(owner, request.write)
        if source is None or source.refused() or self._is_large(source):
            return False
        if self._there(request.write.path, owner).is_nothing:
            return self._copy_to_new(spark, owner, request, source)
        opened = self._natively(owner, request)
        if opened is None or not replaced(opened, source, self.limits, request.write_id, request.note):
            return False
        _checkpoint(opened)
        return True

    def _source(self, owner: str, write: Write) -> Opened | None:
        """Opens the table whose rows a write copies; None if there is none, or it is outside the root."""
        match write:
            case Copy(source=path):
                return self._there(path, owner).opened
            case Import(source=location):
                path = location.removeprefix(f"{self.root.path}/")
                return self._there(path, owner).opened if path != location else None
            case Restore(revision=version):
                folder = self._folder(write.path)
                return Opened(folder, owner, self._log(write.path), replay.state(folder, version))
        raise AssertionError(write)

    def _copy_to_new(self, spark: SparkSession | None, owner: str, request: WriteRequest, source: Opened) -> bool:
        if self._has_defaults(spark):
            return False
        folder, write = self._folder(request.write.path), request.write
        written = TaskResult(tuple(copied(source, DeltaLayout(folder), self.limits)), (), 0)
        create(
            self._log(write.path), owner, source.schema(), [written], request.write_id, request.note,
            merges_on_read=self._has_vectors(write.table, None),
        )  # fmt: skip
        return True

    def _touch(self, owner: str, request: WriteRequest) -> bool:
        opened = self._natively(owner, request)
        if opened is None:
            return False
        commit(opened, [], request.write_id, request.note)
        return True

    def _is_large(self, opened: Opened) -> bool:
        """Whether Spark must rewrite the table's rows, with all of its tasks."""
        return self.by_spark and size(opened) > HERE_BYTES

    def _natively(self, owner: str, request: WriteRequest) -> Opened | None:
        """Returns the table of a write if it exists, is written natively, and the write has not been made yet."""
        there = self._there(request.write.path, owner)
        opened = there.opened
        return opened if opened is not None and not opened.refused() and there.is_next(request) else None

    def _there(self, path: str, owner: str, revision: int | None = None) -> _There:
        """Opens the table at a path. If its log cannot be read, Spark writes the table or reports the error.

        Args:
            revision: the version at which to open it, if that was read last; otherwise the newest one is read.

        Raises:
            SinkError: the log is damaged, or another try may succeed and Spark cannot write the table.
        """
        log = self._logs.get(path)
        if revision is not None and log is not None and (state := log.known(revision)) is not None:
            return _There(Opened(log.folder, owner, log, state))
        try:
            return _There(self._open(path, owner))
        except SinkError as error:
            if isinstance(error, DamagedError) or (error.transient and not self.by_spark):
                raise
            return _There(None, str(error))

    def _all_there(self, requests: Sequence[WriteRequest], owner: str) -> list[_There]:
        """Opens the tables of requests; those in an object store at the same time."""

        def look(request: WriteRequest) -> _There:
            return self._there(request.write.path, owner, request.revision)

        return list(map(look, requests)) if isinstance(self.root, LocalFolder) else in_parallel(look, requests)

    def forget(self, path: str) -> None:
        """Forgets what was read of the log of a table that is deleted."""
        self._logs.pop(path, None)

    def _open(self, path: str, owner: str) -> Opened | None:
        is_first = path not in self._logs
        opened = open_table(self._folder(path), owner, self._log(path))
        if is_first and opened is not None and opened.refused() is None:
            _forget_lost_checkpoint(opened)
        return opened

    def _log(self, path: str) -> TableLog:
        return self._logs.setdefault(path, TableLog(self._folder(path)))

    def _folder(self, path: str) -> Folder:
        return self.root.subfolder(path)

    def snapshot(self, path: str, owner: str) -> TableSnapshot | None:
        """Returns the newest state of the table at a path; None if there is no table.

        Raises:
            SinkError: the table's log cannot be read.
        """
        opened = self._open(path, owner)
        return None if opened is None else table_snapshot(opened)

    def damaged_files(self, path: str, version: int) -> list[str]:
        """See `snapshot.damaged_files`."""
        return damaged_files(self._folder(path), version)

    def commit_text(self, path: str, version: int) -> bytes | None:
        """Returns the text of a commit; None if its file does not exist."""
        return self._folder(path).read(f"_delta_log/{version:020d}.json")

    def tables(self, owner: str) -> Iterator[str]:
        """Yields the paths of all tables below the root."""
        for database in self.root.folders():
            for table in self.root.folders(database) if database != "_changefeed" else ():
                if self.snapshot(f"{database}/{table}", owner) is not None:
                    yield f"{database}/{table}"

    def differences(self, path: str, owner: str, table: Table) -> list[str] | None:
        """See `TableSink.differences`; None if the table's log cannot be read."""
        there = self._there(path, owner)
        if there.unreadable is not None:
            return None
        has = {field["name"]: field["type"] for field in there.opened.state.fields} if there.opened is not None else {}
        wants = {field["name"]: field["type"] for field in delta_fields(self._columns(table))}
        return [f"{n} ({has.get(n)}, not {wants.get(n)})" for n in {**wants, **has} if has.get(n) != wants.get(n)]

    def why_not(self, request: WriteRequest, owner: str) -> str:
        """Returns why a write is not native, for a message."""
        there = self._there(request.write.path, owner)
        refused = there.opened.refused() if there.opened is not None else None
        return (
            refused
            or there.unreadable
            or f"{type(request.write).__name__} needs an expression that only Spark computes"
        )

    def refused(self, path: str, owner: str) -> str | None:
        """Returns why Spark writes the rows of the table at a path; None if they are native, or there is no table."""
        there = self._there(path, owner)
        return there.opened.refused() if there.opened is not None else there.unreadable

    def partitions(self, path: str, owner: str) -> tuple[str, ...]:
        """Returns the columns by which the table at a path is partitioned."""
        opened = self._there(path, owner).opened
        return () if opened is None else opened.partition_columns

    def _reason(
        self, write: Load | Upsert | Append, changes: Changes, opened: Opened | None, spark: SparkSession | None
    ) -> str | None:
        """Returns why Spark must make this write; None if it is native."""
        if self.by_spark and (reason := too_large(changes, keyed=isinstance(write, Upsert))):
            return reason
        if opened is None:
            return None if isinstance(write, Load) and not self._has_defaults(spark) else "the table is not there yet"
        if reason := opened.refused():
            return reason
        columns = self._columns(write.table)
        if opened.has_columns(columns) or (isinstance(write, Load) and has_place_for(opened, columns)):
            return None
        return "other columns than the pipeline's"

    def _has_vectors(self, table: Table, opened: Opened | None) -> bool:
        """Whether the table has deletion vectors after this write, as the pipeline's definition requires."""
        if not self.merges_on_read or not table.keys:
            return False
        return opened is None or opened.not_upgraded() is None

    def unmarked(self, path: str, owner: str) -> str | None:
        """Returns why the table at a path is not merged on read although the definition requires it; None if it is."""
        opened = self._there(path, owner).opened
        return opened.not_upgraded() if opened is not None else None

    def _has_defaults(self, spark: SparkSession | None) -> bool:
        """Whether the session gives new tables properties, which Spark applies; looked up once, because it takes 10 ms."""
        if not self._defaults:
            names = spark.conf.getAll if spark is not None else ()
            self._defaults.append(any(name.startswith("spark.databricks.delta.properties.defaults.") for name in names))
        return self._defaults[0]

    def _columns(self, table: Table) -> pa.Schema:
        columns = [pa.field(c.name, sink_type(c.type).arrow) for c in table.columns]
        return pa.schema([*columns, *(pa.field(name, METADATA[name].arrow) for name in self.metadata_columns)])

    def _item(self, write: Load | Upsert | Append, changes: Changes, opened: Opened | None) -> Item:
        names, keys = tuple(c.name for c in write.table.columns), tuple(write.table.keys)
        columns = self._columns(write.table)
        if opened is None or (isinstance(write, Load) and not opened.has_columns(columns)):
            layout = DeltaLayout(self._folder(write.path)) if opened is None else opened.layout
            files = no_files() if opened is None else opened.files()
            return item_of(write, changes, Target(layout, arrow_schema(columns), names, keys), files, self.limits)
        target, files = opened.target(names, keys), opened.files(keys if isinstance(write, Upsert) else ())
        return item_of(write, changes, target, files, self.limits, marks=self._has_vectors(write.table, opened))


def is_native(root: str) -> bool:
    """Whether tables below a sink's folder are written natively: it is a local path.

    It must have no backslash, which delta-rs takes for a slash when it writes checkpoints.
    """
    return "://" not in root and not root.startswith("file:") and "\\" not in root


def _checkpoint(opened: Opened) -> None:
    """Writes a checkpoint, if one is due, after a commit to the opened version."""
    try:
        checkpoint(opened, opened.version + 1)
    except SinkError as error:  # the table is whole without
        _log.warning("%s", error)


def _forget_lost_checkpoint(opened: Opened) -> None:
    try:
        if forget_lost_checkpoint(opened):
            _log.warning(
                "%s: its last checkpoint is gone; the next one that is due takes its place", opened.folder.path
            )
    except SinkError as error:  # the table is whole, but delta-rs does not read it
        _log.warning("%s", error)
