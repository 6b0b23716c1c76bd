r"""Builds the templates by which the kernel writes rows of a shape, from the writers in `rows`.

    {"payload":{"source":{…,"ts_ms": ┬ ms ┬ ,…,"commit_ts": ┬ ts ┬ ,"cluster_id":"default"},"ts_ms": ┬ clock ┬ ,
     "transaction":null,"op":"u","before":{"id": ┬ id ┬ ,…},"after":{…}},"schema":{…}}

Rule 1. Of this protocol's own rows those have a template whose origin has the producer's clock and its cluster, and no more.
        Nothing of the origin of others is written.
Rule 2. Values that the producer cannot represent (years of two digits, times before 1970) are left to `values`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.columnar import templates
from changefeed.columnar.templates import INTEGER, NULL, Case, Form, Head, Part, Value, WrittenForm
from changefeed.model.batch import TableBatch
from changefeed.model.table import TableShape
from changefeed.model.types import BINARIES, INTEGERS, TEXTS, ColumnType
from changefeed.protocols.ticdc_debezium import blocks, envelope
from changefeed.protocols.ticdc_debezium.options import Options
from changefeed.protocols.ticdc_debezium.rows import OPS, ColumnWriter, RowWriter, ShapeWriter, is_ours
from changefeed.protocols.ticdc_debezium.times import DAY_US, LAST_DAY, unit_of
from changefeed.ticdc import commit_ts, tso

_ORIGIN = r'^\{"ts_ms":(?P<clock>0|-?[1-9]\d{0,17}),"cluster_id":(?P<cluster>"[^"\\]*")\}$'
_START = r"^(?:0|[1-9]\d{0,17})$"
_OTHER = {"c": '"before":null,', "d": '"after":null,'}
_CENTURY = date(100, 1, 1).toordinal() - date(1970, 1, 1).toordinal()  # years before have two digits


class Templates:
    """Builds and caches the templates of one encoder."""

    def __init__(self, options: Options, rows: RowWriter) -> None:
        self._options = options
        self._rows = rows

    def text(self, shape: TableShape) -> str | None:
        """Returns the template of a shape; None if only the encoder can write its rows.

        Raises:
            UnsupportedError: the protocol cannot represent the shape.
        """
        writers, ours = self._rows.shape(shape, self._options.cluster_id), is_ours(shape)
        if self._options.large_message_handle_compression != "none" or len(shape.by_name) < len(shape.columns):
            return None
        if ours and writers.made:  # of the cluster, which each row has by itself
            return None
        before, after = (_written(columns) for columns in (writers.before, writers.after))
        if before is None or after is None:
            return None
        return templates.text(before, after, self._cases(shape, writers, ours))

    def _cases(self, shape: TableShape, writers: ShapeWriter, ours: bool) -> Iterator[Case]:
        around, (front, tail) = list(self._envelope(shape, ours)), blocks.around(writers.schemas[1])
        places = templates.places(shape)
        for letter, sides in (("c", ("after",)), ("u", ("after",)), ("u", ("before", "after")), ("d", ("before",))):
            shown = sides if letter != "u" or self._options.output_old_value else ("after",)
            images: list[Part] = [_OTHER.get(letter, "")]
            for at, side in enumerate(shown):
                columns = writers.before if side == "before" else writers.after
                images += ("," * at + f'"{side}":{{', *_image(columns, side, places[side]), "}")
            keys, side = writers.keys, sides[-1]
            if keys is None or all(column.name in places[side] for column in keys):
                key = None if keys is None else _key(keys, side, places[side], writers.schemas[0])
                value = [front, *around, f'"op":"{letter}",', *images, "}", tail]
                ops = tuple(op for op, sent in OPS.items() if sent == letter)
                yield Case("before" in sides, "after" in sides, key, value, ops)

    def _envelope(self, shape: TableShape, ours: bool) -> Iterator[Part]:
        """The members before `op`."""
        start = 0 if self._options.debezium_include_start_ts else None
        source = envelope.of({}, shape.database, shape.table, 0, self._options.cluster_id, start)
        own = {"ts_ms": Head("ms"), "commit_ts": Head("ts")}
        own |= dict.fromkeys(("name", "cluster_id"), Head("cluster")) if ours else {}
        yield '{"source":{'
        for at, (name, text) in enumerate(envelope.members(source).items()):
            if name == "start_ts":
                yield Head("start")
            else:
                yield f'{"," * (at > 0)}"{name}":'
                yield own.get(name, text)
        yield '},"ts_ms":'
        yield Head("clock" if ours else "ms")
        yield ',"transaction":null,'

    def heads(self, table: TableBatch) -> dict[str, pa.Array]:
        """Returns the columns that the templates use."""
        ts = commit_ts.column(table.rows)
        ms = pc.shift_right(ts, pa.scalar(tso.LOGICAL_BITS, pa.uint64()))
        columns = {"ts": ts, "ms": ms}
        if is_ours(table.shape):
            parts = pc.extract_regex(table.rows.column("origin"), _ORIGIN)
            columns |= {name: pc.struct_field(parts, name) for name in ("clock", "cluster")}
        if self._options.debezium_include_start_ts:
            columns["start"] = _start(table.rows.column("transaction"))
        return columns


def _start(transaction: pa.Array) -> pa.Array:
    """`,"start_ts":7`, or nothing; NULL where the transaction's id is not a number."""
    text = pc.struct_field(transaction, "id")
    member = pc.binary_join_element_wise(',"start_ts":', text, "")
    starts = pc.if_else(pc.match_substring_regex(text, _START), member, pa.scalar(None, pa.string()))
    return pc.if_else(pc.is_null(transaction), "", starts)


def _written(columns: Sequence[ColumnWriter]) -> list[WrittenForm] | None:
    forms = []
    for column in columns:
        form = _form(column.type)
        if form is None:
            return None
        forms.append(WrittenForm(form, column.null))
    return forms


def _key(keys: Sequence[ColumnWriter], side: str, places: dict[str, int], schema: str | None) -> list[Part]:
    front, tail = blocks.around(schema)
    return [front, "{", *_image(keys, side, places), "}", tail]


def _image(columns: Sequence[ColumnWriter], side: str, places: dict[str, int]) -> Iterator[Part]:
    for at, column in enumerate(columns):
        yield ("," if at else "") + column.opening
        yield Value(side, places[column.name])


def _form(t: ColumnType) -> Form | None:
    """Returns the template form for a type's values, equal to `values.writer`; None if there is no such form."""
    name = t.name
    if name == "bigint" and t.unsigned:
        return "wrapped"
    if name in INTEGERS or name == "year":
        return INTEGER
    if name == "bit":
        return "boolean" if t.length == 1 else {"bits": ((t.length or 64) + 7) // 8}
    if name == "datetime":
        return templates.count(by=unit_of(t), first=_CENTURY * DAY_US, last=(LAST_DAY + 1) * DAY_US - 1)
    if name == "timestamp":
        return templates.moment(t.length or 0, separator="T", suffix="Z", start=1_000_000)
    if name in BINARIES:
        return "base64"
    if name in TEXTS or t.members is not None:
        return {"text": "raw"}
    return _OTHERS.get(name)


_OTHERS: dict[str, Form] = {
    "boolean": "flag",
    "float": {"float": "raw"},
    "double": {"float": "raw"},
    "decimal": {"double": "raw"},
    "date": templates.count(first=_CENTURY, last=LAST_DAY),
    "time": templates.time(),
    "json": {"text": "raw"},
    "vector": "vector",
    "null": NULL,
}
