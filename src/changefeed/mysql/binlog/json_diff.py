"""Partial updates of a JSON document: a list of diffs, in the order in which they apply.

size of all diffs (4), then for each of them
operation (1)     0 replace, 1 insert, 2 remove
path              packed size, text: `$.a[2]."b c"`
document          packed size, binary JSON; not for remove
"""

from __future__ import annotations

from dataclasses import dataclass

from changefeed.errors import ProtocolError
from changefeed.mysql.binlog.cursor import EventCursor
from changefeed.mysql.binlog.json_binary import to_text

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
