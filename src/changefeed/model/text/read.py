"""Reads canonical text: checks lines one by one, then converts them to columns, one batch at a time.

Consecutive events with the same position and different indexes belong to one record, and a record is never split between
batches. Rows of one shape get a table batch for each set of columns that their images carry, and for each number of
fraction digits of their commit times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from changefeed.errors import ConfigError, ProtocolError, SchemaError
from changefeed.model.batch import Decoded
from changefeed.model.event import Control, DeadLetter, Heartbeat, Instant, Resolved, SchemaChange, TransactionMark
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.text.forms import (
    ColumnForm,
    ControlForm,
    DeadLetterForm,
    EventForm,
    HeartbeatForm,
    LinePlace,
    ResolvedForm,
    RowForm,
    SchemaForm,
    ShapeForm,
    raw_text,
    read_form,
)
from changefeed.model.text.infer import infer
from changefeed.model.text.rows import TextRow, table_batches
from changefeed.model.types import ColumnType
from changefeed.model.values import read_datetime


def parse(
    lines: Iterable[str | bytes], *, name: str = "events", topic: str = "events", batch_events: int = 10_000
) -> Iterator[Decoded]:
    """Reads the events of JSON lines, in batches.

    Args:
        lines: JSON lines, with or without line feeds, written by `lines` or by hand.
        name: name of the text in error messages, such as a file name.
        topic: topic of events without a position; their partition is 0, their offset the line's number from 0.
        batch_events: a batch ends with the record that reaches this number of events.

    Raises:
        SchemaError: a line is not an event; the message has the text's name, the line's number and the path in it.
    """
    reader = _Reader(LinePlace(name), topic)
    for line in lines:
        if len(reader) >= batch_events and not reader.same_record(line):
            yield reader.take()
        reader.add(line)
    if len(reader):
        yield reader.take()


@dataclass(slots=True)
class _Pending:
    shaped: dict[int, tuple[TableShape, list[TextRow]]] = field(default_factory=dict)  # by the shape object's identity
    by_hand: dict[tuple[str, str, tuple[str, ...]], list[TextRow]] = field(default_factory=dict)
    control: list[Control] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    events: int = 0
    last: Place | None = None


class _Reader:
    """Collects lines: shapes by their id, and the events of the current batch."""

    def __init__(self, place: LinePlace, topic: str) -> None:
        self._line = place
        self._topic = topic
        self._shapes: dict[str, TableShape] = {}
        self._ordered: dict[tuple[TableShape, tuple[str, ...]], TableShape] = {}  # with the keys in this order
        self._pending = _Pending()

    def __len__(self) -> int:
        return self._pending.events

    def same_record(self, line: str | bytes) -> bool:
        """Whether this line belongs to the same record as the line before it."""
        last = self._pending.last
        if last is None or last.index is None:
            return False
        place = LinePlace(self._line.name, self._line.number + 1)
        form = read_form(line, place)
        return isinstance(form, ShapeForm) or _continues(last, self._read_place(form, place))

    def add(self, line: str | bytes) -> None:
        """Parses one line and adds it to the current batch."""
        self._line.number += 1
        form = read_form(line, self._line)
        if isinstance(form, ShapeForm):
            shape = self._read_shape(form)
            if self._shapes.get(form.shape) != shape:
                self._shapes[form.shape] = shape
            return
        place = self._place(form)
        self._pending.events += 1
        self._pending.last = place
        if isinstance(form, RowForm):
            self._row(form, place)
        elif isinstance(form, DeadLetterForm):
            self._pending.dead.append(self._dead(form, place))
        else:
            self._pending.control.append(self._control(form, place))

    def take(self) -> Decoded:
        """Returns the current batch, and begins the next one."""
        taken, self._pending = self._pending, _Pending()
        tables = list(taken.shaped.values())
        for rows in taken.by_hand.values():
            tables.append((infer(((row.number, row.form) for row in rows), self._line), rows))
        batches = [batch for shape, rows in tables for batch in table_batches(shape, rows, self._line)]
        return Decoded(batches, taken.control, taken.dead)

    def _read_shape(self, form: ShapeForm) -> TableShape:
        wire = raw_text(form.wire, self._line, "$.wire")
        columns = self._columns(form.columns)
        if len({c.name for c in columns}) != len(columns):
            raise self._line.error("a column name occurs twice", "$.columns")
        return TableShape(form.database, form.table, columns, wire="" if wire == "null" else wire)

    def _columns(self, forms: list[ColumnForm]) -> tuple[Column, ...]:
        return tuple(Column(f.name, self._type(f, i), f.nullable, f.key, f.default) for i, f in enumerate(forms))

    def _type(self, form: ColumnForm, index: int) -> ColumnType:
        try:
            return ColumnType.parse(form.type)
        except ProtocolError as error:
            raise self._line.error(str(error), f"$.columns[{index}].type") from error

    def _row(self, form: RowForm, place: Place) -> None:
        row = TextRow(self._line.number, form, place, self._time(form.commit_time))
        if form.commit_ts is not None and form.commit_ts >= 2**64:
            raise self._line.error(f"{form.commit_ts} has more than 64 bits", "$.commit_ts")
        if form.shape is None:
            self._pending.by_hand.setdefault((form.database, form.table, tuple(sorted(form.keys))), []).append(row)
            return
        shape = self._shapes.get(form.shape)
        if shape is None:
            raise self._line.error(f'no line of kind "shape" before it describes {form.shape!r}', "$.shape")
        if form.keys != list(shape.keys) and sorted(form.keys) == sorted(shape.keys):
            keys = tuple(form.keys)
            shape = self._ordered.setdefault((shape, keys), replace(shape, key_order=keys))
        for key, value, described in (
            ("database", form.database, shape.database),
            ("table", form.table, shape.table),
            ("keys", form.keys, list(shape.keys)),
        ):
            if value != described:
                raise self._line.error(f"{value!r} differs from {described!r}, which its shape has", f"$.{key}")
        self._pending.shaped.setdefault(id(shape), (shape, []))[1].append(row)

    def _place(self, form: EventForm) -> Place:
        last = self._pending.last
        place = self._read_place(form, self._line, 0 if last is None else last.record)
        if last is None or _continues(last, place):
            return place
        return replace(place, record=last.record + 1)

    def _read_place(self, form: EventForm, line: LinePlace, record: int = 0) -> Place:
        if form.position is None:
            return Place(self._topic, 0, line.number - 1, None, record)
        try:
            place = Place.parse(form.position, record)
        except ConfigError as error:
            raise line.error(str(error), "$.position") from error
        if place.partition >= 2**31 or place.offset >= 2**63 or (place.index or 0) >= 2**31:
            raise line.error(f"{form.position!r} has a number that is too large", "$.position")
        return place

    def _time(self, text: str | None) -> Instant | None:
        if text is None:
            return None
        try:
            return _instant(text)
        except ProtocolError as error:
            raise self._line.error(str(error), "$.commit_time") from error

    def _control(self, form: ControlForm, place: Place) -> Control:
        time, origin = self._time(form.commit_time), form.origin or {}
        if isinstance(form, SchemaForm):
            columns = None if form.columns is None else self._columns(form.columns)
            return SchemaChange(
                form.type, form.database, form.table, form.ddl, place, columns, form.commit_ts, time, origin
            )
        if isinstance(form, ResolvedForm):
            if form.partition not in (None, place.partition):
                raise self._line.error(f"{form.partition} differs from the position {place}", "$.partition")
            return Resolved(form.commit_ts, place, time, origin)
        if isinstance(form, HeartbeatForm):
            return Heartbeat(place, time, origin)
        return TransactionMark(form.status, form.id, place, form.event_count, form.tables, time, origin)

    def _dead(self, form: DeadLetterForm, place: Place) -> DeadLetter:
        if form.index != place.index:
            raise self._line.error(f"{form.index} differs from the position {place}", "$.index")
        return DeadLetter(
            form.reason,
            form.error,
            form.protocol,
            place,
            form.key,
            form.value,
            tuple(form.headers),
            form.byte,
            form.schema_id,
        )


@lru_cache(maxsize=1024)  # the rows of one transaction share theirs
def _instant(text: str) -> Instant:
    us, digits = read_datetime(text)
    if digits not in (0, 3, 6) or text[10] != "T" or text[-1] != "Z":
        raise SchemaError(f"{text!r} is not of the form 2026-01-02T03:04:05Z with 0, 3 or 6 digits")
    return Instant(us, digits)


def _continues(last: Place, place: Place) -> bool:
    """Whether the event at `place` belongs to the same record as the event before it."""
    if last.index is None or place.index is None:
        return False
    return (last.topic, last.partition, last.offset) == (place.topic, place.partition, place.offset)
