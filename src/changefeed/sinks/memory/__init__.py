"""Tables in memory, for tests: a short implementation of the contract of `sinks.base` without Spark.

A `Lake` is the storage: all sinks on it see the same tables, as two runs of a pipeline see the same folder. Each commit creates
a version, and versions are kept. A lock makes commits atomic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import pyarrow as pa

from changefeed.errors import FencedError, SinkError
from changefeed.frames.types import sink_type
from changefeed.model.definition import Table
from changefeed.model.types import ColumnType
from changefeed.sinks.base import Applied, Commit, PreparedWrite, TableSnapshot, WriteRequest
from changefeed.sinks.expressions import constant, converted
from changefeed.sinks.sql import SparkTypes
from changefeed.sinks.writes import (
    IRREGULAR,
    METADATA,
    AddColumns,
    Append,
    Constant,
    ConvertedFrom,
    Copy,
    Create,
    Expression,
    Import,
    IrregularUpdate,
    Load,
    Null,
    Restore,
    Rewrite,
    Touch,
    Upsert,
    Write,
    WriteId,
)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a table.

    Attributes:
        types: column -> Arrow type, including metadata columns.
        rows: the rows; each has all columns.
        write_ids: owner -> its last write id.
        by: the owner that wrote the version; None for another program.
        operation: the kind of write.
        note: the `note` of the write.
    """

    types: Mapping[str, pa.DataType]
    rows: tuple[Row, ...]
    write_ids: Mapping[str, WriteId] = field(default_factory=dict)
    by: str | None = None
    operation: str = "create"
    note: str = ""


@dataclass(slots=True)
class Lake:
    """The storage: path -> the versions of the table there."""

    tables: dict[str, list[Version]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def rows(self, path: str, version: int = -1) -> list[Row]:
        """Returns the rows of a version, by default of the newest."""
        return [dict(row) for row in self.tables[path][version].rows]


@dataclass(frozen=True, slots=True)
class _WithRows(PreparedWrite):
    """A write with its changes in memory."""

    batches: tuple[pa.RecordBatch, ...]


@dataclass(slots=True)
class MemorySink:
    """The tables of a lake, written by one pipeline."""

    lake: Lake
    metadata_columns: tuple[str, ...] = ()
    owner: str = ""
    types: SparkTypes = field(default_factory=SparkTypes)

    def owned_by(self, owner: str) -> MemorySink:
        """See `TableSink`."""
        return replace(self, owner=owner)

    def location(self, path: str) -> str:
        """See `TableSink`."""
        return f"memory:{path}"

    def refusal(self, table: Table, *, exists: bool = False) -> str | None:
        """See `TableSink`."""
        names = {column.name.lower() for column in table.columns}
        clash = next((name for name in self.metadata_columns if name in names), None)
        return clash and f"column {clash!r} has the name of a metadata column: leave it out of sink.metadata-columns"

    def fallback(self, path: str) -> str | None:
        """See `TableSink`: no write is slower than another."""
        return None

    def write_mode(self, path: str) -> str:
        """See `TableSink`: there are no write modes."""
        return ""

    def partitions(self, path: str, table: Table) -> tuple[str, ...]:
        """See `TableSink`."""
        return ()

    def sort_order(self, path: str, table: Table) -> tuple[str, ...]:
        """See `TableSink`."""
        return ()

    def has_written(self, path: str) -> bool | None:
        """See `TableSink`."""
        snapshot = self.snapshot(path)
        return None if snapshot is None else snapshot.write_id is not None

    def tables(self) -> Iterator[str]:
        """See `TableSink`."""
        yield from sorted(self.lake.tables)

    def snapshot(self, path: str) -> TableSnapshot | None:
        """See `TableSink`."""
        versions = self.lake.tables.get(path)
        if not versions:
            return None
        last = versions[-1]
        write_id = last.write_ids.get(self.owner)
        return TableSnapshot(len(versions) - 1, tuple(last.types), write_id, frozenset(last.write_ids))

    def take_back(self, path: str, revision: int) -> list[int]:
        """See `TableSink`."""
        return []

    @property
    def needs_session(self) -> bool:
        """See `TableSink`."""
        return False

    def is_newest(self, path: str, revision: int) -> bool:
        """See `TableSink`."""
        return len(self.lake.tables.get(path, ())) == revision + 1

    def distance(self, path: str, after: int, through: int) -> int | None:
        """See `TableSink`: versions count commits."""
        return through - after if after <= through else None

    def commits(self, path: str, after: int, through: int) -> Iterator[Commit]:
        """See `TableSink`."""
        versions = self.lake.tables.get(path, [])
        if not after <= through < len(versions):
            raise SinkError(f"{self.location(path)}: commit {through} is missing")
        for number in range(through, after, -1):
            made = versions[number]
            write_id = made.write_ids[self.owner] if made.by == self.owner else None
            yield Commit(number, made.operation, write_id, changes_table=made.operation not in ("optimize", "touch"))

    def damaged_files(self, path: str, revision: int) -> list[str]:
        """See `TableSink`."""
        return []

    def publish(self, cut: str, revisions: Mapping[str, int]) -> None:
        """See `TableSink`: revisions have no names."""

    def has_files(self, path: str) -> bool:
        """See `TableSink`."""
        return path in self.lake.tables

    def delete(self, path: str) -> None:
        """See `TableSink`."""
        self.lake.tables.pop(path, None)

    def differences(self, path: str, table: Table) -> list[str]:
        """See `TableSink`."""
        has, wants = self.lake.tables[path][-1].types, self._types_of(table)
        return [f"{n} ({has.get(n)}, not {wants.get(n)})" for n in {**wants, **has} if has.get(n) != wants.get(n)]

    def prepare(self, requests: Sequence[WriteRequest]) -> Sequence[PreparedWrite]:
        """See `TableSink`."""
        return [_WithRows(r, tuple(r.changes.batches()) if r.changes is not None else ()) for r in requests]

    def apply(self, prepared: PreparedWrite) -> Applied:
        """See `TableSink`."""
        assert isinstance(prepared, _WithRows), "prepared by another sink"
        request = prepared.request
        write, write_id, batches = request.write, request.write_id, prepared.batches
        with self.lake.lock:
            versions = self.lake.tables.get(write.path, [])
            last = versions[-1].write_ids.get(self.owner) if versions else None
            if last is not None and last.epoch > write_id.epoch:
                raise FencedError(
                    f"{self.location(write.path)}: epoch {last.epoch} of the pipeline writes this table now; this run is "
                    f"epoch {write_id.epoch} and stops"
                )
            if last is not None and last >= write_id:
                return Applied()
            if not versions and not isinstance(write, Create | Load | Copy | Import):
                raise SinkError(f"{self.location(write.path)}: there is no table, which {type(write).__name__} needs")
            before = versions[-1] if versions else Version({}, ())
            types, rows = self._after(write, before, batches)
            write_ids = {**before.write_ids, self.owner: write_id}
            kind = type(write).__name__.lower()
            made = Version(types, tuple(rows), write_ids, self.owner, kind, request.note)
            self.lake.tables[write.path] = [*versions, made]
        return Applied()

    def _after(
        self, write: Write, before: Version, batches: Sequence[pa.RecordBatch]
    ) -> tuple[Mapping[str, pa.DataType], list[Row]]:
        types, old = self._types_of(write.table), before.rows
        match write:
            case Create():
                return types, []
            case Touch():
                return before.types, list(old)
            case AddColumns():
                return types, [dict.fromkeys(types) | row for row in old]
            case Rewrite():
                return types, self._rewritten(write, old)
            case Copy(source=source):
                copied = self.lake.tables[source][-1]
                return copied.types, list(copied.rows)
            case Import(source=source):
                copied = self.lake.tables[source.removeprefix("memory:")][-1]
                return copied.types, list(copied.rows)
            case Restore(revision=version):
                restored = self.lake.tables[write.path][version]
                return restored.types, list(restored.rows)
            case Load():
                return types, [row for _, row in self._changed(write.table, batches, {}) if row is not None]
            case Append():
                new = [row for _, row in self._changed(write.table, batches, {}) if row is not None]
                return types, [*(dict.fromkeys(types) | row for row in old), *new]
            case Upsert():
                keys = write.table.keys
                rows: dict[Any, Row | None] = {tuple(row[k] for k in keys): row for row in old}
                rows |= dict(self._changed(write.table, batches, rows))
                return types, [row for row in rows.values() if row is not None]

    def _changed(
        self, table: Table, batches: Sequence[pa.RecordBatch], old: Mapping[Any, Row | None]
    ) -> Iterator[tuple[Any, Row | None]]:
        """Yields the key of each change, and the row after it; None for a deleted row."""
        names = [c.name for c in table.columns]
        for change in (row for batch in batches for row in batch.to_pylist()):
            values = {name: change[f"c{i}"] for i, name in enumerate(names)}
            key = tuple(values[k] for k in table.keys)
            if change["_deleted"]:
                yield key, None
                continue
            has = change["_has"] or [True] * len(names)
            carried = {name: values[name] for name, there in zip(names, has, strict=True) if there}
            before = old.get(key) or dict.fromkeys(names)
            yield key, {**before, **carried, **self._metadata(change, before, carried)}

    def _metadata(self, change: Row, before: Row, carried: Row) -> Row:
        place = ":".join(str(change[c]) for c in ("_topic", "_partition", "_offset", "_index") if change[c] is not None)
        kept = {n: t for n, t in (before.get(IRREGULAR) or ()) if n not in carried}
        values: dict[str, Callable[[], Any]] = {
            "_commit_ts": lambda: change["_ts"],
            "_commit_time": lambda: change["_time"],
            "_op": lambda: change["_op"],
            "_position": lambda: place,
            IRREGULAR: lambda: list((kept | dict(change[IRREGULAR] or ())).items()),
        }
        return {name: values[name]() for name in self.metadata_columns}

    def _rewritten(self, write: Rewrite, rows: Sequence[Row]) -> list[Row]:
        columns = zip(write.table.columns, write.expressions, strict=True)
        new = {column.name: _values(expression, column.type, rows) for column, expression in columns}
        for name in self.metadata_columns:
            new[name] = [row[name] for row in rows]
        made = [dict(zip(new, values, strict=True)) for values in zip(*new.values(), strict=True)]
        if write.texts is not None and IRREGULAR in self.metadata_columns:
            for row in made:
                row[IRREGULAR] = _texts(write.texts, row)
        return made

    def _types_of(self, table: Table) -> dict[str, pa.DataType]:
        return {c.name: sink_type(c.type).arrow for c in table.columns} | {
            n: METADATA[n].arrow for n in self.metadata_columns
        }


def _texts(texts: IrregularUpdate, row: Row) -> list[tuple[str, str]]:
    """Returns the irregular texts of a row with new values and its old texts."""
    kept = {texts.renamed.get(n, n): text for n, text in row[IRREGULAR] or () if n not in texts.dropped}
    zeros = {n: text for n, text in texts.nulls.items() if row[n] is None and n not in kept}
    return list((kept | texts.added | zeros).items())


def _values(expression: Expression, new: ColumnType, rows: Sequence[Row]) -> list[Any]:
    match expression:
        case Null():
            return [None] * len(rows)
        case Constant(value=value):
            return [constant(value, new).as_py()] * len(rows)
        case ConvertedFrom(column=column, type=old):
            array = pa.array([row[column] for row in rows], sink_type(old).arrow)
            values: list[Any] = converted(array, expression, new).to_pylist()
            return values
