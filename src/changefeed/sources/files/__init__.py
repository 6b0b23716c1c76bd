"""Record logs in a folder as a source: files that are added and grow, read as a stream with offsets.

A source offset is `{"files": {"<path>": [records, bytes]}}`: the position in each file, as `record_log.LogPosition` counts it.
Files are read in the order of their names. A plain `.jsonl` may grow; any other file must be complete when it appears: move it
into the folder when it is.

The cost of a batch is proportional to what it reads. Each run reads every file once, to count its records and to find their
partitions; afterwards only what is added. Plain lines are found by their byte position. Compressed lines come from one stream
that stays open (`spool.py`); a run that continues in the middle of a log decompresses it from its start, once. Parquet is read
by row groups; a batch that starts within one reads the records before it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import pyarrow as pa

from changefeed import record_log
from changefeed.errors import ConfigError
from changefeed.sources import Compared, Missing
from changefeed.sources.files.progress import LogProgress, logs, read_offset, write_offset
from changefeed.spark_runtime.scratch import Scratch
from changefeed.spark_runtime.session import make_active

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_FILE_URL = re.compile(r"file:(//(localhost)?)?(?=/[^/]|/$)")  # as Hadoop writes a path of this machine
_URL = re.compile(r"\w[\w+.-]+:/")


@dataclass(frozen=True, slots=True)
class _Seen:
    """The partitions of a file's records up to `end`, at a size of the file, with the number of records up to their last."""

    size: tuple[int, ...]
    end: record_log.LogPosition
    partitions: dict[tuple[str, int], int]


@dataclass(slots=True, weakref_slot=True)
class LogFiles:
    """The files that match a pattern."""

    pattern: str
    limit: int
    _seen: dict[str, _Seen] = field(default_factory=dict)

    available_now = False
    offset_names_partitions = False  # a file's partitions are those of its records
    whole = False
    start = write_offset({})

    def stream(self, spark: SparkSession, source_offset: str | None, end: str | None) -> DataFrame:
        """The records from `source_offset` to `end`, in limited batches."""
        from changefeed.sources.files.reader import RecordLogs

        make_active(spark)  # Spark looks the name up in the active session, and refuses a name of another session
        spark.dataSource.register(RecordLogs)
        scratch = Scratch("lines")
        finalize(self, scratch.close)
        options = {
            "pattern": self.pattern,
            "limit": str(self.limit),
            "start": source_offset or self.start,
            "end": end or "",
            "scratch": str(scratch.path),
        }
        return spark.readStream.format(RecordLogs.name()).options(**options).load()

    def end(self, spark: SparkSession, source_offset: str | None) -> str | None:
        """The end of the complete records in all files.

        Raises:
            ConfigError: no file matches the pattern.
        """
        missing = self.missing()
        if missing is not None:
            raise ConfigError(str(missing))
        progress = LogProgress(self.pattern, source_offset or self.start, None)
        return write_offset(progress.everything())

    def missing(self) -> Missing | None:
        """An error if no file matches the pattern, or only folders without Parquet files."""
        if logs(self.pattern):
            return None
        path = Path(self.pattern)
        if not path.is_dir():
            what = f"no file matches {path}"
        elif any(path.iterdir()):
            what = f"{path} is a folder without Parquet files, and other logs are named by a pattern as {path}/*.jsonl"
        else:
            what = f"{path} is an empty folder"
        return Missing(
            what, "correct source.path, which is relative to the pipeline's file, or put the files there first"
        )

    def compared(self, spark: SparkSession, source_offset: str) -> Compared:
        """The source offset itself: logs that have become shorter are detected when they are read."""
        return Compared(source_offset)

    def source_offset(self, spark: SparkSession, before: str | None, logged: str) -> str:
        """The offset that Spark logged."""
        return logged

    def close(self) -> None:
        """Does nothing: no file stays open."""

    def caught_up(self, before: str | None, after: str) -> bool:
        """False: only an empty batch shows that there is nothing more to read."""
        return False

    def sample(self, limit: int) -> Iterator[pa.RecordBatch]:
        """The first records of each file, `limit` in total."""
        for path in logs(self.pattern):
            for records in record_log.read(path, stop=limit):
                yield records
                limit -= records.num_rows
            if limit <= 0:
                return

    def partitions(self, source_offset: str) -> set[tuple[str, int]]:
        """The partitions of all records in the files, including unread ones: each must have its resolved event."""
        return {partition for _, partitions in self._scanned() for partition in partitions}

    def ended(self, spark: SparkSession, source_offset: str) -> set[tuple[str, int]]:
        """The partitions whose last records in all files lie before the source offset."""
        cursors = read_offset(source_offset)
        ended, unread = set[tuple[str, int]](), set[tuple[str, int]]()
        for path, partitions in self._scanned():
            read = cursors.get(path, record_log.START).records
            for partition, last in partitions.items():
                (ended if last <= read else unread).add(partition)
        return ended - unread

    def unread(self, spark: SparkSession, before: str | None, after: str) -> None:
        """None: the stream has slices, which the tasks that decode them read."""
        return None

    def leading(self, spark: SparkSession, source_offset: str | None) -> None:
        """None: files are read in the order of their names."""
        return None

    def _scanned(self) -> Iterator[tuple[str, dict[tuple[str, int], int]]]:
        """Each file, with the partitions of its records and the number of records up to the last one of each."""
        for path in logs(self.pattern):
            size, seen = record_log.size(path), self._seen.get(path)
            if seen is None or seen.size != size:
                seen = self._seen[path] = _look(path, size, seen)
            yield path, seen.partitions


def _look(path: str, size: tuple[int, ...], before: _Seen | None) -> _Seen:
    """The partitions of a file; if it has grown, only the new part is read where possible."""
    known = before if before is not None and before.end.bytes else _Seen((), record_log.START, {})
    topics, end = record_log.scan(path, known.end)
    partitions = {(topic, p): last for topic, numbers in topics.items() for p, last in numbers.items()}
    return _Seen(size, end, known.partitions | partitions)


def open_source(definition: Any) -> LogFiles:
    """The source of a `type: files` section.

    Raises:
        ConfigError: the path is a URL of another file system, or of another machine.
    """
    path: str = definition.path
    if local := _FILE_URL.match(path):
        path = path[local.end() :]
    if _URL.match(path):
        raise ConfigError(
            f"source.path {path} is a URL, but logs are read from folders only. Copy or mount it at one path on every machine of "
            "the cluster"
        )
    return LogFiles(path, definition.max_records_per_batch)
