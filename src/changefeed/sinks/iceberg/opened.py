"""An Iceberg table at its newest snapshot: write ids, columns, data files, and whether changefeed can write it.

Where write ids are kept:

    table properties     `changefeed.write-id.<owner>` = `<epoch>.<step>.<number>`, the owner's last write. Set in the commit
                         that adds the snapshot; stays when the snapshot is expired, or rolled back
    snapshot summary     `changefeed.owner`, `changefeed.write-id`, `changefeed.write`, `changefeed.note`: who made the snapshot
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER_ID
from pyiceberg.types import IntegerType, LongType, PrimitiveType

from changefeed.errors import SinkError
from changefeed.sinks.apply.target import Target
from changefeed.sinks.base import Commit, TableSnapshot
from changefeed.sinks.iceberg.deletes import DeleteIndex, refusal
from changefeed.sinks.iceberg.file_io import name_below
from changefeed.sinks.iceberg.layout import ROW_COLUMNS, IcebergLayout, values_text
from changefeed.sinks.iceberg.manifest_files import FormatVersion, first_row_id, read_list, read_manifest
from changefeed.sinks.iceberg.name_mapping import other_names
from changefeed.sinks.iceberg.partitions import fields_of, unknown_partition
from changefeed.sinks.iceberg.schema import arrow_schema, unknown_type
from changefeed.sinks.iceberg.sort_orders import order_after, sort_fields_of
from changefeed.sinks.ways_out import COLUMNS_CHANGED, TABLE_CHANGED, TABLE_DAMAGED
from changefeed.sinks.writes import Touch, WriteId
from changefeed.storage import Folder

EMPTY = 0  # the version of a table without a snapshot
PROPERTY = "changefeed.write-id."
OWNER, WRITE_ID, WRITE, NOTE = "changefeed.owner", "changefeed.write-id", "changefeed.write", "changefeed.note"


@dataclass(frozen=True)
class Opened:
    """A table at its newest snapshot.

    Attributes:
        folder: the folder of the table.
        table: the table with its metadata.
        owner: the pipeline's owner text.
        entries_of: manifest -> its live entries.
    """

    folder: Folder
    table: Table
    owner: str
    entries_of: ManifestReader

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata."""
        return self.table.metadata

    @property
    def location(self) -> str:
        """The table's location, for messages and for the paths of its files."""
        return self.metadata.location

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot; None if the table has none."""
        return self.metadata.current_snapshot()

    @property
    def version(self) -> int:
        """The id of the newest snapshot."""
        snapshot = self.snapshot
        return EMPTY if snapshot is None else snapshot.snapshot_id

    @property
    def version_of_format(self) -> FormatVersion:
        """The table's format version; see `refused`."""
        return 3 if self.metadata.format_version == 3 else 2

    @property
    def write_id(self) -> WriteId | None:
        """Write id of the owner's last write; None if there is none."""
        text = self.metadata.properties.get(f"{PROPERTY}{self.owner}")
        return None if text is None else read_write_id(text)

    @property
    def owners(self) -> frozenset[str]:
        """The owners that have written the table."""
        return frozenset(n.removeprefix(PROPERTY) for n in self.metadata.properties if n.startswith(PROPERTY))

    @property
    def schema(self) -> Schema:
        """The table's columns."""
        return self.metadata.schema()

    @cached_property
    def columns(self) -> pa.Schema:
        """The table's columns in Arrow, with field ids."""
        return arrow_schema(self.schema)

    @property
    def layout(self) -> IcebergLayout:
        """The layout of data files with rows that the table has already."""
        return self.layout_of(self.schema, moves=True)

    def layout_of(self, schema: Schema, spec: PartitionSpec | None = None, *, moves: bool = False) -> IcebergLayout:
        """Returns the layout of new data files.

        Args:
            schema: the columns that the table gets.
            spec: the default partition spec that it gets; None keeps the table's.
            moves: whether the files get rows of the table's other files, which keep their ids.
        """
        spec = spec or self.metadata.spec()
        specs = {of.spec_id: fields_of(of, schema) for of in [*self.metadata.partition_specs, spec]}
        columns = arrow_schema(schema)
        if moves and self.version_of_format == 3:
            columns = pa.schema([*columns, *ROW_COLUMNS])
        order = order_after(self.metadata, schema)
        fields = sort_fields_of(order, schema)
        order_id = order.order_id if len(fields) == len(order.fields) else UNSORTED_SORT_ORDER_ID
        names = other_names(self.metadata, self.schema)
        return IcebergLayout(self.folder, columns, specs, spec.spec_id, fields, order_id, names=names)

    def table_snapshot(self) -> TableSnapshot:
        """Returns the state of the table for the contract."""
        return TableSnapshot(self.version, tuple(self.columns.names), self.write_id, self.owners)

    def refused(self, *, replaces: bool = False) -> str | None:
        """Why changefeed does not write this table; None if it does. `replaces`: the write replaces all of its files."""
        if self.metadata.format_version not in (2, 3):
            return f"format version {self.metadata.format_version}"
        if reason := unknown_partition(self.metadata.spec(), self.schema):
            return reason
        if replaces:
            return None
        if unknown := unknown_type(self.schema):
            return f"the type of column {unknown}"
        if unknown := next((f.name for f in self.schema.fields if f.initial_default is not None), None):
            return f"the default of column {unknown} in old rows"
        if unknown := next(filter(None, (refusal(entry.data_file) for entry in self.delete_entries())), None):
            return unknown
        if unknown := next((f.file_format for f in self.files() if f.file_format != FileFormat.PARQUET), None):
            return f"data files in {unknown.value}"
        try:
            for file in self.all_files():
                self.name_of(file)
        except SinkError:
            return "data files outside of its folder"
        return None

    def has_columns(self, columns: pa.Schema) -> bool:
        """Whether the table has exactly these columns with these types, in any order."""
        return dict(zip(self.columns.names, self.columns.types, strict=True)) == dict(
            zip(columns.names, columns.types, strict=True)
        )

    # Data files.

    def manifests(self, snapshot: Snapshot | None = None) -> list[ManifestFile]:
        """Returns the manifests of a snapshot, the newest by default."""
        snapshot = snapshot or self.snapshot
        return [] if snapshot is None else self.entries_of.manifests(self.table, snapshot)

    def entries(self, snapshot: Snapshot | None = None) -> Iterator[ManifestEntry]:
        """Yields the entries of live data files of a snapshot, the newest by default."""
        yield from self._entries(snapshot, ManifestContent.DATA)

    def delete_entries(self, snapshot: Snapshot | None = None) -> Iterator[ManifestEntry]:
        """Yields the entries of live delete files of a snapshot, the newest by default."""
        yield from self._entries(snapshot, ManifestContent.DELETES)

    def _entries(self, snapshot: Snapshot | None, content: ManifestContent) -> Iterator[ManifestEntry]:
        for manifest in self.manifests(snapshot):
            if manifest.content == content:
                yield from self.entries_of.entries(self.table, manifest)

    def files(self, snapshot: Snapshot | None = None) -> list[DataFile]:
        """Returns the data files of a snapshot, the newest by default."""
        return [entry.data_file for entry in self.entries(snapshot)]

    def all_files(self, snapshot: Snapshot | None = None) -> list[DataFile]:
        """Returns data files and delete files of a snapshot, the newest by default."""
        return [*self.files(snapshot), *(entry.data_file for entry in self.delete_entries(snapshot))]

    def name_of(self, file: DataFile) -> str:
        """Returns the name of a file in the table's folder."""
        return name_below(self.location, file.file_path)

    @cached_property
    def _locations(self) -> dict[str, str]:
        return {self.name_of(file): file.file_path for file in self.files()}

    def location_of(self, name: str) -> str:
        """Returns the location of a live data file by its name in the table's folder, as its manifest has it."""
        return self._locations[name]

    @cached_property
    def deletes(self) -> DeleteIndex:
        """The delete files of the newest snapshot."""
        return DeleteIndex.of(self.delete_entries(), self.location)

    def stored(self, keys: Sequence[str] = ()) -> pa.Table:
        """Returns the data files: path, size, and `low_0`, `high_0`, …: bounds of the key columns, where they are known.

        Also `spec` and `partition`, see `layout.partition_text`, for a table with partitions; `vector`, see `Deletes`, for one
        with delete files; `first_row_id` and `sequence_number` for one of format version 3.
        """
        entries = list(self.entries())
        files = [entry.data_file for entry in entries]
        columns: dict[str, Any] = {
            "path": pa.array([self.name_of(file) for file in files], pa.string()),
            "size": pa.array([file.file_size_in_bytes for file in files], pa.int64()),
        }
        if any(manifest.content == ManifestContent.DELETES for manifest in self.manifests()):
            deletes = [self.deletes.deletes_of(entry) for entry in entries]
            columns["vector"] = pa.array([None if of is None else of.to_text() for of in deletes], pa.string())
        if any(spec.fields for spec in self.metadata.specs().values()):
            columns["spec"] = pa.array([file.spec_id for file in files], pa.int32())
            columns["partition"] = pa.array([self._partition_text(file) for file in files], pa.string())
        if self.version_of_format == 3:
            columns["first_row_id"] = pa.array([first_row_id(file) for file in files], pa.int64())
            columns["sequence_number"] = pa.array([entry.sequence_number for entry in entries], pa.int64())
        for i, key in enumerate(keys):
            field = self.schema.find_field(key)
            if isinstance(field.field_type, PrimitiveType) and not pa.types.is_floating(self.columns.field(key).type):
                kind = self.columns.field(key).type
                for end, bounds in (
                    ("low", [f.lower_bounds for f in files]),
                    ("high", [f.upper_bounds for f in files]),
                ):
                    columns[f"{end}_{i}"] = _bounds(bounds, field.field_id, field.field_type, kind)
        return pa.table(columns)

    def _partition_text(self, file: DataFile) -> str:
        """Returns the text of a data file's partition, see `layout.partition_text`; empty if its spec has lost a column."""
        spec = self.metadata.specs()[file.spec_id]
        if not spec.fields or unknown_partition(spec, self.schema):
            return ""
        values = [
            (of.field_type, file.partition[place]) for place, of in enumerate(spec.partition_type(self.schema).fields)
        ]
        return values_text([None if v is None else to_bytes(kind, v) for kind, v in values])  # type: ignore[arg-type]

    def target(self, names: Sequence[str], keys: Sequence[str]) -> Target:
        """Returns the table for items, with these upstream columns and this key.

        Raises:
            SinkError: the table lacks one of the columns.
        """
        if missing := [name for name in names if name not in self.columns.names]:
            raise SinkError(
                f"{self.location}: its columns are not those that this pipeline gave it: {missing[0]!r} is missing. "
                f"{COLUMNS_CHANGED}"
            )
        layout = self.layout_of(self.schema, moves=bool(keys))
        return Target(layout, layout.schema, tuple(names), tuple(keys))

    # History.

    def snapshot_at(self, version: int) -> Snapshot:
        """Returns the snapshot of a version.

        Raises:
            SinkError: it has been expired.
        """
        snapshot = self.metadata.snapshot_by_id(version)
        if snapshot is None:
            raise SinkError(
                f"{self.location}: snapshot {version} is not in the table's metadata: it was expired. {TABLE_DAMAGED}"
            )
        return snapshot

    def history(self, through: int) -> Iterator[Snapshot | int]:
        """Yields the snapshots from a version back to the table's first; last the id of one that was expired, if any."""
        version: int | None = through
        while version is not None and version != EMPTY:
            snapshot = self.metadata.snapshot_by_id(version)
            if snapshot is None:
                yield version
                return
            yield snapshot
            version = snapshot.parent_snapshot_id

    def distance(self, after: int, through: int) -> int | None:
        """See `TableSink`."""
        commits = 0
        for snapshot in self.history(through):
            number = snapshot if isinstance(snapshot, int) else snapshot.snapshot_id
            if number == after:
                return commits
            if isinstance(snapshot, int):
                return None
            commits += 1
        return commits if after in (-1, EMPTY) else None

    def commits(self, after: int, through: int) -> Iterator[Commit]:
        """See `TableSink`."""
        for snapshot in self.history(through):
            if isinstance(snapshot, int):
                if snapshot == after:
                    return
                raise self._expired(snapshot)
            if snapshot.snapshot_id == after:
                return
            yield self._commit(snapshot)
        if after not in (-1, EMPTY):
            if self.metadata.snapshot_by_id(after) is None:
                raise self._expired(after)
            raise SinkError(
                f"{self.location}: snapshot {after} did not lead to {through}: the table was rolled back. {TABLE_CHANGED}"
            )

    def _expired(self, version: int) -> SinkError:
        return SinkError(
            f"{self.location}: snapshot {version} is not in the table's metadata. If it was expired, and only compactions have "
            f"written to the table since: changefeed repair --accept. Otherwise {TABLE_CHANGED}"
        )

    def _commit(self, snapshot: Snapshot) -> Commit:
        summary: Mapping[str, str] = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        operation = Operation.OVERWRITE if snapshot.summary is None else snapshot.summary.operation
        is_ours = summary.get(OWNER) == self.owner
        write_id = read_write_id(summary[WRITE_ID]) if is_ours else None
        kind = summary.get(WRITE, operation.value)
        changes = operation is not Operation.REPLACE and kind != Touch.__name__
        return Commit(snapshot.snapshot_id, kind, write_id, changes_table=changes)


class ManifestReader:
    """Reads manifests, and keeps the entries of those that were read last: manifests never change."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[ManifestEntry, ...]] = {}
        self._lists: dict[str, list[ManifestFile]] = {}

    def manifests(self, table: Table, snapshot: Snapshot) -> list[ManifestFile]:
        """Returns the manifests of a snapshot."""
        key = snapshot.manifest_list
        if key not in self._lists:
            self._lists = {key: read_list(table.io, key)}
            paths = {manifest.manifest_path for manifest in self._lists[key]}
            self._entries = {path: entries for path, entries in self._entries.items() if path in paths}
        return self._lists[key]

    def entries(self, table: Table, manifest: ManifestFile) -> tuple[ManifestEntry, ...]:
        """Returns the live entries of a manifest."""
        path = manifest.manifest_path
        if path not in self._entries:
            self._entries[path] = read_manifest(table.io, manifest)
        return self._entries[path]


def read_write_id(text: str) -> WriteId:
    """Reads the text of a write id."""
    epoch, step, number = map(int, text.split("."))
    return WriteId(epoch, step, number)


def write_id_text(write_id: WriteId) -> str:
    """Returns the text of a write id: `<epoch>.<step>.<number>`."""
    return f"{write_id.epoch}.{write_id.step}.{write_id.number}"


def _bounds(
    bounds: Sequence[Mapping[int, bytes] | None], field_id: int, kind: PrimitiveType, arrow: pa.DataType
) -> pa.Array:
    """Returns the bounds of a column in all files; NULL where a file has none, or has them of a type before a change."""
    values = [_bound((of or {}).get(field_id), kind) for of in bounds]
    if pa.types.is_date32(arrow):
        return pa.array(values, pa.int32()).cast(arrow)
    return pa.array(values, pa.int64()).cast(arrow) if pa.types.is_timestamp(arrow) else pa.array(values, arrow)


def _bound(encoded: bytes | None, kind: PrimitiveType) -> Any:
    if encoded is None:
        return None
    if isinstance(kind, LongType) and len(encoded) == 4:  # from before the column was widened
        kind = IntegerType()
    try:
        return from_bytes(kind, encoded)
    except (ValueError, TypeError, struct.error):
        return None
