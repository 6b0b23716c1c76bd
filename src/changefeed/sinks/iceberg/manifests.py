"""Writes the manifests of a new snapshot, and its manifest list.

A manifest has data files or delete files, of one partition spec. Manifests with many live files of which none is removed stay.
The live files of all others go to one new manifest of each kind, together with the added files, and the removed ones, as Iceberg
requires. So a commit writes about as many entries as files change.

Delete files are removed with the data file that they name, and replaced by a new one for more of its rows.
"""

from __future__ import annotations

import base64
import struct
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    UpdateMetrics,
    update_snapshot_summaries,
)
from pyiceberg.typedef import Record

from changefeed.sinks.apply.bitmaps import decoded
from changefeed.sinks.apply.files import Added
from changefeed.sinks.apply.layout import RowNumbers
from changefeed.sinks.apply.merge import Marked
from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.delete_files import PATH_ID, POSITION_ID, position_deletes, puffin
from changefeed.sinks.iceberg.deletes import data_file_of, partition_of
from changefeed.sinks.iceberg.layout import Metrics, partition_values
from changefeed.sinks.iceberg.manifest_files import FormatVersion, ManifestFileWriter, ManifestListFileWriter
from changefeed.sinks.iceberg.opened import Opened
from changefeed.sinks.iceberg.version_3 import next_row_id

_FULL = 25  # live files from which a manifest stays if none is removed

_AVRO_CODECS = {"gzip": "gzip", "zstd": "zstd", "uncompressed": "null"}  # Iceberg's name -> PyIceberg's

_Kind = tuple[ManifestContent, int]  # of a manifest: its content and its partition spec


@dataclass(frozen=True, slots=True)
class Change:
    """The change that a commit makes.

    Attributes:
        added: the new data files.
        removed: names of the data files to remove, in the table's folder.
        marked: the data files of which more rows are deleted, with all of these rows.
        replaces: whether all data files of the table are removed.
        compacts: whether the rows of the table stay the same.
        schema: the new columns; None keeps the table's.
        spec: the new default partition spec; None keeps the table's.
        restored: the snapshot whose files and columns the table gets; then the others are empty.
    """

    added: Sequence[Added] = ()
    removed: frozenset[str] = frozenset()
    marked: Sequence[Marked] = ()
    replaces: bool = False
    compacts: bool = False
    schema: Schema | None = None
    spec: PartitionSpec | None = None
    restored: Snapshot | None = None

    @property
    def has_files(self) -> bool:
        """Whether files are added, removed or marked."""
        return bool(self.added or self.removed or self.marked or self.replaces)


def manifests_of(
    snapshot: NewSnapshot, opened: Opened | None, change: Change
) -> tuple[list[ManifestFile], Operation, SnapshotSummaryCollector]:
    """Writes the new manifests of a snapshot.

    Args:
        snapshot: the new snapshot.
        opened: the table before; None if it is made.
        change: the files that are added and removed.

    Returns:
        All manifests of the snapshot, the kind of the change, and its size.
    """
    counts = _Counts()
    if opened is not None and change.restored is not None:
        for restored in opened.all_files(change.restored):
            counts.add_file(restored, snapshot.schema)
        for replaced in opened.all_files():
            counts.remove_file(replaced, snapshot.schema)
        return opened.manifests(change.restored), Operation.OVERWRITE, counts
    if opened is not None and not change.has_files:
        manifests = [one for one in opened.manifests() if snapshot.has_columns_of(one.partition_spec_id)]
        return manifests, Operation.APPEND, counts
    writing = _Writing(snapshot, counts)
    if opened is not None:
        writing.earlier(opened, change)
        writing.mark(opened, change.marked)
    for file in change.added:
        writing.add(data_file(file, snapshot))
    return writing.manifests(), _operation(change, writing), counts


class _Counts(SnapshotSummaryCollector):
    """The size of a change: of all partitions, only their number."""

    def update_partition_metrics(
        self, partition_spec: PartitionSpec, file: DataFile, is_add_file: bool, schema: Schema
    ) -> None:
        """Counts the partition of a file."""
        self.partition_metrics.setdefault(repr(partition_of(file)), UpdateMetrics())


def _operation(change: Change, writing: _Writing) -> Operation:
    if change.compacts:
        return Operation.REPLACE
    if not writing.deletes_rows:
        return Operation.APPEND
    return Operation.OVERWRITE if change.added else Operation.DELETE


@dataclass(slots=True)
class _Writing:
    """The manifests of a snapshot while they are collected.

    Attributes:
        counts: the size of the change.
        kept: manifests that stay as they are.
        entries: the entries of new manifests.
        deletes_rows: whether data files are removed, or delete files added.
    """

    snapshot: NewSnapshot
    counts: SnapshotSummaryCollector
    kept: list[ManifestFile] = field(default_factory=list)
    entries: dict[_Kind, list[ManifestEntry]] = field(default_factory=lambda: defaultdict(list))
    deletes_rows: bool = False

    def earlier(self, opened: Opened, change: Change) -> None:
        """Adds the files before the change: those that stay, and those that are removed."""
        removed = {opened.location_of(name) for name in change.removed}
        marked = {opened.location_of(file.path) for file in change.marked}
        for manifest in opened.manifests():
            is_data = manifest.content == ManifestContent.DATA
            gone = removed if is_data else removed | marked
            live = opened.entries_of.entries(opened.table, manifest)
            places = [entry.data_file.file_path if is_data else data_file_of(entry.data_file) for entry in live]
            is_removed = [change.replaces or place in gone for place in places]
            if len(live) >= _FULL and not any(is_removed):
                self.kept.append(manifest)
                continue
            kind = (manifest.content, manifest.partition_spec_id)
            for entry, removes in zip(live, is_removed, strict=True):
                self._copy(kind, entry, removes=removes)
            self.deletes_rows |= is_data and any(is_removed)

    def _copy(self, kind: _Kind, entry: ManifestEntry, *, removes: bool) -> None:
        status = ManifestEntryStatus.DELETED if removes else ManifestEntryStatus.EXISTING
        number = self.snapshot.number if removes else entry.snapshot_id
        copied = _entry(status, number, entry.sequence_number, entry.file_sequence_number, entry.data_file)
        self.entries[kind].append(copied)
        if removes:
            self.counts.remove_file(entry.data_file, self.snapshot.schema)

    def mark(self, opened: Opened, marked: Sequence[Marked]) -> None:
        """Adds the delete files of data files of which more rows are deleted."""
        if not marked:
            return
        files = {entry.data_file.file_path: entry.data_file for entry in opened.entries()}
        by_location = {opened.location_of(file.path): file for file in marked}
        write = self.snapshot.vectors if self.snapshot.version == 3 else self.snapshot.positions
        for made in write({location: (files[location], file) for location, file in by_location.items()}):
            self.add(made, ManifestContent.DELETES)
        self.deletes_rows = True

    def add(self, file: DataFile, content: ManifestContent = ManifestContent.DATA) -> None:
        """Adds a new file."""
        self.counts.add_file(file, self.snapshot.schema)
        entry = _entry(ManifestEntryStatus.ADDED, self.snapshot.number, None, None, file)
        self.entries[content, file.spec_id].append(entry)

    def manifests(self) -> list[ManifestFile]:
        """Writes the new manifests; returns all.

        Without those of a spec that has lost a column: no reader could read them, and their files are all removed.
        """
        entries = {kind: of for kind, of in self.entries.items() if self.snapshot.has_columns_of(kind[1])}
        made = [self.snapshot.manifest(number, *of) for number, of in enumerate(entries.items())]
        return [*self.kept, *made]


def _entry(
    status: ManifestEntryStatus,
    snapshot_id: int | None,
    sequence_number: int | None,
    file_sequence_number: int | None,
    file: DataFile,
) -> ManifestEntry:
    return ManifestEntry.from_args(
        3, status=status, snapshot_id=snapshot_id, sequence_number=sequence_number,
        file_sequence_number=file_sequence_number, data_file=file,
    )  # fmt: skip


def data_file(file: Added, snapshot: NewSnapshot) -> DataFile:
    """Returns a new data file for a manifest."""
    metrics = msgspec.json.decode(file.stats, type=Metrics)
    made = DataFile.from_args(
        3,
        content=DataFileContent.DATA,
        file_path=f"{snapshot.location}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=snapshot.partition(metrics.partition),
        record_count=file.rows,
        file_size_in_bytes=file.size,
        column_sizes=metrics.sizes,
        value_counts=metrics.counts,
        null_value_counts=metrics.nulls,
        nan_value_counts={},
        lower_bounds=_decoded(metrics.lower),
        upper_bounds=_decoded(metrics.upper),
        split_offsets=metrics.offsets,
        sort_order_id=metrics.order_id,
    )
    made.spec_id = snapshot.spec.spec_id
    return made


def _decoded(bounds: Mapping[int, str]) -> dict[int, bytes]:
    return {number: base64.b64decode(text) for number, text in bounds.items()}


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """A snapshot that is being written.

    Attributes:
        schema: the table's columns after it.
        number: its id.
        version: the format version of the table.
        new_spec: the default partition spec after it, if it is another one.
    """

    catalog: TableCatalog
    table: Table
    schema: Schema
    number: int
    sequence_number: int
    version: FormatVersion = 2
    new_spec: PartitionSpec | None = None
    name: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def location(self) -> str:
        """The location of the table."""
        return self.table.metadata.location

    @property
    def spec(self) -> PartitionSpec:
        """The partition spec of new data files."""
        return self.new_spec or self.table.metadata.spec()

    @property
    def _compression(self) -> str:
        """The codec of Avro files that the table asks for, if it can be written here."""
        name = self.table.metadata.properties.get(TableProperties.WRITE_AVRO_COMPRESSION, "")
        return _AVRO_CODECS.get(name.lower(), TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT)

    @property
    def _time(self) -> int:
        """The time of the snapshot, in milliseconds since 1970: after the table's last update, whatever the clock shows."""
        return max(int(time.time() * 1000), self.table.metadata.last_updated_ms + 1)

    def has_columns_of(self, spec_id: int) -> bool:
        """Whether the table has the columns of a partition spec after the snapshot; no live file has one without."""
        spec = self.table.metadata.specs().get(spec_id, self.spec)
        return {of.source_id for of in spec.fields} <= {field.field_id for field in self.schema.fields}

    def partition(self, text: str) -> Record:
        """Returns the partition of a new data file; for the text see `layout.partition_text`."""
        fields = self.spec.partition_type(self.schema).fields
        values = zip(fields, partition_values(text), strict=True)
        return Record(*(None if value is None else from_bytes(of.field_type, value) for of, value in values))  # type: ignore[arg-type]

    def manifest(self, number: int, kind: _Kind, entries: Iterable[ManifestEntry]) -> ManifestFile:
        """Writes a manifest; `number` is its place among the new manifests."""
        content, spec_id = kind
        file = self.catalog.io.new_output(f"{self.location}/metadata/{self.name}-m{number}.avro")
        spec = {**self.table.metadata.specs(), self.spec.spec_id: self.spec}[spec_id]
        writer = ManifestFileWriter(
            self.version, content, spec, self.schema, file, self.number, self._compression
        )  # fmt: skip
        return writer.written(entries)

    def vectors(self, marked: Mapping[str, tuple[DataFile, Marked]]) -> list[DataFile]:
        """Writes the deletion vectors of data files, by location, in one Puffin file; returns their entries."""
        content, places = puffin([(place, file.vector, file.deleted) for place, (_, file) in marked.items()])
        location = self._write(f"data/{self.name}-deletes.puffin", content)
        made = []
        for (place, (data, file)), (offset, size) in zip(marked.items(), places, strict=True):
            made.append(_delete_file(
                data, location, FileFormat.PUFFIN, file.deleted, len(content), referenced_data_file=place,
                content_offset=offset, content_size_in_bytes=size,
            ))  # fmt: skip
        return made

    def positions(self, marked: Mapping[str, tuple[DataFile, Marked]]) -> list[DataFile]:
        """Writes files with the position deletes of data files, by location; returns their entries."""
        made = []
        for number, (place, (data, file)) in enumerate(marked.items()):
            rows = decoded(file.vector)
            content = position_deletes(place, rows)
            location = self._write(f"data/{self.name}-{number:05d}-deletes.parquet", content)
            made.append(_delete_file(
                data, location, FileFormat.PARQUET, file.deleted, len(content),
                lower_bounds=_bounds(place, rows[:1]), upper_bounds=_bounds(place, rows[-1:]),
            ))  # fmt: skip
        return made

    def _write(self, name: str, content: bytes) -> str:
        location = f"{self.location}/{name}"
        with self.catalog.io.new_output(location).create() as file:
            file.write(content)
        return location

    def written(
        self,
        manifests: list[ManifestFile],
        operation: Operation,
        counts: SnapshotSummaryCollector,
        before: Snapshot | None,
        schema_id: int,
        summary: Mapping[str, str],
    ) -> Snapshot:
        """Writes the manifest list; returns the snapshot."""
        place = f"{self.location}/metadata/snap-{self.number}-0-{self.name}.avro"
        parent = None if before is None else before.snapshot_id
        first_row_id = next_row_id(self.table.metadata)
        writer = ManifestListFileWriter(
            self.version, self.catalog.io.new_output(place), self.number, parent, self.sequence_number, first_row_id,
            self._compression,
        )  # fmt: skip
        writer.written(manifests)
        has_row_ids = writer.next_row_id is not None
        return Snapshot(
            snapshot_id=self.number, parent_snapshot_id=parent, manifest_list=place, sequence_number=self.sequence_number,
            timestamp_ms=self._time, schema_id=schema_id, summary=_summary(operation, counts, before, summary),
            first_row_id=first_row_id if has_row_ids else None,
            added_rows=writer.next_row_id - first_row_id if writer.next_row_id is not None else None,
        )  # type: ignore[call-arg]  # fmt: skip


def _summary(
    operation: Operation, counts: SnapshotSummaryCollector, before: Snapshot | None, summary: Mapping[str, str]
) -> Summary:
    totals = before.summary.additional_properties if before is not None and before.summary is not None else None
    known = Operation.OVERWRITE if operation is Operation.REPLACE else operation  # PyIceberg makes no compactions
    made = update_snapshot_summaries(Summary(known, **counts.build(), **summary), totals)
    return Summary(operation, **made.additional_properties)


def _delete_file(data: DataFile, location: str, kind: FileFormat, count: int, size: int, **others: object) -> DataFile:
    """Returns a new delete file for a manifest: of the partition of its data file."""
    made = DataFile.from_args(
        3, content=DataFileContent.POSITION_DELETES, file_path=location, file_format=kind, partition=data.partition,
        record_count=count, file_size_in_bytes=size, **others,
    )  # fmt: skip
    made.spec_id = data.spec_id
    return made


def _bounds(location: str, rows: RowNumbers) -> dict[int, bytes]:
    return {PATH_ID: location.encode(), POSITION_ID: struct.pack("<q", *rows)}
