"""The stream over record logs, as a Python data source of Spark.

Spark calls `latestOffset` for the end of the next batch without giving a limit: the reader itself advances at most `limit`
records each time. It starts at the ledger's source offset (`start`), not at Spark's checkpoint, which is new in each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from changefeed import record_log
from changefeed.frames.slices import SLICES_DDL, Slice, pack
from changefeed.sources.files.progress import LogProgress, offset_of, read_offset
from changefeed.sources.files.spool import Spool

_SLICE = 10_000  # minimum number of records per task, so that small batches are one task


@dataclass
class LogPartition(InputPartition):
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
        self._progress = LogProgress(options["pattern"], options["start"], options["end"] or None)
        self._spool = Spool(Path(options["scratch"]))

    def initialOffset(self) -> dict[str, Any]:  # Spark's name
        """The ledger's source offset."""
        return offset_of(read_offset(self._start))

    def latestOffset(self) -> dict[str, Any]:  # Spark's name
        """The end of the next batch."""
        return offset_of(self._progress.advance(self._limit))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The slices between two offsets."""
        slices: list[InputPartition] = []
        for path, (last, _) in end["files"].items():
            first, size = start["files"].get(path, (0, 0))
            step = max(_SLICE, -(-(last - first) // 8))
            copy = self._copy(path, first, last, step) if first < last else None
            bounds = [(at, min(last, at + step)) for at in range(first, last, step)]
            slices += [LogPartition(Slice(path, first, size, *bound, copy)) for bound in bounds]
        return slices

    def _copy(self, path: str, first: int, last: int, step: int) -> str | None:
        """Returns the path of a decompressed copy of these lines; None if a copy would not make reading cheaper.

        A log that is not compressed, or that a single task reads from its start, needs none.
        """
        if not record_log.is_compressed(path) or (first == 0 and last <= step):
            return None
        copy = self._spool.lines(path, first, last)
        if self._progress.everything()[path].records == last:
            self._spool.close(path)
        return str(copy)

    def commit(self, end: dict[str, Any]) -> None:
        """Deletes the copies that batches up to `end` needed."""
        self._spool.done({path: records for path, (records, _) in end["files"].items()})

    def read(self, partition: LogPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The slice itself: its records are read where they are decoded."""
        yield pack([partition.slice])
