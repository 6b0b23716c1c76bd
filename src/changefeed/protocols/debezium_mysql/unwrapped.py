"""Reads rows without envelope, as the transform ExtractNewRecordState produces them; see the option `unwrap`.

    {"id":1,"name":"x","__deleted":"false","__op":"c","__table":"customers","__source_ts_ms":1795248617000}
     columns           what `add.fields` and the handling of deletes have added, each with `__` in front

Rule 1. `op` is `__op`; without it, `__deleted` marks deletes, and everything else is an upsert. A delete has its old row.
Rule 2. Database and table are `__db` and `__table` if they were added. Otherwise they are the last two parts of the topic's name,
        in which `_` replaces characters that a topic cannot contain; if the topic was renamed, those of the schema's name.
Rule 3. The time is `__source_ts_ms`, else `__ts_ms`. There is no place in the order of changes.
Rule 4. All added members are in the origin's `unwrapped`. They come after the columns. So a member that begins with `__` is a
        column if a member without `__` follows it; a member named `__` is always a column.
Rule 5. The transform may leave only the tombstone of a delete, which is then a delete with the key's columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from changefeed.connect.parts import ConnectPart
from changefeed.connect.schema import Node
from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.event import Instant
from changefeed.model.table import canonical
from changefeed.protocols.debezium_mysql import envelope, marks, shapes
from changefeed.protocols.debezium_mysql.ddl import plain
from changefeed.protocols.debezium_mysql.values.reading import show

ADDED = "__"
_DELETED = {"true": "delete", "false": "upsert", None: "upsert"}


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The parts of a row without envelope.

    Attributes:
        row: the values of the columns.
        schema: the struct of the columns only; None without schema.
        added: the members that the transform has added.
    """

    op: str
    database: str
    table: str
    time: Instant | None
    row: dict[str, Any]
    schema: Node | None
    added: dict[str, Any]


def read(key: ConnectPart | None, value: ConnectPart | None, topic: str, delimiter: str) -> Unwrapped:
    """Reads a row without envelope, or a tombstone; `delimiter` separates the parts of the topic's name.

    Raises:
        ProtocolError: the op is unknown, or an added member is invalid.
    """
    part = value or key
    tree = {} if part is None else part.payload
    if not isinstance(tree, dict):
        raise SchemaError("key is not an object")
    members = list(tree)
    own = len(members) if value is None else _columns(members)
    row = {name: tree[name] for name in members[:own]}
    added = {name: tree[name] for name in members[own:]}
    if not row:
        raise SchemaError("row has no columns")
    schema = None if part is None else part.schema
    database, table = _table(added, topic.rsplit(delimiter, 2), "" if schema is None else schema.name)
    return Unwrapped(
        "delete" if value is None else _op(added),
        database,
        table,
        _time(added),
        row,
        schema if schema is None or value is None else columns(schema),
        {name: plain(content) for name, content in added.items()},
    )


def _table(added: dict[str, Any], parts: list[str], name: str) -> tuple[str, str]:
    """Returns database and table: from added members, else from the topic's name, else from the name of the schema."""
    database, table = (envelope.text(added, member, "value") for member in ("__db", "__table"))
    parts = parts if len(parts) == 3 else name.rpartition(".")[0].rsplit(".", 2)
    if len(parts) < 3 and None in (database, table):
        raise SchemaError(
            'row does not name its database and table, nor does the topic; does "add.fields" have db,table?'
        )
    return parts[-2] if database is None else database, parts[-1] if table is None else table


def _columns(members: Sequence[str]) -> int:
    """Returns the number of members that are columns: all up to the last one that the transform has not added."""
    count = len(members)
    while count and members[count - 1].startswith(ADDED) and members[count - 1] != ADDED:
        count -= 1
    return count


def _op(added: dict[str, Any]) -> str:
    letter, deleted = added.get("__op"), added.get("__deleted")
    if letter is not None:
        op = envelope.OPS.get(letter) if type(letter) is str else None
        if op in (None, "truncate"):
            raise ProtocolError(f"op {show(letter)} is unknown, expected c, u, d or r", reason="unknown-kind")
        return str(op)
    if not isinstance(deleted, str | None) or deleted not in _DELETED:
        raise SchemaError(f"{show(deleted)} is neither true nor false - at `__deleted`")
    return _DELETED[deleted]


def _time(added: dict[str, Any]) -> Instant | None:
    for name in ("__source_ts_ms", "__ts_ms"):
        if added.get(name) is not None:
            return marks.instant({"ts_ms": added[name]}, "value")
    return None


@lru_cache(512)
def columns(node: Node) -> Node:
    """Returns the struct of a row without the added members."""
    return replace(node, fields=node.fields[: _columns(node.names)])


def wire_text(key: ConnectPart | None, value: ConnectPart | None) -> str:
    """Returns the wire text of rows with these parts for key and value, or of tombstones; see `shapes`."""
    if value is None:
        return f'{shapes.MARK}"key":{shapes.key_text(key)},"value":{{"tombstone":true}}}}'
    shown = shapes.block_text(value.block)
    inside = shown[1:-1] if shown else f'"fields":{canonical(list(value.payload))}'
    return f'{shapes.MARK}"key":{shapes.key_text(key)},"value":{{"unwrapped":true,{inside}}}}}'
