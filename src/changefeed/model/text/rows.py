"""Converts the rows of one table from lines of text to table batches, column by column."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.batch import IRREGULAR, TRANSACTION, UNITS, TableBatch, table_schema
from changefeed.model.event import Instant
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.text.forms import LinePlace, RowForm, raw_text
from changefeed.model.text.write import PER_SECOND
from changefeed.model.types import ColumnType
from changefeed.model.values import IrregularError, reader

_Names = tuple[str, ...] | None
_FORMS = {"datetime": "2026-01-02 03:04:05", "timestamp": "2026-01-02T03:04:05Z"}


class TextRow(NamedTuple):
    """A row, with the number of its line and the values that have been read."""

    number: int
    form: RowForm
    place: Place
    time: Instant | None


def table_batches(shape: TableShape, rows: list[TextRow], place: LinePlace) -> Iterator[TableBatch]:
    """Returns table batches of the rows: one for each set of columns that images carry, and each unit of commit times.

    Raises:
        SchemaError: a value does not fit its column; the message names line and path.
    """
    everything = tuple(c.name for c in shape.columns)
    groups: dict[tuple[_Names, _Names, str], list[TextRow]] = {}
    for row in rows:
        unit = "ms" if row.time is None else UNITS[row.time.digits]
        images = _carried(row.form.before, everything), _carried(row.form.after, everything)
        groups.setdefault((*images, unit), []).append(row)
    for (before, after, unit), group in groups.items():
        for side, names in (("before", before), ("after", after)):
            _check_names(names, everything, side, group[0].number, place)
        carried = TableShape(shape.database, shape.table, shape.columns, before, after, shape.wire, shape.key_order)
        yield TableBatch(carried, _record_batch(carried, unit, group, place))


def _carried(image: dict[str, Any] | None, everything: tuple[str, ...]) -> _Names:
    if image is None:
        return None
    names = tuple(image)
    return None if names == everything else names


def _check_names(names: _Names, known: tuple[str, ...], side: str, number: int, place: LinePlace) -> None:
    for name in names or ():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
            raise place.error(f"its shape has no column {name!r}; {hint}", f"$.{side}", number=number)


def _record_batch(shape: TableShape, unit: str, rows: list[TextRow], place: LinePlace) -> pa.RecordBatch:
    forms, schema = [row.form for row in rows], table_schema(shape, unit)
    times = [None if r.time is None else r.time.us * PER_SECOND[unit] // 1_000_000 for r in rows]
    columns = [
        pa.array([r.place.record for r in rows], pa.int32()),
        pa.array([r.place.topic for r in rows], pa.string()),
        pa.array([r.place.partition for r in rows], pa.int32()),
        pa.array([r.place.offset for r in rows], pa.int64()),
        pa.array([r.place.index for r in rows], pa.int32()),
        pa.array([f.op for f in forms], pa.string()),
        pa.array([f.commit_ts for f in forms], pa.uint64()),
        pa.nulls(len(rows), pa.uint64()),
        pa.array(times, schema.field("commit_time").type),
        _transactions(rows, place),
        pa.array([_origin(row, place) for row in rows], pa.string()),
        _image("before", shape.before_columns, rows, place),
        _image("after", shape.after_columns, rows, place),
        pa.array([_irregular(row, place) for row in rows], IRREGULAR),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _image(side: str, columns: tuple[Column, ...], rows: list[TextRow], place: LinePlace) -> pa.StructArray:
    images: list[dict[str, Any] | None] = [getattr(row.form, side) for row in rows]
    kind = pa.struct([pa.field(c.name, c.type.arrow, metadata={"mysql": str(c.type)}) for c in columns])
    absent = [image is None for image in images]
    if not columns or all(absent):
        return pa.array([None if gone else {} for gone in absent], kind)
    cells = [_cells(c, [None if i is None else i[c.name] for i in images], side, rows, place) for c in columns]
    mask = pa.array(absent, pa.bool_()) if any(absent) else None
    return pa.StructArray.from_arrays(cells, fields=list(kind), mask=mask)


def _cells(column: Column, values: list[Any], side: str, rows: list[TextRow], place: LinePlace) -> pa.Array:
    read, ready = reader(column.type), []
    if column.type.name in _FORMS:
        read = _exact(read, column.type)
    try:
        for value in values:
            ready.append(None if value is None else read(value))
    except IrregularError as error:
        message = f'{error}: it is null here and its text goes to "irregular"'
        raise place.error(message, f"$.{side}.{column.name}", number=rows[len(ready)].number) from error
    except ProtocolError as error:
        raise place.error(str(error), f"$.{side}.{column.name}", number=rows[len(ready)].number) from error
    return _array(ready, column.type.arrow, f"$.{side}.{column.name}", rows, place)


def _exact(read: Callable[[Any], Any], t: ColumnType) -> Callable[[Any], Any]:
    """Wraps a reader so that it also refuses fraction digits that the type would lose, and a zone other than the type's."""
    form = _FORMS[t.name]
    form = f"{form[:19]}.{'0' * t.length}{form[19:]}" if t.length else form
    length, middle, zoned = len(form), form[10], form[-1] == "Z"

    def exactly(value: Any) -> Any:
        ready = read(value)
        if len(value) != length or value[10] != middle or (value[-1] == "Z") != zoned:
            raise SchemaError(f"{value!r} is not {t.with_article}: expected the form {form!r}")
        return ready

    return exactly


def _array(values: list[Any], kind: pa.DataType, path: str, rows: list[TextRow], place: LinePlace) -> pa.Array:
    """Builds the Arrow array of a column; a value that Arrow refuses becomes an error that names its line."""
    foreign = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError)
    try:
        return pa.array(values, kind)
    except foreign:
        for value, row in zip(values, rows, strict=True):
            try:
                pa.array([value], kind)
            except foreign as error:
                raise place.error(f"{value!r} does not fit {kind}: {error}", path, number=row.number) from error
        raise


def _transactions(rows: list[TextRow], place: LinePlace) -> pa.Array:
    if all(row.form.transaction is None for row in rows):
        return pa.nulls(len(rows), TRANSACTION)
    known = [row.form.transaction for row in rows]
    values = [t and {"id": t.id, "order": t.order, "table_order": t.table_order} for t in known]
    return _array(values, TRANSACTION, "$.transaction", rows, place)


def _origin(row: TextRow, place: LinePlace) -> str | None:
    text = raw_text(row.form.origin, place, "$.origin", row.number)
    if text == "null":
        return None
    if text[:1] != "{":
        raise place.error("Expected `object | null`", "$.origin", number=row.number)
    return text


def _irregular(row: TextRow, place: LinePlace) -> list[tuple[str, bytes]]:
    form = row.form
    kept = []
    for name, text in form.irregular.items():
        last = form.after if form.after is not None else form.before or {}
        places = [(last, name)]
        if form.before is not None and form.after is not None and name.startswith("before."):
            places.append((form.before, name.removeprefix("before.")))
        if all(image.get(column, ...) is not None for image, column in places):
            message = (
                f"the image must have {places[-1][1]!r} with the value null, because only `irregular` has its text"
            )
            raise place.error(message, f"$.irregular.{name}", number=row.number)
        try:
            kept.append((name, text.encode("utf-8", "surrogateescape")))
        except UnicodeEncodeError as error:
            raise place.error(
                f"{error.reason}: write bytes that are not UTF-8 as \\udc80 to \\udcff", f"$.irregular.{name}"
            ) from error
    return kept
