"""Record logs: files of Kafka records, not decoded.

    *.jsonl  *.jsonl.gz  *.jsonl.zst     one record per line; see `lines.py`
    *.parquet, or a folder of them       the columns of Spark's Kafka source with headers; see `parquet.py`

Logs are read as a stream: one batch of records is in memory, never a whole file. Records are numbered from 0 in the order of
the log; a `LogPosition` lies between two of them. A plain `.jsonl` may grow while it is read: an incomplete last line is not
a record yet, `advance` stops before it, and a cursor is a position from which a read continues without reading what comes before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pyarrow as pa

from changefeed.errors import ConfigError
from changefeed.record_log import lines, parquet
from changefeed.record_log.batches import Only, wanted_of
from changefeed.record_log.lines import default_topic
from changefeed.record_log.position import START, LogPosition
from changefeed.record_log.stream import compression
from changefeed.record_log.writer import RecordLogWriter

__all__ = [
    "START",
    "LogPosition",
    "Only",
    "RecordLogWriter",
    "advance",
    "count",
    "default_topic",
    "is_compressed",
    "is_folder",
    "partitions",
    "read",
    "require_form",
    "scan",
    "size",
    "write",
]

LINES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


def read(
    path: str | Path,
    *,
    batch_size: int = 1000,
    start: int = 0,
    stop: int | None = None,
    at: LogPosition = START,
    copy: str | Path | None = None,
    only: Only | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of a log in batches with the columns of `model.batch.RECORDS`.

    Args:
        path: the file, or a folder of Parquet files.
        batch_size: maximum number of records in a batch; a batch of large records has fewer.
        start: number of the first record to read.
        stop: number of the record to stop before; None for the end.
        at: a cursor at or before `start`, where reading begins.
        copy: a plain file with the lines of a compressed log from `at` on, read in its place.
        only: selects records by topic and partition; row groups without selected records are not read.

    Raises:
        SourceError: the log cannot be read, or contains something that is not a record; the message has file and line.
        ConfigError: the name does not end like a record log's.
    """
    start = max(start, at.records)
    stop = None if stop is None else max(stop, start)
    form = _form(path)
    if form is parquet:
        batches = parquet.read(Path(path), batch_size=batch_size, start=start, stop=stop, only=only)
    else:
        plain = None if copy is None else Path(copy)
        batches = lines.read(Path(path), batch_size=batch_size, start=start, stop=stop, at=at, copy=plain)
    return batches if only is None else wanted_of(batches, only)


def advance(path: str | Path, at: LogPosition = START, limit: int | None = None) -> LogPosition:
    """The cursor after `limit` more complete records, or after the last one. Records are counted, not decoded."""
    return _form(path).advance(Path(path), at, limit)  # type: ignore[no-any-return]


def require_form(path: str | Path) -> None:
    """Refuses a path whose name is not that of a record log.

    Raises:
        ConfigError: the name has another ending; the message lists the endings.
    """
    _form(path)


def count(path: str | Path) -> int:
    """Number of complete records in the log."""
    return advance(path).records


def is_folder(path: str | Path) -> bool:
    """Whether the path is a folder with at least one Parquet file."""
    return bool(parquet.inside(Path(path)))


def is_compressed(path: str | Path) -> bool:
    """Whether the log is compressed, so that its lines can only be read from the start."""
    return str(path).endswith(LINES) and compression(Path(path)) is not None


def partitions(path: str | Path) -> dict[str, set[int]]:
    """The topics of the log's records, and the partitions of each."""
    return {topic: set(numbers) for topic, numbers in scan(path)[0].items()}


def scan(path: str | Path, at: LogPosition = START) -> tuple[dict[str, dict[int, int]], LogPosition]:
    """Finds the topics and partitions of the complete records from `at` on.

    Returns:
        Topic -> partition -> number of the log's records up to the partition's last one, which is included; and the
        position after the last complete record.
    """
    return _form(path).scan(Path(path), at)  # type: ignore[no-any-return]


def size(path: str | Path) -> tuple[int, ...]:
    """The size of the log's files in bytes; if it differs, something was added."""
    files = parquet.inside(Path(path)) if Path(path).is_dir() else [Path(path)]
    return tuple(file.stat().st_size for file in files)


def write(path: str | Path, batches: Iterable[pa.RecordBatch]) -> int:
    """Writes a log, which gets its name when it is complete. Returns the number of records."""
    with RecordLogWriter(path) as writer:
        for batch in batches:
            writer.write(batch)
    return writer.records


def _form(path: str | Path) -> ModuleType:
    name = str(path)
    if name.endswith(LINES):
        return lines
    if name.endswith(".parquet") or Path(path).is_dir():
        return parquet
    raise ConfigError(
        f"{name} is not a record log: its name must end with {', '.join(LINES)} or .parquet, or be a folder of Parquet files"
    )
