"""Files of chunks: each task that decodes writes its chunks to one Parquet file.

    worker   writes folder/_<random>.parquet, and returns a row: the file's name, size and MD5, and its index
    driver   renames it to folder/part-00000.parquet when all tasks have ended

The index has all chunks of the file, with the payloads that planning reads.

Rule 1. A task that is repeated writes another file. The driver renames only the files that tasks have returned, and Spark does
        not read the others.
Rule 2. Every task writes a file, even if it has no chunks.
Rule 3. A row group has chunks of one table, if these have a megabyte of payloads: a task that writes a table reads few others. Of
        a large table it has few chunks, because to read one chunk is to read its whole row group.
Rule 4. If no cuts are made, planning needs the lines of snapshots and of rows without a key alone: the index has no others.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changefeed.errors import SinkError
from changefeed.frames.chunks import CHUNKS, lines_without_key, snapshot_lines, stream
from changefeed.frames.mapped import Work
from changefeed.storage import FileWriter, Folder
from changefeed.storage.local import LocalFolder

FILES_DDL = "name string, size bigint, md5 string, index binary"
NOT_PLANNED_BY = ("rows", "dead", "waiting")  # kinds of chunks whose payloads planning does not read
_TOGETHER = 32 * 2**20  # bytes of the chunks that are sorted by table
_GROUP, _FULL = 2**20, 2 * 2**20  # bytes of a row group that ends with a table, and of one that ends inside of a table
_FEW = 64  # chunks of a row group that are written one by one
_WRITTEN_AT_ONCE = 2**18  # bytes
_KEPT = 64 * 2**20  # bytes of row groups that a reader keeps
_PLAIN = [name for name in CHUNKS.names if name != "payload"]


def write_files(folder: Folder, *, cuts: bool) -> Work:
    """Returns the function that workers run: it writes chunks to a file, and yields one row with the columns of `FILES_DDL`.

    Args:
        folder: the folder of the files.
        cuts: whether cuts are made from the lines of `transactions` chunks.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name, index = f"_{uuid.uuid4().hex}.parquet", list[pa.RecordBatch]()
        with folder.writer(name) as file:
            hashed = _Hashed(file)
            out = pa.BufferedOutputStream(pa.PythonFile(hashed, mode="w"), _WRITTEN_AT_ONCE)
            with out, pq.ParquetWriter(
                out, CHUNKS, compression="lz4", use_dictionary=_PLAIN, write_statistics=_PLAIN,
                write_page_checksum=True, store_schema=False,
            ) as writer:  # fmt: skip
                for chunks in _together(batches):
                    index.extend(_indexed(chunks, cuts=cuts).to_batches())
                    for group in _groups(chunks):
                        writer.write_table(group)
        yield pa.RecordBatch.from_pydict(
            {
                "name": [name],
                "size": pa.array([hashed.size], pa.int64()),
                "md5": [hashed.md5.hexdigest()],
                "index": pa.array([stream(index, CHUNKS)], pa.binary()),
            }
        )

    return run


def rename(folder: Folder, names: Sequence[str]) -> list[str] | None:
    """Renames the files of a folder to the names under which they are read, and returns these; None if a file is missing."""
    parts = [f"part-{number:05d}.parquet" for number in range(len(names))]
    moved = folder.move_all(dict(zip(names, parts, strict=True)))
    return parts if moved else None


def part_sizes(store: Folder, folder: str) -> dict[str, int]:
    """Returns the files of a folder of chunks, by their names in the store, with their sizes in bytes."""
    return {f"{folder}/{info.name}": info.size for info in store.files(folder) if info.name.startswith("part-")}


class StoredChunks:
    """Chunks in files of this module or of Spark: found by their plain columns, payloads are read when they are asked for.

    Payloads are read by row groups, of which the last ones are kept: chunks should be asked for in the order of their files.
    """

    def __init__(self, folder: Folder, most: int = _KEPT) -> None:
        """`folder`: the folder of the folders of files; `most`: bytes of payloads that are kept."""
        self._folder, self._most, self._size = folder, most, 0
        self._sources: dict[str, BinaryIO] = {}  # in an object store
        self._footers: dict[str, pq.FileMetaData] = {}
        self._groups: OrderedDict[tuple[str, int], pa.ChunkedArray] = OrderedDict()

    def find(
        self, file: str, columns: Sequence[str], wanted: Callable[[pa.Table], Any], size: int | None = None
    ) -> Iterator[pa.Table]:
        """Finds chunks of a file; yields those of one row group at a time.

        Args:
            file: name of a Parquet file with the columns of `frames.chunks`.
            columns: the plain columns to read; the result also has the arguments of `payload`: `file`, `group` and `row`.
            wanted: returns a mask of the chunks to find.
            size: of the file, if it is known: saves a request.

        Raises:
            SinkError: the file cannot be read, or is damaged.
        """
        with self._open(file, size) as parquet:
            for number in range(parquet.num_row_groups):
                plain = parquet.read_row_group(number, columns=list(columns), use_threads=False)
                rows = pc.indices_nonzero(wanted(plain))
                if len(rows):
                    chunks = plain.take(rows).append_column("row", rows)
                    chunks = chunks.append_column("group", pa.repeat(pa.scalar(number, pa.int32()), len(rows)))
                    yield chunks.append_column("file", pa.repeat(file, len(rows)))

    def payload(self, file: str, group: int, row: int) -> bytes:
        """Reads the payload of a chunk.

        Raises:
            SinkError: the file cannot be read, or is damaged.
        """
        payloads = self._groups.get((file, group))
        if payloads is None:
            with self._open(file) as parquet:
                payloads = parquet.read_row_group(group, columns=["payload"], use_threads=False).column(0)
            self._groups[file, group] = payloads
            self._size += payloads.nbytes
            while self._size > self._most and len(self._groups) > 1:
                self._size -= self._groups.popitem(last=False)[1].nbytes
        else:
            self._groups.move_to_end((file, group))
        read: bytes = payloads[row].as_py()
        return read

    @contextmanager
    def _open(self, file: str, size: int | None = None) -> Iterator[pq.ParquetFile]:
        try:
            with pq.ParquetFile(
                self._source(file, size), metadata=self._footers.get(file), page_checksum_verification=True,
                pre_buffer=not isinstance(self._folder, LocalFolder),
            ) as parquet:  # fmt: skip
                self._footers[file] = parquet.metadata
                yield parquet
        except (OSError, pa.ArrowException) as error:
            raise SinkError(f"pending changes cannot be read: {error}") from error

    def _source(self, file: str, size: int | None) -> Any:
        if isinstance(self._folder, LocalFolder):
            return f"{self._folder.path}/{file}"
        if file not in self._sources:
            self._sources[file] = self._folder.open(file, size)
        return pa.PythonFile(self._sources[file], mode="r")


def unpacked(index: bytes) -> list[dict[str, Any]]:
    """Returns the chunks in the index of a file."""
    with pa.ipc.open_stream(pa.py_buffer(index)) as reader:
        return list(reader.read_all().to_pylist())


class _Hashed:
    """A file that is written sequentially; counts its bytes and computes their MD5."""

    closed = False

    def __init__(self, file: FileWriter) -> None:
        self._file, self.size = file, 0
        self.md5 = hashlib.md5(usedforsecurity=False)

    def write(self, data: Any) -> int:
        """Writes bytes; returns their number."""
        self.md5.update(data)
        self._file.write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        """The number of bytes that were written."""
        return self.size

    def flush(self) -> None:
        """Writes what is buffered."""
        self._file.flush()

    def close(self) -> None:
        """Leaves the file to its owner."""


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    kept, size = list[pa.RecordBatch](), 0
    for batch in batches:
        kept.append(batch)
        size += batch.nbytes
        if size >= _TOGETHER:
            yield pa.Table.from_batches(kept, CHUNKS)
            kept, size = [], 0
    if kept:
        yield pa.Table.from_batches(kept, CHUNKS)


def _groups(chunks: pa.Table) -> Iterator[pa.Table]:
    """Divides chunks into row groups, sorted by table; see rule 3."""
    named = [chunks.column(name).to_pylist() for name in ("kind", "database", "table")]
    names = [(kind, database or "", table or "") for kind, database, table in zip(*named, strict=True)]
    sizes = pc.fill_null(pc.binary_length(chunks.column("payload")), 0).to_pylist()
    group, size = list[int](), 0
    for _, rows in groupby(sorted(range(len(names)), key=names.__getitem__), names.__getitem__):
        for row in rows:
            group.append(row)
            size += sizes[row]
            if size >= _FULL:
                yield _taken(chunks, group)
                group, size = [], 0
        if size >= _GROUP:
            yield _taken(chunks, group)
            group, size = [], 0
    if group:
        yield _taken(chunks, group)


def _taken(chunks: pa.Table, rows: list[int]) -> pa.Table:
    """Returns some rows of a table; a few rows with large payloads are not copied."""
    if len(rows) > _FEW:
        return chunks.take(rows)
    starts = [i for i, row in enumerate(rows) if i == 0 or row != rows[i - 1] + 1]
    return pa.concat_tables(chunks.slice(rows[a], b - a) for a, b in pairwise([*starts, len(rows)]))


def _indexed(group: pa.Table, *, cuts: bool) -> pa.Table:
    payloads = [
        None if kind in NOT_PLANNED_BY
        else snapshot_lines(payload.as_py()) if kind == "transactions" and not cuts
        else lines_without_key(payload.as_py()) if kind in ("places", "sent") and not cuts
        else payload.as_py()
        for kind, payload in zip(group.column("kind").to_pylist(), group.column("payload"), strict=True)
    ]  # fmt: skip
    return group.set_column(group.column_names.index("payload"), "payload", pa.array(payloads, pa.binary()))
