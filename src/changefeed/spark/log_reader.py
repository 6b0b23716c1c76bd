"""`spark.read.format("changefeed")` and `spark.readStream` over record logs.

Rule 1. A read is planned once: files are listed, complete records are counted, and a table's columns are found by a scan of
        the log (`known.py`). Tasks read slices of the files and decode them to Arrow batches, in the order of the slice.
Rule 2. If a record's meaning depends on those before it in its partition (`ReadPlan.in_order`), logs are not cut into slices. A
        few tasks read all files in the order of their names, each for its own topic partitions.
Rule 3. An offset of a stream is the position in each file, in complete records and bytes: the checkpoint contains nothing
        else. A batch ends at the end of all files when it is planned. A log may grow, but not become shorter.
Rule 4. If rule 2 holds, a batch of a stream that begins inside its logs first reads the records before it without returning
        them, to restore the records of incomplete events. This is exact, and costs more the longer the logs are.
        Records in a log that was deleted meanwhile are lost: delete a log only if no event continues in the next one.
Rule 5. At the end of a batch read, records of incomplete events become dead letters; at the end of a batch of a stream, they
        are kept for a later batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from changefeed import record_log
from changefeed.errors import SourceError
from changefeed.frames import slices
from changefeed.frames.slices import Slice
from changefeed.sources.files.progress import Cursors, LogEnds, logs, read_offset, write_offset
from changefeed.spark.reading import ReadPlan

_SLICE = 10_000  # records a task reads at least
_SLICES = 8  # of one log, at most
_READERS = 4  # of all logs together, where none is cut


@dataclass(frozen=True, slots=True)
class Logs:
    """The record logs that match a pattern."""

    pattern: str

    def reader(self, reading: ReadPlan | None) -> LogReader:
        """Creates Spark's batch reader."""
        return LogReader(self, reading)

    def stream_reader(self, reading: ReadPlan | None) -> LogStreamReader:
        """Creates Spark's stream reader."""
        return LogStreamReader(self, reading)

    def ends(self) -> Cursors:
        """Returns the current end of each log.

        Raises:
            SourceError: a log cannot be read.
        """
        return LogEnds(self.pattern).after({})

    def first(self, limit: int) -> Iterator[pa.RecordBatch]:
        """Yields the first records of each log.

        Raises:
            SourceError: no log matches the pattern.
        """
        paths = logs(self.pattern)
        if not paths:
            raise SourceError(f"changefeed: no record log matches {self.pattern}")
        for path in paths:
            yield from record_log.read(path, batch_size=10_000, stop=record_log.advance(path, limit=limit).records)


@dataclass
class Piece(InputPartition):
    """The work of one task: slices of logs.

    Attributes:
        slices: the slices whose records are returned.
        before: earlier slices, which are only read to restore incomplete events.
        share: (number of this task, number of tasks), if tasks share the logs by topic partitions.
    """

    slices: list[Slice]
    before: list[Slice] = field(default_factory=list)
    share: tuple[int, int] | None = None

    def records(self, some: Sequence[Slice]) -> Iterator[pa.RecordBatch]:
        """Yields the records of some slices that belong to this task."""
        if self.share is None:
            return slices.read([slices.pack(some)])
        number, of = self.share
        return slices.read_share(some, of)([pa.record_batch([pa.array([number])], ["share"])]) if some else iter(())


def pieces(start: Cursors, end: Cursors, *, whole: bool) -> list[InputPartition]:
    """Divides the records between two offsets among tasks.

    Args:
        start: path -> position up to which the log has been read.
        end: path -> position up to which to read it.
        whole: whether logs must not be cut into slices.
    """
    news = {path: (start.get(path, record_log.START), last) for path, last in sorted(end.items())}
    news = {path: (first, last) for path, (first, last) in news.items() if first.records < last.records}
    if whole:
        before = [
            Slice(path, stop=place.records) for path, place in sorted(start.items()) if path in end and place.records
        ]
        fresh = [
            Slice(path, first.records, first.bytes, first.records, last.records) for path, (first, last) in news.items()
        ]
        return [Piece(fresh, before, (number, _READERS)) for number in range(_READERS)] if fresh else []
    pieces: list[InputPartition] = []
    for path, (first, last) in news.items():
        step = max(_SLICE, -(-(last.records - first.records) // _SLICES))
        for at in range(first.records, last.records, step):
            pieces.append(Piece([Slice(path, first.records, first.bytes, at, min(last.records, at + step))]))
    return pieces


def read_piece(piece: Piece, reading: ReadPlan | None, *, ends: bool) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one task; `ends`: no more records follow, so incomplete events become dead letters."""
    if reading is None:
        yield from piece.records(piece.slices)
        return
    rows = reading.start()
    for records in piece.records(piece.before):
        rows.decode(records)
    yield from rows.read(piece.records(piece.slices))
    if ends:
        yield from rows.finish()


class LogReader(DataSourceReader):
    """Spark's batch reader: reads the records that the logs have when the read is planned."""

    def __init__(self, found_logs: Logs, reading: ReadPlan | None) -> None:
        self._logs, self._reading = found_logs, reading

    def partitions(self) -> list[InputPartition]:
        """Returns the work of each task."""
        ends = self._logs.ends()
        if not ends and not logs(self._logs.pattern):
            raise SourceError(f"changefeed: no record log matches {self._logs.pattern}")
        return pieces({}, ends, whole=_whole(self._reading)) or [Piece([])]

    def read(self, partition: Piece) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The rows of a task."""
        return read_piece(partition, self._reading, ends=True)


class LogStreamReader(DataSourceStreamReader):
    """Spark's stream reader: plans batches on the driver, and reads them in tasks."""

    def __init__(self, found_logs: Logs, reading: ReadPlan | None) -> None:
        self._logs, self._reading = found_logs, reading
        self._ends: LogEnds | None = None

    def initialOffset(self) -> dict[str, Any]:  # Spark's name
        """Returns the offset before the first record of every log."""
        return _offset({})

    def latestOffset(self) -> dict[str, Any]:  # Spark's name
        """Returns the offset after the last complete record of every log."""
        if self._ends is None:  # which remembers sizes, so that only what is new is counted
            self._ends = LogEnds(self._logs.pattern)
        return _offset(self._ends.after({}))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns the work of each task of a batch.

        Raises:
            SourceError: a log has become shorter.
        """
        first, last = (read_offset(json.dumps(offset)) for offset in (start, end))
        for path, place in last.items():
            if (known := first.get(path, record_log.START)).records > place.records:
                raise SourceError(
                    f"{path} has become shorter: {known.records:,} records of it have been read. A log may grow, but not be "
                    "replaced: restore it, or give the new log another name"
                )
        return pieces(first, last, whole=_whole(self._reading))

    def read(self, partition: Piece) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The rows of a task."""
        return read_piece(partition, self._reading, ends=False)


def _whole(reading: ReadPlan | None) -> bool:
    return reading is not None and reading.in_order


def _offset(cursors: Cursors) -> dict[str, Any]:
    offset: dict[str, Any] = json.loads(write_offset(cursors))
    return offset
