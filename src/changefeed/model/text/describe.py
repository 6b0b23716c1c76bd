"""Describes events for people, one line each: op and table, the changed columns, then the position.

    insert shop.orders {id: 7}  qty: 2, note: "new"  at orders:0:118203
    update shop.orders {id: 7}  qty: 2 → 3  at orders:0:118204
    update shop.orders {id: 7 → 8}  nothing else  at orders:0:118205
    delete shop.orders {id: 8}  at orders:0:118206
    schema add_column shop.orders  ALTER TABLE orders ADD COLUMN x INT  at orders:0:118207
    resolved 463267589883154927  at orders:0:118208
    dead_letter truncated  ticdc-open: value ends 7 bytes early … (orders:0:118209)

Long values are cut. Characters that are not printable are escaped, so that no value can control the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from changefeed.model.table import canonical

_LONGEST = 60


def describe(event: Mapping[str, Any]) -> str:
    """Returns the line for an event.

    Args:
        event: a line of the canonical text, as JSON reads it.
    """
    text = _BY_KIND[event["kind"]](event)
    if event.get("position") and event["kind"] != "dead_letter":
        text += f"  at {event['position']}"
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def _row(event: Mapping[str, Any]) -> str:
    before, after, kept = event["before"], event["after"], event["irregular"]
    prefix = "before." if before is not None and after is not None else ""
    old = {n: kept.get(prefix + n) or _value(v) for n, v in (before or {}).items()}
    new = {n: kept.get(n) or _value(v) for n, v in (after or {}).items()}
    shown = _differences(old, new) if before is not None and after is not None else new or old
    keys = {n: v for n, v in shown.items() if n in event["keys"]} | {
        n: (new or old)[n] for n in event["keys"] if n not in shown and n in (new or old)
    }
    rest = {n: v for n, v in shown.items() if n not in event["keys"]}
    text = f"{event['op']} {_table(event)}"
    if keys:
        text += " {" + ", ".join(f"{n}: {keys[n]}" for n in event["keys"] if n in keys) + "}"
    if event["op"] == "delete" and keys:
        return text
    return f"{text}  {', '.join(f'{n}: {v}' for n, v in rest.items()) or 'nothing else'}"


def _differences(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """Describes the columns that differ between two images; a column that the before image lacks counts as unchanged."""
    return {n: f"{v} → {new.get(n, '(absent)')}" for n, v in old.items() if v != new.get(n)}


def _value(value: Any) -> str:
    if isinstance(value, dict) and "base64" in value:
        return f"<{len(value['base64']) * 3 // 4 - value['base64'].count('=')} bytes>"
    return _cut(canonical(value))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _table(event: Mapping[str, Any]) -> str:
    return ".".join(name for name in (event["database"], event["table"]) if name)


def _shape(event: Mapping[str, Any]) -> str:
    columns = ", ".join(f"{c['name']} {c['type']}" for c in event["columns"])
    return f"shape {_table(event)} {event['shape']}  {columns}"


def _schema(event: Mapping[str, Any]) -> str:
    statement = " ".join((event["ddl"] or "").split())
    return "  ".join(part for part in (f"schema {event['type']} {_table(event)}".rstrip(), statement) if part)


def _transaction(event: Mapping[str, Any]) -> str:
    count = "" if event["event_count"] is None else f"  {event['event_count']} events"
    return f"transaction {event['status']} {event['id']}{count}"


_BY_KIND: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "shape": _shape,
    "row": _row,
    "schema": _schema,
    "resolved": lambda event: f"resolved {event['commit_ts']}",
    "transaction": _transaction,
    "heartbeat": lambda event: f"heartbeat {event['commit_time'] or ''}".rstrip(),
    "dead_letter": lambda event: f"dead_letter {event['reason']}  {event['error']}",
}
