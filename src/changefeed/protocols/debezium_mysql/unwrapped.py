"""Reads rows without envelope, as the transform ExtractNewRecordState produces them; see the option `unwrap`.

    {"id":1,"name":"x","__deleted":"false","__op":"c","__table":"customers","__source_ts_ms":1795248617000}
     columns           added members: see `added_members`

Rule 1. `op` is `__op`; without it, `__deleted` marks deletes, and everything else is an upsert. A delete has its old row. If the
        two contradict each other, one of them is a column, and the record is refused.
Rule 2. Database and table are `__db` and `__table` if they were added. Otherwise they are the last two parts of the topic's name,
        in which `_` replaces characters that a topic cannot contain; if the topic was renamed, those of the schema's name.
Rule 3. The time is `source.ts_ms`, else the connector's `ts_ms`. The place in the order of changes is that of `source.file` and
        `source.pos`; without them there is none.
Rule 4. All added members are in the origin's `unwrapped`. Those of the source block are in the origin by name, too.
Rule 5. The transform may leave only the tombstone of a delete, which is then a delete with the key's columns.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from changefeed.columnar.records import Headers
from changefeed.connect.parts import ConnectPart
from changefeed.connect.schema import Node
from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.event import Instant
from changefeed.model.table import canonical
from changefeed.protocols.debezium_mysql import added_members, envelope, marks, shapes
from changefeed.protocols.debezium_mysql.ddl import plain
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.values.reading import show

_TIMES = ("source.ts_ms", "ts_ms")


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The parts of a row without envelope.

    Attributes:
        row: the values of the columns.
        schema: the struct of the columns only; None without schema.
        sequence: see `envelope.SourceBlock`.
        origin: the members of the source block that were added, and all added members as `unwrapped`.
    """

    op: str
    database: str
    table: str
    time: Instant | None
    row: dict[str, Any]
    schema: Node | None
    sequence: int | None
    origin: dict[str, Any]


def read(
    key: ConnectPart | None, value: ConnectPart | None, topic: str, headers: Headers, options: Options
) -> Unwrapped:
    """Reads a row without envelope, or a tombstone.

    Raises:
        ProtocolError: the op is unknown, or an added member is invalid.
    """
    part = value or key
    tree = {} if part is None else part.payload
    if not isinstance(tree, dict):
        raise SchemaError("key is not an object")
    keys = key.names or () if key is not None else ()
    added = {} if value is None else added_members.added(tree, keys, options.added_members)
    row = {name: content for name, content in tree.items() if name not in added}
    if not row:
        raise SchemaError("row has no columns")
    fields = added_members.of_headers(headers, options.add_headers_prefix) if headers else {}
    fields |= {field: tree[name] for name, field in added.items() if tree[name] is not None}
    schema = None if part is None else part.schema
    database, table = _table(fields, topic.rsplit(options.topic_delimiter, 2), "" if schema is None else schema.name)
    origin = _source(fields)
    return Unwrapped(
        "delete" if value is None else _op(fields),
        database,
        table,
        _time(fields),
        row,
        schema if schema is None or value is None else columns(schema, tuple(row)),
        envelope.place(origin),
        {"unwrapped": {name: plain(tree[name]) for name in tree if name in added}, **origin},
    )


def _table(fields: dict[str, Any], parts: list[str], name: str) -> tuple[str, str]:
    """Returns database and table: from added members, else from the topic's name, else from the name of the schema."""
    database, table = (envelope.text(fields, f"source.{member}", "value") for member in ("db", "table"))
    parts = parts if len(parts) == 3 else name.rpartition(".")[0].rsplit(".", 2)
    if len(parts) < 3 and None in (database, table):
        raise SchemaError(
            'row does not name its database and table, nor does the topic; does "add.fields" have db,table?'
        )
    return parts[-2] if database is None else database, parts[-1] if table is None else table


def _op(fields: dict[str, Any]) -> str:
    letter, deleted = fields.get("op"), fields.get("deleted")
    is_deleted = added_members.flag(deleted)
    if deleted is not None and is_deleted is None:
        raise SchemaError(f"{show(deleted)} is neither true nor false - at `{added_members.DELETED}`")
    if letter is None:
        return "delete" if is_deleted else "upsert"
    op = envelope.OPS.get(letter) if type(letter) is str else None
    if op in (None, "truncate"):
        raise ProtocolError(f"op {show(letter)} is unknown, expected c, u, d or r", reason="unknown-kind")
    if is_deleted is not None and is_deleted != (op == "delete"):
        raise SchemaError(
            f"the op {letter} and `{added_members.DELETED}` contradict each other; if one of them is a column, set the option "
            '"add.fields" or "delete.tombstone.handling.mode" as the transform has it'
        )
    return str(op)


def _time(fields: dict[str, Any]) -> Instant | None:
    for name in _TIMES:
        if fields.get(name) is not None:
            return marks.instant(fields, "value", name)
    return None


def _source(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the origin's members of the source block that were added; times and names are attributes of the event."""
    origin: dict[str, Any] = {}
    for name in (*envelope.TEXTS, *envelope.INTEGERS):
        field = f"source.{name}"
        if field in fields:
            read = envelope.text if name in envelope.TEXTS else envelope.integer
            origin[name] = read(fields, field, "value")
    if fields.get("source.snapshot", "false") != "false":
        origin["snapshot"] = fields["source.snapshot"]
    return origin


@lru_cache(512)
def columns(node: Node, names: Collection[str]) -> Node:
    """Returns the struct of a row with these fields only; the others were added."""
    return replace(node, fields=tuple(field for field in node.fields if field.field in names))


def wire_text(key: ConnectPart | None, value: ConnectPart | None) -> str:
    """Returns the wire text of rows with these parts for key and value, or of tombstones; see `shapes`."""
    if value is None:
        return f'{shapes.MARK}"key":{shapes.key_text(key)},"value":{{"tombstone":true}}}}'
    shown = shapes.block_text(value.block)
    inside = shown[1:-1] if shown else f'"fields":{canonical(list(value.payload))}'
    return f'{shapes.MARK}"key":{shapes.key_text(key)},"value":{{"unwrapped":true,{inside}}}}}'
