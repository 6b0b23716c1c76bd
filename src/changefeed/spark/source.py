"""The data source over record logs: `spark.read.format("changefeed")`, `spark.readStream.format("changefeed")`.

The writers of the same format are in `log_writer.py` and `kafka_writer.py`.

Rule 1. A read is planned once: files are listed, whole records are counted, and a table's columns are looked up in the log
        (`known.py`). Tasks read slices of the files and decode them; rows come as Arrow batches, in the order of a slice.
Rule 2. If a record's meaning depends on those before it in its partition (`ReadPlan.in_order`), logs are not cut into slices. A
        few tasks read all files in the order of their names, each for its own topic partitions.
Rule 3. An offset of a stream is how far each file has been read, in whole records and bytes: nothing else is in the
        checkpoint. A batch ends at the end of all files when it is planned. A log may grow, not become shorter.
Rule 4. If rule 2 holds, a batch of a stream that begins inside its logs first reads the records before it without returning
        them, to restore the records that wait for their remainder. This is exact, and costs more the longer the logs are.
        Records in a log that was deleted meanwhile are lost: delete a log only if whole rows end in it.
Rule 5. Where a batch read ends, records that wait for their remainder are dead letters; where a batch of a stream ends, they
        come with a later one.

Spark 4.1 asks the sources written in Python for no limit, so a batch has all that is new: its tasks stream it.
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
    """The format `changefeed`; options are those of `ReadOptions` and `WriteOptions`.

    Register it with `spark.dataSource.register(changefeed.spark.DataSource)`.
    """

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._settings = dict(options)
        self._known: Known | None = None
        self._own_schema = False  # Spark pickles the object after it has asked for the schema

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "changefeed"

    def schema(self) -> StructType:
        """The columns of the result; for one table, those that the log contains."""
        self._own_schema = True
        reading = self._reading(None)
        return spark_schema(RECORDS if reading is None else reading.schema)

    def reader(self, schema: StructType) -> LogReader:
        """The reader of what is there now."""
        return LogReader(Logs(self._path()), self._reading(self._given(schema)))

    def streamReader(self, schema: StructType) -> LogStreamReader:  # Spark's name
        """The reader of a stream."""
        return LogStreamReader(Logs(self._path()), self._reading(self._given(schema)))

    def writer(self, schema: StructType, overwrite: bool) -> LogWriter | KafkaWriter:
        """The writer of a folder of record logs, or of topics."""
        if overwrite:
            raise ConfigError("changefeed: a log cannot be overwritten: write with mode `append`, to a new folder")
        target, plan = self._write(schema, uuid.uuid4().hex[:8])
        return LogWriter(target, plan) if isinstance(target, LogFolder) else KafkaWriter(target, plan)

    def streamWriter(self, schema: StructType, overwrite: bool) -> LogStreamWriter | KafkaStreamWriter:  # Spark's name
        """The writer of a stream."""
        if overwrite:
            raise ConfigError("changefeed: a log cannot be overwritten: write with output mode `append`")
        target, plan = self._write(schema)
        return LogStreamWriter(target, plan) if isinstance(target, LogFolder) else KafkaStreamWriter(target, plan)

    def _write(self, schema: StructType, write_id: str = "") -> tuple[LogFolder | Topics, WritePlan]:
        """The target and the plan of a write; `write_id` of one that is not a stream."""
        options, own, kafka = write_options(self._settings)
        if options.keys is not None and options.table is None:
            raise ConfigError("changefeed: option keys is for the rows of one table, which the option table names")
        keys = {str(options.table): tuple(options.keys.split(","))} if options.keys is not None else {}
        target = topics(kafka, options.topic) if options.path is None else LogFolder(_local(options.path), write_id)
        plan = writing(Language(options.protocol, own), options.table, schema, options.default_topic, keys)
        return target, plan

    def _given(self, schema: StructType) -> StructType | None:
        """The schema if the user gave it."""
        return None if self._own_schema else schema

    def _path(self) -> str:
        path = read_options(self._settings)[0].path
        if path is None:
            raise ConfigError("changefeed: no path: load a log or a pattern, as .load('history/*.jsonl.gz')")
        return _local(path)

    def _reading(self, schema: StructType | None) -> ReadPlan | None:
        """The plan of the read; None for the records as they are.

        Args:
            schema: the one that the user passed; None for the log's own.
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
            f"changefeed: path {path} is a URL, and logs lie in folders: copy or mount it where every machine of the cluster "
            "sees it under one path"
        )
    return path


@dataclass(frozen=True, slots=True)
class Logs:
    """The record logs that a pattern names."""

    pattern: str

    def ends(self) -> Cursors:
        """The current end of each log.

        Raises:
            SourceError: a log cannot be read.
        """
        return LogProgress(self.pattern, write_offset({}), None).everything()

    def first(self, limit: int) -> Iterator[pa.RecordBatch]:
        """The first records of each log.

        Raises:
            SourceError: there is no log.
        """
        paths = logs(self.pattern)
        if not paths:
            raise SourceError(f"changefeed: no record log matches {self.pattern}")
        for path in paths:
            yield from record_log.read(path, batch_size=10_000, stop=record_log.advance(path, limit=limit).records)


@dataclass
class Piece(InputPartition):
    """The slices that one task reads.

    Attributes:
        slices: whose records are shown.
        before: those that lie before them.
        share: the number of this task, and of how many; of their partitions it has those that are its own.
    """

    slices: list[Slice]
    before: list[Slice] = field(default_factory=list)
    share: tuple[int, int] | None = None

    def records(self, some: Sequence[Slice]) -> Iterator[pa.RecordBatch]:
        """The records of these slices that are the task's."""
        if self.share is None:
            return slices.read([slices.pack(some)])
        number, of = self.share
        return slices.read_share(some, of)([pa.record_batch([pa.array([number])], ["share"])]) if some else iter(())


def pieces(start: Cursors, end: Cursors, *, whole: bool) -> list[InputPartition]:
    """The work between two offsets, for the tasks.

    Args:
        start: path -> where the log has been read to.
        end: path -> where to read it to.
        whole: whether logs are not to be cut.
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
    """The rows of one task; `ends` where nothing follows."""
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
    """Reads the records that are there when it is planned."""

    def __init__(self, found_logs: Logs, reading: ReadPlan | None) -> None:
        self._logs, self._reading = found_logs, reading

    def partitions(self) -> list[InputPartition]:
        """The work of each task."""
        ends = self._logs.ends()
        if not ends and not logs(self._logs.pattern):
            raise SourceError(f"changefeed: no record log matches {self._logs.pattern}")
        return pieces({}, ends, whole=_whole(self._reading)) or [Piece([])]

    def read(self, partition: Piece) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The rows of a task."""
        return read_piece(partition, self._reading, ends=True)


class LogStreamReader(DataSourceStreamReader):
    """Plans batches on the driver, and reads them in tasks."""

    def __init__(self, found_logs: Logs, reading: ReadPlan | None) -> None:
        self._logs, self._reading = found_logs, reading
        self._progress: LogProgress | None = None

    def initialOffset(self) -> dict[str, Any]:  # Spark's name
        """The offset before the first record of every log."""
        return _offset({})

    def latestOffset(self) -> dict[str, Any]:  # Spark's name
        """Behind the last whole record of every log that is there."""
        if self._progress is None:  # which remembers sizes, so that only what is new is counted
            self._progress = LogProgress(self._logs.pattern, write_offset({}), None)
        return _offset(self._progress.everything())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The work of the tasks of one batch.

        Raises:
            SourceError: a log has become shorter.
        """
        first, last = (read_offset(json.dumps(offset)) for offset in (start, end))
        for path, place in last.items():
            if (known := first.get(path, record_log.START)).records > place.records:
                raise SourceError(
                    f"{path} has become shorter: {known.records:,} records of it have been read. A log may grow, not be "
                    "replaced: restore it, or give what is new a name of its own"
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
