"""Iceberg tables as a sink: implements the contract of `sinks.base`.

    prepare   open tables ──▶ items ──▶ `apply.step` writes the data files of all tables in one Spark job
    apply     the files of a write ──▶ one snapshot after the one that was opened, by the catalog, without Spark

If somebody else has committed in between, a write is made once more, on the table as it is then. Files that were prepared and not
committed remain until orphan files are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from changefeed.errors import SinkError
from changefeed.model.definition import Table
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.apply.item import Item, TaskResult
from changefeed.sinks.apply.step import item_of, no_files, write_files
from changefeed.sinks.apply.target import Target
from changefeed.sinks.base import Applied, Changes, Commit, PreparedWrite, TableSnapshot, WriteRequest
from changefeed.sinks.iceberg.catalog import ConflictError, TableCatalog
from changefeed.sinks.iceberg.columns import copied, new_columns, rewritten, with_columns
from changefeed.sinks.iceberg.commit import NewTable, commit, compact, create, fenced
from changefeed.sinks.iceberg.compaction import compacted
from changefeed.sinks.iceberg.file_io import OutsideError, name_below
from changefeed.sinks.iceberg.layout import ROW_COLUMNS, IcebergLayout
from changefeed.sinks.iceberg.manifests import Change
from changefeed.sinks.iceberg.opened import ManifestReader, Opened
from changefeed.sinks.iceberg.options import TableOptions
from changefeed.sinks.iceberg.partitions import fields_of, refusal, spec_after
from changefeed.sinks.iceberg.schema import arrow_schema, clash_with_part, new_schema
from changefeed.sinks.iceberg.sort_orders import sort_fields_of, sortable
from changefeed.sinks.iceberg.tags import tag
from changefeed.sinks.iceberg.types import IcebergTypes, columns_of
from changefeed.sinks.ways_out import COLUMNS_CHANGED, TABLE_DAMAGED
from changefeed.sinks.writes import (
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
    metadata_clash,
)
from changefeed.storage import Folder
from changefeed.storage.base import in_parallel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_ROW_COLUMNS = {field.name for field in ROW_COLUMNS}
_TAG_TRIES = 3
NO_FEATURE = "Remove what is named here from the table, or name the table in pipeline.exclude"


class OtherTableError(SinkError):
    """A catalog that stores names in lower case has another table by a table's name."""


@dataclass(frozen=True, slots=True)
class _WithFiles(PreparedWrite):
    """A write whose files have been written, but not committed.

    Attributes:
        opened: the table at the snapshot for which the files were written; None if the table does not exist yet.
        schema: the columns of the files.
        spec: the default partition spec that the table gets; None if it keeps its own.
    """

    opened: Opened | None
    schema: Schema
    written: TaskResult
    spec: PartitionSpec | None = None


@dataclass(slots=True)
class IcebergTables:
    """The Iceberg tables of a catalog whose files are in one folder.

    Attributes:
        metadata_columns: the metadata columns that every table gets.
        session: the Spark session; None to use only methods that need no Spark.
        owner: the pipeline's owner text; empty if unknown.
        limits: sizes for data files.
        cut_tags: number of cuts that tables keep as tags.
        options: the options about tables.
    """

    catalog: TableCatalog
    metadata_columns: tuple[str, ...] = ()
    session: SparkSession | None = None
    owner: str = ""
    limits: Limits = field(default_factory=Limits)
    cut_tags: int = 0
    options: TableOptions = field(default_factory=TableOptions)
    types: IcebergTypes = field(default_factory=IcebergTypes)
    _manifests: dict[str, ManifestReader] = field(default_factory=dict)  # by path

    def owned_by(self, owner: str) -> IcebergTables:
        """See `TableSink`."""
        return replace(self, owner=owner)

    def location(self, path: str) -> str:
        """See `TableSink`."""
        return f"{self.catalog.location}/{path}"

    # What is there.

    def refusal(self, table: Table, *, exists: bool = False) -> str | None:
        """See `TableSink`."""
        clashes = (metadata_clash(column.name, self.metadata_columns) for column in table.columns)
        if clash := next(filter(None, clashes), None):
            return clash
        taken = _ROW_COLUMNS & {column.name.lower() for column in table.columns}
        if self.options.format_version == 3 and taken:
            return f"column {min(taken)} has the name of a column of format version 3. Set sink.format-version to 2"
        fields, columns = () if exists else self.options.fields_of(table), columns_of(table, self.metadata_columns)
        if clash := clash_with_part(columns):
            return clash
        reason = refusal(fields, columns)
        return f"sink.partition-by: {reason}" if reason else None

    def fallback(self, path: str) -> str | None:
        """See `TableSink`: there is one way to write."""
        return None

    def write_mode(self, path: str) -> str:
        """See `TableSink`."""
        return "merge-on-read" if self.options.merges_on_read else "copy-on-write"

    def partitions(self, path: str, table: Table) -> tuple[str, ...]:
        """See `TableSink`: in the form of the option."""
        opened = self.open(path)
        fields = self.options.fields_of(table) if opened is None else fields_of(opened.metadata.spec(), opened.schema)
        return tuple(map(str, fields))

    def sort_order(self, path: str, table: Table) -> tuple[str, ...]:
        """See `TableSink`: in the form of the option."""
        opened = self.open(path)
        if opened is None:
            columns = columns_of(table, self.metadata_columns)
            return tuple(map(str, sortable(self.options.sort_fields_of(table), columns)))
        return tuple(map(str, sort_fields_of(opened.metadata.sort_order(), opened.schema)))

    def has_written(self, path: str) -> bool | None:
        """See `TableSink`."""
        opened = self.open(path)
        return None if opened is None else opened.write_id is not None

    def tables(self) -> Iterator[str]:
        """See `TableSink`."""
        for path in self.catalog.paths():
            with suppress(OutsideError):  # of others in the same catalog
                if (opened := self._open(path)) is not None:
                    place = opened.location.removeprefix(f"{self.catalog.location}/")
                    yield place if place.lower() == path.lower() else path  # Hive and Glue store names in lower case

    def snapshot(self, path: str) -> TableSnapshot | None:
        """See `TableSink`."""
        opened = self.open(path)
        return None if opened is None else opened.table_snapshot()

    @property
    def needs_session(self) -> bool:
        """See `TableSink`."""
        return False

    def is_newest(self, path: str, revision: int) -> bool:
        """See `TableSink`."""
        opened = self.open(path)
        return opened is not None and opened.version == revision

    def distance(self, path: str, after: int, through: int) -> int | None:
        """See `TableSink`."""
        if after == through:
            return 0
        opened = self.open(path)
        return None if opened is None else opened.distance(after, through)

    def commits(self, path: str, after: int, through: int) -> Iterator[Commit]:
        """See `TableSink`."""
        yield from self._existing(path).commits(after, through)

    def damaged_files(self, path: str, revision: int) -> list[str]:
        """See `TableSink`."""
        opened = self._existing(path)
        there = {f"data/{info.name}": info.size for info in opened.folder.files_below("data")}
        try:
            files = opened.all_files(opened.snapshot_at(revision))
        except (OSError, ValueError) as error:
            raise SinkError(f"{opened.location}: the manifests cannot be read: {error}. {TABLE_DAMAGED}") from error
        wanted = {opened.name_of(file): file.file_size_in_bytes for file in files}
        return sorted(name for name, size in wanted.items() if there.get(name) != size)

    def take_back(self, path: str, revision: int) -> list[int]:
        """See `TableSink`: what a commit refers to is on disk before it."""
        return []

    def publish(self, cut: str, revisions: Mapping[str, int]) -> None:
        """See `TableSink`: the names are tags."""
        if self.cut_tags:
            in_parallel(lambda path: self._tag(path, cut, revisions[path]), list(revisions))

    def _tag(self, path: str, cut: str, version: int) -> None:
        for tries in range(_TAG_TRIES):
            opened = self.open(path)
            try:
                if opened is not None:
                    tag(self.catalog, opened, cut, version, self.cut_tags)
                return
            except ConflictError:
                if tries == _TAG_TRIES - 1:
                    raise

    def has_files(self, path: str) -> bool:
        """See `TableSink`."""
        folder = self._folder(path)
        return bool(folder.files() or folder.folders())

    def delete(self, path: str) -> None:
        """See `TableSink`: the name is removed first, so that an interrupted deletion leaves no table."""
        if not self._is_other(path):
            self.catalog.drop(path)
        self._manifests.pop(path, None)
        self.catalog.folder.delete_folder(path)

    def differences(self, path: str, table: Table) -> list[str]:
        """See `TableSink`."""
        opened, columns = self.open(path), columns_of(table, self.metadata_columns)
        has = {} if opened is None else dict(zip(opened.columns.names, opened.columns.types, strict=True))
        wants = dict(zip(columns.names, columns.types, strict=True))
        return [f"{n} ({has.get(n)}, not {wants.get(n)})" for n in {**wants, **has} if has.get(n) != wants.get(n)]

    # Writing.

    def prepare(self, requests: Sequence[WriteRequest]) -> Sequence[PreparedWrite]:
        """See `TableSink`: writes the data files of all writes of rows."""
        prepared = [PreparedWrite(request) for request in requests]
        of_rows = [place for place, request in enumerate(requests) if request.changes is not None]
        writes = list[tuple[int, Opened | None, Changes, Item, Schema]]()
        for place, opened in zip(
            of_rows, in_parallel(self.open, [requests[p].write.path for p in of_rows]), strict=True
        ):
            request = requests[place]
            write, changes = request.write, request.changes
            if not isinstance(write, Load | Upsert | Append) or changes is None or not _is_next(opened, request):
                continue
            item, schema = self._item(write, changes, opened)
            writes.append((place, opened, changes, item, schema))
        results = write_files(self.session, [(changes, item) for _, _, changes, item, _ in writes])
        for (place, opened, _, _, schema), result in zip(writes, results, strict=True):
            spec = self._spec(opened, requests[place].write, schema)
            prepared[place] = _WithFiles(requests[place], opened, schema, result, spec)
        if any(result.added for result in results):
            self.catalog.folder.durable()
        return prepared

    def apply(self, prepared: PreparedWrite) -> Applied:
        """See `TableSink`."""
        request = prepared.request
        if isinstance(prepared, _WithFiles):
            return self._apply_files(prepared)
        opened = self.open(request.write.path)
        if not _is_next(opened, request):
            return Applied()
        first = [opened]
        return self._twice(
            request,
            lambda: self._apply_alone(request, first.pop() if first else self.open(request.write.path)),
        )

    def _apply_files(self, prepared: _WithFiles) -> Applied:
        """Commits the files of a write; if somebody else has committed meanwhile, those for the table as it is now."""
        request, first = prepared.request, [prepared]

        def attempt() -> Applied:
            if first:
                return self._commit(first.pop())
            (again,) = self.prepare([request])
            return self._commit(again) if isinstance(again, _WithFiles) else Applied()

        return self._twice(request, attempt)

    def _commit(self, ready: _WithFiles) -> Applied:
        request, opened, written = ready.request, ready.opened, ready.written
        if opened is None:
            create(self.catalog, self._new_table(request.write, ready.schema), self.owner, written.added, request)
        else:
            replaces = isinstance(request.write, Load)
            change = Change(
                added=written.added, removed=frozenset(name for name, _ in written.removed), marked=written.marked,
                replaces=replaces,
                schema=ready.schema if replaces and ready.schema != opened.schema else None, spec=ready.spec,
            )  # fmt: skip
            commit(self.catalog, opened, change, request)
            if self.options.merges_on_read and request.write.table.keys:
                self._compact(request.write.path)
        is_chunked = request.changes is not None and request.changes.chunked is not None
        size = sum(file.size for file in written.added)
        return Applied(written.read if is_chunked else None, len(written.added), size)

    def _compact(self, path: str) -> None:
        """Compacts the table that was just committed, if that is due and worth it."""
        if (rules := self.options.compaction) is None:
            return
        opened = self.open(path)
        if opened is None or opened.metadata.next_sequence_number() % rules.every:
            return
        try:
            _check_writable(opened, replaces=False)  # others may have committed since
            if (change := compacted(self.session, opened, rules, self.limits)) is not None:
                self.catalog.folder.durable()
                compact(self.catalog, opened, change)
        except SinkError as error:  # the write stands, and the table is whole without
            _log.warning("%s", error)

    def _twice(self, request: WriteRequest, attempt: Callable[[], Applied]) -> Applied:
        """Calls `attempt`, and once more if somebody else has committed meanwhile."""
        try:
            return attempt()
        except SinkError as error:
            if not error.transient or not _is_next(self.open(request.write.path), request):
                raise
            return attempt()

    def _apply_alone(self, request: WriteRequest, opened: Opened | None) -> Applied:
        """Makes a write without changes, to the table as it was opened."""
        write = request.write
        if opened is None:
            return self._make(request)
        _check_writable(opened, replaces=isinstance(write, Create | Copy | Import | Restore))
        columns = columns_of(write.table, self.metadata_columns)
        match write:
            case Touch():
                change = Change()
            case Create():
                schema = new_columns(opened, columns)
                change = Change(replaces=True, schema=schema, spec=self._spec(opened, write, schema))
            case AddColumns():
                change = with_columns(opened, write, columns, self.limits)
            case Rewrite():
                change = rewritten(opened, write, columns, self.limits)
            case Copy(source=source) | Import(source=source):
                change = self._replaced_by(opened, write, self._source(write, source))
            case Restore():
                change = self._restored(opened, write)
            case _:
                raise AssertionError(write)
        if change.added:
            self.catalog.folder.durable()
        commit(self.catalog, opened, change, request)
        return Applied()

    def _make(self, request: WriteRequest) -> Applied:
        """Makes a table with a write without changes."""
        write = request.write
        match write:
            case Create():
                schema, added = new_schema(columns_of(write.table, self.metadata_columns)), []
            case Copy(source=source) | Import(source=source):
                origin = self._source(write, source)
                schema = new_schema(_plain(origin.columns))
                layout = self._new_layout(write, schema)
                added = copied(origin, layout, layout.schema, self.limits)
                self.catalog.folder.durable()
            case _:
                raise self._needed(write)
        create(self.catalog, self._new_table(write, schema), self.owner, added, request)
        return Applied()

    def _new_table(self, write: Write, schema: Schema) -> NewTable:
        """Describes the table that a write makes."""
        return self.options.new_table(self.location(write.path), schema, write.table)

    def _new_layout(self, write: Write, schema: Schema) -> IcebergLayout:
        """Returns the layout of the table that a write makes."""
        new = self._new_table(write, schema)
        specs, order = {0: fields_of(new.spec, schema)}, sort_fields_of(new.order, schema)
        return IcebergLayout(
            self._folder(write.path), arrow_schema(schema), specs, order=order, order_id=new.order.order_id
        )

    def _replaced_by(self, opened: Opened, write: Copy | Import, source: Opened) -> Change:
        schema = new_columns(opened, _plain(source.columns))
        spec = self._spec(opened, write, schema)
        layout = opened.layout_of(schema, spec)
        added = copied(source, layout, layout.schema, self.limits)
        return Change(added=added, replaces=True, schema=schema, spec=spec)

    def _restored(self, opened: Opened, write: Restore) -> Change:
        snapshot = opened.snapshot_at(write.revision)
        schema = opened.metadata.schema_by_id(snapshot.schema_id or 0) or opened.schema
        used = {manifest.partition_spec_id for manifest in opened.manifests(snapshot)}
        return Change(restored=snapshot, spec=spec_after(opened.metadata, schema, (), used))

    def _spec(self, opened: Opened | None, write: Write, schema: Schema) -> PartitionSpec | None:
        """Returns the default partition spec that a table gets when other columns and rows replace its own; None if it stays."""
        if opened is None or not isinstance(write, Load | Create | Copy | Import):
            return None
        return spec_after(opened.metadata, schema, self.options.fields_of(write.table))

    def _source(self, write: Copy | Import, source: str) -> Opened:
        """Opens the table whose rows a write copies."""
        if isinstance(write, Copy):
            opened = self._existing(source)
            _check_writable(opened, replaces=False)
            return opened
        path = name_below(self.catalog.location, source)
        table = self.catalog.load(path) or self.catalog.load_unnamed(path)
        if table is None:
            raise SinkError(f"{source}: there is no table")
        opened = Opened(self._folder(path), table, self.owner, ManifestReader())
        _check_writable(opened, replaces=False)
        return opened

    def _item(self, write: Load | Upsert | Append, changes: Changes, opened: Opened | None) -> tuple[Item, Schema]:
        """Returns the item of a write, and the columns of its files."""
        names, keys = tuple(c.name for c in write.table.columns), tuple(write.table.keys)
        columns = columns_of(write.table, self.metadata_columns)
        if opened is not None:
            _check_writable(opened, replaces=isinstance(write, Load))
        if isinstance(write, Load):
            schema = new_schema(columns) if opened is None else new_columns(opened, columns)
            spec = self._spec(opened, write, schema)
            layout = self._new_layout(write, schema) if opened is None else opened.layout_of(schema, spec)
            return item_of(write, changes, Target(layout, layout.schema, names, keys), no_files(), self.limits), schema
        if opened is None:
            raise self._needed(write)
        if not opened.has_columns(columns):
            raise SinkError(
                f"{opened.location}: its columns are not those that this pipeline gave it: "
                f"{'; '.join(self.differences(write.path, write.table))}. {COLUMNS_CHANGED}"
            )
        files = opened.stored(keys) if isinstance(write, Upsert) else no_files()
        marks = self.options.merges_on_read and bool(keys)
        return item_of(write, changes, opened.target(names, keys), files, self.limits, marks=marks), opened.schema

    def _needed(self, write: Write) -> SinkError:
        return SinkError(f"{self.location(write.path)}: there is no table, which {type(write).__name__} needs")

    def _existing(self, path: str) -> Opened:
        opened = self.open(path)
        if opened is None:
            raise SinkError(f"{self.location(path)}: there is no table")
        return opened

    def open(self, path: str) -> Opened | None:
        """Opens a table at its newest snapshot; None if there is none.

        Raises:
            OtherTableError: the catalog has another table by this name.
        """
        opened = self._open(path)
        if opened is None:
            return None
        place = name_below(self.catalog.location, opened.location)
        if place != path and place.lower() == path.lower():
            raise OtherTableError(
                f"{self.location(path)}: the catalog has this name for {opened.location}, because it stores names in lower case. "
                "Leave one of the tables out by pipeline.exclude, or use another catalog"
            )
        return opened

    def _is_other(self, path: str) -> bool:
        """Whether the catalog has another table by the name of a path."""
        try:
            self.open(path)
        except OtherTableError:
            return True
        except SinkError as error:  # its metadata cannot be read
            if error.transient:
                raise
            return False
        return False

    def _open(self, path: str) -> Opened | None:
        """Opens the table that the catalog has by the name of a path."""
        table = self.catalog.load(path)
        if table is None:
            return None
        folder = self._folder(name_below(self.catalog.location, table.metadata.location))
        return Opened(folder, table, self.owner, self._manifests.setdefault(path, ManifestReader()))

    def _folder(self, path: str) -> Folder:
        return self.catalog.folder.subfolder(path)


def _is_next(opened: Opened | None, request: WriteRequest) -> bool:
    """Whether a write has not been made yet.

    Raises:
        FencedError: a newer run writes the table.
    """
    if opened is None or opened.write_id is None or opened.write_id < request.write_id:
        return True
    if opened.write_id.epoch > request.write_id.epoch:
        raise fenced(opened.location, opened.owner, opened.write_id, request.write_id)
    return False


def _check_writable(opened: Opened, *, replaces: bool) -> None:
    """Checks that changefeed writes a table.

    Raises:
        SinkError: it does not.
    """
    if reason := opened.refused(replaces=replaces):
        raise SinkError(f"{opened.location}: {reason}, which changefeed does not write. {NO_FEATURE}")


def _plain(columns: pa.Schema) -> pa.Schema:
    """Returns columns without field ids."""
    return pa.schema([pa.field(field.name, field.type, field.nullable) for field in columns])
