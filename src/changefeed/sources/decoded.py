"""A source of changes made of a source of records and their protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.protocols import protocol
from changefeed.protocols.base import Capabilities
from changefeed.sources import Compared, Leading, Missing, RecordSource
from changefeed.stages.changes import Redefinition
from changefeed.stages.decode import RecordReader, decode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from changefeed.frames.chunks import Dated
    from changefeed.frames.mapped import Mapped


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

    def batch(self, spark: SparkSession, streamed: DataFrame, before: str | None, after: str) -> DataFrame | Mapped:
        """See `Source`."""
        return self.records.unread(spark, before, after) or streamed

    def chunks(self, batch: DataFrame | Mapped, dated: Dated, fragments: DataFrame | None) -> Mapped:
        """See `Source`."""
        return decode(batch, self.protocol, self.options, dated, fragments, whole=self.records.whole)

    def sample_chunks(self, limit: int) -> Iterator[pa.RecordBatch]:
        """See `Source`."""
        read = RecordReader(self.protocol, self.options)
        for records in self.records.sample(limit):
            yield read.pack(read(records), records)

    # The position of the stream is that of the records.

    def compared(self, spark: SparkSession, source_offset: str) -> Compared:
        """See `Stream`."""
        return self.records.compared(spark, source_offset)

    def source_offset(self, spark: SparkSession, before: str | None, logged: str) -> str:
        """See `Stream`."""
        return self.records.source_offset(spark, before, logged)

    def close(self) -> None:
        """See `Stream`."""
        self.records.close()

    def stream(self, spark: SparkSession, source_offset: str | None, end: str | None) -> DataFrame:
        """See `Stream`."""
        return self.records.stream(spark, source_offset, end)

    def end(self, spark: SparkSession, source_offset: str | None) -> str | None:
        """See `Stream`."""
        return self.records.end(spark, source_offset)

    def missing(self) -> Missing | None:
        """See `Stream`."""
        return self.records.missing()

    def partitions(self, source_offset: str) -> set[tuple[str, int]]:
        """See `Stream`."""
        return self.records.partitions(source_offset)

    def caught_up(self, before: str | None, after: str) -> bool:
        """See `Stream`."""
        return self.records.caught_up(before, after)

    def ended(self, spark: SparkSession, source_offset: str) -> set[tuple[str, int]]:
        """See `Stream`."""
        return self.records.ended(spark, source_offset)

    def leading(self, spark: SparkSession, source_offset: str | None) -> Leading | None:
        """See `Stream`."""
        return self.records.leading(spark, source_offset)

    @property
    def offset_names_partitions(self) -> bool:
        """See `Stream`."""
        return self.records.offset_names_partitions

    @property
    def start(self) -> str | None:
        """See `Stream`."""
        return self.records.start

    @property
    def available_now(self) -> bool:
        """See `Stream`."""
        return self.records.available_now
