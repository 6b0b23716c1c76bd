"""The pending store: decoded changes on disk until a barrier covers them.

Every batch is decoded into one folder of Parquet files below `_changefeed/pending/` before anything else happens, so a
step can be repeated without the source, and a transaction of any size waits on disk, not in memory. Folders are written
once and never changed; the ledger names those that count. A folder nobody names was left by a killed run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.frames.chunks import CHUNKS_DDL, unpack_records
from changefeed.frames.payloads import schema_from_dict
from changefeed.model.event import SchemaChange
from changefeed.spark.files import file_system
from changefeed.spark.session import compiled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class ChunkInfo:
    """A chunk without its payload: what planning needs.

    Attributes:
        event: of a schema change.
        transactions: of a `transactions` chunk: its columns are drawn in `frames.chunks`.
        mark: the upstream's own name for the point of a `resolved` chunk.
    """

    folder: str
    kind: str
    database: str | None
    table: str | None
    shape: str | None
    rows: int
    min_ts: int | None
    max_ts: int | None
    topic: str
    partition: int
    first: int
    last: int
    event: SchemaChange | None = None
    transactions: pa.RecordBatch | None = None
    mark: str | None = None

    @property
    def name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class PendingStore:
    """The folder of a pipeline's pending changes."""

    spark: SparkSession
    path: str
    _indexes: dict[str, list[ChunkInfo]] = field(default_factory=dict)

    def stage(self, chunks: DataFrame, folder: str) -> None:
        """Decodes a batch into `folder`; a folder of that name is replaced."""
        with compiled(chunks.sparkSession):
            chunks.write.mode("overwrite").option("compression", "zstd").parquet(f"{self.path}/{folder}")

    def index(self, folders: Iterable[str]) -> list[ChunkInfo]:
        """The chunks of the folders, without the payloads of rows and dead letters."""
        found: list[ChunkInfo] = []
        for folder in folders:
            if folder not in self._indexes:
                rows = self.read([folder]).selectExpr(
                    "kind", "database", "`table`", "shape", "rows", "min_commit_ts", "max_commit_ts", "topic", "partition",
                    "first_offset", "last_offset",
                    "CASE WHEN kind NOT IN ('rows', 'dead', 'waiting') THEN payload END AS payload",
                )  # fmt: skip
                self._indexes[folder] = [chunk_info(folder, row) for row in rows.collect()]
            found.extend(self._indexes[folder])
        return found

    def read(self, folders: Iterable[str]) -> DataFrame:
        """The chunks of the folders."""
        return self.spark.read.schema(CHUNKS_DDL).parquet(*[f"{self.path}/{folder}" for folder in folders])

    def table(self, folders: Iterable[str], name: tuple[str, str], after: int | None, upto: int | None) -> DataFrame:
        """The rows chunks of one table that may hold changes in (after, upto]."""
        from pyspark.sql import functions as F

        found = self.read(folders).where(
            (F.col("kind") == "rows") & (F.col("database") == name[0]) & (F.col("table") == name[1])
        )
        if after is not None:
            found = found.where(F.col("max_commit_ts") > after)
        return found if upto is None else found.where(F.col("min_commit_ts") <= upto)

    def waiting(self, folder: str) -> DataFrame:
        """The chunks of records whose remainder has not come yet."""
        return self.read([folder]).where("kind = 'waiting'")

    def delete_all_but(self, folders: Iterable[str]) -> None:
        """Deletes every folder that is not named."""
        keep = set(folders)
        for folder in set(self._indexes) - keep:
            del self._indexes[folder]
        root, files = file_system(self.spark, self.path)
        if files.exists(root):
            for status in files.listStatus(root):
                if status.getPath().getName() not in keep:
                    files.delete(status.getPath(), True)


def chunk_info(folder: str, row: Any) -> ChunkInfo:
    """A chunk's plain columns and what planning needs of its payload; `row` has the columns of `frames.chunks` by name."""
    said: dict[str, Any] = {}
    match row["kind"]:
        case "schema":
            said["event"] = schema_from_dict(json.loads(row["payload"]))
        case "resolved":
            said["mark"] = json.loads(row["payload"])["name"]
        case "transactions":
            said["transactions"] = unpack_records(row["payload"])
    return ChunkInfo(
        folder, row["kind"], row["database"], row["table"], row["shape"], row["rows"], row["min_commit_ts"],
        row["max_commit_ts"], row["topic"], row["partition"], row["first_offset"], row["last_offset"], **said,
    )  # fmt: skip
