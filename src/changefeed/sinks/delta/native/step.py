"""Native writes of a step: the data files of all writes in one Spark job, then one commit for each write.

    prepare   open tables ──▶ items ──▶ one job for all of them ──▶ files that no commit refers to yet
    apply     the files of a write ──▶ commit, as the version after the one that was opened

After the commit of a table that merges on read, its files are compacted if it is worth it, in a separate commit that changes
no row and has no write id.

A few rows are written in the driver, without a job. `_reason` returns why Spark must make a write (`sink.py`). A write that
was not prepared is prepared alone. Files that were prepared and not committed remain until VACUUM.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import DamagedError, SinkError
from changefeed.frames.types import sink_type
from changefeed.model.definition import Table
from changefeed.sinks.base import (
    METADATA,
    AddColumns,
    Append,
    Changes,
    Chunked,
    Copy,
    Create,
    Job,
    Load,
    Rewrite,
    TableSnapshot,
    Touch,
    Upsert,
    WriteId,
)
from changefeed.sinks.delta.native.columns import changed, copied, replaced, size
from changefeed.sinks.delta.native.commit import checkpoint, commit, compact, create, forget_lost_checkpoint
from changefeed.sinks.delta.native.compaction import CompactionRules, groups
from changefeed.sinks.delta.native.files import Limits, TableFolder
from changefeed.sinks.delta.native.item import Item, TaskResult, Typed, write_item
from changefeed.sinks.delta.native.job import StepWrite, compact_all, write_all, write_here
from changefeed.sinks.delta.native.opened import Opened, arrow_schema, open_table
from changefeed.sinks.delta.native.replay import TableLog
from changefeed.sinks.delta.native.snapshot import table_snapshot
from changefeed.sinks.delta.native.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

# The changes of a keyed write are merged by one task. Larger writes are Spark's, which works on one with all tasks.
MOST_ROWS = 10_000_000
_FEW_ROWS = 10_000  # typed changes that the driver may hold
# Up to here a Spark job costs more than the writes themselves: they are made in the driver.
_HERE_BYTES, _HERE_WEIGHT = 8 * 2**20, 200_000

_WAYS: dict[type, Literal["merge", "append", "replace"]] = {Load: "replace", Upsert: "merge", Append: "append"}


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A write whose files have been written, but not committed.

    Attributes:
        opened: the table at the version for which the files were written; None if the table does not exist yet.
        schema: the columns of a new table.
    """

    write_id: WriteId
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

    def is_next(self, job: Job) -> bool:
        """Whether the write has not been made yet. The sink handles one that has: skips it or raises FencedError."""
        if self.opened is None:
            return self.unreadable is None
        return self.opened.write_id is None or self.opened.write_id < job.write_id

    def natively(self, job: Job) -> Opened | None:
        """Returns the table if it exists, is written natively, and the write has not been made yet; else None."""
        if self.opened is None or self.opened.refused() or not self.is_next(job):
            return None
        return self.opened


@dataclass(frozen=True, slots=True)
class NativeWrites:
    """The native writes of one sink.

    Attributes:
        root: the sink's folder.
        metadata_columns: the metadata columns that every table gets.
        merges_on_read: whether tables with a key get deletion vectors.
        compaction: when to compact such tables; None for never.
    """

    root: str
    metadata_columns: tuple[str, ...]
    merges_on_read: bool = False
    compaction: CompactionRules | None = None
    limits: Limits = field(default_factory=Limits)
    _prepared: dict[str, _Prepared] = field(default_factory=dict)
    _defaults: list[bool] = field(default_factory=list)
    _logs: dict[str, TableLog] = field(default_factory=dict)  # path -> the log, with the state that was read last

    def prepare(self, spark: SparkSession, owner: str, jobs: Sequence[Job]) -> None:
        """Writes the data files of all jobs that are native.

        Raises:
            SinkError: a data file cannot be read or written.
        """
        mine, opened = list[Job](), dict[str, Opened | None]()
        for job in jobs:
            path = job.write.path
            if isinstance(job.write, Load | Upsert | Append) and job.changes is not None:
                there = self._there(path, owner)
                if not there.is_next(job) or self._reason(job.write, job.changes, there.opened, spark) is not None:
                    continue
                opened[path] = there.opened
                mine.append(job)
        items = {job.write.path: self._item(job, opened[job.write.path]) for job in mine}
        done = {path: write_item(item, ()) for path, item in items.items() if isinstance(item.changes, Typed)}
        chunked = [(job.write.path, job.changes, c) for job in mine if (c := _chunked(job)) and job.changes]
        files_of = cache(_files)
        for _, group in groupby(sorted(chunked, key=_origin), _origin):
            together = list(group)
            writes = [_write(items[path], changes, c, files_of(c.folders)) for path, changes, c in together]
            written = _written(spark, writes, together[0][2])
            done |= dict(zip((path for path, _, _ in together), written, strict=True))
        for job in mine:
            path = job.write.path
            schema = items[path].target.schema
            self._prepared[path] = _Prepared(job.write_id, opened[path], schema, done[path])

    def apply(self, spark: SparkSession, owner: str, job: Job) -> bool:
        """Makes a write if it is native; returns False if Spark must make it.

        Raises:
            FencedError: a newer run writes this table.
            SinkError: as `prepare`, or the commit cannot be made.
        """
        path = job.write.path
        if isinstance(job.write, Touch):
            return self._touch(owner, job)
        if isinstance(job.write, Create) and self._there(path, owner).is_nothing:
            return self._create(spark, owner, job)
        if isinstance(job.write, AddColumns | Rewrite | Create):
            return self._change_columns(owner, job)
        if isinstance(job.write, Copy):
            return self._copy(spark, owner, job, job.write)
        if not isinstance(job.write, Load | Upsert | Append):
            return False
        prepared = self._prepared.pop(path, None)
        if prepared is None or prepared.write_id != job.write_id:
            self.prepare(spark, owner, [job])
            prepared = self._prepared.pop(path, None)
        if prepared is None:
            return False
        try:
            self._commit(prepared, owner, job)
        except SinkError as error:
            if not error.transient or not self._there(path, owner).is_next(job):
                raise
            # somebody else has committed since the files were written: once more, on what lies there now
            self.prepare(spark, owner, [job])
            prepared = self._prepared.pop(path, None)
            if prepared is None:
                raise
            self._commit(prepared, owner, job)
        if job.changes is not None and _chunked(job) is not None:
            job.changes.applied(prepared.written.read)
        if (
            prepared.opened is not None
            and self.compaction is not None
            and self._has_vectors(job.write.table, prepared.opened)
        ):
            try:
                self._compact(spark, owner, prepared.opened, self.compaction)
            except SinkError as error:  # the write stands, and the table is whole without
                _log.warning("%s", error)
        return True

    def _commit(self, prepared: _Prepared, owner: str, job: Job) -> None:
        if prepared.opened is None:
            create(
                self._log(job.write.path), owner, prepared.schema, [prepared.written], job.write_id, job.note,
                merges_on_read=self._has_vectors(job.write.table, None),
            )  # fmt: skip
            return
        merges_on_read = self._has_vectors(job.write.table, prepared.opened)
        commit(prepared.opened, [prepared.written], job.write_id, job.note, merges_on_read=merges_on_read)
        _checkpoint(prepared.opened)

    def _compact(self, spark: SparkSession, owner: str, written: Opened, rules: CompactionRules) -> None:
        """Compacts the table that was just committed, if its version is due and compaction is worth it."""
        opened = open_table(written.folder, owner, written.log)
        if opened is None or opened.version % rules.every:
            return
        target, files = opened.target((), ()), opened.files()
        items = [
            Item(target, Typed([]), files.filter(pc.is_in(files.column("path"), pa.array(group))), "compact")
            for group in groups(opened.state.files, rules)
        ]
        if not items:
            return
        if sum(pc.sum(item.files.column("size")).as_py() for item in items) <= _HERE_BYTES:
            done = [write_item(item, ()) for item in items]
        else:
            done = compact_all(spark, items, spark.sparkContext.defaultParallelism)
        compact(opened, done)
        _checkpoint(opened)

    def _create(self, spark: SparkSession, owner: str, job: Job) -> bool:
        """Makes a table without rows where there is none."""
        if self._has_defaults(spark):
            return False
        schema = arrow_schema(self._columns(job.write.table))
        merges_on_read = self._has_vectors(job.write.table, None)
        create(self._log(job.write.path), owner, schema, [], job.write_id, job.note, merges_on_read=merges_on_read)
        return True

    def _change_columns(self, owner: str, job: Job) -> bool:
        """Changes a table's columns, and rewrites its rows if they are few."""
        path, columns = job.write.path, arrow_schema(self._columns(job.write.table))
        assert isinstance(job.write, AddColumns | Rewrite | Create)
        for is_last in (False, True):
            opened = self._there(path, owner).natively(job)
            if opened is None or (isinstance(job.write, Rewrite) and size(opened) > _HERE_BYTES):
                return False
            try:
                if not changed(opened, job.write, columns, self.limits, job.write_id, job.note):
                    return False
            except SinkError as error:  # somebody else has committed meanwhile: once more, on what lies there now
                if is_last or not error.transient or not self._there(path, owner).is_next(job):
                    raise
                continue
            _checkpoint(opened)
            break
        return True

    def _copy(self, spark: SparkSession, owner: str, job: Job, write: Copy) -> bool:
        """Replaces a table's columns and rows by those of another, if the rows are few."""
        source, folder = self._there(write.source, owner).opened, self._folder(write.path)
        if source is None or source.refused() or size(source) > _HERE_BYTES:
            return False
        for is_last in (False, True):
            there = self._there(write.path, owner)
            try:
                if there.is_nothing:
                    if self._has_defaults(spark):
                        return False
                    os.makedirs(folder.path, exist_ok=True)
                    written = TaskResult(tuple(copied(source, folder, self.limits)), (), 0)
                    create(
                        self._log(write.path), owner, source.schema(), [written], job.write_id, job.note,
                        merges_on_read=self._has_vectors(write.table, None),
                    )  # fmt: skip
                    return True
                opened = there.natively(job)
                if opened is None or not replaced(opened, source, self.limits, job.write_id, job.note):
                    return False
            except SinkError as error:  # somebody else has committed meanwhile: once more, on what lies there now
                if is_last or not error.transient or not self._there(write.path, owner).is_next(job):
                    raise
                continue
            _checkpoint(opened)
            break
        return True

    def _touch(self, owner: str, job: Job) -> bool:
        opened = self._there(job.write.path, owner).natively(job)
        if opened is None:
            return False
        commit(opened, [], job.write_id, job.note)
        return True

    def _there(self, path: str, owner: str) -> _There:
        """Opens the table at a path. If its log cannot be read, Spark writes the table or reports the error."""
        try:
            return _There(self._open(path, owner))
        except DamagedError:
            raise
        except SinkError as error:
            return _There(None, str(error))

    def _open(self, path: str, owner: str) -> Opened | None:
        is_first = path not in self._logs
        opened = open_table(self._folder(path), owner, self._log(path))
        if is_first and opened is not None and opened.refused() is None:
            _forget_lost_checkpoint(opened)
        return opened

    def _log(self, path: str) -> TableLog:
        return self._logs.setdefault(path, TableLog(self._folder(path).path))

    def _folder(self, path: str) -> TableFolder:
        return TableFolder(f"{self.root}/{path}")

    def snapshot(self, path: str, owner: str) -> TableSnapshot | None:
        """Returns the newest state of the table at a path; None if there is no table.

        Raises:
            SinkError: the table's log cannot be read.
        """
        opened = self._open(path, owner)
        return None if opened is None else table_snapshot(opened)

    def refused(self, path: str, owner: str) -> str | None:
        """Returns why Spark writes the rows of the table at a path; None if they are native, or there is no table."""
        there = self._there(path, owner)
        return there.opened.refused() if there.opened is not None else there.unreadable

    def _reason(
        self, write: Load | Upsert | Append, changes: Changes, opened: Opened | None, spark: SparkSession
    ) -> str | None:
        """Returns why Spark must make this write; None if it is native."""
        if reason := _too_large(changes, keyed=isinstance(write, Upsert)):
            return reason
        if opened is None:
            return None if isinstance(write, Load) and not self._has_defaults(spark) else "the table is not there yet"
        if reason := opened.refused():
            return reason
        return None if opened.has_columns(self._columns(write.table)) else "other columns than the pipeline's"

    def _has_vectors(self, table: Table, opened: Opened | None) -> bool:
        """Whether the table has deletion vectors after this write, as the pipeline's definition requires."""
        if not self.merges_on_read or not table.keys:
            return False
        return opened is None or opened.not_upgraded() is None

    def unmarked(self, path: str, owner: str) -> str | None:
        """Returns why the table at a path is not merged on read although the definition requires it; None if it is."""
        opened = self._there(path, owner).opened
        return opened.not_upgraded() if opened is not None else None

    def _has_defaults(self, spark: SparkSession) -> bool:
        """Whether the session gives new tables properties, which Spark applies; looked up once, because it takes 10 ms."""
        if not self._defaults:
            names = spark.conf.getAll
            self._defaults.append(any(name.startswith("spark.databricks.delta.properties.defaults.") for name in names))
        return self._defaults[0]

    def _columns(self, table: Table) -> pa.Schema:
        columns = [pa.field(c.name, sink_type(c.type).arrow) for c in table.columns]
        return pa.schema([*columns, *(pa.field(name, METADATA[name].arrow) for name in self.metadata_columns)])

    def _item(self, job: Job, opened: Opened | None) -> Item:
        write, changes = job.write, job.changes
        assert changes is not None
        names, keys = tuple(c.name for c in write.table.columns), tuple(write.table.keys)
        if opened is None:
            folder = self._folder(write.path)
            os.makedirs(folder.path, exist_ok=True)
            target = Target(folder, arrow_schema(self._columns(write.table)), names, keys)
            files = pa.table({"path": pa.array([], pa.string()), "size": pa.array([], pa.int64())})
        else:
            target, files = opened.target(names, keys), opened.files(keys if isinstance(write, Upsert) else ())
        chunked = changes.chunked
        reading: Any = chunked.reading if chunked is not None else Typed(list(changes.batches()))
        way = _WAYS[type(write)]
        last = chunked.last_reading if chunked is not None else False
        final_states = chunked is not None and chunked.final_states
        marks = way == "merge" and self._has_vectors(write.table, opened)
        return Item(
            target, reading, files, way, marks, changes.partial, last, limits=self.limits, final_states=final_states
        )


def is_native(root: str) -> bool:
    """Whether tables below a sink's folder are written natively: it is a local path.

    It must have no backslash, which delta-rs takes for a slash when it writes checkpoints.
    """
    return "://" not in root and not root.startswith("file:") and "\\" not in root


def _checkpoint(opened: Opened) -> None:
    try:
        checkpoint(opened)
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


def _chunked(job: Job) -> Chunked | None:
    return job.changes.chunked if job.changes is not None else None


def _origin(of: tuple[str, Changes, Chunked]) -> tuple[str, ...]:
    """Equal for writes that one job can make: they read files of this machine, or share a DataFrame."""
    return of[2].origin if of[2].folders is None else ()


def _files(folders: tuple[str, ...] | None) -> frozenset[str]:
    return frozenset(str(file) for folder in folders or () for file in Path(folder).glob("part-*"))


def _write(item: Item, changes: Changes, chunked: Chunked, files: frozenset[str]) -> StepWrite:
    window, size = chunked.reading.window, sum(item.files.column("size").to_pylist())
    # a write weighs its rows, and what of the table it may have to read
    return StepWrite(item, chunked.source, window.after, window.upto, changes.rows + size // 128, files)


def _written(spark: SparkSession, writes: Sequence[StepWrite], chunked: Chunked) -> list[TaskResult]:
    slots = spark.sparkContext.defaultParallelism
    if chunked.folders is None:
        return write_all(spark, writes, slots, chunks=chunked.chunks(spark))
    size = sum(os.path.getsize(file) for file in frozenset[str]().union(*(write.files for write in writes)))
    if size <= _HERE_BYTES and sum(write.weight for write in writes) <= _HERE_WEIGHT:
        return write_here(writes)
    return write_all(spark, writes, slots)


def _too_large(changes: Changes, *, keyed: bool) -> str | None:
    chunked = changes.chunked
    if chunked is None:
        return None if changes.rows <= _FEW_ROWS else "too many rows for the driver"
    return "too many changes for one task" if keyed and changes.rows > MOST_ROWS else None
