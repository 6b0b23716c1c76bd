"""Changes in columns: what a decoder returns and an encoder takes.

A table batch is one shape and one Arrow record batch, a row a change:

    record      int32    row of the record in the batch that was decoded, from 0
    topic       string   ┐
    partition   int32    │ where the record lies
    offset      int64    ┘
    index       int32    which event of the record, from 0; NULL when the record holds one only
    op          string   insert update delete read upsert
    commit_ts   uint64   upstream ordering number, NULL where there is none
    sequence    uint64   the order of changes where there is no commit_ts, else NULL; it is made of what `origin` holds
    commit_time timestamp[s, ms or us; UTC]   the unit is the precision that is known
    transaction struct<id string, order int64, table_order int64>
    origin      string   JSON object of the protocol's other fields, NULL if there are none
    before      struct   image, NULL for none; its fields are `shape.before_columns`
    after       struct   image, NULL for none; its fields are `shape.after_columns`
    irregular   map<string, binary>   column -> the text (UTF-8, or the very bytes) that its type cannot hold

`(record, index)` is the order of events; rows of one batch are in that order. Batches of several tables interleave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.errors import ConfigError, MissingExtraError
from changefeed.model.event import Control, DeadLetter
from changefeed.model.names import full_name
from changefeed.model.position import Place
from changefeed.model.table import TableShape

if TYPE_CHECKING:
    from changefeed.model.change import Event, RowChange

TRANSACTION = pa.struct([("id", pa.string()), ("order", pa.int64()), ("table_order", pa.int64())])
IRREGULAR = pa.map_(pa.string(), pa.binary())
UNITS = {0: "s", 3: "ms", 6: "us"}

# What Kafka holds: the columns of Spark's Kafka source with headers.
RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def table_schema(shape: TableShape, unit: str = "ms") -> pa.Schema:
    """The Arrow schema of a table batch of this shape; `unit` is the commit time's: s, ms or us."""
    return pa.schema(
        [
            ("record", pa.int32()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("index", pa.int32()),
            ("op", pa.string()),
            ("commit_ts", pa.uint64()),
            ("sequence", pa.uint64()),
            ("commit_time", pa.timestamp(unit, tz="UTC")),
            ("transaction", TRANSACTION),
            ("origin", pa.string()),
            ("before", shape.before_type),
            ("after", shape.after_type),
            ("irregular", IRREGULAR),
        ]
    )


@dataclass(frozen=True, slots=True)
class TableBatch:
    """Rows of one shape, in columns; the columns are drawn at the top of this module."""

    shape: TableShape
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def name(self) -> str:
        """The table, as `database.table`."""
        return full_name(self.shape.database, self.shape.table)

    def changes(self) -> Iterator[RowChange]:
        """The changes one by one, as Python values."""
        from changefeed.model.change import changes

        return changes(self)

    def to_arrow(self) -> pa.Table:
        """A plain table, one row a change: `_op`, `_commit_ts`, `_commit_time`, `_position`, then the table's columns.

        The columns have the values after the change; before it, for a delete. Both images are in `rows`.
        """
        from changefeed.model.flat import flat

        return flat(self.rows, self.shape.columns)

    def to_pandas(self) -> Any:
        """The table of `to_arrow` as a `pandas.DataFrame`, in Arrow types: integers stay integers beside NULL.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            pandas = import_module("pandas")  # by name: the core needs none of these
        except ImportError as error:
            raise MissingExtraError("to_pandas()", "spark") from error
        return self.to_arrow().to_pandas(types_mapper=pandas.ArrowDtype)

    def to_polars(self) -> Any:
        """The table of `to_arrow` as a `polars.DataFrame`.

        Raises:
            ConfigError: polars is not installed.
        """
        try:
            polars = import_module("polars")
        except ImportError as error:
            raise ConfigError("to_polars() needs a package that is not installed: pip install polars") from error
        return polars.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table of `to_arrow` for any library that reads Arrow: `polars.DataFrame(batch)`, DuckDB."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class Decoded:
    """Events of a batch of records. Nothing is sorted; `(record, index)` orders it, and `events` gives that order.

    Attributes:
        tables: changes of rows, in columns.
        control: schema changes, resolved events, transaction marks and heartbeats.
        dead: records, or messages of one, that could not be decoded.
    """

    tables: list[TableBatch] = field(default_factory=list)
    control: list[Control] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """Records, or messages of one, that could not be decoded: `dead` under its full name."""
        return self.dead

    def events(self) -> list[Event]:
        """All events in order, one by one, as Python values; dead letters are among them."""
        from changefeed.model.change import events

        return events(self)


class BatchBuilder:
    """Collects rows of any shape and builds table batches, one a shape.

    Values are what pyarrow takes for the column's Arrow type, with integers for date32 (days) and timestamps (µs), so
    that no date outside Python's calendar is lost. An image is a dict column -> value that has exactly the columns the
    shape has.
    """

    def __init__(self, unit: str = "ms") -> None:
        self._unit = unit
        self._rows: dict[TableShape, list[tuple[Any, ...]]] = {}

    def add(
        self,
        shape: TableShape,
        place: Place,
        op: str,
        *,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        commit_ts: int | None = None,
        sequence: int | None = None,
        commit_time: int | None = None,
        transaction: dict[str, Any] | None = None,
        origin: str | None = None,
        irregular: dict[str, bytes] | None = None,
    ) -> None:
        """Adds one row; `commit_time` counts the builder's unit since the epoch."""
        self._rows.setdefault(shape, []).append(
            (
                place.record,
                place.topic,
                place.partition,
                place.offset,
                place.index,
                op,
                commit_ts,
                sequence,
                commit_time,
                transaction,
                origin,
                before,
                after,
                list(irregular.items()) if irregular else [],
            )
        )

    def build(self) -> list[TableBatch]:
        """The table batches, in the order in which their shapes were first seen.

        Raises:
            pyarrow.ArrowInvalid: a value does not fit its column's type; the caller has not checked it.
        """
        return [
            TableBatch(shape, _columns(rows, table_schema(shape, self._unit))) for shape, rows in self._rows.items()
        ]


def _columns(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array(values, type=f.type) for values, f in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def record_batch(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    """Records from dicts with the names of `RECORDS`; a missing one is NULL, `timestampType` 0 (create time)."""
    filled = [{"timestampType": 0, "headers": [], **row} for row in rows]
    return pa.RecordBatch.from_pylist(filled, schema=RECORDS)


class RecordBuilder:
    """Collects records, one by one or a batch at a time, and builds one batch of them, in order."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []

    def add(self, row: dict[str, Any]) -> None:
        """Adds a record, as `record_batch` takes it."""
        self._rows.append(row)

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Adds records with the columns of `RECORDS`."""
        if self._rows:
            self._flush()
        self._batches.append(batch)

    def build(self) -> pa.RecordBatch:
        """All of them."""
        self._flush()
        return self._batches[0] if len(self._batches) == 1 else pa.concat_batches(self._batches)

    def _flush(self) -> None:
        if self._rows or not self._batches:
            self._batches.append(record_batch(self._rows))
        self._rows = []


def record_columns(count: int, **columns: Any) -> pa.RecordBatch:
    """Records from columns with the names of `RECORDS`; a missing column gets the default of `record_batch`."""
    filled = {"timestampType": pa.repeat(0, count), "headers": [[]] * count, **columns}
    arrays = [pa.nulls(count, f.type) if f.name not in filled else _typed(filled[f.name], f.type) for f in RECORDS]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def _typed(values: Any, kind: pa.DataType) -> pa.Array:
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)
