"""Row changes as Python values; conversion between a batch of events and a sequence of events in order.

    Decoded ── events ──▶ RowChange, SchemaChange, Resolved, TransactionMark, Heartbeat, DeadLetter, in order
    Decoded ◀─ decoded ── any iterable of these

Both directions lose nothing: `decoded` converts the result of `events` to the same events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.batch import UNITS, BatchBuilder, Decoded, TableBatch
from changefeed.model.event import OPS, Control, DeadLetter, Heartbeat, Resolved, SchemaChange, TransactionMark
from changefeed.model.natural import from_python, inferred, to_python
from changefeed.model.position import Position
from changefeed.model.table import Column, TableShape, canonical

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = {unit: digits for digits, unit in UNITS.items()}


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row was inserted, updated, deleted, or read by a snapshot.

    Attributes:
        op: `insert`, `update`, `delete`, `read` (by a snapshot) or `upsert` (insert or update, unknown which).
        database, table: the upstream table.
        before, after: the row's images, column -> value; None if there is no image. A column that an image does not
            carry is absent, which is not NULL (None). `changefeed.model.natural` lists the Python type of each MySQL type.
        keys: names of the handle key's columns; empty if there is none, or it is unknown.
        commit_ts: the upstream's ordering number of the transaction; None if the protocol has none.
        commit_time: time of the commit, in UTC; None if the protocol does not carry it.
        position: topic, partition and offset of the record.
        transaction: `id`, `order` and `table_order` of the row in its transaction, as far as known; None if unknown.
        origin: the protocol's own fields that have no attribute here; None if there are none.
        irregular: column -> text of a value that its type cannot hold, such as a zero date; the image has None there.
        columns: the table's columns with their MySQL types; None in a change made by hand: types are then inferred.
        sequence: the order of changes if there is no commit_ts.
        time_digits: known fraction digits of `commit_time`: 0 (seconds), 3 or 6.
        wire: details that only this protocol needs, to write the same bytes again.
    """

    op: str
    database: str
    table: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    keys: tuple[str, ...] = ()
    commit_ts: int | None = None
    commit_time: datetime | None = None
    position: Position | None = None
    transaction: dict[str, Any] | None = None
    origin: dict[str, Any] | None = None
    irregular: dict[str, bytes] = field(default_factory=dict)
    columns: tuple[Column, ...] | None = field(default=None, repr=False)
    sequence: int | None = field(default=None, repr=False)
    time_digits: int = field(default=3, repr=False)
    wire: str = field(default="", repr=False)

    @property
    def key(self) -> dict[str, Any]:
        """The handle key's columns and values after the change, for a delete before it. Empty for a table without a key."""
        image = self.before if self.after is None else self.after
        return {name: image[name] for name in self.keys if image is not None and name in image}

    def __str__(self) -> str:
        from changefeed.model.text import describe, lines

        (changes,) = decoded([self])
        return describe(json.loads(list(lines(changes))[-1]))


Event = RowChange | Control | DeadLetter


def changes(batch: TableBatch) -> Iterator[RowChange]:
    """Iterates over the rows of one table batch, in its order."""
    for _, _, change in _placed(batch):
        yield change


def events(changes: Decoded) -> list[Event]:
    """Iterates over all events of a batch in order; dead letters come at their positions."""
    placed: list[tuple[int, int, Event]] = [one for batch in changes.tables for one in _placed(batch)]
    placed += [(e.place.record, e.place.index or 0, e) for e in (*changes.control, *changes.dead)]
    placed.sort(key=lambda one: one[:2])
    return [event for _, _, event in placed]


def _placed(batch: TableBatch) -> Iterator[tuple[int, int, RowChange]]:
    """Yields each row with its record's number and its index in the record."""
    rows, shape = batch.rows, batch.shape
    unit = rows.schema.field("commit_time").type.unit
    step = timedelta(microseconds=10 ** (6 - _DIGITS[unit]))
    names = ("record", "topic", "partition", "offset", "index", "op", "commit_ts", "sequence", "transaction", "origin")
    plain = zip(*(rows.column(name).to_pylist() for name in names), strict=True)
    times = rows.column("commit_time").cast(pa.int64()).to_pylist()
    before = _images(rows.column("before"), shape.before_columns)
    after = _images(rows.column("after"), shape.after_columns)
    irregular = rows.column("irregular").to_pylist()
    for values, time, old, new, kept in zip(plain, times, before, after, irregular, strict=True):
        record, topic, partition, offset, index, op, commit_ts, sequence, transaction, origin = values
        yield (
            record,
            index or 0,
            RowChange(
                op,
                shape.database,
                shape.table,
                old,
                new,
                shape.keys,
                commit_ts,
                None if time is None else _EPOCH + time * step,
                Position(topic, partition, offset, index, record),
                transaction,
                json.loads(origin) if origin else None,
                dict(kept) if kept else {},
                shape.columns,
                sequence,
                _DIGITS[unit],
                shape.wire,
            ),
        )


def _images(structs: pa.StructArray, columns: tuple[Column, ...]) -> Iterator[dict[str, Any] | None]:
    names = [column.name for column in columns]  # flattened, a cell without an image is NULL
    cells = [_values(cells, column) for cells, column in zip(structs.flatten(), columns, strict=True)]
    for row, there in enumerate(structs.is_valid().to_pylist()):
        yield {name: cell[row] for name, cell in zip(names, cells, strict=True)} if there else None


def _values(array: pa.Array, column: Column) -> list[Any]:
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    elif pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    convert = to_python(column.type)
    return [None if value is None else convert(value) for value in array.to_pylist()]


def decoded(events: Iterable[Event], *, batch_events: int = 10_000) -> Iterator[Decoded]:
    """Converts events to batches of columns, as encoders take them.

    Consecutive events with the same position and different indexes belong to one record, and a record is never split
    between batches. A row without a position gets topic `events`, partition 0 and its number as offset.

    Args:
        events: the events in order.
        batch_events: a batch ends with the record that reaches this number of events.

    Raises:
        SchemaError: a value does not fit its column's type, or no type can be inferred for a column.
    """
    batch = _Batch()
    for number, event in enumerate(events):
        position = event.position or Position("events", 0, number)
        if batch.count >= batch_events and not batch.continues(position):
            yield batch.build()
            batch = _Batch()
        batch.add(event, position)
    if batch.count:
        yield batch.build()


class _Batch:
    """The events of one batch, with the numbers of their records."""

    def __init__(self) -> None:
        self.count = 0
        self._last: Position | None = None
        self._rows: list[tuple[RowChange, Position]] = []
        self._control: list[Control] = []
        self._dead: list[DeadLetter] = []

    def continues(self, position: Position) -> bool:
        """Whether the event at `position` belongs to the same record as the last one."""
        last = self._last
        if last is None or last.index is None or position.index is None:
            return False
        same = (last.topic, last.partition, last.offset) == (position.topic, position.partition, position.offset)
        return same and last.index != position.index

    def add(self, event: Event, position: Position) -> None:
        record = 0 if self._last is None else self._last.record + (not self.continues(position))
        position = replace(position, record=record)
        self.count, self._last = self.count + 1, position
        match event:
            case RowChange():
                self._rows.append((event, position))
            case DeadLetter():
                self._dead.append(replace(event, place=position))
            case SchemaChange() | Resolved() | TransactionMark() | Heartbeat():
                self._control.append(replace(event, place=position))
            case _:
                raise SchemaError(f"{event!r:.200} is not an event")

    def build(self) -> Decoded:
        shapes, builders = _Shapes(change for change, _ in self._rows), dict[int, BatchBuilder]()
        for change, position in self._rows:
            if change.time_digits not in builders:
                builders[change.time_digits] = BatchBuilder(_unit(change))
            _add(builders[change.time_digits], shapes.shape(change), change, position)
        return Decoded([table for b in builders.values() for table in _built(b)], self._control, self._dead)


def _built(builder: BatchBuilder) -> list[TableBatch]:
    try:
        return builder.build()
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise SchemaError(f"a value does not fit the type of its column: {error}") from error


def _unit(change: RowChange) -> str:
    if change.time_digits not in UNITS:
        raise SchemaError(f"time_digits is {change.time_digits!r}, expected 0, 3 or 6")
    return UNITS[change.time_digits]


def _add(builder: BatchBuilder, shape: TableShape, change: RowChange, position: Position) -> None:
    if change.op not in OPS:
        raise SchemaError(f"{change.op!r} is not an op, expected one of {', '.join(OPS)} ({position})")
    time = None
    if change.commit_time is not None:
        if change.commit_time.tzinfo is None:
            raise SchemaError(f"commit_time {change.commit_time!r} has no time zone ({position})")
        time = (change.commit_time - _EPOCH) // timedelta(microseconds=10 ** (6 - change.time_digits))
    builder.add(
        shape,
        position,
        change.op,
        before=_ready(change.before, shape, position),
        after=_ready(change.after, shape, position),
        commit_ts=change.commit_ts,
        sequence=change.sequence,
        commit_time=time,
        transaction=change.transaction,
        origin=None if change.origin is None else canonical(change.origin),
        irregular=change.irregular,
    )


def _ready(image: dict[str, Any] | None, shape: TableShape, position: Position) -> dict[str, Any] | None:
    if image is None:
        return None
    ready = {}
    for name, value in image.items():
        try:
            ready[name] = None if value is None else _writer(shape, name)(value)
        except ProtocolError as error:
            raise SchemaError(f"{shape.database}.{shape.table}: column {name}: {error} ({position})") from error
    return ready


def _writer(shape: TableShape, name: str) -> Callable[[Any], Any]:
    return from_python(shape.by_name[name].type)


class _Shapes:
    """Determines the shape of each change: from its `columns`, or else inferred from the values of all rows of its table."""

    def __init__(self, changes: Iterable[RowChange]) -> None:
        self._made: dict[tuple[Any, ...], TableShape] = {}
        self._bare: dict[tuple[str, str, tuple[str, ...]], dict[str, list[Any]]] = {}
        for change in changes:
            if change.columns is None:
                values = self._bare.setdefault((change.database, change.table, change.keys), {})
                for image in (change.after, change.before):
                    for name, value in (image or {}).items():
                        values.setdefault(name, []).append(value)
        self._inferred = {table: _inferred(table, values) for table, values in self._bare.items()}

    def shape(self, change: RowChange) -> TableShape:
        """Returns the shape of a change.

        Raises:
            SchemaError: an image has a column that is not in `columns`.
        """
        columns = change.columns
        if columns is None:
            columns = self._inferred[change.database, change.table, change.keys]
        images = tuple(None if image is None else tuple(image) for image in (change.before, change.after))
        # The tuple of columns is kept by the shape, so its address is its own as long as this lives.
        key = (change.database, change.table, id(columns), images, change.wire, change.keys)
        if key not in self._made:
            self._made[key] = _shape(change, columns, *images)
        return self._made[key]


def _shape(
    change: RowChange, columns: tuple[Column, ...], before: tuple[str, ...] | None, after: tuple[str, ...] | None
) -> TableShape:
    every = tuple(column.name for column in columns)
    for name in (*(before or ()), *(after or ())):
        if name not in every:
            raise SchemaError(f"{change.database}.{change.table} has no column {name}: it has {', '.join(every)}")
    old, new = (None if image in (None, every) else image for image in (before, after))
    shape = TableShape(change.database, change.table, columns, old, new, change.wire)
    is_ordered = change.keys != shape.keys and sorted(change.keys) == sorted(shape.keys)
    return replace(shape, key_order=tuple(change.keys)) if is_ordered else shape


def _inferred(table: tuple[str, str, tuple[str, ...]], values: dict[str, list[Any]]) -> tuple[Column, ...]:
    database, name, keys = table
    columns = []
    for column, seen in values.items():
        try:
            kind = inferred(seen)
        except SchemaError as error:
            raise SchemaError(f"{database}.{name}: column {column}: {error}: set `columns` of the change") from error
        if kind is None:
            raise SchemaError(f"{database}.{name}: column {column} is None in every row: set `columns` of the change")
        columns.append(Column(column, kind, key=column in keys if keys else None))
    return tuple(columns)
