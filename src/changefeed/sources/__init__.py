"""Sources: where records come from, as a stream with offsets that a ledger can keep.

A source is a folder here and a line in `SOURCES`. It gives records as Spark's Kafka source with headers gives them, and
its offsets as one text, a token: the ledger keeps it, and the next run goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from changefeed.errors import unknown_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


class Source(Protocol):
    """What the pipeline asks of a source."""

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

    def sample(self, limit: int) -> Iterator[pa.RecordBatch]:
        """The first records that are there, without Spark; for `explain` and `check`."""
        ...

    @property
    def start(self) -> str | None:
        """The token before the first record, or None when only a service can tell."""
        ...

    @property
    def whole(self) -> bool:
        """Whether each task of a batch has whole partitions, in the order of their offsets."""
        ...

    @property
    def available_now(self) -> bool:
        """Whether Spark's trigger of that name knows where this source's end is."""
        ...


def source(definition: Any) -> Source:
    """The source that a definition's `source` section describes.

    Raises:
        ConfigError: there is none of this type.
    """
    if definition.type not in SOURCES:
        raise unknown_name("source", definition.type, SOURCES)
    found: Source = import_module(SOURCES[definition.type]).open_source(definition)
    return found
