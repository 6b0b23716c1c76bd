"""The stream over record logs, as a Python data source of Spark.

Spark calls `latestOffset` for the end of the next batch without giving a limit: the reader itself advances at most `limit`
records each time. It starts at the ledger's source offset (`start`), not at Spark's checkpoint, which is new in each run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from changefeed import record_log
from changefeed.errors import SourceError
from changefeed.frames.slices import SLICES_DDL, Slice, pack
from changefeed.record_log import Cursor
from changefeed.sources.files.spool import Spool

Cursors = dict[str, Cursor]
_SLICE = 10_000  # minimum number of records per task, so that small batches are one task


def logs(pattern: str) -> list[str]:
    """The files that match the pattern, and the folders that contain Parquet files, in the order of their names."""
    return [path for path in sorted(glob(pattern)) if not Path(path).is_dir() or record_log.is_folder(path)]


def read_offset(text: str) -> Cursors:
    """File -> position in it."""
    return {path: Cursor(*place) for path, place in json.loads(text)["files"].items()}


def write_offset(cursors: Cursors) -> str:
    """The source offset of these cursors."""
    return json.dumps(_offset(cursors))


def _offset(cursors: Cursors) -> dict[str, Any]:
    return {"files": {path: [c.records, c.bytes] for path, c in sorted(cursors.items())}}


class Progress:
    """The position in each file, and how far it may advance."""

    def __init__(self, pattern: str, start: str, end: str | None) -> None:
        self._pattern = pattern
        self._end = read_offset(end) if end else None
        self._totals: dict[str, tuple[tuple[int, ...], Cursor]] = {}  # path -> size, and the end at that size
        self.cursors = read_offset(start)

    def everything(self) -> Cursors:
        """The cursors after every complete record, or at the end that was set; none for a file without records."""
        if self._end is not None:
            return self._end
        totals = {path: self._total(path) for path in logs(self._pattern)}
        return self.cursors | {path: total for path, total in totals.items() if total.records}

    def advance(self, limit: int) -> Cursors:
        """The cursors, at most `limit` records further."""
        for path, last in sorted(self.everything().items()):
            cursor = self.cursors.get(path, record_log.START)
            if limit <= 0 or cursor.records >= last.records:
                continue
            step = min(limit, last.records - cursor.records)
            limit -= step
            self.cursors[path] = self._further(path, cursor, last, step)
        return dict(self.cursors)

    def _further(self, path: str, cursor: Cursor, last: Cursor, step: int) -> Cursor:
        if cursor.records + step == last.records:
            return last
        if last.bytes == 0:  # compressed: lines are skipped by number
            return Cursor(cursor.records + step)
        return record_log.advance(path, cursor, step)

    def _total(self, path: str) -> Cursor:
        """The end of the file's last complete record; if it has grown, only the new part is counted."""
        size, cursor = record_log.size(path), self.cursors.get(path, record_log.START)
        known, end = self._totals.get(path, (None, cursor))
        if known != size:
            end = record_log.advance(path, end if end.bytes else record_log.START)
            if end.records < cursor.records or sum(size) < cursor.bytes:
                raise SourceError(
                    f"{path} has become shorter: {cursor.records:,} records of it have been read. A log may "
                    "grow, not be replaced: "
                    "restore it, or give what is new a name of its own"
                )
            self._totals[path] = size, end
        return end


@dataclass
class Part(InputPartition):
    """The input of one task."""

    slice: Slice


class RecordLogs(DataSource):
    """`spark.readStream.format("changefeed_files")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "changefeed_files"

    def schema(self) -> str:
        """The columns of slices of logs."""
        return SLICES_DDL

    def streamReader(self, schema: Any) -> RecordLogReader:  # Spark's name
        """The stream reader."""
        return RecordLogReader(dict(self.options))


class RecordLogReader(DataSourceStreamReader):
    """Plans batches on the driver; workers pass the slices on."""

    def __init__(self, options: dict[str, str]) -> None:
        self._limit = int(options["limit"])
        self._start = options["start"]
        self._progress = Progress(options["pattern"], options["start"], options["end"] or None)
        self._spool = Spool(Path(options["scratch"]))

    def initialOffset(self) -> dict[str, Any]:  # Spark's name
        """The ledger's source offset."""
        return _offset(read_offset(self._start))

    def latestOffset(self) -> dict[str, Any]:  # Spark's name
        """The end of the next batch."""
        return _offset(self._progress.advance(self._limit))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The slices between two offsets."""
        slices: list[InputPartition] = []
        for path, (last, _) in end["files"].items():
            first, size = start["files"].get(path, (0, 0))
            step = max(_SLICE, -(-(last - first) // 8))
            copy = self._copy(path, first, last, step) if first < last else None
            bounds = [(at, min(last, at + step)) for at in range(first, last, step)]
            slices += [Part(Slice(path, first, size, *bound, copy)) for bound in bounds]
        return slices

    def _copy(self, path: str, first: int, last: int, step: int) -> str | None:
        """A plain copy of the lines of a compressed log, unless one task reads them from the log's start anyway."""
        if not record_log.is_compressed(path) or (first == 0 and last <= step):
            return None
        copy = self._spool.lines(path, first, last)
        if self._progress.everything()[path].records == last:
            self._spool.close(path)
        return str(copy)

    def commit(self, end: dict[str, Any]) -> None:
        """Deletes the copies that batches up to `end` needed."""
        self._spool.done({path: records for path, (records, _) in end["files"].items()})

    def read(self, partition: Part) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The slice itself: its records are read where they are decoded."""
        yield pack([partition.slice])
