"""Reads and writes manifests and manifest lists of format versions 2 and 3: data files and delete files.

In memory, entries have the fields of version 3, whatever the version of their file. PyIceberg 0.12 reads the fields of version
2, and writes version 2 without delete files: these classes add the rest.

Row ids (version 3). The rows of a data file have the ids `first_row_id`, `first_row_id + 1`, … A new file has none in its
manifest, a new manifest none in its list until the list is written:

    snapshot         `first-row-id` is the table's `next-row-id`; `added-rows` is what the list gives out
    manifest list    each data manifest without `first_row_id` gets the next number, and takes one for each of its live rows
    manifest         each added data file without `first_row_id` gets the next number of its manifest, in order

An entry that is copied to another manifest keeps the number that it was given.

Source:
    https://iceberg.apache.org/spec/#row-lineage, "First Row ID Inheritance"
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriterV2,
    ManifestWriterV2,
    PartitionFieldSummary,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import StructType

from changefeed.sinks.iceberg.avro_files import BlockFile, CompiledSchema, RowFile, RowKind

FormatVersion = Literal[2, 3]

_FULL: Literal[3] = 3  # the version whose fields entries have in memory
# Places of fields in PyIceberg's records, which have no names for them.
_MANIFEST_FIRST_ROW_ID = 15
_FIRST_ROW_ID, _REFERENCED, _OFFSET, _SIZE = 16, 17, 18, 19


_MANIFESTS = RowKind(
    MANIFEST_LIST_FILE_SCHEMAS[_FULL], {-1: ManifestFile, 508: PartitionFieldSummary}, {517: ManifestContent}
)
_ENTRIES = RowKind(
    MANIFEST_ENTRY_SCHEMAS[_FULL], {-1: ManifestEntry, 2: DataFile},
    {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
)  # fmt: skip


@lru_cache(maxsize=2)
def _manifest_schema(version: FormatVersion) -> CompiledSchema:
    """Compiles the schema of manifest lists."""
    schemas = MANIFEST_LIST_FILE_SCHEMAS
    return CompiledSchema.of(schemas[version], schemas[_FULL], "manifest_file")


@lru_cache(maxsize=256)
def _entry_schema(version: FormatVersion, partition: StructType) -> CompiledSchema:
    """Compiles the schema of manifests of data files with these partitions."""
    stored, rows = (
        manifest_entry_schema_with_data_file(
            format_version=fields, data_file=data_file_with_partition(partition, format_version=fields)
        )
        for fields in (version, _FULL)
    )
    return CompiledSchema.of(stored, rows, "manifest_entry")


def first_row_id(file: DataFile) -> int | None:
    """Returns the id of a data file's first row; None if it has none yet, or the table has no row ids."""
    number: int | None = file[_FIRST_ROW_ID]
    return number


def referenced_data_file(file: DataFile) -> str | None:
    """Returns the location of the data file to which all deletes of a delete file belong, if the manifest has it."""
    location: str | None = file[_REFERENCED]
    return location


def content_range(file: DataFile) -> tuple[int, int]:
    """Returns offset and size of a deletion vector in its file, in bytes."""
    return int(file[_OFFSET]), int(file[_SIZE])


def read_list(io: FileIO, location: str) -> list[ManifestFile]:
    """Returns the manifests of a manifest list."""
    with RowFile[ManifestFile](io.new_input(location), _MANIFESTS) as rows:
        return list(rows)


def read_manifest(io: FileIO, manifest: ManifestFile) -> tuple[ManifestEntry, ...]:
    """Returns the live entries of a manifest, with what they inherit from it."""
    with RowFile[ManifestEntry](io.new_input(manifest.manifest_path), _ENTRIES) as rows:
        entries = list(rows)
    next_row_id: int | None = manifest[_MANIFEST_FIRST_ROW_ID]
    for entry in entries:
        is_added, file = entry.status == ManifestEntryStatus.ADDED, entry.data_file
        if entry.snapshot_id is None:
            entry.snapshot_id = manifest.added_snapshot_id  # type: ignore[assignment]
        if is_added or manifest.sequence_number == 0:
            if entry.sequence_number is None:
                entry.sequence_number = manifest.sequence_number
            if entry.file_sequence_number is None:
                entry.file_sequence_number = manifest.sequence_number
        file.spec_id = manifest.partition_spec_id
        is_live_data = entry.status != ManifestEntryStatus.DELETED and file.content == DataFileContent.DATA
        if next_row_id is not None and is_live_data and file[_FIRST_ROW_ID] is None:
            file[_FIRST_ROW_ID] = next_row_id
            next_row_id += file.record_count
    return tuple(entry for entry in entries if entry.status != ManifestEntryStatus.DELETED)


class ManifestFileWriter(ManifestWriterV2):
    """Writes a manifest of data files or of delete files."""

    def __init__(
        self,
        version: FormatVersion,
        content: ManifestContent,
        spec: PartitionSpec,
        schema: Schema,
        file: OutputFile,
        snapshot_id: int,
        compression: str,
    ) -> None:
        super().__init__(spec, schema, file, snapshot_id, compression)  # type: ignore[arg-type]
        self._version: FormatVersion = version
        self._content = content

    @property
    def version(self) -> FormatVersion:
        """The format version of the table."""
        return self._version

    def content(self) -> ManifestContent:
        """Whether the manifest has data files or delete files."""
        return self._content

    @property
    def _meta(self) -> dict[str, str]:
        content = "deletes" if self._content == ManifestContent.DELETES else "data"
        return {**super()._meta, "content": content}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        """Opens the file."""
        schema = _entry_schema(self._version, self._spec.partition_type(self._schema))
        return BlockFile[ManifestEntry](self._output_file, schema, self._meta)

    def written(self, entries: Iterable[ManifestEntry]) -> ManifestFile:
        """Writes the entries; returns the manifest for the list."""
        with self:
            for entry in entries:
                self.add_entry(entry)
        made = self.to_manifest_file()
        return ManifestFile(*(made[place] for place in range(len(made))), None)


class ManifestListFileWriter(ManifestListWriterV2):
    """Writes a manifest list.

    Attributes:
        next_row_id: the row id after those that the list has given out; None in version 2.
    """

    def __init__(
        self,
        version: FormatVersion,
        file: OutputFile,
        snapshot_id: int,
        parent_id: int | None,
        sequence_number: int,
        next_row_id: int | None,
        compression: str,
    ) -> None:
        super().__init__(file, snapshot_id, parent_id, sequence_number, compression)  # type: ignore[arg-type]
        self._format_version = version
        self.next_row_id = next_row_id if version == _FULL else None
        self._meta["format-version"] = str(version)
        if self.next_row_id is not None:
            self._meta["first-row-id"] = str(self.next_row_id)

    def __enter__(self) -> ManifestListFileWriter:
        """Opens the file."""
        schema = _manifest_schema(self._format_version)
        self._writer = BlockFile[ManifestFile](self._output_file, schema, self._meta)
        self._writer.__enter__()
        return self

    def prepare_manifest(self, manifest_file: ManifestFile) -> ManifestFile:
        """Gives a manifest its sequence number, and the id of its first row."""
        prepared = super().prepare_manifest(manifest_file)
        if self.next_row_id is None or prepared.content != ManifestContent.DATA:
            return prepared
        if prepared[_MANIFEST_FIRST_ROW_ID] is None:
            prepared = ManifestFile(*(prepared[place] for place in range(len(prepared))))
            prepared[_MANIFEST_FIRST_ROW_ID] = self.next_row_id
            self.next_row_id += (prepared.added_rows_count or 0) + (prepared.existing_rows_count or 0)
        return prepared

    def written(self, manifests: Sequence[ManifestFile]) -> None:
        """Writes the list."""
        with self:
            self.add_manifests(list(manifests))
