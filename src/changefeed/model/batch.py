"""Changes as Arrow columns: the result of a decoder and the input of an encoder.

A table batch is one shape and one Arrow record batch, with one row per change:

    record      int32    row of the record in the batch that was decoded, from 0
    topic       string   ┐
    partition   int32    │ position of the record
    offset      int64    ┘
    index       int32    number of the event in its record, from 0; NULL if the record has only one event
    op          string   insert update delete read upsert
    commit_ts   uint64   upstream ordering number; NULL if the protocol has none
    sequence    uint64   order of changes without commit_ts, computed from `origin`; else NULL
    commit_time timestamp[s, ms or us; UTC]   the unit is the known precision
    transaction struct<id string, order int64, table_order int64>
    origin      string   JSON object with the protocol's other fields; NULL if there are none
    before      struct   image, NULL if there is none; its fields are `shape.before_columns`
    after       struct   image, NULL if there is none; its fields are `shape.after_columns`
    irregular   map<string, binary>   column -> text (UTF-8, or the bytes as sent) that the column's type cannot hold

Events are ordered by `(record, index)`, and rows of one batch are in that order. Batches of several tables interleave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from changefeed.errors import ConfigError, MissingExtraError
from changefeed.model.event import Control, DeadLetter
from changefeed.model.names import full_name
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape

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
    """Returns the Arrow schema of a table batch of this shape; `unit` is that of the commit time: s, ms or us."""
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


class TableBatch:
    """Changes of rows of one shape, as Arrow columns.

    Batches of tables with the same columns may lie one behind the other in the same Arrow arrays: a batch of records may
    contain a thousand tables with a few rows each, and every slice of all columns costs as much as many rows.

    Attributes:
        shape: the columns and types of the rows.
    """

    __slots__ = ("_all", "_end", "_rows", "_start", "shape")

    def __init__(self, shape: TableShape, rows: pa.RecordBatch) -> None:
        self.shape = shape
        self._all, self._start, self._end = rows, 0, rows.num_rows
        self._rows: pa.RecordBatch | None = rows

    @classmethod
    def of_several(cls, shapes: Iterable[tuple[TableShape, int]], rows: pa.RecordBatch) -> list[TableBatch]:
        """Returns the batches of tables whose rows lie one behind the other.

        Args:
            shapes: each with the end of its rows.
        """
        batches, start = list[TableBatch](), 0
        for shape, end in shapes:
            batches.append(cls._of(shape, rows, start, end))
            start = end
        return batches

    @classmethod
    def _of(cls, shape: TableShape, rows: pa.RecordBatch, start: int, end: int) -> TableBatch:
        batch = cls.__new__(cls)
        batch.shape, batch._all, batch._start, batch._end, batch._rows = shape, rows, start, end, None
        return batch

    @property
    def rows(self) -> pa.RecordBatch:
        """The columns that the top of this module lists, both images among them."""
        if self._rows is None:
            self._rows = self._all.slice(self._start, len(self))
        return self._rows

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self._all.schema

    @property
    def shared(self) -> pa.RecordBatch:
        """The columns of all batches in the same Arrow arrays; those of this one begin at `start`."""
        return self._all

    @property
    def shared_by(self) -> int:
        """A number that batches in the same Arrow arrays share."""
        return id(self._all)

    @property
    def start(self) -> int:
        """The number of its first row in `shared`."""
        return self._start

    def follows(self, other: TableBatch) -> bool:
        """Whether its rows lie behind those of another batch in the same Arrow arrays."""
        return self._all is other._all and self._start == other._end

    def rows_until(self, last: TableBatch) -> pa.RecordBatch:
        """The rows from its first to the last one of another batch in the same Arrow arrays."""
        return self.rows if last is self else self._all.slice(self._start, last._end - self._start)

    def slice(self, start: int, length: int) -> TableBatch:
        """Returns the batch of some of the rows."""
        return self._of(self.shape, self._all, self._start + start, self._start + start + length)

    def take(self, order: pa.Array) -> TableBatch:
        """Returns the batch of the rows with these numbers, in this order."""
        return TableBatch(self.shape, self.rows.take(order))

    def __len__(self) -> int:
        return int(self._end - self._start)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableBatch) and self.shape == other.shape and bool(self.rows.equals(other.rows))

    def __reduce__(self) -> tuple[type[TableBatch], tuple[TableShape, pa.RecordBatch]]:
        return TableBatch, (self.shape, self.rows)

    def __repr__(self) -> str:
        return f"TableBatch({self.name}, {len(self)} rows)"

    @property
    def name(self) -> str:
        """The name of the table: `database.table`."""
        return full_name(self.shape.database, self.shape.table)

    def changes(self) -> Iterator[RowChange]:
        """Iterates over the changes as Python values."""
        from changefeed.model.change import changes

        return changes(self)

    def to_arrow(self) -> pa.Table:
        """Returns an Arrow table with one row per change: `_op`, `_commit_ts`, `_commit_time`, `_position`, table columns.

        The table's columns have the values after the change, for a delete those before it. `rows` has both images.
        """
        from changefeed.model.flat import flat

        return flat(self.rows, self.shape.columns)

    def to_pandas(self) -> Any:
        """Returns the table of `to_arrow` as a `pandas.DataFrame` with Arrow types: integers stay integers beside NULL.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            pandas = import_module("pandas")  # by name: the core needs none of these
        except ImportError as error:
            raise MissingExtraError("to_pandas()", "spark") from error
        return self.to_arrow().to_pandas(types_mapper=pandas.ArrowDtype)

    def to_polars(self) -> Any:
        """Returns the table of `to_arrow` as a `polars.DataFrame`.

        Raises:
            ConfigError: polars is not installed.
        """
        try:
            polars = import_module("polars")
        except ImportError as error:
            raise ConfigError("to_polars() needs a package that is not installed: pip install polars") from error
        return polars.from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Exports the table of `to_arrow` to any library that reads Arrow, as in `polars.DataFrame(batch)`."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class Decoded:
    """The events of a batch of records, unsorted: `(record, index)` is their order, and `events` returns them in it.

    Attributes:
        tables: row changes, as one or more Arrow batches per table.
        control: schema changes, resolved events, transaction marks and heartbeats.
        dead: records, or messages in a record, that could not be decoded.
    """

    tables: list[TableBatch] = field(default_factory=list)
    control: list[Control] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """Records, or messages in a record, that could not be decoded: the same list as `dead`."""
        return self.dead

    def events(self) -> list[Event]:
        """Returns all events in order as Python values, including dead letters."""
        from changefeed.model.change import events

        return events(self)


class BatchBuilder:
    """Collects rows of any shape and builds table batches, one per shape.

    Values are those that pyarrow takes for the column's Arrow type, but integers for date32 (days) and timestamps (µs), so
    that no date outside Python's calendar is lost. An image is a dict column -> value with exactly the columns of the
    shape.
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
        """Adds one row; `commit_time` is a number of the builder's units since 1970."""
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
        """Returns the table batches, in the order in which their shapes were first added.

        Those with the same columns share Arrow arrays.

        Raises:
            pyarrow.ArrowInvalid: a value does not fit its column's type; the caller must check this before.
        """
        alike: dict[tuple[tuple[Column, ...], ...], list[TableShape]] = {}
        for shape in self._rows:
            alike.setdefault((shape.before_columns, shape.after_columns), []).append(shape)
        batches: dict[TableShape, TableBatch] = {}
        for shapes in alike.values():
            ends = accumulate(len(self._rows[shape]) for shape in shapes)
            rows = _columns([row for shape in shapes for row in self._rows[shape]], table_schema(shapes[0], self._unit))
            batches |= zip(shapes, TableBatch.of_several(zip(shapes, ends, strict=True), rows), strict=True)
        return [batches[shape] for shape in self._rows]


def _columns(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array(values, type=f.type) for values, f in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def no_irregular(count: int) -> pa.MapArray:
    """Returns the column `irregular` of rows without irregular values."""
    return _empty_maps(count.bit_length()).slice(0, count)


@cache
def _empty_maps(bits: int) -> pa.MapArray:
    """2**bits empty maps."""
    ends = pa.repeat(pa.scalar(0, pa.int32()), (1 << bits) + 1)
    return pa.MapArray.from_arrays(ends, pa.array([], pa.string()), pa.array([], pa.binary()))


def record_batch(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    """Builds a batch of records from dicts with the names of `RECORDS`; a missing name is NULL, `timestampType` 0."""
    filled = [{"timestampType": 0, "headers": [], **row} for row in rows]
    return pa.RecordBatch.from_pylist(filled, schema=RECORDS)


class RecordBuilder:
    """Collects single records and batches of records, and builds one batch of all of them, in order."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []

    def add(self, row: dict[str, Any]) -> None:
        """Adds one record, a dict as for `record_batch`."""
        self._rows.append(row)

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Adds records with the columns of `RECORDS`."""
        if self._rows:
            self._flush()
        self._batches.append(batch)

    def drop_last(self, row: Mapping[str, Any]) -> None:
        """Removes the last record if it has the topic, partition and offset of `row`."""
        last = self._rows[-1] if self._rows else {}
        if not last and self._batches and len(self._batches[-1]):
            last = (
                self._batches[-1]
                .select(["topic", "partition", "offset"])
                .slice(len(self._batches[-1]) - 1)
                .to_pylist()[0]
            )
        if not last or any(last[name] != row[name] for name in ("topic", "partition", "offset")):
            return
        if self._rows:
            self._rows.pop()
        else:
            self._batches[-1] = self._batches[-1].slice(0, len(self._batches[-1]) - 1)

    def build(self) -> pa.RecordBatch:
        """Returns a batch of all records that have been added."""
        self._flush()
        return self._batches[0] if len(self._batches) == 1 else pa.concat_batches(self._batches)

    def _flush(self) -> None:
        if self._rows or not self._batches:
            self._batches.append(record_batch(self._rows))
        self._rows = []


def record_columns(count: int, **columns: Any) -> pa.RecordBatch:
    """Builds a batch of records from columns with the names of `RECORDS`; a missing column gets `record_batch`'s default."""
    filled = {"timestampType": pa.repeat(0, count), "headers": no_headers(count), **columns}
    arrays = [pa.nulls(count, f.type) if f.name not in filled else _typed(filled[f.name], f.type) for f in RECORDS]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def no_headers(count: int) -> pa.ListArray:
    """Returns the column `headers` of `count` records without headers."""
    kind = RECORDS.field("headers").type
    return pa.ListArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count + 1), pa.array([], kind.value_type), kind)


def _typed(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values.cast(kind)
    return _binary(values) if pa.types.is_binary(kind) else pa.array(values, kind)


def _binary(values: Sequence[bytes | None]) -> pa.BinaryArray:
    """Builds a column of bytes; `pa.array`, whose buffer grows bit by bit, needs four times as long in Spark's workers."""
    filled = [value or b"" for value in values]
    there = pa.array([value is not None for value in values]).buffers()[1] if None in values else None
    ends = np.fromiter(accumulate(map(len, filled), initial=0), np.int32, len(filled) + 1)  # OverflowError above 2 GiB
    return pa.Array.from_buffers(pa.binary(), len(filled), [there, pa.py_buffer(ends), pa.py_buffer(b"".join(filled))])
