"""Sources: where changes come from, as a stream with offsets that a ledger can keep.

A source is a folder here and a line in `SOURCES`. It gives chunks of decoded changes (`frames.chunks`), and its offsets as
one text, a token: the ledger keeps it, and the next run goes on from there. One that reads bytes is a `RecordSource`: it
gives records as Spark's Kafka source with headers gives them, and `decoded.py` makes a `Source` of it and a protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from changefeed.errors import unknown_name
from changefeed.protocols.base import Capabilities

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from changefeed.sources.section import SourceSection
    from changefeed.stages.changes import Told

SOURCES: dict[str, str] = {
    "files": "changefeed.sources.files",
    "kafka": "changefeed.sources.kafka",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """What a definition names and is not there, and what to do about it."""

    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.what}: {self.fix}"


@dataclass(frozen=True, slots=True)
class Compared:
    """A ledger's token beside what the source has now.

    Attributes:
        token: where to go on; it lacks what was removed.
        removed: topics that the ledger's token has and this one lacks, or has from its start.
        notes: a sentence for each of them.
    """

    token: str
    removed: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


class Stream(Protocol):
    """What the pipeline asks of every source: where it stands, and what comes next.

    Tokens are opaque outside the source. A run starts the stream at the token that the ledger has, and asks for the token of
    each batch before it applies the batch. What lies between two tokens never changes.
    """

    def compared(self, spark: SparkSession, token: str) -> Compared:
        """Whether what the token continues is still there.

        Raises:
            ConfigError: a topic was taken out of the definition, which does not allow to go on without.
            SourceError: records that come next are gone, or their topic is another one now.
        """
        ...

    def token(self, spark: SparkSession, before: str | None, logged: str) -> str:
        """The token for the offset that Spark logged for a batch, where `before` is the token of the batch before it.

        Raises:
            SourceError: a topic of the batch was deleted, or deleted and created again.
        """
        ...

    def close(self) -> None:
        """Ends the connections of a run."""
        ...

    def stream(self, spark: SparkSession, token: str | None, end: str | None) -> DataFrame:
        """The records from `token` on (None: from where the definition says), up to `end` (None: for ever)."""
        ...

    def end(self, spark: SparkSession, token: str | None) -> str | None:
        """The token of all that is there now, or None when the stream itself can stop there (`available_now`)."""
        ...

    def missing(self) -> Missing | None:
        """What must come before there is anything to read; None when it is there, or only reading can tell."""
        ...

    def partitions(self, token: str) -> set[tuple[str, int]]:
        """The (topic, partition)s that a token speaks of: each must have its resolved mark before a barrier moves."""
        ...

    def drained(self, before: str | None, after: str) -> bool:
        """Whether a batch from one token to the other surely took all that was there when it began."""
        ...

    @property
    def start(self) -> str | None:
        """The token before the first record, or None when only a service can tell."""
        ...

    @property
    def available_now(self) -> bool:
        """Whether Spark's trigger of that name knows where this source's end is."""
        ...


class RecordSource(Stream, Protocol):
    """A source of bytes: `stream` gives records, with the columns of Spark's Kafka source with headers, or slices of logs."""

    def sample(self, limit: int) -> Iterator[pa.RecordBatch]:
        """The first records that are there, without Spark; for `explain` and `check`."""
        ...

    @property
    def whole(self) -> bool:
        """Whether each task of a batch has whole partitions, in the order of their offsets."""
        ...


class Source(Stream, Protocol):
    """A source of changes: chunks, and what can be relied on about them."""

    @property
    def capabilities(self) -> Capabilities:
        """What cuts rest on, where schema changes are sent, and the like."""
        ...

    @property
    def title(self) -> str:
        """What the source speaks, for people: `TiCDC Open Protocol`."""
        ...

    @property
    def told(self) -> Told | None:
        """How values become those of types that DDL declares; None where they have these types already."""
        ...

    def chunks(
        self, batch: DataFrame, latest: Mapping[str, Mapping[int, int]], fragments: DataFrame | None
    ) -> DataFrame:
        """The chunks of one batch of `stream`.

        Args:
            batch: of the stream.
            latest: topic -> partition -> the highest commit_ts seen there before.
            fragments: the `waiting` chunks that the batch before has left, if any.
        """
        ...

    def sample_chunks(self, limit: int) -> Iterator[pa.RecordBatch]:
        """The chunks of the first `limit` records, without Spark; for `explain`."""
        ...


def source_sections() -> dict[str, type[SourceSection]]:
    """What a definition may say of each source, by its type."""
    return {name: import_module(f"{place}.section").SECTION for name, place in SOURCES.items()}


def record_source(definition: Any) -> RecordSource:
    """The source of records that a definition's `source` section describes.

    Raises:
        ConfigError: there is none of this type.
    """
    if definition.type not in SOURCES:
        raise unknown_name("source", definition.type, SOURCES)
    found: RecordSource = import_module(SOURCES[definition.type]).open_source(definition)
    return found


def source(definition: Any) -> Source:
    """The source that a definition's `source` section describes.

    Raises:
        ConfigError: there is none of this type.
    """
    from changefeed.sources.decoded import Decoded

    return Decoded(record_source(definition), definition.protocol.name, definition.protocol.options)
