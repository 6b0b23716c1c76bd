"""Slices: pieces of record logs, for the tasks that read them.

To read a record in a Python worker, send it to the JVM and decode it in another worker costs several times as much as
decoding it. So tasks get a list of the log's pieces, and its records are read in the worker that decodes them:

    path      records  bytes    start   stop    copy
    a.jsonl   0        0        0       10000   NULL
    a.jsonl   0        0        10000   18204   NULL
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from changefeed import record_log
from changefeed.frames.mapped import Mapped, Work
from changefeed.record_log import LogPosition, Only

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT_ONCE = 32_000  # records
_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
        ("copy", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Slice:
    """Records of one log, looked for from a cursor.

    Attributes:
        path: the log.
        records, bytes: the cursor, at or before `start`.
        start, stop: the number of the first record, and of the one behind the last; None for the end of the log.
        copy: a plain file with the lines of a compressed log from the cursor on; where it is not seen, the log is read.
    """

    path: str
    records: int = 0
    bytes: int = 0
    start: int = 0
    stop: int | None = None
    copy: str | None = None


@dataclass(frozen=True, slots=True)
class Slices:
    """Slices of logs, in the order of their records, and the session whose tasks read them."""

    spark: SparkSession
    slices: Sequence[Slice]

    def each(self) -> Mapped:
        """The records, read in a task for each slice."""
        return self._mapped(read_each(self.slices), len(self.slices))

    def by_partition(self, most: int) -> Mapped:
        """The records, read in at most so many tasks; each reads all slices and keeps the records of its own partitions."""
        tasks = min(self.spark.sparkContext.defaultParallelism, most)
        return self._mapped(read_share(self.slices, tasks), tasks)

    def _mapped(self, work: Work, tasks: int) -> Mapped:
        return Mapped(self.spark.range(0, tasks, 1, max(1, tasks)), work)


def pack(slices: Iterable[Slice]) -> pa.RecordBatch:
    """The slices as columns, for `read`."""
    return pa.RecordBatch.from_pylist([asdict(one) for one in slices], schema=_SCHEMA)


def read(batches: Iterable[pa.RecordBatch], only: Only | None = None) -> Iterator[pa.RecordBatch]:
    """The records of the slices, or only those wanted, in their order, some at a time.

    Raises:
        SourceError: a log cannot be read, or contains something that is not a record.
    """
    for batch in batches:
        for row in batch.to_pylist():
            one = Slice(**row)
            copy = one.copy if one.copy is not None and Path(one.copy).exists() else None
            at = LogPosition(one.records, one.bytes)
            yield from record_log.read(
                one.path, batch_size=_AT_ONCE, start=one.start, stop=one.stop, at=at, copy=copy, only=only
            )


def read_each(slices: Sequence[Slice]) -> Work:
    """The function that reads the slices whose numbers are its input."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            yield from read([pack([slices[number]])])

    return run


def read_share(slices: Sequence[Slice], of: int) -> Work:
    """The function that reads what the slices have of some partitions, in its order: for each number below `of` others."""
    everything = pack(_joined(slices))

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for share in (number for batch in batches for number in batch.column(0).to_pylist()):
            yield from read([everything], partial(_is_of, share, of))

    return run


def _joined(slices: Iterable[Slice]) -> Iterator[Slice]:
    """The slices with those of each log in one."""
    for _, of_log in groupby(slices, key=attrgetter("path")):
        first, *_, last = [*of_log] * 2
        yield replace(first, stop=last.stop)


def _is_of(share: int, of: int, records: pa.RecordBatch) -> pa.BooleanArray:
    topics = records.column("topic").dictionary_encode()
    seeds = pa.array([crc32(topic.encode()) % of for topic in topics.dictionary.to_pylist()], pa.int32())
    numbers = pc.add(seeds.take(topics.indices), records.column("partition")).to_numpy()
    return pa.array(numbers % of == share)
