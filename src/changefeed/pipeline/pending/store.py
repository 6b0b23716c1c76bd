"""The pending store: decoded changes on disk, until a barrier covers them.

Every batch is decoded into one folder of Parquet files below `_changefeed/pending/` before anything else happens, so a
step can be repeated without the source, and a transaction of any size waits on disk, not in memory. On local disks and in object
stores the workers that decode write the files (`frames.chunk_files`), on other file systems Spark does.

Rule 1. A folder is written once, by one run; its name begins with that run's epoch. The ledger names the valid folders.
Rule 2. The checksum of a folder is computed when it is written, and is stored in state and plan. It is compared before the folder
is read: missing or damaged files are not taken for missing changes.
Rule 3. A run deletes folders of its own epoch and of earlier ones, which are fenced; never one of a newer run.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import SinkError
from changefeed.frames.chunk_files import (
    FILES_DDL,
    NOT_PLANNED_BY,
    StoredChunks,
    part_sizes,
    rename,
    unpacked,
    write_files,
)
from changefeed.frames.chunks import CHUNKS, CHUNKS_DDL
from changefeed.frames.mapped import Mapped, as_frame
from changefeed.model.definition import Table
from changefeed.pipeline.pending.changes import RowOptions, SparkChanges
from changefeed.pipeline.pending.chunk_info import ChunkInfo, chunk_info
from changefeed.pipeline.pending.counting import Across, across_here, across_in_spark
from changefeed.pipeline.planning.actions import Plan, Selection
from changefeed.pipeline.state import FolderSum
from changefeed.sinks.ways_out import FILES_DAMAGED
from changefeed.spark_runtime.files import file_system, is_local
from changefeed.spark_runtime.java_errors import first_line
from changefeed.spark_runtime.session import compiled
from changefeed.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

# Payloads are large and all different: to look for equal ones costs as much as to write them.
_PARQUET = {"compression": "zstd", "parquet.enable.dictionary#payload": "false"}
_HERE_BYTES = 256 * 2**20  # of files in which the driver counts rows rather than a Spark job
_PIECE = 16 * 2**20  # bytes that are read at once
_PLAIN_COLUMNS = [name for name in CHUNKS.names if name != "payload"]
_PLAIN = (
    "kind", "database", "table", "shape", "rows", "min_commit_ts", "max_commit_ts", "topic", "partition", "first_offset",
    "last_offset",
)  # fmt: skip


def _always(chunk: Mapping[str, Any]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class PendingStore:
    """The folder of a pipeline's pending changes.

    Attributes:
        cuts: whether cuts are made; otherwise fewer lines of transactions are read.
        folder: the folder at `path`; None if only Spark can reach it.
    """

    spark: SparkSession
    path: str
    cuts: bool = True
    folder: Folder | None = None
    _indexes: dict[str, list[ChunkInfo]] = field(default_factory=dict)
    _by_table: dict[str, defaultdict[str, list[ChunkInfo]]] = field(default_factory=dict)
    _staged: set[str] = field(default_factory=set)  # by this run, summed just now

    @property
    def _in_store(self) -> Folder | None:
        """The folder, if it is in an object store, where Spark has no file system."""
        return None if is_local(self.path) else self.folder

    def stage(self, chunks: DataFrame | Mapped, epoch: int) -> tuple[str, FolderSum]:
        """Decodes a batch into a new folder; returns the folder's name and checksum."""
        folder = f"{epoch:06d}-{uuid.uuid4().hex}"
        if self.folder is not None and (isinstance(chunks, Mapped) or not is_local(self.path)):
            return folder, self._write_in_workers(self.folder, folder, chunks)
        frame = as_frame(chunks, CHUNKS_DDL)
        with compiled(frame.sparkSession):
            frame.write.mode("errorifexists").options(**_PARQUET).parquet(f"{self.path}/{folder}")
        self._staged.add(folder)
        total = self.sum(folder)
        if not total.files:  # Spark writes one at least, for no chunk too
            raise self._not_shared(folder)
        return folder, total

    def _write_in_workers(self, root: Folder, folder: str, chunks: DataFrame | Mapped) -> FolderSum:
        """Writes a folder by the tasks that make the chunks; the index comes with what they return."""
        if is_local(self.path):
            os.makedirs(f"{self.path}/{folder}")  # a task must not make it where it is not shared
        place = root.subfolder(folder)
        work = write_files(place, cuts=self.cuts)
        frame = chunks.then(work).frame(FILES_DDL) if isinstance(chunks, Mapped) else chunks.mapInArrow(work, FILES_DDL)
        files = frame.collect()
        names = rename(place, [file["name"] for file in files])
        if names is None:
            raise self._not_shared(folder)
        self._indexes[folder] = [chunk_info(folder, chunk) for file in files for chunk in unpacked(file["index"])]
        return _total((name, file["size"], file["md5"]) for name, file in zip(names, files, strict=True))

    def _not_shared(self, folder: str) -> SinkError:
        return SinkError(
            f"{self.path}/{folder} is empty after Spark's workers wrote to it: is it the same folder on all machines?"
        )

    def sum(self, folder: str) -> FolderSum:
        """Computes the checksum of a folder, file by file."""
        if self._in_store is not None:
            sizes = part_sizes(self._in_store, folder)
            return _total(
                (name.rpartition("/")[2], size, _md5(self._in_store, name, size)) for name, size in sizes.items()
            )
        jvm: Any = self.spark._jvm
        root, files = file_system(self.spark, f"{self.path}/{folder}")
        statuses = (
            [s for s in files.listStatus(root) if s.getPath().getName().startswith("part-")]
            if files.exists(root)
            else []
        )
        parts = []
        for status in statuses:
            stream = files.open(status.getPath())
            try:
                md5 = jvm.org.apache.hadoop.io.MD5Hash.digest(stream).toString()
            finally:
                stream.close()
            parts.append((str(status.getPath().getName()), int(status.getLen()), str(md5)))
        return _total(parts)

    def check(self, folders: Iterable[str], sums: Mapping[str, FolderSum]) -> None:
        """Compares folders with their checksums.

        Raises:
            SinkError: files are missing or changed.
        """
        from py4j.protocol import Py4JJavaError

        for folder in folders:
            expected = sums[folder]
            try:
                now = self.sum(folder)
            except Py4JJavaError as error:
                raise self._damaged(folder, first_line(error)) from error
            except SinkError as error:
                raise error if error.transient else self._damaged(folder, str(error)) from error
            if now != expected:
                raise self._damaged(
                    folder,
                    f"it has {now.files} files of {now.bytes:,} bytes, {expected.files} of {expected.bytes:,} bytes were written"
                    if (now.files, now.bytes) != (expected.files, expected.bytes)
                    else "the contents of its files have changed",
                )

    def _damaged(self, folder: str, why: str) -> SinkError:
        return SinkError(f"{self.path}/{folder}: pending changes are damaged: {why}. {FILES_DAMAGED}")

    def index(self, folders: Iterable[str], sums: Mapping[str, FolderSum]) -> list[ChunkInfo]:
        """Returns the chunks of the folders, without the payloads of rows and dead letters.

        A folder is compared with its checksum when it is read for the first time.

        Raises:
            SinkError: files are missing or changed.
        """
        infos: list[ChunkInfo] = []
        for folder in folders:
            if folder not in self._indexes:
                self.check([folder] if folder not in self._staged else [], sums)
                self._indexes[folder] = [chunk_info(folder, row) for row in self._rows(folder)]
            infos.extend(self._indexes[folder])
        return infos

    def index_of(self, folders: Iterable[str], sums: Mapping[str, FolderSum], name: str) -> list[ChunkInfo]:
        """Returns those chunks of the folders that have rows of one table; raises as `index`."""
        infos: list[ChunkInfo] = []
        for folder in folders:
            by_table = self._by_table.get(folder)
            if by_table is None:
                by_table = self._by_table[folder] = defaultdict(list)
                for chunk in self.index([folder], sums):
                    if chunk.kind == "rows":
                        by_table[chunk.name].append(chunk)
            infos.extend(by_table.get(name, ()))
        return infos

    def _rows(self, folder: str) -> Iterator[Row | dict[str, Any]]:
        """Reads the plain columns of a folder's chunks, and the payloads of the kinds of chunks that planning needs."""
        if self._in_store is not None:
            yield from self._read_chunks([folder], payloads=lambda row: row["kind"] not in NOT_PLANNED_BY)
            return
        chunks_read = self.read([folder])
        plain = chunks_read.select(*_PLAIN).collect()
        yield from (row for row in plain if row["kind"] in NOT_PLANNED_BY)
        if any(row["kind"] not in NOT_PLANNED_BY for row in plain):
            yield from (
                chunks_read.where(~chunks_read["kind"].isin(*NOT_PLANNED_BY)).select(*_PLAIN, "payload").collect()
            )

    def read(self, folders: Iterable[str], spark: SparkSession | None = None) -> DataFrame:
        """Returns a DataFrame of the folders' chunks, in the store's session or another one.

        In an object store, of the chunks with incomplete fragments alone: tasks read the others.
        """
        if self._in_store is not None:
            rows = list(self._read_chunks(folders, kind="waiting"))
            table = pa.Table.from_pylist([{name: row.get(name) for name in CHUNKS.names} for row in rows], CHUNKS)
            return (spark or self.spark).createDataFrame(table)
        return (spark or self.spark).read.schema(CHUNKS_DDL).parquet(*[f"{self.path}/{folder}" for folder in folders])

    def _read_chunks(
        self, folders: Iterable[str], *, kind: str | None = None, payloads: Callable[[dict[str, Any]], bool] = _always
    ) -> Iterator[dict[str, Any]]:
        """Reads chunks of a kind or of all without Spark, with the payloads of those for which `payloads` is true."""
        assert self.folder is not None
        stored = StoredChunks(self.folder)

        def is_of_kind(chunks: pa.Table) -> Any:
            kinds = chunks.column("kind")
            return pc.is_valid(kinds) if kind is None else pc.equal(kinds, kind)

        for file, size in (part for folder in folders for part in part_sizes(self.folder, folder).items()):
            for chunks in stored.find(file, _PLAIN_COLUMNS, is_of_kind, size):
                for row in chunks.to_pylist():
                    if payloads(row):
                        row["payload"] = stored.payload(file, row["group"], row["row"])
                    yield row

    def changes(self, plan: Plan, selection: Selection, table: Table, options: RowOptions) -> SparkChanges:
        """Returns the changes that a write of a plan applies to a table."""
        return SparkChanges.of(self, plan, selection, table, options)

    def table(
        self, spark: SparkSession, folders: Iterable[str], name: tuple[str, str], after: int | None, upto: int | None
    ) -> DataFrame:
        """Returns a DataFrame of the `rows` chunks of one table that may have changes in (after, upto]."""
        from pyspark.sql import functions as F

        chunks_read = self.read(folders, spark).where(
            (F.col("kind") == "rows") & (F.col("database") == name[0]) & (F.col("table") == name[1])
        )
        if after is not None:
            chunks_read = chunks_read.where(F.col("max_commit_ts") > after)
        return chunks_read if upto is None else chunks_read.where(F.col("min_commit_ts") <= upto)

    def across(self, windows: Across) -> Counter[str]:
        """Counts rows of chunks that span a bound, see `counting.py`."""
        if self.folder is None:
            return across_in_spark(self, windows)
        folders = sorted({rows[0] for rows in windows})
        sizes = {name: size for folder in folders for name, size in part_sizes(self.folder, folder).items()}
        if is_local(self.path) and sum(sizes.values()) > _HERE_BYTES:
            return across_in_spark(self, windows)
        return across_here(self.folder, sizes, windows)

    def waiting(self, folder: str) -> DataFrame:
        """Returns the chunks with the incomplete fragments of a folder."""
        return self.read([folder]).where("kind = 'waiting'")

    def dead(self, folder: str) -> Iterator[dict[str, Any]]:
        """Returns the chunks with the dead letters of a folder, one after the other."""
        if self.folder is not None:
            return self._read_chunks([folder], kind="dead")
        rows = self.read([folder]).where("kind = 'dead'").toLocalIterator()
        return (row.asDict() for row in rows)

    def delete_all_but(self, folders: Iterable[str], epoch: int) -> None:
        """Deletes every folder that is not in `folders` and does not belong to a newer epoch."""
        keep = set(folders)
        for folder in set(self._indexes) - keep:
            del self._indexes[folder]
            self._by_table.pop(folder, None)
        if self.folder is not None:
            for name in self.folder.folders():
                number = name.partition("-")[0]
                if name not in keep and number.isdigit() and int(number) <= epoch:
                    self.folder.delete_folder(name)
            return
        root, files = file_system(self.spark, self.path)
        if files.exists(root):
            for status in files.listStatus(root):
                name = str(status.getPath().getName())
                number = name.partition("-")[0]
                if name not in keep and number.isdigit() and int(number) <= epoch:
                    files.delete(status.getPath(), True)


def _md5(store: Folder, name: str, size: int) -> str:
    md5 = hashlib.md5(usedforsecurity=False)
    for start in range(0, size, _PIECE):
        md5.update(store.read_range(name, start, min(_PIECE, size - start)))
    return md5.hexdigest()


def _total(files: Iterable[tuple[str, int, str]]) -> FolderSum:
    """The checksum of a folder from name, size and MD5 of its files."""
    parts = sorted(files)
    text = "\n".join(f"{name} {size} {md5}" for name, size, md5 in parts)
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return FolderSum(len(parts), sum(size for _, size, _ in parts), digest)
