"""Reads the data files of a table in pieces, and writes new ones, in the format's layout.

Columns are matched by field id if the table's columns have one, and otherwise by name: old files may lack some, or have another
order. Spark writes timestamps as INT96 without a zone, changefeed as microseconds. Checksums of pages are written, and verified
when read.

At most one row group that is being written, or one batch that is being read, is in memory.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from changefeed.errors import SinkError
from changefeed.sinks.apply.dictionaries import repeating
from changefeed.sinks.apply.layout import Floats, Layout
from changefeed.sinks.ways_out import TABLE_DAMAGED
from changefeed.storage import Folder
from changefeed.storage.local import LocalFolder

_BUFFER = 1 << 20  # bytes of a column that are read at once
_FIELD_ID = b"PARQUET:field_id"  # in the metadata of an Arrow field
_WRITTEN_AT_ONCE = 1 << 18  # bytes of a new file; Parquet writes it in small pieces
_OPEN_FILES = 100  # each has buffers
_READ_AT_ONCE = 4 * 2**20  # bytes of a file that is read in one request

Mask = npt.NDArray[np.bool_]
_Rows = TypeVar("_Rows", pa.RecordBatch, npt.NDArray[np.int64])


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of files, and limits of memory.

    Attributes:
        file_bytes: a file ends with the row group that reaches this size.
        group_bytes: a row group ends with the batch that reaches this size in memory; of all partitions, the largest.
        batch_rows: number of rows that are read, and passed to the writer, at once.
        least_marked: size in bytes from which a file gets a deletion vector instead of being rewritten.
        held_bytes: maximum size of the changes in memory, in bytes.
    """

    file_bytes: int = 128 * 2**20
    group_bytes: int = 64 * 2**20
    batch_rows: int = 1 << 16
    least_marked: int = 2**20
    held_bytes: int = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Added:
    """A new data file, which a commit will add to the table.

    Attributes:
        path: its path in the log.
        stats: see `Layout.statistics`.
        modification_time: in milliseconds since 1970.
        partition: that of its rows, see `Layout.divided`.
    """

    path: str
    size: int
    rows: int
    stats: str
    modification_time: int
    partition: str = ""


class DataFileReader:
    """Reads one data file, with the columns of the table, including rows that its deletion vector marks as deleted.

    Attributes:
        deleted: row number in the file -> whether it is deleted; None without a deletion vector.
    """

    def __init__(self, layout: Layout, file: Mapping[str, Any], schema: pa.Schema) -> None:
        """Opens a file of `Item.files`, with its `path`, its `size`, and its `vector` if it has one."""
        path, size, vector = layout.file_name(file["path"]), file["size"], file.get("vector")
        self._path, self._schema = f"{layout.folder.path}/{path}", schema
        self._layout, self._entry = layout, file
        try:
            self._source = _source(layout.folder, path, size)
            self._file = pq.ParquetFile(
                self._source, coerce_int96_timestamp_unit="us", page_checksum_verification=True,
                pre_buffer=not isinstance(layout.folder, LocalFolder), buffer_size=_BUFFER,
            )  # fmt: skip
        except (OSError, pa.ArrowInvalid) as error:
            raise self._unreadable(error) from error
        self._constants = layout.constants(file)
        names = names_in_file(self._file.schema_arrow, schema)
        self._names = {name: of for name, of in names.items() if name not in self._constants}
        self.deleted: Mask | None = None
        if vector is not None:
            marked = layout.deleted(vector)
            self.deleted = np.zeros(self._file.metadata.num_rows, np.bool_)
            if len(marked) and marked[-1] >= len(self.deleted):
                raise SinkError(
                    f"{self._path}: its deletion vector marks row {marked[-1]}, but it has {len(self.deleted)} rows. "
                    f"{TABLE_DAMAGED}"
                )
            self.deleted[marked] = True

    def pieces(
        self, size: int, rows: Mask | None = None, names: Sequence[str] | None = None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yields pieces of `size` rows, each with its first row number; skips pieces without any row of `rows`.

        Args:
            size: the number of rows of a piece; one without a column that the file has may be larger.
            rows: row number in the file -> whether the row is needed.
            names: the columns; all by default.
        """
        start = 0
        for number in range(self._file.metadata.num_row_groups):
            end = start + self._file.metadata.row_group(number).num_rows
            if rows is not None and not rows[start:end].any():
                start = end
                continue
            for batch in self.batches(size, names, [number]):
                if rows is None or rows[start : start + batch.num_rows].any():
                    yield start, self._layout.completed(batch, start, self._entry)
                start += batch.num_rows

    def live(self, rows: _Rows, start: int) -> _Rows:
        """Returns the rows that the deletion vector does not mark; `start` is the row number of the first."""
        if self.deleted is None:
            return rows
        there = ~self.deleted[start : start + len(rows)]
        return rows.filter(pa.array(there)) if isinstance(rows, pa.RecordBatch) else rows[there]

    def batches(
        self, size: int, names: Sequence[str] | None = None, groups: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows in batches of `size` rows: some or all columns, of some or all row groups."""
        wanted = [self._schema.field(name) for name in names or self._schema.names]
        present = [self._names[field.name] for field in wanted if field.name in self._names]
        try:
            if not present:  # columns that came after the file
                footer = self._file.metadata
                of = range(footer.num_row_groups) if groups is None else groups
                count = sum(footer.row_group(number).num_rows for number in of)
                yield self._conformed(pa.RecordBatch.from_arrays([], names=[]), wanted, count)
                return
            for batch in self._file.iter_batches(size, columns=present, row_groups=groups, use_threads=False):
                yield self._conformed(batch, wanted, batch.num_rows)
        except (OSError, pa.ArrowInvalid) as error:
            raise self._unreadable(error) from error

    def _conformed(self, batch: pa.RecordBatch, wanted: Sequence[pa.Field], count: int) -> pa.RecordBatch:
        """Converts rows to the table's columns and types; `count`: number of rows, if `batch` has no columns."""
        arrays = []
        for field in wanted:
            if field.name not in self._names:
                constant = self._constants.get(field.name)
                arrays.append(pa.nulls(count, field.type) if constant is None else pa.repeat(constant, count))
                continue
            column = batch.column(self._names[field.name])
            arrays.append(column if column.type == field.type else column.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(wanted)))

    def _unreadable(self, error: Exception) -> SinkError:
        return SinkError(f"{self._path}: a data file of the table cannot be read: {error}. {TABLE_DAMAGED}")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
        self._source.close()


def _source(folder: Folder, path: str, size: int) -> Any:
    """Opens a data file for Parquet; a small one in an object store is read whole, in one request.

    Raises:
        OSError: the file does not exist, or cannot be read.
        SinkError: as `Folder`.
    """
    if isinstance(folder, LocalFolder):
        return pa.OSFile(f"{folder.path}/{path}")
    if size > _READ_AT_ONCE:
        return pa.PythonFile(folder.open(path, size), mode="r")
    data = folder.read(path)
    if data is None:
        raise FileNotFoundError("the file does not exist")
    return pa.BufferReader(data)


def names_in_file(stored: pa.Schema, schema: pa.Schema) -> dict[str, str]:
    """Returns table column -> name of the file's column with its values; without columns that the file lacks.

    Args:
        stored: the columns of the file.
        schema: the columns of the table.
    """
    by_id = {number: field.name for field in stored if (number := _field_id(field)) is not None}
    if not by_id or any(_field_id(field) is None for field in schema):
        return {name: name for name in schema.names if stored.get_field_index(name) >= 0}
    return {field.name: by_id[number] for field in schema if (number := _field_id(field)) in by_id}


def _field_id(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(_FIELD_ID)


class DataFileWriter:
    """Writes rows to new data files of limited size, those of each partition to files of their own.

    The rows of all partitions that are in memory have about `Limits.group_bytes` together. So many partitions at once have
    small row groups; and where rows of more than `_OPEN_FILES` partitions take turns, small files.
    """

    def __init__(self, layout: Layout, schema: pa.Schema, limits: Limits) -> None:
        self._layout, self._schema, self._limits = layout, layout.stored(schema), limits
        self.added: list[Added] = []
        self._names = count()
        self._open: dict[str, _PartitionFile] = {}  # by partition, the one that was written last at the end

    def write_table(self, rows: pa.Table) -> None:
        """Adds rows with the columns of the table."""
        for batch in rows.to_batches(max_chunksize=self._limits.batch_rows):
            self.write(batch)

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows with the columns of the table.

        Raises:
            SinkError: the file cannot be written.
        """
        if not batch.num_rows:
            return
        for partition, rows in self._layout.divided(batch):
            file = self._open.pop(partition, None) or _PartitionFile(
                self._layout, self._schema, self._limits, partition, self._names, self.added
            )
            self._open[partition] = file
            file.add(rows)
        while sum(file.held_bytes for file in self._open.values()) >= self._limits.group_bytes:
            max(self._open.values(), key=attrgetter("held_bytes")).flush()
            begun = [file for file in self._open.values() if file.is_begun]
            if len(begun) > _OPEN_FILES:
                begun[0].end()

    def end_of_input(self) -> None:
        """Ends the current files that are large enough, so that rows of the next input file are not mixed with these."""
        for file in self._open.values():
            file.end_of_input()

    def close(self) -> list[Added]:
        """Ends the last files; returns all files."""
        while self._open:
            partition = next(iter(self._open))
            self._open[partition].end()
            del self._open[partition]
        return self.added

    def discard(self) -> None:
        """Deletes the files that have been written: the rows will be written again, to other files."""
        for file in self._open.values():
            file.discard()
        with contextlib.suppress(OSError, SinkError):
            self._layout.folder.delete(self._layout.file_name(file.path) for file in self.added)


class _PartitionFile:
    """Writes the rows of one partition to one file after the other.

    Attributes:
        held_bytes: size of the rows in memory, in bytes.
    """

    def __init__(
        self,
        layout: Layout,
        schema: pa.Schema,
        limits: Limits,
        partition: str,
        names: Iterator[int],
        added: list[Added],
    ) -> None:
        self._layout, self._schema, self._limits, self._partition = layout, schema, limits, partition
        self._names, self._added = names, added
        self.held_bytes = 0
        self._kept: list[pa.RecordBatch] = []  # of the next row group
        self._path: str | None = None  # of the file that is being written
        self._file: Any = None
        self._sink: Any = None
        self._parquet: Any = None
        self._floats: dict[str, Floats] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows to the next row group."""
        self._kept.append(batch)
        self.held_bytes += batch.nbytes

    @property
    def is_begun(self) -> bool:
        """Whether a file is open, with a part of its rows."""
        return self._path is not None

    def end_of_input(self) -> None:
        """See `DataFileWriter`."""
        if self._path is not None and self._sink.tell() + self.held_bytes // 4 >= self._limits.file_bytes // 2:
            self.end()

    def discard(self) -> None:
        """Deletes the file that is being written."""
        if self._path is not None:
            self._file.discard()
            with contextlib.suppress(Exception):  # the rest of it has nowhere to go
                self._sink.close()

    @contextlib.contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise SinkError(f"{self._layout.folder.path}: a data file cannot be written: {error}") from error

    def _begin(self, rows: list[pa.RecordBatch]) -> None:
        path = self._layout.new_path(next(self._names), self._partition)
        self._file = self._layout.folder.writer(self._layout.file_name(path))
        self._sink = pa.BufferedOutputStream(pa.PythonFile(self._file, mode="w"), _WRITTEN_AT_ONCE)
        self._path = path
        self._parquet = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=repeating(rows),
            store_schema=False,
            store_decimal_as_integer=True,
            write_page_checksum=True,
            write_statistics=_footer_columns(self._schema),
        )
        self._parquet.add_key_value_metadata(dict(self._layout.footer))
        self._floats = {f.name: Floats() for f in self._schema if pa.types.is_floating(f.type)}

    def flush(self) -> None:
        """Writes the rows in memory as a row group; ends the file if it is large enough."""
        if not self._kept:
            return
        batches, rows = self._kept, self._layout.ordered(pa.Table.from_batches(self._kept, self._schema))
        self._kept, self.held_bytes = [], 0
        with self._writable():
            if self._path is None:
                self._begin(batches)
            self._parquet.write_table(rows, row_group_size=len(rows))
        for name, floats in self._floats.items():
            floats.add(rows.column(name))
        if self._sink.tell() >= self._limits.file_bytes:
            self.end()

    def end(self) -> None:
        """Writes the rows in memory, and ends the file."""
        self.flush()
        if self._path is None:
            return
        with self._writable():
            self._parquet.close()
            size = self._sink.tell()
            self._sink.close()
        footer = self._parquet.writer.metadata
        stats = self._layout.statistics(footer, self._schema, self._floats, self._partition)
        self._added.append(Added(self._path, size, footer.num_rows, stats, int(time.time() * 1000), self._partition))
        self._path = None


def _footer_columns(schema: pa.Schema) -> list[str]:
    """Returns the columns whose bounds can be taken from a Parquet file's footer."""
    return [f.name for f in schema if not pa.types.is_floating(f.type) and not pa.types.is_nested(f.type)]
