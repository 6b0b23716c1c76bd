"""The stream over record logs, as Spark's Python data source.

Spark asks `latestOffset` for where the next batch may end, and gives no limit: the reader itself goes at most `limit`
records further each time. It starts where the ledger says (`start`), not at Spark's checkpoint, which is new in each run.
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
_SLICE = 10_000  # records a task reads at least, so that small batches stay in one


def logs(pattern: str) -> list[str]:
    """The files that the pattern names, and the folders that have Parquet files, in the order of their names."""
    return [path for path in sorted(glob(pattern)) if not Path(path).is_dir() or record_log.is_folder(path)]


def read_token(text: str) -> Cursors:
    """File -> how far it has been read."""
    return {path: Cursor(*place) for path, place in json.loads(text)["files"].items()}


def write_token(cursors: Cursors) -> str:
    """The token of these cursors."""
    return json.dumps(_offset(cursors))


def _offset(cursors: Cursors) -> dict[str, Any]:
    return {"files": {path: [c.records, c.bytes] for path, c in sorted(cursors.items())}}


class Progress:
    """How far the files have been handed out, and how far that may go."""

    def __init__(self, pattern: str, start: str, end: str | None) -> None:
        self._pattern = pattern
        self._end = read_token(end) if end else None
        self._totals: dict[str, tuple[tuple[int, ...], Cursor]] = {}  # path -> size, and the end at that size
        self.cursors = read_token(start)

    def everything(self) -> Cursors:
        """The cursors after every whole record that is there, or at the end that was given; none for a file without one."""
        if self._end is not None:
            return self._end
        totals = {path: self._total(path) for path in logs(self._pattern)}
        return self.cursors | {path: total for path, total in totals.items() if total.records}

    def advance(self, limit: int) -> Cursors:
        """The cursors at most `limit` records further."""
        for path, last in sorted(self.everything().items()):
            here = self.cursors.get(path, record_log.START)
            if limit <= 0 or here.records >= last.records:
                continue
            step = min(limit, last.records - here.records)
            limit -= step
            self.cursors[path] = self._further(path, here, last, step)
        return dict(self.cursors)

    def _further(self, path: str, here: Cursor, last: Cursor, step: int) -> Cursor:
        if here.records + step == last.records:
            return last
        if last.bytes == 0:  # compressed: lines are skipped by their number, nothing to look up
            return Cursor(here.records + step)
        return record_log.advance(path, here, step)

    def _total(self, path: str) -> Cursor:
        """Where the file's last whole record ends; when it has grown, only what is new is counted."""
        size, here = record_log.size(path), self.cursors.get(path, record_log.START)
        known, end = self._totals.get(path, (None, here))
        if known != size:
            end = record_log.advance(path, end if end.bytes else record_log.START)
            if end.records < here.records or sum(size) < here.bytes:
                raise SourceError(
                    f"{path} has become shorter: {here.records:,} records of it have been read. A log may grow, not be replaced: "
                    "restore it, or give what is new a name of its own"
                )
            self._totals[path] = size, end
        return end


@dataclass
class Part(InputPartition):
    """What one task reads."""

    slice: Slice


class RecordLogs(DataSource):
    """`spark.readStream.format("changefeed_files")`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "changefeed_files"

    def schema(self) -> str:
        """Slices of logs."""
        return SLICES_DDL

    def streamReader(self, schema: Any) -> RecordLogReader:  # Spark's name
        """The reader of a stream."""
        return RecordLogReader(dict(self.options))


class RecordLogReader(DataSourceStreamReader):
    """Plans batches on the driver; workers hand on the slices."""

    def __init__(self, options: dict[str, str]) -> None:
        self._limit = int(options["limit"])
        self._start = options["start"]
        self._progress = Progress(options["pattern"], options["start"], options["end"] or None)
        self._spool = Spool(Path(options["scratch"]))

    def initialOffset(self) -> dict[str, Any]:  # Spark's name
        """Where the ledger says."""
        return _offset(read_token(self._start))

    def latestOffset(self) -> dict[str, Any]:  # Spark's name
        """Where the next batch ends."""
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
        """The lines of a compressed log, unless one task reads them from the log's start anyway."""
        if not record_log.is_compressed(path) or (first == 0 and last <= step):
            return None
        copy = self._spool.lines(path, first, last)
        if self._progress.everything()[path].records == last:
            self._spool.close(path)
        return str(copy)

    def commit(self, end: dict[str, Any]) -> None:
        """The batch that ends here is done."""
        self._spool.done({path: records for path, (records, _) in end["files"].items()})

    def read(self, partition: Part) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The slice itself: whoever decodes it reads its records."""
        yield pack([partition.slice])
