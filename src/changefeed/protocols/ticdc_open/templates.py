r"""Builds the templates by which the kernel writes rows of a shape, from the writers in `rows`.

    {"u":{"id":{"t":8,"h":true,"f":11,"v": ┬ id ┬ },"qty":{"t":3,"f":65,"v": ┬ qty ┬ }},"p":{…}}
    └ opening and members ────────────────┘      └ closing, opening, members ──┘

Rule 1. Templates are for complete images: the columns of a `p` with changed columns only depend on the row.
Rule 2. From the origin, the kernel receives only `rid` and `ptn`, verbatim as in the event key. Rows whose origin has other
        members of a message are left to the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.columnar import templates
from changefeed.columnar.templates import INTEGER, NULL, Case, Form, Head, Part, Value, WrittenForm
from changefeed.model.batch import TableBatch
from changefeed.model.table import TableShape
from changefeed.model.types import BINARIES, INTEGERS, TEXTS, ColumnType
from changefeed.mysql.type_codes import TEXT_CODES
from changefeed.mysql.zone import ahead, zone
from changefeed.protocols.ticdc_open.batching import OVERHEAD, VERSION
from changefeed.protocols.ticdc_open.columns import ColumnWriter, ShapeWriter
from changefeed.protocols.ticdc_open.options import Options
from changefeed.protocols.ticdc_open.rows import RowWriter
from changefeed.ticdc import commit_ts

_NUMBER = r"(?:0|-?[1-9]\d{0,17})"
_ORIGIN = rf'^\{{(?:"rid":-?[1-9]\d{{0,17}}(?:,"ptn":{_NUMBER})?|"ptn":{_NUMBER})\}}$'
_NAMES = "rid|ptn|ohk|p|ccl|replaced"


class Templates:
    """Builds and caches the templates of one encoder."""

    def __init__(self, options: Options, rows: RowWriter) -> None:
        self._options = options
        self._rows = rows
        self._ahead = ahead(zone(options.time_zone))

    def text(self, shape: TableShape) -> str | None:
        """Returns the template of a shape; None if only the encoder can write its rows.

        Raises:
            UnsupportedError: the protocol cannot represent the shape.
        """
        options = self._options
        if options.large_message_handle_compression != "none" or options.legacy_v4:
            return None
        if len(shape.by_name) < len(shape.columns):
            return None
        writers = self._rows.shape(shape)
        before, after = (self._written(columns) for columns in (writers.before, writers.after))
        if before is None or after is None:
            return None
        key = list(self._key(shape))
        cases = [Case(images[0], images[1], key, value) for images, value in self._values(shape, writers)]
        limit = options.max_message_bytes - OVERHEAD - VERSION
        places = templates.places(shape)
        return templates.text(
            [before[name] for name in places["before"]],
            [after[name] for name in places["after"]],
            cases,
            framed=True,
            most=limit,
        )

    def _written(self, columns: tuple[ColumnWriter, ...]) -> dict[str, WrittenForm] | None:
        forms: dict[str, WrittenForm] = {}
        for column in columns:
            form = _form(column.column.type, column.code, "html" if self._rows.classic else "raw", self._ahead)
            if form is None:
                return None
            forms[column.name] = WrittenForm(form)
        return forms

    def _key(self, shape: TableShape) -> Iterator[Part]:
        string, classic = self._rows.json.string, self._rows.classic
        yield '{"ts":'
        yield Head("ts")
        for name, value in (("scm", shape.database), ("tbl", shape.table)):
            yield f',"{name}":{string(value)}' if value or not classic else ""
        members: list[Part] = [Head("members"), ',"t":1'] if classic else [',"t":1', Head("members")]
        yield from (*members, "}")

    def _values(self, shape: TableShape, writers: ShapeWriter) -> Iterator[tuple[tuple[bool, bool], list[Part]]]:
        """Yields the kinds of rows: which images a row has, and the parts of its value."""
        options, places = self._options, templates.places(shape)
        if writers.after:
            new = ['{"u":{', *_image(writers.after, "after", places), "}"]
            yield (False, True), [*new, "}"]
            if not options.output_old_value:
                yield (True, True), [*new, "}"]
            elif not options.only_output_updated_columns and writers.before:
                yield (True, True), [*new, ',"p":{', *_image(writers.before, "before", places), "}}"]
        keys_alone = options.delete_only_output_handle_key_columns
        deleted = [c for c in writers.before if c.column.key or not keys_alone]
        if deleted:
            yield (True, False), ['{"d":{', *_image(deleted, "before", places), "}}"]

    def heads(self, table: TableBatch) -> dict[str, pa.Array]:
        """Returns the columns that the templates use."""
        return {"ts": commit_ts.column(table.rows), "members": self._members(table.rows.column("origin"))}

    def _members(self, origin: pa.Array) -> pa.Array:
        """Returns `,"rid":7,"ptn":0` or "" for each origin; NULL if the origin has other members of a message."""
        if origin.null_count == len(origin):
            return pa.repeat("", len(origin))
        pattern = r"^\{(.*)\}$" if self._rows.classic else r'^\{(?:"rid":-?\d+,?)?(.*)\}$'
        members = pc.replace_substring_regex(origin, pattern, r",\1")
        members = pc.if_else(pc.equal(members, ","), "", members)
        silent = pc.if_else(templates.silent(origin, _NAMES), "", pa.scalar(None, pa.string()))
        return pc.if_else(pc.coalesce(pc.match_substring_regex(origin, _ORIGIN), False), members, silent)


def _image(columns: Sequence[ColumnWriter], side: str, places: dict[str, dict[str, int]]) -> Iterator[Part]:
    for at, column in enumerate(columns):
        yield ("," if at else "") + column.opening + column.members
        yield Value(side, places[side][column.name])
        yield "}"


def _form(t: ColumnType, code: int, json: str, ahead: int | None) -> Form | None:
    """Returns the template form for a type's values, equal to `values.writer`; None if there is no such form."""
    name = t.name
    if name in INTEGERS or name in ("year", "bit"):
        return INTEGER
    if name in ("enum", "set"):
        return INTEGER if t.members is None else {"member" if name == "enum" else "members": t.members}
    if name in ("float", "double"):
        return {"float": json}
    if name == "timestamp":
        return None if ahead is None else templates.moment(t.length or 0, ahead=ahead)
    if name == "datetime":
        return templates.moment(t.length or 0)
    if name in TEXTS and code not in TEXT_CODES:
        return "base64"
    if name in TEXTS or name in ("json", "time"):
        return {"text": json}
    if name in BINARIES:
        return {"quoted": json} if code in TEXT_CODES else "base64"
    if name == "decimal":
        return "decimal" if t.length is not None else {"text": json}
    return _OTHERS.get(name)


_OTHERS: dict[str, Form] = {"date": "day", "vector": "vector", "null": NULL, "boolean": "flag"}
