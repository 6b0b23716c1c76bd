"""Finds the delete files of each data file of a snapshot, by its manifests.

Rule 1. A deletion vector belongs to the data file that its entry names; then position deletes of this file do not count.
Rule 2. Position deletes belong to the data file that the bounds of `file_path` name, if they are equal; otherwise to all data
files of the same partition and spec that were committed before them, or with them.
Rule 3. A file of position deletes that names one data file, and a deletion vector, are removed with the data file, and replaced
when more of its rows are deleted. Those for several data files stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry

from changefeed.sinks.iceberg.delete_files import PATH_ID, Deletes, VectorPlace
from changefeed.sinks.iceberg.file_io import name_below
from changefeed.sinks.iceberg.manifest_files import content_range, referenced_data_file


@dataclass(frozen=True, slots=True)
class DeleteIndex:
    """The delete files of a snapshot.

    Attributes:
        root: location of the table.
        vectors: location of a data file -> the entry of its deletion vector.
        of_files: location of a data file -> entries of position deletes that name it alone.
        of_partitions: spec and values of a partition -> entries of other position deletes.
    """

    root: str
    vectors: dict[str, ManifestEntry]
    of_files: dict[str, list[ManifestEntry]]
    of_partitions: dict[tuple[Any, ...], list[ManifestEntry]]

    @classmethod
    def of(cls, entries: Iterable[ManifestEntry], root: str) -> DeleteIndex:
        """Creates the index of the entries of delete files."""
        made = cls(root, {}, defaultdict(list), defaultdict(list))
        for entry in entries:
            location = data_file_of(entry.data_file)
            if entry.data_file.file_format == FileFormat.PUFFIN and location is not None:
                made.vectors[location] = entry
            elif location is not None:
                made.of_files[location].append(entry)
            else:
                made.of_partitions[partition_of(entry.data_file)].append(entry)
        return made

    def deletes_of(self, entry: ManifestEntry) -> Deletes | None:
        """Returns the deletes of a data file; None if there are none."""
        file = entry.data_file
        if (vector := self.vectors.get(file.file_path)) is not None and _is_after(vector, entry):
            offset, size = content_range(vector.data_file)
            name = name_below(self.root, vector.data_file.file_path)
            return Deletes(file.file_path, VectorPlace(name, offset, size, vector.data_file.record_count))
        entries = [*self.of_files.get(file.file_path, ()), *self.of_partitions.get(partition_of(file), ())]
        names = [name_below(self.root, one.data_file.file_path) for one in entries if _is_after(one, entry)]
        return Deletes(file.file_path, positions=tuple(names)) if names else None

    def count_of(self, entry: ManifestEntry) -> int:
        """Returns the number of a data file's rows that deletes of this file alone mark, for compaction."""
        location = entry.data_file.file_path
        if (vector := self.vectors.get(location)) is not None:
            return int(vector.data_file.record_count)
        return sum(one.data_file.record_count for one in self.of_files.get(location, ()))


def data_file_of(deletes: DataFile) -> str | None:
    """Returns the location of the data file to which all deletes of a file belong; None if there may be several."""
    if (location := referenced_data_file(deletes)) is not None:
        return location
    low, high = ((bounds or {}).get(PATH_ID) for bounds in (deletes.lower_bounds, deletes.upper_bounds))
    return low.decode() if low is not None and low == high else None


def refusal(deletes: DataFile) -> str | None:
    """Returns why changefeed cannot read a delete file; None if it can."""
    if deletes.content == DataFileContent.EQUALITY_DELETES:
        return "equality deletes"
    if deletes.file_format not in (FileFormat.PARQUET, FileFormat.PUFFIN):
        return f"delete files in {deletes.file_format.value}"
    return None


def partition_of(file: DataFile) -> tuple[Any, ...]:
    """Returns spec and values of the partition of a file."""
    return file.spec_id, *(file.partition[place] for place in range(len(file.partition)))


def _is_after(deletes: ManifestEntry, data: ManifestEntry) -> bool:
    """Whether deletes were committed after a data file, or with it."""
    return (deletes.sequence_number or 0) >= (data.sequence_number or 0)
