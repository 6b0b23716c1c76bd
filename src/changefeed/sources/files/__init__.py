"""Record logs in a folder as a source: a stream with offsets over files that come and grow.

A token is `{"files": {"<path>": [records, bytes]}}`: how far each file has been read, as `record_log.Cursor` counts.
Files are read in the order of their names. A plain `.jsonl` may grow; any other file is whole when it appears, so move it
into the folder under its name when it is.

What a batch costs follows what it reads. Each run looks once through every file, to count its records and to know their
partitions; after that only through what is added. Plain lines are found by bytes; compressed ones come from one stream
that stays open (`spool.py`), which a run that goes on in the middle of a log decompresses from its start, once; Parquet
is read by row groups, of which a batch that begins within one reads the records before it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import pyarrow as pa

from changefeed import record_log
from changefeed.errors import ConfigError
from changefeed.sources import Compared, Missing
from changefeed.sources.files.reader import Progress, RecordLogs, logs, write_token
from changefeed.spark_runtime.scratch import Scratch
from changefeed.spark_runtime.session import make_active

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class _Seen:
    """The partitions of a file's records up to `end`, when it had this size."""

    size: tuple[int, ...]
    end: record_log.Cursor
    partitions: frozenset[tuple[str, int]]


@dataclass(slots=True, weakref_slot=True)
class Folder:
    """The files that a pattern names."""

    pattern: str
    limit: int
    _seen: dict[str, _Seen] = field(default_factory=dict)

    available_now = False
    whole = False
    start = write_token({})

    def stream(self, spark: SparkSession, token: str | None, end: str | None) -> DataFrame:
        """The records from `token` to `end`, some at a time."""
        make_active(spark)  # where Spark looks the name up; it refuses one that another session has
        spark.dataSource.register(RecordLogs)
        scratch = Scratch("lines")
        finalize(self, scratch.close)
        options = {
            "pattern": self.pattern,
            "limit": str(self.limit),
            "start": token or self.start,
            "end": end or "",
            "scratch": str(scratch.path),
        }
        return spark.readStream.format(RecordLogs.name()).options(**options).load()

    def end(self, spark: SparkSession, token: str | None) -> str | None:
        """All that is whole in the files now.

        Raises:
            ConfigError: the pattern names no file.
        """
        missing = self.missing()
        if missing is not None:
            raise ConfigError(str(missing))
        progress = Progress(self.pattern, token or self.start, None)
        return write_token(progress.everything())

    def missing(self) -> Missing | None:
        """Says so when the pattern names no file, or only folders without one."""
        if logs(self.pattern):
            return None
        path = Path(self.pattern)
        if not path.is_dir():
            said = f"no file matches {path}"
        elif any(path.iterdir()):
            said = f"{path} is a folder without Parquet files, and other logs are named by a pattern as {path}/*.jsonl"
        else:
            said = f"{path} is an empty folder"
        return Missing(
            said, "correct source.path, which is relative to the pipeline's file, or put the files there first"
        )

    def compared(self, spark: SparkSession, token: str) -> Compared:
        """The token as it is: whether logs have become shorter is seen when they are read."""
        return Compared(token)

    def token(self, spark: SparkSession, before: str | None, logged: str) -> str:
        """The offset as Spark logged it."""
        return logged

    def close(self) -> None:
        """Nothing is held open."""

    def drained(self, before: str | None, after: str) -> bool:
        """False: a folder is asked when nothing more comes from it."""
        return False

    def sample(self, limit: int) -> Iterator[pa.RecordBatch]:
        """The first records of each file, `limit` in all."""
        for path in logs(self.pattern):
            for records in record_log.read(path, stop=limit):
                yield records
                limit -= records.num_rows
            if limit <= 0:
                return

    def partitions(self, token: str) -> set[tuple[str, int]]:
        """The partitions of all records in the files, those not read yet too: a mark is missing until it was seen."""
        found: set[tuple[str, int]] = set()
        for path in logs(self.pattern):
            size, seen = record_log.size(path), self._seen.get(path)
            if seen is None or seen.size != size:
                seen = self._seen[path] = _look(path, size, seen)
            found |= seen.partitions
        return found


def _look(path: str, size: tuple[int, ...], before: _Seen | None) -> _Seen:
    """The partitions of a file; of one that has grown, only what is new is looked at, if there is a way to get there."""
    known = before if before is not None and before.end.bytes else _Seen((), record_log.START, frozenset())
    said, end = record_log.scan(path, known.end)
    return _Seen(size, end, known.partitions | {(topic, p) for topic, numbers in said.items() for p in numbers})


def open_source(definition: Any) -> Folder:
    """The source that a `type: files` section describes.

    Raises:
        ConfigError: the path is a URL.
    """
    path: str = definition.path.removeprefix("file://")
    if "://" in path:
        raise ConfigError(
            f"source.path {path} is a URL, and logs are read from folders: copy or mount it where every machine of the cluster "
            "sees it under one path"
        )
    return Folder(path, definition.max_records_per_batch)
