"""Single change events in commit order, for encoders.

Table batches contain columns, and one batch per shape; an encoder writes one message after another. Dates are days,
timestamps microseconds, as `model.values` has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from changefeed.errors import UnsupportedError
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import Control, Instant
from changefeed.model.position import Place
from changefeed.model.table import TableShape

_DIGITS = {"s": 0, "ms": 3, "us": 6}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table batch.

    Attributes:
        commit_time: None if it was not sent.
        transaction: `id`, `order` and `table_order` as far as known, or None.
        before, after: ready values by column name; None if there is no image.
        irregular: column -> bytes; names of the before image have the prefix `before.` if there are both images.
    """

    shape: TableShape
    place: Place
    op: str
    commit_ts: int | None
    instant: Instant | None
    transaction: dict[str, Any] | None
    origin: dict[str, Any]
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    irregular: dict[str, bytes]

    @property
    def commit_ms(self) -> int | None:
        """The commit time in milliseconds since the epoch, or None."""
        return None if self.instant is None else self.instant.us // 1000

    def __str__(self) -> str:
        """The row's op, table and position, for errors."""
        return f"{self.op} of {self.shape.database}.{self.shape.table} at {self.place}"


@dataclass(frozen=True, slots=True)
class Lines:
    """Consecutive rows that are already encoded; see `protocols.by_columns`."""

    batch: pa.RecordBatch


def in_order(changes: Decoded) -> list[Row | Control]:
    """Returns rows and control events of all tables, sorted by (record, index)."""
    events: list[Row | Control] = [row for batch in changes.tables for row in rows(batch)]
    events += changes.control
    events.sort(key=lambda event: (event.place.record, event.place.index or 0))
    return events


@contextmanager
def naming(event: Row | Control) -> Iterator[None]:
    """Adds the event to the message of an UnsupportedError, unless it contains the position already."""
    try:
        yield
    except UnsupportedError as error:
        if str(event.place) in str(error):
            raise
        raise UnsupportedError(f"{error} ({event if isinstance(event, Row) else event.place})") from error


def rows(batch: TableBatch) -> Iterator[Row]:
    """Yields the rows of one table batch."""
    table = batch.rows
    unit = table.schema.field("commit_time").type.unit
    digits = _DIGITS[unit]
    plain = ("record", "topic", "partition", "offset", "index", "op", "commit_ts", "transaction", "origin", "irregular")
    columns = {name: table.column(name).to_pylist() for name in plain}
    times = table.column("commit_time").cast(pa.int64()).to_pylist()
    images = zip(_image(table.column("before")), _image(table.column("after")), strict=True)
    for i, (before, after) in enumerate(images):
        record, topic, partition, offset, index, op, commit_ts, transaction, origin, irregular = (
            columns[n][i] for n in plain
        )
        yield Row(
            batch.shape,
            Place(topic, partition, offset, index, record),
            op,
            commit_ts,
            None if times[i] is None else Instant(times[i] * 10 ** (6 - digits), digits),
            transaction,
            json.loads(origin) if origin else {},
            before,
            after,
            dict(irregular) if irregular else {},
        )


def _image(structs: pa.StructArray) -> Iterator[dict[str, Any] | None]:
    names = [structs.type.field(i).name for i in range(structs.type.num_fields)]
    columns = [ready(structs.field(i)) for i in range(structs.type.num_fields)]
    for i, there in enumerate(structs.is_valid().to_pylist()):
        yield {name: column[i] for name, column in zip(names, columns, strict=True)} if there else None


def ready(column: pa.Array) -> list[Any]:
    """Returns the ready values of a column of an image."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    return values
