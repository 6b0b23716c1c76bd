"""A source of records and the protocol that they are in, as a source of changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.protocols import protocol
from changefeed.protocols.base import Capabilities
from changefeed.sources import Compared, Missing, RecordSource
from changefeed.stages.changes import Told
from changefeed.stages.decode import Reader, decode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Decoded:
    """See `Source`.

    Attributes:
        records: where the bytes come from.
        protocol: name of the protocol that they are in.
        options: the protocol's.
    """

    records: RecordSource
    protocol: str
    options: Mapping[str, Any]

    @property
    def capabilities(self) -> Capabilities:
        """Those of the protocol."""
        return protocol(self.protocol).capabilities

    @property
    def title(self) -> str:
        """The protocol's."""
        return protocol(self.protocol).title

    @property
    def told(self) -> Told:
        """See `Source`."""
        return Told(self.protocol, self.options)

    def chunks(
        self, batch: DataFrame, latest: Mapping[str, Mapping[int, int]], fragments: DataFrame | None
    ) -> DataFrame:
        """See `Source`."""
        return decode(batch, self.protocol, self.options, latest, fragments, whole=self.records.whole)

    def sample_chunks(self, limit: int) -> Iterator[pa.RecordBatch]:
        """See `Source`."""
        read = Reader(self.protocol, self.options)
        for records in self.records.sample(limit):
            yield read.pack(read(records), records)

    # Where the stream stands is the business of the records.

    def compared(self, spark: SparkSession, token: str) -> Compared:
        """See `Stream`."""
        return self.records.compared(spark, token)

    def token(self, spark: SparkSession, before: str | None, logged: str) -> str:
        """See `Stream`."""
        return self.records.token(spark, before, logged)

    def close(self) -> None:
        """See `Stream`."""
        self.records.close()

    def stream(self, spark: SparkSession, token: str | None, end: str | None) -> DataFrame:
        """See `Stream`."""
        return self.records.stream(spark, token, end)

    def end(self, spark: SparkSession, token: str | None) -> str | None:
        """See `Stream`."""
        return self.records.end(spark, token)

    def missing(self) -> Missing | None:
        """See `Stream`."""
        return self.records.missing()

    def partitions(self, token: str) -> set[tuple[str, int]]:
        """See `Stream`."""
        return self.records.partitions(token)

    def drained(self, before: str | None, after: str) -> bool:
        """See `Stream`."""
        return self.records.drained(before, after)

    @property
    def start(self) -> str | None:
        """See `Stream`."""
        return self.records.start

    @property
    def available_now(self) -> bool:
        """See `Stream`."""
        return self.records.available_now
