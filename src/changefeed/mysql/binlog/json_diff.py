"""Partial updates of a JSON document: a list of diffs, in the order in which they apply.

size of all diffs (4), then for each of them
operation (1)     0 replace, 1 insert, 2 remove
path              packed size, text: `$.a[2]."b c"`
document          packed size, binary JSON; not for remove
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.mysql.binlog.cursor import EventCursor
from changefeed.mysql.binlog.json_binary import quote, to_text

_LEG = re.compile(r"""\.("(?:[^"\\]|\\.)*")|\.([^.\["\s]+)|\[(\d{1,9})\]""", re.DOTALL)
_OPERATIONS = ("replace", "insert", "remove")


@dataclass(frozen=True, slots=True)
class JsonChange:
    """One change of a document.

    Attributes:
        operation: `replace` (the path exists), `insert` (a new member, or an element before which others move on), `remove`.
        path: a JSON path as in MySQL's functions.
        text: the new value as the server prints it; None for `remove`.
    """

    operation: str
    path: str
    text: str | None


@dataclass(frozen=True, slots=True)
class JsonDiff:
    """The changes of a column's document: they apply to the value before. Without changes, the value is the same."""

    changes: tuple[JsonChange, ...]

    def apply(self, text: str) -> str:
        """Applies the changes to the document before; both texts are as the server prints them.

        Raises:
            SchemaError: the document does not have a path of the changes.
        """
        document = json.loads(text, parse_float=_Number, parse_int=_Number)
        for change in self.changes:
            value = None if change.text is None else json.loads(change.text, parse_float=_Number, parse_int=_Number)
            document = _changed(document, change, value)
        return _written(document)


def read_json_diff(cursor: EventCursor) -> JsonDiff:
    """Reads all diffs of a column.

    Raises:
        ProtocolError: the bytes contradict the format.
    """
    start = cursor.at + 4
    diffs = EventCursor(cursor.prefixed(4), "JSON diff")
    changes = []
    try:
        while diffs.left:
            operation = diffs.uint(1)
            if operation >= len(_OPERATIONS):
                raise ProtocolError(f"JSON operation {operation} is unknown", reason="bad-json", byte=diffs.at - 1)
            path = diffs.packed_bytes()
            text = None if _OPERATIONS[operation] == "remove" else to_text(diffs.packed_bytes())
            changes.append(JsonChange(_OPERATIONS[operation], path.decode(), text))
    except UnicodeDecodeError as error:
        raise ProtocolError("a path in JSON is not UTF-8", reason="bad-json", byte=start + diffs.at) from error
    except ProtocolError as error:
        error.byte = start + diffs.at
        raise
    return JsonDiff(tuple(changes))


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def _changed(document: Any, change: JsonChange, value: Any) -> Any:
    legs = _legs(change.path)
    if not legs:
        if change.operation != "replace":
            raise _not_applicable(change)
        return value
    parent = document
    for leg in legs[:-1]:
        if not _has(parent, leg):
            raise _not_applicable(change)
        parent = parent[leg]
    last = legs[-1]
    if change.operation == "insert":
        _insert(parent, last, value, change)
    elif not _has(parent, last):
        raise _not_applicable(change)
    elif change.operation == "replace":
        parent[last] = value
    else:
        del parent[last]
    return document


def _insert(parent: Any, leg: str | int, value: Any, change: JsonChange) -> None:
    if isinstance(parent, list) and isinstance(leg, int):
        parent.insert(leg, value)
    elif isinstance(parent, dict) and isinstance(leg, str) and leg not in parent:
        parent[leg] = value
    else:
        raise _not_applicable(change)


def _has(parent: Any, leg: str | int) -> bool:
    if isinstance(leg, int):
        return isinstance(parent, list) and leg < len(parent)
    return isinstance(parent, dict) and leg in parent


def _legs(path: str) -> list[str | int]:
    """The keys and indexes of a path."""
    legs: list[str | int] = []
    at = 1
    while at < len(path):
        match = _LEG.match(path, at)
        if match is None:
            raise SchemaError(f"{path!r} is not a path of JSON")
        quoted, plain, index = match.groups()
        legs.append(int(index) if index else plain or json.loads(quoted, strict=False))
        at = match.end()
    if path[:1] != "$":
        raise SchemaError(f"{path!r} is not a path of JSON")
    return legs


def _written(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda member: (len(key := member[0].encode()), key))
        return f"{{{', '.join(f'{quote(key)}: {_written(one)}' for key, one in members)}}}"
    return {None: "null", True: "true", False: "false"}[value]


def _not_applicable(change: JsonChange) -> SchemaError:
    return SchemaError(f"{change.operation} at {change.path!r} does not apply to the document before")
