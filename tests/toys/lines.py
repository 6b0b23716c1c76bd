"""A source in one file: `source: {type: tests.toys.lines, path: …, protocol: …}`, a folder of JSON lines.

    <path>/orders.0.jsonl       topic `orders`, partition 0
        {"key": "AAAAAQ==", "value": "e30="}

Each partition has a file, which only grows. A record's offset is the byte at which its line begins, and a source offset is the
number of bytes that have been read of each file: `{"orders.0.jsonl": 4711}`. A line counts once its end is there.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import Field
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from changefeed.errors import SourceError
from changefeed.frames.chunks import RECORDS_DDL
from changefeed.model.batch import record_batch
from changefeed.sources import Compared, Missing
from changefeed.sources.section import SourceSection
from changefeed.spark_runtime.session import make_active

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ends = dict[str, int]  # file -> bytes


@dataclass(frozen=True, slots=True)
class LinesFolder:
    """The files of a folder, as the driver and the tasks read them."""

    path: Path

    def files(self) -> list[str]:
        """The names of all files."""
        return sorted(file.name for file in self.path.glob("*.*.jsonl"))

    def partition(self, name: str) -> tuple[str, int]:
        """Topic and partition of a file."""
        topic, partition, _ = name.rsplit(".", 2)
        return topic, int(partition)

    def end(self, name: str) -> int:
        """The end of a file's last whole line."""
        return sum(len(line) for _, line in self.lines(name, 0, None))

    def lines(self, name: str, start: int, end: int | None) -> Iterator[tuple[int, bytes]]:
        """The whole lines between two bytes of a file, and where each begins."""
        with (self.path / name).open("rb") as file:
            file.seek(start)
            for line in file:
                if not line.endswith(b"\n") or (end is not None and start >= end):
                    return
                yield start, line
                start += len(line)

    def records(self, name: str, start: int, end: int | None) -> pa.RecordBatch:
        """The records between two bytes of a file."""
        topic, partition = self.partition(name)
        rows = []
        for offset, line in self.lines(name, start, end):
            key, value = (text and base64.b64decode(text) for text in map(json.loads(line).get, ("key", "value")))
            rows.append({"topic": topic, "partition": partition, "offset": offset, "key": key, "value": value})
        return record_batch(rows)


@dataclass(frozen=True, slots=True)
class LinesSource:
    """See `RecordSource`."""

    folder: LinesFolder
    limit: int

    start = "{}"
    available_now = False
    offset_names_partitions = False  # a file that is new has a partition that no source offset names
    whole = True  # a task reads one file, from one byte to another

    def format(self) -> type[Lines]:
        """The data source that Spark runs."""
        return Lines

    def stream(self, spark: SparkSession, source_offset: str | None, end: str | None) -> DataFrame:
        """See `Stream`."""
        make_active(spark)  # Spark looks for the name of a data source in the active session
        spark.dataSource.register(self.format())
        options = {"folder": str(self.folder.path), "limit": str(self.limit)}
        options |= {"start": source_offset or self.start, "end": end or ""}
        return spark.readStream.format(self.format().name()).options(**options).load()

    def source_offset(self, spark: SparkSession, before: str | None, logged: str) -> str:
        """See `Stream`: Spark logs what `latestOffset` has returned."""
        return logged

    def end(self, spark: SparkSession, source_offset: str | None) -> str:
        """See `Stream`."""
        return json.dumps({name: self.folder.end(name) for name in self.folder.files()})

    def compared(self, spark: SparkSession, source_offset: str) -> Compared:
        """See `Stream`."""
        for name, read in json.loads(source_offset).items():
            file = self.folder.path / name
            if not file.exists() or file.stat().st_size < read:
                raise SourceError(f"{file} is shorter than the {read:,} bytes that have been read of it: restore it")
        return Compared(source_offset)

    def missing(self) -> Missing | None:
        """See `Stream`."""
        if self.folder.files():
            return None
        return Missing(f"no file in {self.folder.path} is named as orders.0.jsonl", "correct source.path")

    def partitions(self, source_offset: str) -> set[tuple[str, int]]:
        """See `Stream`."""
        return {self.folder.partition(name) for name in self.folder.files()}

    def ended(self, spark: SparkSession, source_offset: str) -> set[tuple[str, int]]:
        """See `Stream`."""
        read = json.loads(source_offset)
        files = self.folder.files()
        return {self.folder.partition(name) for name in files if read.get(name, 0) == self.folder.end(name)}

    def caught_up(self, before: str | None, after: str) -> bool:
        """See `Stream`: it is never certain."""
        return False

    def leading(self, spark: SparkSession, source_offset: str | None) -> None:
        """See `Stream`: no partition is read before the others."""

    def unread(self, spark: SparkSession, before: str | None, after: str) -> None:
        """See `RecordSource`: the stream reads the records."""

    def sample(self, limit: int) -> Iterator[pa.RecordBatch]:
        """See `RecordSource`."""
        for name in self.folder.files():
            records = self.folder.records(name, 0, None).slice(0, limit)
            limit -= len(records)
            yield records

    def close(self) -> None:
        """See `Stream`: nothing is open."""


# What Spark runs.


class Lines(DataSource):
    """`spark.readStream.format("toy_lines")`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "toy_lines"

    def schema(self) -> str:
        """The columns of records."""
        return RECORDS_DDL

    def streamReader(self, schema: Any) -> LinesReader:  # Spark's name
        """The stream reader."""
        return LinesReader(dict(self.options))


@dataclass
class Piece(InputPartition):
    """The input of one task."""

    name: str
    start: int
    end: int


class LinesReader(DataSourceStreamReader):
    """Plans batches of at most `limit` lines on the driver, and reads them in tasks."""

    def __init__(self, options: dict[str, str]) -> None:
        self.folder, self.limit = LinesFolder(Path(options["folder"])), int(options["limit"])
        self.start: Ends = json.loads(options["start"])
        self.end: Ends | None = json.loads(options["end"]) if options["end"] else None
        self.read_to = dict(self.start)

    def initialOffset(self) -> Ends:  # Spark's name
        """The source offset at which the run begins."""
        return self.start

    def latestOffset(self) -> Ends:  # Spark's name
        """The end of the next batch: of one file after the other, until there are enough lines."""
        left = self.limit
        for name in self.folder.files() if self.end is None else self.end:
            at = self.read_to.get(name, 0)
            for start, line in self.folder.lines(name, at, None if self.end is None else self.end[name]):
                if not left:
                    break
                left, at = left - 1, start + len(line)
            if at:
                self.read_to[name] = at
        return dict(self.read_to)

    def partitions(self, start: Ends, end: Ends) -> list[InputPartition]:
        """A piece for each file with new lines."""
        return [Piece(name, start.get(name, 0), to) for name, to in end.items() if start.get(name, 0) < to]

    def read(self, partition: Piece) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        """The records of a piece."""
        yield self.folder.records(partition.name, partition.start, partition.end)


# The function by which the pipeline opens the source, and its section of the definition.


class LinesSection(SourceSection):
    """JSON lines, a file for each partition."""

    path: str = Field(description="The folder; relative to the definition.")

    @property
    def reads(self) -> str:
        """See `SourceSection`."""
        return self.path


SECTION = LinesSection


def open_source(section: LinesSection) -> LinesSource:
    """The source of records that a section describes."""
    return LinesSource(LinesFolder(Path(section.path)), section.max_records_per_batch)
