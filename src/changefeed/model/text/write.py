"""Writes events as text. Each column becomes a list of JSON fragments, one per row; a template joins those of a row."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from json.encoder import encode_basestring as quote
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa

from changefeed.model.batch import UNITS, Decoded, TableBatch
from changefeed.model.event import Control, DeadLetter, Heartbeat, Instant, Resolved, SchemaChange, TransactionMark
from changefeed.model.table import Column, TableShape, canonical
from changefeed.model.types import INTEGERS, ColumnType
from changefeed.model.values import write_instant, writer

# record, index, text, the shape it names
_Line = tuple[int, int, str, TableShape | None]

DIGITS = {unit: digits for digits, unit in UNITS.items()}
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}
_object = msgspec.json.Encoder().encode
_document = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def lines(decoded: Decoded, *, shapes_seen: set[str] | None = None) -> Iterator[str]:
    """Yields the events as JSON lines without line feeds, in the order of `(record, index)`.

    Args:
        decoded: the result of a decoder.
        shapes_seen: ids of the shapes that have been written before; new ones are added. None if there are none.
    """
    seen = set() if shapes_seen is None else shapes_seen
    events: list[_Line] = []
    for batch in decoded.tables:
        events.extend(_rows(batch))
    events.extend((e.place.record, e.place.index or 0, control_line(e), None) for e in decoded.control)
    events.extend((d.place.record, d.place.index or 0, dead_line(d), None) for d in decoded.dead)
    events.sort(key=itemgetter(0, 1))
    for _, _, text, shape in events:
        if shape is not None and shape.id not in seen:
            seen.add(shape.id)
            yield shape_line(shape)
        yield text


def shape_line(shape: TableShape) -> str:
    """Returns the line that describes a shape."""
    head = canonical({"kind": "shape", "shape": shape.id, "database": shape.database, "table": shape.table})
    return f'{head[:-1]},"columns":{canonical(shape.described)},"wire":{shape.wire or "null"}}}'


def _rows(batch: TableBatch) -> Iterator[_Line]:
    rows, shape = batch.rows, batch.shape
    column = {name: rows.column(name) for name in rows.schema.names}
    listed = {name: column[name].to_pylist() for name in ("record", "topic", "partition", "offset", "index", "op")}
    table = canonical(
        {"database": shape.database, "table": shape.table, "shape": shape.id, "keys": list(shape.keys)}
    ).replace("%", "%%")
    template = (
        f'{{"kind":"row","op":"%s",{table[1:-1]},"before":%s,"after":%s,"commit_ts":%s,"commit_time":%s,'
        '"transaction":%s,"origin":%s,"position":%s,"irregular":%s}'
    )
    filled = zip(
        listed["op"],
        _image(column["before"], shape.before_columns),
        _image(column["after"], shape.after_columns),
        _each(column["commit_ts"], str),
        _commit_times(column["commit_time"]),
        _each(column["transaction"], _transaction),
        _each(column["origin"], str),
        map(_position, listed["topic"], listed["partition"], listed["offset"], listed["index"]),
        map(_irregular, column["irregular"].to_pylist()),
        strict=True,
    )
    for record, index, values in zip(listed["record"], listed["index"], filled, strict=True):
        yield record, index or 0, template % values, shape


def _each(array: pa.Array, write: Callable[[Any], str]) -> list[str]:
    if array.null_count == len(array):
        return ["null"] * len(array)
    return ["null" if value is None else write(value) for value in array.to_pylist()]


def _image(array: pa.StructArray, columns: tuple[Column, ...]) -> list[str]:
    if array.null_count == len(array):
        return ["null"] * len(array)
    template = "{" + ",".join(canonical(c.name).replace("%", "%%") + ":%s" for c in columns) + "}"
    cells = [_each(_plain(array.field(i)), cell_writer(c.type)) for i, c in enumerate(columns)]
    texts = [template % row for row in zip(*cells, strict=True)] if cells else ["{}"] * len(array)
    if array.null_count == 0:
        return texts
    return [text if there else "null" for text, there in zip(texts, array.is_valid().to_pylist(), strict=True)]


def _plain(array: pa.Array) -> pa.Array:
    """Converts temporal columns to integers, which also hold dates outside Python's calendar, and are faster."""
    if pa.types.is_timestamp(array.type):
        return array.cast(pa.int64())
    return array.cast(pa.int32()) if pa.types.is_date32(array.type) else array


@lru_cache(maxsize=4096)
def cell_writer(t: ColumnType) -> Callable[[Any], str]:
    """Returns a function that converts ready values of this type to JSON fragments."""
    if t.name in INTEGERS or t.name in ("bit", "year"):
        return str
    if t.arrow == pa.string():  # the ready form of these is their canonical form
        return quote
    write = writer(t)

    def fragment(value: Any) -> str:
        shown = write(value)
        if type(shown) is str:
            return quote(shown)
        if type(shown) is dict:  # of texts and integers
            return str(_object(shown), "ascii")
        return repr(shown) if type(shown) is float else _document(shown)

    return fragment


def _commit_times(array: pa.Array) -> list[str]:
    unit = array.type.unit
    scale, digits = 1_000_000 // PER_SECOND[unit], DIGITS[unit]
    texts: dict[int, str] = {}  # rows of one transaction share theirs

    def write(value: int) -> str:
        if value not in texts:
            texts[value] = f'"{write_instant(value * scale, digits)}"'
        return texts[value]

    return _each(array.cast(pa.int64()), write)


def _transaction(value: dict[str, Any]) -> str:
    return canonical({name: known for name, known in value.items() if known is not None})


def _position(topic: str, partition: int, offset: int, index: int | None) -> str:
    return quote(f"{topic}:{partition}:{offset}" if index is None else f"{topic}:{partition}:{offset}:{index}")


def _irregular(value: list[tuple[str, bytes]] | None) -> str:
    if not value:
        return "{}"
    return canonical({name: kept.decode("utf-8", "surrogateescape") for name, kept in value})


def _instant(time: Instant | None) -> str | None:
    return None if time is None else write_instant(time.us, time.digits)


def _columns(columns: tuple[Column, ...] | None) -> list[dict[str, Any]] | None:
    if columns is None:
        return None
    described = [{"name": c.name, "type": str(c.type), "nullable": c.nullable, "key": c.key} for c in columns]
    for column, shown in zip(columns, described, strict=True):
        if column.default is not None:
            shown["default"] = column.default
    return described


def event_line(event: Control | DeadLetter) -> str:
    """Returns the line of a control event or a dead letter."""
    return dead_line(event) if isinstance(event, DeadLetter) else control_line(event)


def control_line(event: Control) -> str:
    """Returns the line of a control event: schema change, resolved event, transaction mark or heartbeat."""
    time, position, origin = _instant(event.instant), str(event.place), event.origin or None
    shown: dict[str, Any]
    match event:
        case SchemaChange():
            shown = {"kind": "schema", "type": event.type, "database": event.database, "table": event.table}
            shown |= {"ddl": event.ddl, "columns": _columns(event.columns), "commit_ts": event.commit_ts}
            shown |= {"commit_time": time, "origin": origin, "position": position}
        case Resolved():
            shown = {"kind": "resolved", "commit_ts": event.commit_ts, "commit_time": time}
            shown |= {"partition": event.place.partition, "position": position, "origin": origin}
        case TransactionMark():
            shown = {"kind": "transaction", "status": event.status, "id": event.id, "event_count": event.event_count}
            shown |= {"tables": event.tables, "commit_time": time, "position": position, "origin": origin}
        case Heartbeat():
            shown = {"kind": "heartbeat", "commit_time": time, "position": position, "origin": origin}
    return canonical(shown)


def dead_line(dead: DeadLetter) -> str:
    """Returns the line of a dead letter. `sha256` is the hash of the value, by which equal records can be found."""
    return canonical(
        {
            "kind": "dead_letter",
            "reason": dead.reason,
            "error": dead.error,
            "protocol": dead.protocol,
            "position": str(dead.place),
            "byte": dead.byte,
            "index": dead.place.index,
            "schema_id": dead.schema_id,
            "sha256": None if dead.value is None else hashlib.sha256(dead.value).hexdigest(),
            "key": _base64(dead.key),
            "value": _base64(dead.value),
            "headers": [[name, _base64(value)] for name, value in dead.headers],
        }
    )


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
