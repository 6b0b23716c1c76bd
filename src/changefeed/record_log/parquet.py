"""Records as Parquet: a file, or a folder of files in the order of their names.

The columns are exactly those of Spark's Kafka source with headers: `key value topic partition offset timestamp
timestampType headers`. Files whose names begin with `_` or `.` belong to Spark and are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.errors import SourceError
from changefeed.model.batch import RECORDS
from changefeed.model.position import TOPIC_RULE
from changefeed.record_log.batches import BATCH_BYTES, Only
from changefeed.record_log.position import LogPosition

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_GROUP_ROWS = 1 << 16
_GROUP_BYTES = 64 << 20


def read(
    path: Path, *, batch_size: int, start: int, stop: int | None, only: Only | None = None
) -> Iterator[pa.RecordBatch]:
    """The records `start` to `stop`; row groups without such records, or without selected ones, are not read."""
    number = 0  # number of the next record
    for file in _files(path):
        with _open(file) as opened:
            for group in range(opened.metadata.num_row_groups):
                about = opened.metadata.row_group(group)
                inside = number + about.num_rows > start and (stop is None or number < stop)
                if inside and (only is None or _may_have(about, only)):
                    yield from _group(file, opened, group, number, batch_size, start, stop)
                number += about.num_rows


def _may_have(about: Any, only: Only) -> bool:
    """Whether a row group may have selected records: not if all are of one partition that is not selected."""
    known = (about.column(at) for at in range(about.num_columns))
    ends = {c.path_in_schema: c.statistics for c in known if c.path_in_schema in ("topic", "partition")}
    if any(s is None or not s.has_min_max or s.min != s.max for s in ends.values()):
        return True
    wanted: bool = only(pa.RecordBatch.from_pydict({name: [s.min] for name, s in ends.items()}))[0].as_py()
    return wanted


def _group(
    file: Path, opened: pq.ParquetFile, group: int, number: int, batch_size: int, start: int, stop: int | None
) -> Iterator[pa.RecordBatch]:
    about = opened.metadata.row_group(group)
    fit = max(1, min(batch_size, about.num_rows * BATCH_BYTES // max(1, about.total_byte_size)))
    try:
        # Threads do not pay for batches of this size; jobs that read much have a worker per core.
        for batch in opened.iter_batches(fit, row_groups=[group], columns=RECORDS.names, use_threads=False):
            low, high = max(start - number, 0), len(batch) if stop is None else min(stop - number, len(batch))
            if low < high:
                _check_topics(batch.column("topic"), file)
                yield batch.slice(low, high - low).select(RECORDS.names).cast(RECORDS)
            number += len(batch)
    except (OSError, pa.ArrowException) as error:
        why = " ".join(str(error).split())
        raise SourceError(f"{file}: row group {group}: {why}; {number} records could be read before that") from error


def advance(path: Path, at: LogPosition, limit: int | None) -> LogPosition:
    """The cursor `limit` records after `at`, or after the last one; only the files' footers are read."""
    records = 0
    for file in _files(path):
        with _open(file) as opened:
            records += opened.metadata.num_rows
    return LogPosition(records if limit is None else min(records, at.records + limit))


def scan(path: Path, at: LogPosition) -> tuple[dict[str, dict[int, int]], LogPosition]:
    """See `record_log.scan`, but of all records, whatever `at` is; only topics and partitions are read."""
    topics: dict[str, dict[int, int]] = {}
    number = 0
    for file in _files(path):
        with _open(file) as opened:
            try:
                for batch in opened.iter_batches(1 << 16, columns=["topic", "partition"]):
                    numbers = pa.array(range(number + 1, number + 1 + batch.num_rows), pa.int64())
                    records = pa.Table.from_batches([batch]).append_column("number", numbers)
                    pairs = records.group_by(["topic", "partition"]).aggregate([("number", "max")])
                    for topic, partition, last in zip(*pairs.to_pydict().values(), strict=True):
                        topics.setdefault(topic, {})[partition] = last
                    _check_topics(pairs.column("topic"), file)
                    number += batch.num_rows
            except (OSError, pa.ArrowException) as error:
                raise SourceError(f"{file}: its topics cannot be read: {' '.join(str(error).split())}") from error
    return topics, advance(path, at, None)


def _check_topics(topics: pa.Array | pa.ChunkedArray, file: Path) -> None:
    for topic in topics.unique().to_pylist():
        if not topic or ":" in topic:
            raise SourceError(f"{file}: topic {topic!r}: {TOPIC_RULE}")


class RowGroups:
    """Writes a Parquet file, and collects batches until there are enough records for a row group."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq  # it takes as long as a small log of lines

        self._writer = pq.ParquetWriter(path, RECORDS)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends records."""
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Writes the collected batches and the footer."""
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, RECORDS), row_group_size=_GROUP_ROWS)
        self._waiting = []
        self._rows = self._bytes = 0


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise SourceError(f"{path} does not exist")
    if not path.is_dir():
        return [path]
    files = inside(path)
    if not files:
        raise SourceError(f"{path} is a folder without Parquet files")
    return files


def inside(folder: Path) -> list[Path]:
    """The Parquet files of a folder, in the order of their names."""
    return sorted(p for p in folder.iterdir() if p.suffix == ".parquet" and p.name[0] not in "_.")


def _open(file: Path) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    try:
        opened = pq.ParquetFile(file)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{file} is not a Parquet file: {error}") from error
    names = opened.schema_arrow.names
    if set(names) != set(RECORDS.names):
        missing, more = set(RECORDS.names) - set(names), set(names) - set(RECORDS.names)
        differences = [
            f"{what} {', '.join(sorted(them))}" for what, them in (("lacks", missing), ("has", more)) if them
        ]
        hint = ' Read from Kafka with the option "includeHeaders" = "true".' if missing == {"headers"} else ""
        raise SourceError(f"{file} is not a record log: it {' and '.join(differences)}.{hint}")
    return opened
