"""Sources: streams of changes, with offsets that the ledger stores.

A source is a folder here and a line in `SOURCES`, or a module of one's own. It plans batches, and makes chunks of decoded
changes of them (`frames.chunks`). Its source offset is a text that the ledger stores; the next run continues from it. A source of
bytes is a `RecordSource`: its batches have records, and `decoded.py` makes a `Source` of it and a protocol.

A module of one's own has `SECTION`, the model of its section, and a function that opens the source: `open_source(section)`
returns a `RecordSource`, and its section is derived from `sources.section.SourceSection`, which has the protocol;
`open_changes(section)` returns a `Source`, and its section is derived from `ChangesSection`. A source that can also be written to
sinks of events has `open_stream(section, tables)`, which returns an `EventStream`.

Rule 1. A change has a place: topic, partition, offset, and its index in the record at that offset. Offsets grow in a partition.
A change that is read again has the same place.
Rule 2. The changes of a key are applied in the order of their commit_ts, which may be the number of a transaction. Changes of a
key with one commit_ts are applied in the order of offset and index if they are in one partition; in two partitions they have no
order (`stages.latest`), so that a source keeps a key in one partition. A row of a snapshot comes before the changes at its
commit_ts. With `Capabilities.restored_ddl`, which is for TiDB, this order does not hold: a delete may come before a write of the
same commit_ts that has a lower offset.
Rule 3. The capabilities declare how the pipeline finds that everything up to a commit_ts was read. With `cuts` as `marks`, each
partition has resolved events, as records at their places: after a resolved event no change follows in its partition at or below
its commit_ts. The barrier is the lowest of the last resolved events of all `partitions`. Without `cuts`, a definition needs
`consistency: key`.
Rule 4. The chunks of a batch count every record read from it (`read` chunks), also of records without changes:
`frames.chunks.pack` makes them. docs/guides/own.md shows how to make chunks of changes.
Rule 5. A record that cannot be read becomes a `DeadLetter`. A source raises SourceError for what its user or its server can mend;
any other exception is reported as a defect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from changefeed.model.batch import Decoded
from changefeed.model.definition import Table
from changefeed.modules import function_of
from changefeed.protocols.base import Capabilities

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from changefeed.frames.chunks import Dated
    from changefeed.frames.mapped import Mapped
    from changefeed.frames.slices import Slices
    from changefeed.section import ProtocolChoice
    from changefeed.sources.section import SourceSection
    from changefeed.stages.changes import Redefinition

SOURCES: dict[str, str] = {
    "files": "changefeed.sources.files",
    "kafka": "changefeed.sources.kafka",
    "mysql": "changefeed.sources.mysql",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that a definition names and that does not exist, and what to do about it."""

    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.what}: {self.fix}"


@dataclass(frozen=True, slots=True)
class Compared:
    """The ledger's source offset, compared with what the source has now.

    Attributes:
        source_offset: where to continue, without the topics in `removed`.
        removed: topics that are no longer read, or are read from their start.
        notes: a sentence for each of them, and for what the source cannot tell.
    """

    source_offset: str
    removed: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Backlog:
    """The records or bytes that a source has behind a source offset.

    Attributes:
        records: number of records; in Kafka, offsets without a record count too, such as those that compaction has removed.
            None if the source does not know it.
        partitions: (topic, partition) -> number of its records; empty if the source counts them together only.
        bytes: size of a log whose records only reading it would count; else None.
        counted: when the source was asked; None if it has just been asked.
    """

    records: int | None
    partitions: Mapping[tuple[str, int], int] = field(default_factory=dict)
    bytes: int | None = None
    counted: datetime | None = None


@dataclass(frozen=True, slots=True)
class NextBatch:
    """The batch that a run reads next.

    Attributes:
        records: of a `RecordSource`, records with the columns of Spark's Kafka source with headers, or slices of logs; of a
            `Source`, whatever its `chunks` takes. Tasks read them, perhaps more than once, until the next batch is planned.
        source_offset: after the batch.
        ended: the partitions of which nothing is left to read after the batch.
        caught_up: whether the batch certainly contains everything that the source had when it was planned, or had up to the
            end that was given. If a source cannot be certain, then the answer that there is no next batch shows it.
        left: what was behind the batch when it was planned, up to the end that was given; None if that is not known. For people.
    """

    records: DataFrame | Mapped | Slices
    source_offset: str
    ended: frozenset[tuple[str, int]]
    caught_up: bool = False
    left: Backlog | None = None


class Stream(Protocol):
    """The part of the contract that all sources share: where the source stands, and what comes next.

    Source offsets are JSON texts, opaque outside the source. A run continues at the ledger's source offset: it asks for the next
    batch, applies it, and stores its source offset. The records between two source offsets never change.
    """

    def compared(self, spark: SparkSession | None, source_offset: str) -> Compared:
        """Checks that the source still has what follows a source offset: for a run, and for `check`.

        Args:
            spark: the session of the run; None for `check`, which has none.
            source_offset: the ledger's.

        Raises:
            NeedsSparkError: the source can be asked with a session only.
            ConfigError: a topic was taken out of the definition, and the definition does not allow to continue without it.
            SourceError: the records that come next are gone, or their topic is another one now.
        """
        ...

    def next_batch(
        self, spark: SparkSession, before: str | None, end: str | None, *, short_first: bool = False
    ) -> NextBatch | None:
        """The batch that follows a source offset; None if there is nothing to read. The source itself limits its size.

        Args:
            spark: the session whose tasks read the batch.
            before: where the batch begins; None: where the definition starts.
            end: what `end` returned: nothing behind it is read. None: there is no end.
            short_first: if there is more than one batch takes, read only partitions of which little is left, to their ends. A
                topic of schema changes is short, and holds back the rows of all others as long as it has not been read to its
                end. A source that reads its partitions in an order of its own may ignore it.

        Raises:
            SourceError: a topic was deleted or created again, or records that come next are gone.
        """
        ...

    def end(self, spark: SparkSession, before: str | None) -> str:
        """The source offset at the end of the source now; see `next_batch` for `before`."""
        ...

    def backlog(self, before: str | None) -> Backlog | None:
        """Returns what lies behind a source offset, for people; None if that cannot be found out without Spark.

        Args:
            before: the ledger's source offset; None before the first batch.

        Raises:
            ConfigError: there is nothing to read yet.
            SourceError: the source does not answer.
        """
        ...

    def unreachable(self) -> str | None:
        """Why the source's server cannot be reached now, for people; None if it can, or if there is no server.

        A run calls it in a thread of its own when the source has not answered for some seconds. Returns within five seconds.
        """
        ...

    def close(self) -> None:
        """Closes the connections of a run, and deletes its temporary files."""
        ...

    def missing(self) -> Missing | None:
        """An error that names what must be created before there is anything to read; None if reading can begin."""
        ...

    def partitions(self, source_offset: str) -> set[tuple[str, int]]:
        """The (topic, partition)s of a source offset. Each must have a resolved event before the barrier moves."""
        ...

    @property
    def offset_names_partitions(self) -> bool:
        """Whether a source offset has the names of all partitions, so that `partitions` reads nothing else."""
        ...


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """Consecutive changes of an `EventStream`.

    Attributes:
        changes: the changes, in order by `(record, index)`.
        source_offset: where the stream continues after them; None if it cannot continue there, as inside of a snapshot.
        tables: `database.table` -> the definition of the table after them, for the tables that are known.
        place: where the stream continues as a number, as the commit_ts of its changes; None if it has none there.
    """

    changes: Decoded
    source_offset: str | None
    tables: Mapping[str, Table]
    place: int | None = None


class EventStream(Protocol):
    """The changes of a source in one order, with all details that its log has: for event sinks. It is read without Spark."""

    def batches(self, before: str | None) -> Iterator[StreamBatch]:
        """Yields the batches that follow a source offset, up to the end of what the source has now.

        Args:
            before: where to continue; None: where the definition starts.

        Raises:
            ConfigError: a setting of the server is not as the source needs it.
            AccessError, SourceError: the server refuses the user, does not answer, or no longer has what comes next.
            UnsupportedError: the log has something that the source does not read.
        """
        ...

    def current_tables(self) -> Mapping[str, Table]:
        """Returns `database.table` -> its definition at this moment, for the tables that are captured; raises as `batches`."""
        ...

    def close(self) -> None:
        """Closes the connections."""
        ...


class RecordSource(Stream, Protocol):
    """A source of bytes: its batches have records."""

    def sample(self, limit: int) -> Iterator[pa.RecordBatch]:
        """The first records, read without Spark; for `explain` and `check`."""
        ...

    @property
    def whole(self) -> bool:
        """Whether each task of a batch has whole partitions, in the order of their offsets."""
        ...


class Source(Stream, Protocol):
    """A source of changes: chunks, and their capabilities."""

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the source's changes: order, cuts, schema changes."""
        ...

    @property
    def title(self) -> str:
        """The title of the protocol, for people: `TiCDC Open Protocol`."""
        ...

    @property
    def redefinition(self) -> Redefinition | None:
        """Converts values to the types that DDL declares; None if they have these types already."""
        ...

    def chunks(
        self, records: DataFrame | Mapped | Slices, dated: Dated, fragments: DataFrame | None
    ) -> DataFrame | Mapped:
        """The chunks of one batch, with the columns of `frames.chunks`.

        Args:
            records: those of a `NextBatch`.
            dated: the content of the `dated` chunks of earlier batches.
            fragments: the `waiting` chunks of the batch before, if any.
        """
        ...

    def sample_chunks(self, limit: int) -> Iterator[pa.RecordBatch]:
        """The chunks of the first `limit` records, without Spark; for `explain`."""
        ...


def source_sections() -> dict[str, type[SourceSection]]:
    """Source type -> model of its section in the definition."""
    return {name: import_module(f"{place}.section").SECTION for name, place in SOURCES.items()}


def record_source(definition: Any) -> RecordSource:
    """The source of records that a definition's `source` section describes.

    Raises:
        ConfigError: unknown type, or a module that opens no source of records.
    """
    opened: RecordSource = _opener(definition.type, "open_source")(definition)
    return opened


def source(definition: Any) -> Source:
    """The source that a definition's `source` section describes.

    Raises:
        ConfigError: unknown type, or a module that does not open a source as its section requires.
    """
    from changefeed.sources.decoded import DecodedSource

    choice = protocol_of(definition)
    if choice is None:
        opened: Source = _opener(definition.type, "open_changes")(definition)
        return opened
    return DecodedSource(record_source(definition), choice.name, choice.options)


def event_stream(definition: Any, tables: Mapping[str, Table]) -> EventStream:
    """Opens the stream of changes that a definition's `source` section describes.

    Args:
        definition: the section.
        tables: the definitions of the tables where the stream continues; empty at its start.

    Raises:
        ConfigError: unknown type, or a source that has no stream of changes.
    """
    opener: Callable[..., EventStream] = _opener(definition.type, "open_stream")
    return opener(definition, tables)


def protocol_of(definition: Any) -> ProtocolChoice | None:
    """The protocol in a definition's `source` section; None for a source of changes."""
    from changefeed.sources.section import SourceSection

    return definition.protocol if isinstance(definition, SourceSection) else None


def _opener(type: str, function: str) -> Callable[..., Any]:
    """The function of a source's module."""
    return function_of("source", type, SOURCES, function)
