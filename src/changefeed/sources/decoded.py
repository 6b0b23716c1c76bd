"""A source of changes made of a source of records and their protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.protocols import protocol
from changefeed.protocols.base import Capabilities
from changefeed.sources import Backlog, Compared, Missing, NextBatch, RecordSource
from changefeed.stages.changes import Redefinition
from changefeed.stages.decode import RecordReader, decode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from changefeed.frames.chunks import Dated
    from changefeed.frames.mapped import Mapped
    from changefeed.frames.slices import Slices


@dataclass(frozen=True, slots=True)
class DecodedSource:
    """See `Source`.

    Attributes:
        records: the source of the bytes.
        protocol: name of the protocol of the bytes.
        options: options of the protocol.
    """

    records: RecordSource
    protocol: str
    options: Mapping[str, Any]

    @property
    def capabilities(self) -> Capabilities:
        """The protocol's capabilities."""
        return protocol(self.protocol).capabilities

    @property
    def title(self) -> str:
        """The protocol's title."""
        return protocol(self.protocol).title

    @property
    def redefinition(self) -> Redefinition:
        """See `Source`."""
        return Redefinition(self.protocol, self.options)

    def chunks(self, records: DataFrame | Mapped | Slices, dated: Dated, fragments: DataFrame | None) -> Mapped:
        """See `Source`."""
        return decode(records, self.protocol, self.options, dated, fragments, whole=self.records.whole)

    def sample_chunks(self, limit: int) -> Iterator[pa.RecordBatch]:
        """See `Source`."""
        read = RecordReader(self.protocol, self.options)
        for records in self.records.sample(limit):
            yield read.pack(read(records), records)

    # The position of the stream is that of the records.

    def compared(self, spark: SparkSession | None, source_offset: str) -> Compared:
        """See `Stream`."""
        return self.records.compared(spark, source_offset)

    def next_batch(
        self, spark: SparkSession, before: str | None, end: str | None, *, short_first: bool = False
    ) -> NextBatch | None:
        """See `Stream`."""
        return self.records.next_batch(spark, before, end, short_first=short_first)

    def end(self, spark: SparkSession, before: str | None) -> str:
        """See `Stream`."""
        return self.records.end(spark, before)

    def backlog(self, before: str | None) -> Backlog | None:
        """See `Stream`."""
        return self.records.backlog(before)

    def unreachable(self) -> str | None:
        """See `Stream`."""
        return self.records.unreachable()

    def close(self) -> None:
        """See `Stream`."""
        self.records.close()

    def missing(self) -> Missing | None:
        """See `Stream`."""
        return self.records.missing()

    def partitions(self, source_offset: str) -> set[tuple[str, int]]:
        """See `Stream`."""
        return self.records.partitions(source_offset)

    @property
    def offset_names_partitions(self) -> bool:
        """See `Stream`."""
        return self.records.offset_names_partitions
