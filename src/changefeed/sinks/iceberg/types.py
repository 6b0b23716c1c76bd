"""The types of Iceberg tables: those of Spark, without its two smallest integers.

    MySQL                                 Iceberg
    tinyint, smallint, unsigned too       int
    bigint unsigned                       decimal(20,0)
    datetime, timestamp                   timestamp, timestamptz
    time, decimal(p,s) with p > 38        string

`frames.types` has the others, and the reasons.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from changefeed.frames.types import SinkType, sink_type
from changefeed.model.definition import Table
from changefeed.model.types import ColumnType
from changefeed.sinks.sql import SparkTypes
from changefeed.sinks.writes import METADATA


class IcebergTypes(SparkTypes):
    """See `TypeMap`."""

    def sink_type(self, type: ColumnType) -> SinkType:
        """See `TypeMap`."""
        return iceberg_type(type)


@cache
def iceberg_type(type: ColumnType) -> SinkType:
    """Returns the type that a column has in an Iceberg table, with Spark's name for it."""
    made = sink_type(type)
    return SinkType("int", pa.int32(), made.lossy) if made.sql in ("tinyint", "smallint") else made


def columns_of(table: Table, metadata: tuple[str, ...]) -> pa.Schema:
    """Returns the columns of a table in the sink, metadata columns last, without field ids."""
    columns = [pa.field(column.name, iceberg_type(column.type).arrow) for column in table.columns]
    return pa.schema([*columns, *(pa.field(name, METADATA[name].arrow) for name in metadata)])
