r"""Builds the templates by which the kernel writes rows of a shape, from the writers in `rows`.

    {"schema":{…},"payload":{"before":null,"after":{"id": ┬ id ┬ ,…},"source":{"version": ┬ source.version ┬ ,…,
     "ts_us": ┬ ts_us ┬ },"transaction":null,"op":"c","ts_ms": ┬ clock.ts_ms ┬ ,…}}

Rule 1. JSON with envelope. Rows whose origin has `sent`, `key` or `absent` are left to the encoder.
Rule 2. A foreign row is sent as it is, or left to the encoder: an update that changes the key is two rows.
Rule 3. `unsent` is not text: it is NULL where rule 1 or 2 leaves a row.
"""

from __future__ import annotations

from collections.abc import Iterator

from changefeed.columnar import templates
from changefeed.columnar.templates import INTEGER, NULL, Case, Form, Head, Part, Value, WrittenForm
from changefeed.connect import java_json
from changefeed.connect.parts import Block
from changefeed.connect.schema import Node
from changefeed.model.table import TableShape
from changefeed.model.types import BINARIES, GEOMETRIES, TEXTS, ColumnType
from changefeed.protocols.debezium_mysql import foreign, foreign_shapes
from changefeed.protocols.debezium_mysql.envelope import CLOCK
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.rows import LETTERS, Cell, RowWriter, is_ours
from changefeed.protocols.debezium_mysql.values import writing

_IMAGES = {"insert": ((False, True),), "read": ((False, True),), "upsert": ((False, True),), "delete": ((True, False),)}
_UNCOMPARED = GEOMETRIES | {"vector", "null"}
_EITHER = ((False, True), (True, True))


def text(shape: TableShape, writer: RowWriter, options: Options) -> str | None:
    """Returns the template of a shape; None if only the encoder can write its rows.

    Raises:
        UnsupportedError: the protocol cannot represent the shape.
    """
    ours = is_ours(shape.wire)
    if writer.key is not None and not {cell.name for cell in writer.cells}.issuperset(writer.key):
        return None
    if writer.unwrapped or writer.block.avro or writer.key_block.avro or len(shape.by_name) < len(shape.columns):
        return None
    if not ours and (options.bug_compat or not keys_compare(shape, options) or _is_adjusted(shape, options)):
        return None
    written = {cell.column: _written(shape.by_name[cell.column].type, cell, options) for cell in writer.cells}
    images = [[written[c.name] for c in columns] for columns in (shape.before_columns, shape.after_columns)]
    before, after = ([column for column in image if column is not None] for image in images)
    if None in written.values():
        return None
    return templates.text(before, after, _Page(shape, writer, options, ours).cases())


def keys_compare(shape: TableShape, options: Options) -> bool:
    """Whether both images have the key's columns, and the types of these can be compared as whole columns."""
    carried = {c.name for c in shape.before_columns} & {c.name for c in shape.after_columns}
    types = [shape.by_name[name].type.name for name in foreign_shapes.keys(shape, options)]
    return carried.issuperset(foreign_shapes.keys(shape, options)) and _UNCOMPARED.isdisjoint(types)


def _is_adjusted(shape: TableShape, options: Options) -> bool:
    return options.enable_time_adjuster and any(column.type.name in ("date", "datetime") for column in shape.columns)


class _Page:
    """Builds the parts of the template of one shape."""

    def __init__(self, shape: TableShape, writer: RowWriter, options: Options, ours: bool) -> None:
        self._shape, self._writer, self._options, self._ours = shape, writer, options, ours
        self._places = templates.places(shape)

    def cases(self) -> Iterator[Case]:
        """Yields a template for each op, and for each combination of images that it may have."""
        for op, letter in LETTERS.items():
            if op == "truncate" or (letter in self._options.skipped and not self._ours):
                continue
            for before, after in _IMAGES.get(op, _EITHER):
                value = self._value(op, before=before, after=after)
                key = self._key("after" if after else "before", op)
                yield Case(before, after, key, [Head("unsent"), *value], (op,))

    def _key(self, side: str, op: str) -> list[Part] | None:
        names = self._writer.key
        if names is None:
            return None
        cells = {cell.name: cell for cell in self._writer.cells}
        return list(_part(self._writer.key_block, self._image(side, [cells[name] for name in names], op)))

    def _value(self, op: str, *, before: bool, after: bool) -> Iterator[Part]:
        known: dict[str, list[Part]] = {
            "before": list(self._image("before", self._writer.cells, op)) if before else ["null"],
            "after": list(self._image("after", self._writer.cells, op)) if after else ["null"],
            "source": list(self._source()),
            "transaction": [Head("transaction")],
            "op": [f'"{LETTERS[op]}"'],
            **{name: [Head(f"clock.{name}")] for name in CLOCK},
        }
        members = {name: known.get(name, ["null"]) for name in self._writer.members}
        return _part(self._writer.block, _object(members))

    def _source(self) -> Iterator[Part]:
        own = {"db": java_json.string(self._shape.database), "table": java_json.string(self._shape.table)}
        return _object({name: [own[name] if name in own else Head(f"source.{name}")] for name in self._writer.source})

    def _image(self, side: str, cells: tuple[Cell, ...] | list[Cell], op: str) -> Iterator[Part]:
        places = self._places[side]
        return _object(
            {
                cell.name: [self._cell(side, cell.column, op)]
                if cell.column in places
                else [java_json.string(cell.absent)]
                for cell in cells
            }
        )

    def _cell(self, side: str, column: str, op: str) -> Part:
        if not self._ours and foreign.is_compacted(self._shape.by_name[column].type, op, self._options):
            return Head(f"{side}.{column}")
        return Value(side, self._places[side][column])


def _object(members: dict[str, list[Part]]) -> Iterator[Part]:
    yield "{"
    for at, (name, parts) in enumerate(members.items()):
        yield f"{',' * (at > 0)}{java_json.string(name)}:"
        yield from parts
    yield "}"


def _part(block: Block, payload: Iterator[Part]) -> Iterator[Part]:
    if not block.text:
        yield from payload
        return
    yield f'{{"schema":{block.text},"payload":'
    yield from payload
    yield "}"


def _written(t: ColumnType, cell: Cell, options: Options) -> WrittenForm | None:
    form = _form(t, cell.node, options)
    return None if form is None else WrittenForm(form, java_json.write(cell.null))


def _form(t: ColumnType, node: Node, options: Options) -> Form | None:
    """Returns the template form for a type's values, equal to `values.writing`; None if there is no such form."""
    if (node.type, node.name) in writing.UNITS:
        return _unit(t, *writing.UNITS[node.type, node.name])
    if node.type == "string" and node.name.endswith("time.ZonedTimestamp"):
        return templates.moment(t.length or 0, separator="T", suffix="Z")
    if t.name == "vector" and node.items is not None and node.items.type == "float":
        return {"numbers": "java"}
    if node.name in _OTHERWISE or node.type in ("struct", "array", "map", "number"):
        return None
    if node.scale is not None:
        same = (t.length is not None and t.scale == node.scale) or (t.name == "bigint" and node.scale == 0)
        return "unscaled" if same and options.decimal_format != "NUMERIC" else None
    if node.bits is not None:
        return {"bits": (node.bits + 7) // 8} if node.bits <= 64 else None
    if node.type in ("int8", "int16", "int32", "int64"):
        wraps = node.type == "int64" and str(t.arrow) == "uint64"
        return "wrapped" if wraps else "flag" if t.name == "boolean" else INTEGER
    if node.type in ("float", "double"):
        if t.name == "decimal":
            return {"double": "java"} if node.type == "double" else None
        return {"float": "java"} if t.name == node.type else None
    if node.type == "boolean":
        return "boolean"
    if node.type == "bytes":
        return "base64" if t.name in BINARIES else None
    return _text(t, options)


def _text(t: ColumnType, options: Options) -> Form | None:
    if t.name in BINARIES:
        return "base64" if options.binary_mode in ("bytes", "base64") else None
    if t.name == "decimal" and t.length is not None:
        return "decimal"
    if t.name == "null":
        return NULL
    return (
        {"text": "java"} if t.name in TEXTS or t.members is not None or t.name in ("json", "decimal", "time") else None
    )


def _unit(t: ColumnType, times: int, by: int) -> Form | None:
    """Returns the form of a date (in days) or of a time (microseconds, multiplied by `times`, divided by `by`) as a number."""
    if t.name == "time":
        return templates.time(times, by, most=(2**31 * 1000 if by == 1000 else 2**62) - 1)
    return templates.count(times, by) if t.name in ("date", "datetime", "timestamp") else None


_OTHERWISE = frozenset({"io.debezium.time.IsoDate", "io.debezium.time.IsoTime", "io.debezium.time.IsoTimestamp"})
