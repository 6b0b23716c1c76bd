"""A source in one file: `source: {type: tests.toys.lines, path: …, protocol: …}`, a folder of JSON lines.

    <path>/orders.0.jsonl       topic `orders`, partition 0
        {"key": "AAAAAQ==", "value": "e30="}

Each partition has a file, which only grows. A record's offset is the byte at which its line begins, and a source offset is the
number of bytes that have been read of each file: `{"orders.0.jsonl": 4711}`. A line counts once its end is there.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pydantic import Field

from changefeed.errors import SourceError
from changefeed.frames.mapped import Mapped, Work
from changefeed.model.batch import record_batch
from changefeed.sources import Backlog, Compared, Missing, NextBatch
from changefeed.sources.section import SourceSection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Piece:
    """The lines between two bytes of a file: the input of one task."""

    name: str
    start: int
    end: int


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

    def reading(self, pieces: list[Piece]) -> Work:
        """The function that tasks run: it reads the pieces whose numbers are its input."""

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in (number for batch in batches for number in batch.column(0).to_pylist()):
                piece = pieces[number]
                yield self.read(piece.name, piece.start, piece.end)

        return run

    def read(self, name: str, start: int, end: int) -> pa.RecordBatch:
        """The records between two bytes of a file, for tasks."""
        return self.records(name, start, end)


@dataclass(frozen=True, slots=True)
class LinesSource:
    """See `RecordSource`."""

    folder: LinesFolder
    limit: int

    offset_names_partitions = False  # a file that is new has a partition that no source offset names
    whole = True  # a task reads one file, from one byte to another

    def next_batch(
        self, spark: SparkSession, before: str | None, end: str | None, *, short_first: bool = False
    ) -> NextBatch | None:
        """See `Stream`: at most `limit` lines, of one file after the other."""
        starts, stops, left = json.loads(before or "{}"), json.loads(before or "{}"), self.limit
        for name in self.folder.files() if end is None else json.loads(end):
            for start, line in self.folder.lines(
                name, starts.get(name, 0), None if end is None else json.loads(end)[name]
            ):
                if not left:
                    break
                left, stops[name] = left - 1, start + len(line)
        pieces = [Piece(name, starts.get(name, 0), stop) for name, stop in stops.items() if starts.get(name, 0) < stop]
        if not pieces:
            return None
        files = self.folder.files()
        ended = frozenset(self.folder.partition(name) for name in files if stops.get(name, 0) == self.folder.end(name))
        records = Mapped(spark.range(0, len(pieces), 1, len(pieces)), self.folder.reading(pieces))
        return NextBatch(records, json.dumps(stops), ended)

    def end(self, spark: SparkSession, before: str | None) -> str:
        """See `Stream`."""
        return json.dumps({name: self.folder.end(name) for name in self.folder.files()})

    def compared(self, spark: SparkSession | None, source_offset: str) -> Compared:
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

    def sample(self, limit: int) -> Iterator[pa.RecordBatch]:
        """See `RecordSource`."""
        for name in self.folder.files():
            records = self.folder.records(name, 0, None).slice(0, limit)
            limit -= len(records)
            yield records

    def backlog(self, before: str | None) -> Backlog:
        """See `Stream`: the lines of all files that lie behind the source offset."""
        starts = json.loads(before or "{}")
        lines = {
            self.folder.partition(name): sum(1 for _ in self.folder.lines(name, starts.get(name, 0), None))
            for name in self.folder.files()
        }
        return Backlog(sum(lines.values()), lines)

    def unreachable(self) -> str | None:
        """See `Stream`: there is no server."""
        return None

    def close(self) -> None:
        """See `Stream`: nothing is open."""


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
