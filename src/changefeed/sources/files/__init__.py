"""Record logs in a folder as a source: files that are added and grow, read in batches with offsets.

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

import pyarrow as pa

from changefeed import record_log
from changefeed.errors import ConfigError
from changefeed.frames.slices import Slice, Slices
from changefeed.sources import Backlog, Compared, Missing, NextBatch
from changefeed.sources.files.progress import Cursors, LogEnds, advanced, logs, read_offset, write_offset
from changefeed.sources.files.spool import Spool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SLICE = 10_000  # minimum number of records per task, so that small batches are one task
_SLICES = 8  # of one log, at most

_FILE_URL = re.compile(r"file:(//(localhost)?)?(?=/[^/]|/$)")  # as Hadoop writes a path of this machine
_URL = re.compile(r"\w[\w+.-]+:/")


@dataclass(frozen=True, slots=True)
class _Seen:
    """The partitions of a file's records up to `end`, at a size of the file, with the number of records up to their last."""

    size: tuple[int, ...]
    end: record_log.LogPosition
    partitions: dict[tuple[str, int], int]


@dataclass(slots=True)
class LogFiles:
    """The files that match a pattern."""

    pattern: str
    limit: int
    _ends: LogEnds = field(init=False)
    _spool: Spool = field(default_factory=Spool)
    _seen: dict[str, _Seen] = field(default_factory=dict)

    offset_names_partitions = False  # a file's partitions are those of its records
    whole = False

    def __post_init__(self) -> None:
        self._ends = LogEnds(self.pattern)

    def next_batch(
        self, spark: SparkSession, before: str | None, end: str | None, *, short_first: bool = False
    ) -> NextBatch | None:
        """The slices of at most `limit` records, of one file after the other in the order of their names.

        It is never certain that they are everything: a file may just have grown.
        """
        self._spool.forget()
        cursors = _cursors(before)
        ends = self._ends.after(cursors) if end is None else read_offset(end)
        after = advanced(cursors, ends, self.limit)
        if after == cursors:
            return None
        records = Slices(spark, [*self._slices(cursors, after, ends)])
        return NextBatch(records, write_offset(after), self._ended(after), left=_behind(after, ends))

    def end(self, spark: SparkSession, before: str | None) -> str:
        """The end of the complete records in all files.

        Raises:
            ConfigError: no file matches the pattern.
        """
        missing = self.missing()
        if missing is not None:
            raise ConfigError(str(missing))
        return write_offset(self._ends.after(_cursors(before)))

    def _slices(self, before: Cursors, after: Cursors, ends: Cursors) -> Iterator[Slice]:
        """The slices between two cursors of each file, in the order of the files' names."""
        for path, stop in sorted(after.items()):
            start = before.get(path, record_log.START)
            first, last = start.records, stop.records
            step = max(_SLICE, -(-(last - first) // _SLICES))
            copy = self._copy(path, first, last, step, ends) if first < last else None
            for at in range(first, last, step):
                yield Slice(path, first, start.bytes, at, min(last, at + step), copy)

    def _copy(self, path: str, first: int, last: int, step: int, ends: Cursors) -> str | None:
        """The path of a decompressed copy of these lines; None if a copy would not make reading cheaper.

        A log that is not compressed, or that a single task reads from its start, needs none.
        """
        if not record_log.is_compressed(path) or (first == 0 and last <= step):
            return None
        copy = self._spool.lines(path, first, last)
        if last == ends[path].records:
            self._spool.close_log(path)
        return str(copy)

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

    def backlog(self, before: str | None) -> Backlog | None:
        """See `Stream`; None with compressed logs, whose records only reading them would count."""
        if (missing := self.missing()) is not None:
            raise ConfigError(str(missing))
        if any(record_log.is_compressed(path) for path in logs(self.pattern)):
            return None
        cursors = _cursors(before)
        return _behind(cursors, self._ends.after(cursors))

    def unreachable(self) -> None:
        """Returns None: there is no server."""

    def compared(self, spark: SparkSession | None, source_offset: str) -> Compared:
        """The source offset itself, if no log has become shorter."""
        self._ends.after(read_offset(source_offset))
        return Compared(source_offset)

    def close(self) -> None:
        """Closes the compressed logs that are being read, and deletes their copies."""
        self._spool.close()

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

    def _ended(self, cursors: Cursors) -> frozenset[tuple[str, int]]:
        """The partitions whose last records in all files lie before the cursors."""
        ended, unread = set[tuple[str, int]](), set[tuple[str, int]]()
        for path, partitions in self._scanned():
            read = cursors.get(path, record_log.START).records
            for partition, last in partitions.items():
                (ended if last <= read else unread).add(partition)
        return frozenset(ended - unread)

    def _scanned(self) -> Iterator[tuple[str, dict[tuple[str, int], int]]]:
        """Each file, with the partitions of its records and the number of records up to the last one of each."""
        for path in logs(self.pattern):
            size, seen = record_log.size(path), self._seen.get(path)
            if seen is None or seen.size != size:
                seen = self._seen[path] = _look(path, size, seen)
            yield path, seen.partitions


def _cursors(source_offset: str | None) -> Cursors:
    return {} if source_offset is None else read_offset(source_offset)


def _behind(cursors: Cursors, ends: Cursors) -> Backlog:
    """The records between cursors and ends, of all files together: which partitions they belong to is in the records."""
    return Backlog(sum(end.records - cursors.get(path, record_log.START).records for path, end in ends.items()))


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
