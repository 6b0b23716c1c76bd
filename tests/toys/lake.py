"""A table sink in one file, as somebody outside of changefeed would write it: `sink: {type: tests.toys.lake, path: …}`.

Its tables are Parquet files under snapshots, in the manner of Iceberg:

    <path>/shop/orders/
        3f….parquet     rows; written once, under a random name
        v0.json …       one snapshot per version: columns, files, write ids. Made once: of two writers one gets the name
        current         number of the newest snapshot, replaced whole; it may lag behind by what is being committed

Making `v<n>.json` is the commit: the rows and the write id become visible at once, or not at all. The data files are made by
`changefeed.sinks.apply`, in one job for all tables of a step if there are many rows.
"""

from __future__ import annotations

import base64
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from changefeed.errors import FencedError, SinkError
from changefeed.frames.types import sink_type
from changefeed.local_files import link_new, make_folder, sync
from changefeed.model.definition import Table
from changefeed.model.types import ColumnType
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.apply.item import Item, TaskResult
from changefeed.sinks.apply.layout import WholeFiles
from changefeed.sinks.apply.step import item_of, no_files, write_files
from changefeed.sinks.apply.target import Target
from changefeed.sinks.base import Applied, Changes, Commit, PreparedWrite, TableSnapshot, WriteRequest
from changefeed.sinks.expressions import converted
from changefeed.sinks.section import SinkSection
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
from changefeed.storage.local import LocalFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed.storage import Folder

Row = dict[str, Any]


class Snapshot(msgspec.Struct, frozen=True):
    """The content of `v<n>.json`.

    Attributes:
        metadata: names of the metadata columns, which follow those of `table`.
        files: name -> size in bytes.
        write_ids: owner -> its last write id.
        by: the owner that made this version.
    """

    table: Table
    metadata: tuple[str, ...]
    files: dict[str, int]
    write_ids: dict[str, WriteId]
    by: str
    operation: str
    note: str

    @property
    def schema(self) -> pa.Schema:
        """Names and Arrow types of all columns."""
        return schema_of(self.table, self.metadata)


def schema_of(table: Table, metadata: Sequence[str]) -> pa.Schema:
    """Names and Arrow types of a table's columns."""
    columns = [(column.name, sink_type(column.type).arrow) for column in table.columns]
    return pa.schema([*columns, *((name, METADATA[name].arrow) for name in metadata)])


@dataclass(frozen=True, slots=True)
class LakeLayout(WholeFiles):
    """See `Layout`: data files have random names, and neither statistics nor deletion vectors."""

    folder: LocalFolder
    footer: Mapping[str, str] = field(default_factory=dict)

    def new_path(self, number: int, partition: str) -> str:
        """See `Layout`."""
        return f"{uuid.uuid4().hex}.parquet"

    def statistics(self, footer: Any, schema: pa.Schema, floats: Any, partition: str) -> str:
        """See `Layout`."""
        return ""

    def deleted(self, vector: str) -> Any:
        """See `Layout`."""
        raise AssertionError("no file has a vector")


@dataclass(frozen=True, slots=True)
class _WithFiles(PreparedWrite):
    """A write whose files have been written for the table at a version."""

    version: int
    written: TaskResult


@dataclass(frozen=True, slots=True)
class LakeSink:
    """The tables below `root`, written by one pipeline; see `TableSink`."""

    root: Path
    metadata_columns: tuple[str, ...] = ()
    owner: str = ""
    session: SparkSession | None = None
    types: SparkTypes = field(default_factory=SparkTypes)

    # What is there.

    def owned_by(self, owner: str) -> LakeSink:
        """See `TableSink`."""
        return replace(self, owner=owner)

    def location(self, path: str) -> str:
        """See `TableSink`: a text of this sink's own, as a table in a catalog has."""
        return f"{self.root}#{path}"

    def tables(self) -> Iterator[str]:
        """See `TableSink`."""
        yield from sorted(str(first.parent.relative_to(self.root)) for first in self.root.glob("[!.]*/*/v0.json"))

    def publish(self, cut: str, revisions: Mapping[str, int]) -> None:
        """See `TableSink`: revisions have no names."""

    def has_files(self, path: str) -> bool:
        """See `TableSink`."""
        return (self.root / path).exists()

    def delete(self, path: str) -> None:
        """See `TableSink`: the folder is moved away first."""
        folder, away = self.root / path, self.root / ".deleted" / path
        try:
            if away.exists():
                shutil.rmtree(away)
            if folder.exists():
                away.parent.mkdir(parents=True, exist_ok=True)
                folder.rename(away)
                shutil.rmtree(away)
        except OSError as error:
            raise SinkError(f"{folder}: {error}", transient=True) from error

    def snapshot(self, path: str) -> TableSnapshot | None:
        """See `TableSink`."""
        version, newest = self._newest(path)
        if newest is None:
            return None
        write_ids = newest.write_ids
        return TableSnapshot(version, tuple(newest.schema.names), write_ids.get(self.owner), frozenset(write_ids))

    def take_back(self, path: str, revision: int) -> list[int]:
        """See `TableSink`."""
        return []

    @property
    def needs_session(self) -> bool:
        """See `TableSink`."""
        return False

    def is_newest(self, path: str, revision: int) -> bool:
        """See `TableSink`."""
        at, after = (self._file(path, number) for number in (revision, revision + 1))
        return at.exists() and not after.exists()

    def has_written(self, path: str) -> bool | None:
        """See `TableSink`."""
        newest = self._newest(path)[1]
        return None if newest is None else self.owner in newest.write_ids

    def distance(self, path: str, after: int, through: int) -> int | None:
        """See `TableSink`: versions count commits."""
        return through - after if after <= through else None

    def commits(self, path: str, after: int, through: int) -> Iterator[Commit]:
        """See `TableSink`."""
        if through < after:
            raise SinkError(f"{self.location(path)}: version {through} comes before version {after}")
        for version in range(through, after, -1):
            made = self.read(path, version)
            write_id = made.write_ids[self.owner] if made.by == self.owner else None
            yield Commit(version, made.operation, write_id, changes_table=made.operation != "Touch")

    def damaged_files(self, path: str, revision: int) -> list[str]:
        """See `TableSink`."""
        files = {self.root / path / name: size for name, size in self.read(path, revision).files.items()}
        return [file.name for file, size in files.items() if not file.exists() or file.stat().st_size != size]

    def read(self, path: str, version: int) -> Snapshot:
        """One snapshot of a table.

        Raises:
            SinkError: it is missing or damaged.
        """
        file = self._file(path, version)
        try:
            return msgspec.json.decode(file.read_bytes(), type=Snapshot)
        except (OSError, msgspec.DecodeError) as error:
            raise SinkError(f"{file}: {error}. Restore it from a copy of the table") from error

    def rows(self, path: str, snapshot: Snapshot) -> list[Row]:
        """The rows of a snapshot; a column that was added after a file was written is NULL in its rows."""
        empty = dict.fromkeys(snapshot.schema.names)
        files = [pq.read_table(self.root / path / name, partitioning=None) for name in snapshot.files]
        return [empty | row for file in files for row in file.to_pylist()]

    # What the sink can hold.

    def refusal(self, table: Table, *, exists: bool = False) -> str | None:
        """See `TableSink`."""
        taken = next((name for name in self.metadata_columns if table.column(name)), None)
        return taken and f"column {taken!r} has the name of a metadata column: leave it out of sink.metadata-columns"

    def differences(self, path: str, table: Table) -> list[str]:
        """See `TableSink`."""
        newest = self._newest(path)[1]
        has = {} if newest is None else dict(zip(newest.schema.names, newest.schema.types, strict=True))
        schema = schema_of(table, self.metadata_columns)
        wants = dict(zip(schema.names, schema.types, strict=True))
        return [f"{n} ({has.get(n)}, not {wants.get(n)})" for n in {**wants, **has} if has.get(n) != wants.get(n)]

    def fallback(self, path: str) -> str | None:
        """See `TableSink`: there is one way to write."""
        return None

    def write_mode(self, path: str) -> str:
        """See `TableSink`: there is one mode."""
        return ""

    def partitions(self, path: str, table: Table) -> tuple[str, ...]:
        """See `TableSink`: there are none."""
        return ()

    def sort_order(self, path: str, table: Table) -> tuple[str, ...]:
        """See `TableSink`: rows are not sorted."""
        return ()

    # Writes.

    def prepare(self, requests: Sequence[WriteRequest]) -> Sequence[PreparedWrite]:
        """See `TableSink`: writes the data files."""
        prepared = [PreparedWrite(request) for request in requests]
        writes = list[tuple[int, int, Changes, Item]]()
        for place, request in enumerate(requests):
            if isinstance(request.write, Load | Upsert | Append) and request.changes is not None:
                version, before = self._newest(request.write.path)
                item = self._item(request.write, request.changes, before)
                writes.append((place, version, request.changes, item))
        results = write_files(self.session, [(changes, item) for _, _, changes, item in writes])
        for (place, version, _, _), written in zip(writes, results, strict=True):
            prepared[place] = _WithFiles(requests[place], version, written)
        return prepared

    def _item(self, write: Load | Upsert | Append, changes: Changes, before: Snapshot | None) -> Item:
        folder, table, files = LocalFolder(str(self.root / write.path)), write.table, no_files()
        if isinstance(write, Upsert) and before is not None:
            stored = list(before.files)
            files = pa.table(
                {"path": pa.array(stored, pa.string()), "size": pa.array(before.files.values(), pa.int64())}
            )
        make_folder(folder.path)
        schema, names = schema_of(table, self.metadata_columns), tuple(column.name for column in table.columns)
        return item_of(write, changes, Target(LakeLayout(folder), schema, names, table.keys), files, Limits())

    def apply(self, prepared: PreparedWrite) -> Applied:
        """See `TableSink`."""
        request = prepared.request
        write, write_id = request.write, request.write_id
        version, before = self._newest(write.path)
        last = before.write_ids.get(self.owner) if before else None
        if last is not None and last.epoch > write_id.epoch:
            raise FencedError(
                f"{self.location(write.path)}: epoch {last.epoch} of the pipeline writes this table now; this run is epoch "
                f"{write_id.epoch} and stops"
            )
        if last is not None and last >= write_id:
            return Applied()
        if isinstance(prepared, _WithFiles) and prepared.version != version:  # written for another version
            (prepared,) = self.prepare([request])
        with self._errors(write.path):
            make_folder(str(self.root / write.path))
            written = prepared.written if isinstance(prepared, _WithFiles) else None
            table, metadata, files = self._after(write, before, written)
            write_ids = {**(before.write_ids if before else {}), self.owner: write_id}
            after = Snapshot(table, metadata, files, write_ids, self.owner, type(write).__name__, request.note)
            self._commit(write.path, version + 1, after)
        is_chunked = request.changes is not None and request.changes.chunked is not None
        return Applied(written.read if written is not None and is_chunked else None)

    def _after(
        self, write: Write, before: Snapshot | None, written: TaskResult | None
    ) -> tuple[Table, tuple[str, ...], dict[str, int]]:
        """The table, metadata columns and files after a write."""
        path, table, own = write.path, write.table, self.metadata_columns
        added = {file.path: file.size for file in written.added} if written is not None else {}
        for name in added:
            sync(str(self.root / path / name))
        match write:
            case Create():
                return table, own, {}
            case Load():
                return table, own, added
            case Copy(source=source):
                return self._copied(path, self, source)
            case Import(source=location):
                root, _, source = location.rpartition("#")
                return self._copied(path, LakeSink(Path(root)), source)
        if before is None:
            raise SinkError(f"{self.location(path)}: there is no table, which {type(write).__name__} needs")
        match write:
            case Touch():
                return before.table, before.metadata, before.files
            case Restore(revision=version):
                then = self.read(path, version)
                return then.table, then.metadata, then.files
            case AddColumns():
                return table, before.metadata, before.files
            case Append():
                return table, own, before.files | added
            case Upsert():
                removed = {name for name, _ in written.removed} if written is not None else set()
                kept = {name: size for name, size in before.files.items() if name not in removed}
                return table, own, kept | added
            case Rewrite():
                rewritten = [_rewritten(write, row, own) for row in self.rows(path, before)]
                return table, own, self._write(path, table, rewritten)
        raise AssertionError(write)

    def _copied(self, path: str, other: LakeSink, source: str) -> tuple[Table, tuple[str, ...], dict[str, int]]:
        """Copies the files of another sink's table, which may be this one."""
        newest = other._newest(source)[1]
        if newest is None:
            raise SinkError(f"{other.location(source)}: there is no table to copy")
        for name in newest.files:
            shutil.copyfile(other.root / source / name, self.root / path / name)
            sync(str(self.root / path / name))
        return newest.table, newest.metadata, newest.files

    def _write(self, path: str, table: Table, rows: Any) -> dict[str, int]:
        """Writes rows to a new file; returns its name and size."""
        name = f"{uuid.uuid4().hex}.parquet"
        file = self.root / path / name
        pq.write_table(pa.Table.from_pylist(list(rows), schema_of(table, self.metadata_columns)), file)
        sync(str(file))
        return {name: file.stat().st_size}

    def _commit(self, path: str, version: int, snapshot: Snapshot) -> None:
        """Makes a version, unless another writer has made it meanwhile."""
        folder, name = self.root / path, f".{uuid.uuid4().hex}"
        (folder / name).write_bytes(msgspec.json.encode(snapshot))
        sync(str(folder / name))
        made = link_new(str(folder / name), str(self._file(path, version)), str(self.root))
        (folder / name).unlink()
        if not made:
            raise SinkError(f"{self.location(path)}: another writer has made version {version}", transient=True)
        (folder / name).write_text(str(version))
        os.replace(folder / name, folder / "current")

    def _newest(self, path: str) -> tuple[int, Snapshot | None]:
        """The newest version and its snapshot; -1 and None if there is no table."""
        try:
            version = int((self.root / path / "current").read_text())
        except (OSError, ValueError):
            version = 0
        while self._file(path, version + 1).exists():
            version += 1
        if version == 0 and not self._file(path, 0).exists():
            return -1, None
        return version, self.read(path, version)

    def _file(self, path: str, version: int) -> Path:
        return self.root / path / f"v{version}.json"

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowInvalid) as error:
            raise SinkError(f"{self.location(path)}: {error}", transient=isinstance(error, OSError)) from error


# Rows after a `Rewrite`, one dict of column -> value each.


def _rewritten(write: Rewrite, row: Row, metadata: Sequence[str]) -> Row:
    pairs = zip(write.table.columns, write.expressions, strict=True)
    new = {column.name: _value(expression, column.type, row) for column, expression in pairs}
    kept = {name: row[name] for name in metadata}
    if IRREGULAR in kept and write.texts is not None:
        kept[IRREGULAR] = list(_texts(dict(kept[IRREGULAR] or ()), write.texts, new).items())
    return new | kept


def _value(expression: Expression, type: ColumnType, row: Row) -> Any:
    wanted = sink_type(type).arrow
    match expression:
        case Null():
            return None
        case Constant(value=dict(value)):
            return base64.b64decode(value["base64"])
        case Constant(value=value):
            return pa.scalar(value).cast(wanted).as_py()
        case ConvertedFrom(column=name, type=old):
            return converted(pa.array([row[name]], sink_type(old).arrow), expression, type)[0].as_py()


def _texts(old: dict[str, str], change: IrregularUpdate, new: Row) -> dict[str, str]:
    kept = {change.renamed.get(name, name): text for name, text in old.items() if name not in change.dropped}
    zeros = {name: text for name, text in change.nulls.items() if new[name] is None}
    return zeros | kept | change.added


# The two functions by which the pipeline opens the sink, and its section of the definition.


class LakeSection(SinkSection):
    """Parquet files under snapshots of JSON: `<path>/<database>/<table>`."""


SECTION = LakeSection


def open_sink(section: LakeSection, session: SparkSession | None, folder: Folder | None) -> LakeSink:
    """The sink that a section describes; only large writes need the session."""
    return LakeSink(Path(section.path), section.added_columns, session=session)
