"""Writes the manifests of a new snapshot, and its manifest list.

Manifests with many live files of which none is removed stay. The live files of all others go to one new manifest, together with
the added files, and the removed ones, as Iceberg requires. So a commit writes about as many entries as files change.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.typedef import Record

from changefeed.sinks.apply.files import Added
from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.layout import Metrics
from changefeed.sinks.iceberg.opened import Opened

_FULL = 25  # live files from which a manifest stays if none is removed


@dataclass(frozen=True, slots=True)
class Change:
    """The change that a commit makes.

    Attributes:
        added: the new data files.
        removed: names of the data files to remove, in the table's folder.
        replaces: whether all data files of the table are removed.
        schema: the new columns; None keeps the table's.
        restored: the snapshot whose files and columns the table gets; then the others are empty.
    """

    added: Sequence[Added] = ()
    removed: frozenset[str] = frozenset()
    replaces: bool = False
    schema: Schema | None = None
    restored: Snapshot | None = None


def manifests_of(
    snapshot: NewSnapshot, opened: Opened | None, change: Change
) -> tuple[list[ManifestFile], Operation, SnapshotSummaryCollector]:
    """Writes the new manifest of a snapshot.

    Args:
        snapshot: the new snapshot.
        opened: the table before; None if it is made.
        change: the files that are added and removed.

    Returns:
        All manifests of the snapshot, the kind of the change, and its size.
    """
    counts = SnapshotSummaryCollector()
    if opened is not None and change.restored is not None:
        for restored in opened.files(change.restored):
            counts.add_file(restored, snapshot.schema)
        for replaced in opened.files():
            counts.remove_file(replaced, snapshot.schema)
        return opened.manifests(change.restored), Operation.OVERWRITE, counts
    if opened is not None and not (change.added or change.removed or change.replaces):
        return opened.manifests(), Operation.APPEND, counts
    kept, entries = ([], []) if opened is None else _earlier(snapshot, opened, change, counts)
    has_removed = any(entry.status == ManifestEntryStatus.DELETED for entry in entries)
    for file in change.added:
        made = data_file(file, snapshot.location)
        counts.add_file(made, snapshot.schema)
        entries.append(_entry(ManifestEntryStatus.ADDED, snapshot.number, None, None, made))
    if entries:
        kept.append(snapshot.manifest(entries))
    if not has_removed:
        return kept, Operation.APPEND, counts
    return kept, Operation.OVERWRITE if change.added else Operation.DELETE, counts


def _earlier(
    snapshot: NewSnapshot, opened: Opened, change: Change, counts: SnapshotSummaryCollector
) -> tuple[list[ManifestFile], list[ManifestEntry]]:
    """Returns the manifests that stay, and the files of the others: those that stay and those that are removed."""
    kept, entries = list[ManifestFile](), list[ManifestEntry]()
    for manifest in opened.manifests():
        live = opened.entries_of.entries(opened.table, manifest)
        if manifest.content == ManifestContent.DELETES:  # of others; the files that they belong to are removed
            for entry in live:
                counts.remove_file(entry.data_file, snapshot.schema)
            continue
        removed = [change.replaces or opened.name_of(entry.data_file) in change.removed for entry in live]
        if len(live) >= _FULL and not any(removed):
            kept.append(manifest)
            continue
        for entry, is_removed in zip(live, removed, strict=True):
            status = ManifestEntryStatus.DELETED if is_removed else ManifestEntryStatus.EXISTING
            number = snapshot.number if is_removed else entry.snapshot_id
            entries.append(_entry(status, number, entry.sequence_number, entry.file_sequence_number, entry.data_file))
            if is_removed:
                counts.remove_file(entry.data_file, snapshot.schema)
    return kept, entries


def _entry(
    status: ManifestEntryStatus,
    snapshot_id: int | None,
    sequence_number: int | None,
    file_sequence_number: int | None,
    file: DataFile,
) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status, snapshot_id=snapshot_id, sequence_number=sequence_number,
        file_sequence_number=file_sequence_number, data_file=file,
    )  # fmt: skip


def data_file(file: Added, location: str) -> DataFile:
    """Returns a new data file for a manifest."""
    metrics = msgspec.json.decode(file.stats, type=Metrics)
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{location}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=file.rows,
        file_size_in_bytes=file.size,
        column_sizes=metrics.sizes,
        value_counts=metrics.counts,
        null_value_counts=metrics.nulls,
        nan_value_counts={},
        lower_bounds=_decoded(metrics.lower),
        upper_bounds=_decoded(metrics.upper),
        split_offsets=metrics.offsets,
        key_metadata=None,
        equality_ids=None,
        sort_order_id=None,
    )
    made.spec_id = UNPARTITIONED_PARTITION_SPEC.spec_id
    return made


def _decoded(bounds: Mapping[int, str]) -> dict[int, bytes]:
    return {number: base64.b64decode(text) for number, text in bounds.items()}


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """A snapshot that is being written."""

    catalog: TableCatalog
    table: Table
    schema: Schema
    number: int
    sequence_number: int
    name: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def location(self) -> str:
        """The location of the table."""
        return self.table.metadata.location

    @property
    def _compression(self) -> str:
        return self.table.metadata.properties.get(
            TableProperties.WRITE_AVRO_COMPRESSION, TableProperties.WRITE_AVRO_COMPRESSION_DEFAULT
        )

    def manifest(self, entries: Iterable[ManifestEntry]) -> ManifestFile:
        """Writes a manifest."""
        file = self.catalog.io.new_output(f"{self.location}/metadata/{self.name}-m0.avro")
        with write_manifest(
            2, UNPARTITIONED_PARTITION_SPEC, self.schema, file, self.number, self._compression  # type: ignore[arg-type]
        ) as writer:  # fmt: skip
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

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
        with write_manifest_list(
            2, self.catalog.io.new_output(place), self.number, parent, self.sequence_number, self._compression  # type: ignore[arg-type]
        ) as writer:  # fmt: skip
            writer.add_manifests(manifests)
        return Snapshot(
            snapshot_id=self.number, parent_snapshot_id=parent, manifest_list=place, sequence_number=self.sequence_number,
            schema_id=schema_id,
            summary=update_snapshot_summaries(
                Summary(operation, **counts.build(), **summary),
                before.summary.additional_properties if before is not None and before.summary is not None else None,
            ),
        )  # type: ignore[call-arg]  # fmt: skip
