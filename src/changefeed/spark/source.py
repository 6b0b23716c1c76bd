"""The data source over record logs: `spark.read.format("changefeed")`, `spark.readStream.format("changefeed")`.

The writers of the same format are in `log_writer.py` and `kafka_writer.py`.

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

Spark 4.1 does not limit the batches of sources written in Python, so a batch contains everything new; its tasks stream it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from changefeed import record_log
from changefeed.errors import ConfigError, SourceError
from changefeed.frames import slices
from changefeed.frames.slices import Slice
from changefeed.model.batch import RECORDS
from changefeed.sources.files.progress import Cursors, LogProgress, logs, read_offset, write_offset
from changefeed.spark.kafka_writer import KafkaStreamWriter, KafkaWriter, Topics, topics
from changefeed.spark.known import Known, Look, split_name
from changefeed.spark.log_writer import LogFolder, LogStreamWriter, LogWriter
from changefeed.spark.options import ReadOptions, read_options, write_options
from changefeed.spark.reading import ReadPlan, one_table
from changefeed.spark.shapes import AllTables
from changefeed.spark.types import spark_schema
from changefeed.spark.writing import WritePlan, writing
from changefeed.stages.transcode import Language

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_SLICE = 10_000  # records a task reads at least
_SLICES = 8  # of one log, at most
_READERS = 4  # of all logs together, where none is cut


class DataSource(datasource.DataSource):
    """The data source `changefeed`; its options are those of `ReadOptions` and `WriteOptions`.

    Register it with `spark.dataSource.register(changefeed.spark.DataSource)`.
    """

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._settings = dict(options)
        self._known: Known | None = None
        self._own_schema = False  # Spark pickles the object after it has asked for the schema

    @classmethod
    def name(cls) -> str:
        """The name for `spark.read.format(…)`."""
        return "changefeed"

    def schema(self) -> StructType:
        """The schema of the result; for one table, with the columns found in the log."""
        self._own_schema = True
        reading = self._reading(None)
        return spark_schema(RECORDS if reading is None else reading.schema)

    def reader(self, schema: StructType) -> LogReader:
        """Creates a batch reader of the records that the logs have now."""
        return LogReader(Logs(self._path()), self._reading(self._users(schema)))

    def streamReader(self, schema: StructType) -> LogStreamReader:  # Spark's name
        """Creates a stream reader of the logs."""
        return LogStreamReader(Logs(self._path()), self._reading(self._users(schema)))

    def writer(self, schema: StructType, overwrite: bool) -> LogWriter | KafkaWriter:
        """Creates a batch writer to a folder of record logs, or to Kafka."""
        if overwrite:
            raise ConfigError("changefeed: a log cannot be overwritten: write with mode `append`, to a new folder")
        target, plan = self._write(schema, uuid.uuid4().hex[:8])
        return LogWriter(target, plan) if isinstance(target, LogFolder) else KafkaWriter(target, plan)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LogStreamWriter | KafkaStreamWriter:  # Spark's name
        """Creates a stream writer to a folder of record logs, or to Kafka."""
        if overwrite:
            raise ConfigError("changefeed: a log cannot be overwritten: write with output mode `append`")
        target, plan = self._write(schema)
        return LogStreamWriter(target, plan) if isinstance(target, LogFolder) else KafkaStreamWriter(target, plan)

    def _write(self, schema: StructType, write_id: str = "") -> tuple[LogFolder | Topics, WritePlan]:
        """Returns target and plan of a write; `write_id` makes the file names of a batch write unique."""
        options, own, kafka = write_options(self._settings)
        if options.keys is not None and options.table is None:
            raise ConfigError("changefeed: option keys is for the rows of one table, which the option table names")
        keys = {str(options.table): tuple(options.keys.split(","))} if options.keys is not None else {}
        target = topics(kafka, options.topic) if options.path is None else LogFolder(_local(options.path), write_id)
        plan = writing(Language(options.protocol, own), options.table, schema, options.default_topic, keys)
        return target, plan

    def _users(self, schema: StructType) -> StructType | None:
        """Returns the schema if the user has set it, else None."""
        return None if self._own_schema else schema

    def _path(self) -> str:
        path = read_options(self._settings)[0].path
        if path is None:
            raise ConfigError("changefeed: no path: load a log or a pattern, as .load('history/*.jsonl.gz')")
        return _local(path)

    def _reading(self, schema: StructType | None) -> ReadPlan | None:
        """Returns the plan of the read; None to return the records undecoded.

        Args:
            schema: the schema that the user has set; None for the columns found in the log.
        """
        options, own = read_options(self._settings)
        if options.protocol is None and options.table is None:
            return None
        language = options.language(own)
        letters = options.dead_letters == "rows"
        if options.table is None:
            return ReadPlan(language, AllTables(letters))
        known = self._look(language, options)
        return ReadPlan(language, one_table(options, known, schema), known)

    def _look(self, language: Any, options: ReadOptions) -> Known:
        if self._known is None:
            assert options.table is not None
            split_name(options.table)
            records = Logs(self._path()).first(options.schema_records)
            self._known = Look(options.table).read(records, language).known(language)
        return self._known


def _local(path: str) -> str:
    path = path.removeprefix("file://").removeprefix("file:")
    if "://" in path:
        raise ConfigError(
            f"changefeed: path {path} is a URL, but logs are read from folders only. Copy or mount it at one path on every "
            "machine of the cluster"
        )
    return path


@dataclass(frozen=True, slots=True)
class Logs:
    """The record logs that match a pattern."""

    pattern: str

    def ends(self) -> Cursors:
        """Returns the current end of each log.

        Raises:
            SourceError: a log cannot be read.
        """
        return LogProgress(self.pattern, write_offset({}), None).everything()

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
        self._progress: LogProgress | None = None

    def initialOffset(self) -> dict[str, Any]:  # Spark's name
        """Returns the offset before the first record of every log."""
        return _offset({})

    def latestOffset(self) -> dict[str, Any]:  # Spark's name
        """Returns the offset after the last complete record of every log."""
        if self._progress is None:  # which remembers sizes, so that only what is new is counted
            self._progress = LogProgress(self._logs.pattern, write_offset({}), None)
        return _offset(self._progress.everything())

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
