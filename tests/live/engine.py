"""What the engine itself has got wrong: a history that it has spoiled says nothing about the pipeline.

The engine keeps a picture of each table of its own, by its own parser. It is in the schema changes, and rows have its columns. If
it is none of the pictures that the server's catalogue has had for the table, the engine has misunderstood a statement.
Some values it changes by itself; these are known by type and value.
"""

from __future__ import annotations

import math
import re
import struct
from collections import defaultdict
from decimal import Decimal

from tests.live.comparing import Difference
from tests.live.history import History
from tests.live.recording import payload_of

_ZERO_DATE = re.compile(r"'(0000-\d\d|\d{4}-00|\d{4}-\d\d-00)")
_SENT_AS_THEY_ARE = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "double"}
)
_ID = re.compile(r'"((?:[^"]|"")*)"\."(.*)"$')


def misunderstood(history: History) -> dict[str, str]:
    """`database.table` -> what the engine has got wrong about it."""
    right: dict[str, list[list[str]]] = defaultdict(list)
    for statement in history.executed:
        for name, columns in statement.columns.items():
            right[name].append([column for column, _ in columns])
    wrong: dict[str, str] = {}
    last: dict[str, str] = {}
    for event in history.events:
        payload = payload_of(event)
        for change in payload.get("tableChanges") or ():  # type: ignore[attr-defined]
            name = _name_of(change["id"])
            if not change.get("table"):
                continue
            names = [column["name"] for column in change["table"]["columns"]]
            last[name] = str(payload.get("ddl"))
            if names not in right[name]:
                wrong.setdefault(name, f"its table {names} after {payload.get('ddl')!r}")
        source = payload.get("source")
        for image in ("before", "after"):
            row = payload.get(image)
            if isinstance(source, dict) and isinstance(row, dict) and "op" in payload:
                name = f"{source['db']}.{source['table']}"
                if name in right and list(row) not in right[name]:
                    wrong.setdefault(name, f"its row {list(row)} after {last.get(name)!r}")
    return wrong


def _name_of(identity: str) -> str:
    """`database.table` of the engine's `"database"."table"`."""
    match = _ID.match(identity)
    return "" if match is None else f"{match[1]}.{match[2]}".replace('""', '"')


def is_known(difference: Difference, history: History) -> bool:
    """Whether the engine changes such a value by itself."""
    if difference.what != "rows" or not difference.column:
        return False
    if _sent(difference, history):
        return True
    actual, right = difference.actual, difference.right
    columns = {name: kind for name, kind, _ in history.tables[difference.table].columns}
    kind = columns.get(difference.column, "")
    if _ZERO_DATE.match(right):
        return True
    if kind.startswith("year"):
        return right == "Decimal('0')" and actual in ("Decimal('1900')", "None")
    if kind.startswith("tinyint(1)"):
        return actual == "Decimal('1')"
    if kind.startswith("float"):  # a snapshot reads six digits
        return abs(_float(actual) - _float(right)) <= 1e-5 * abs(_float(right))
    return False


def _sent(difference: Difference, history: History) -> bool:
    """Whether the engine has sent just this row since the table's last schema change: then the value is its own."""
    rows = list[dict[str, object]]()
    for event in history.events:
        payload = payload_of(event)
        if any(_name_of(change["id"]) == difference.table for change in payload.get("tableChanges") or ()):  # type: ignore[attr-defined]
            rows.clear()
        source, after = payload.get("source"), payload.get("after")
        if isinstance(source, dict) and isinstance(after, dict) and "op" in payload:
            if f"{source['db']}.{source['table']}" == difference.table:
                rows.append(after)
    plain = {
        name: int(value) if isinstance(value, Decimal) and value == int(value) else value
        for name, value in difference.row.items()
        if isinstance(value, Decimal | str | float | None)
    }
    kinds = {name: kind.partition("(")[0] for name, kind, _ in history.tables[difference.table].columns}
    compared = [name for name in plain if kinds[name].split(" ")[0] in _SENT_AS_THEY_ARE]
    if difference.column not in compared:
        return False
    return any(all(row.get(name) == plain[name] for name in compared) for row in rows)


def _float(text: str) -> float:
    """A float of a difference, which has its bytes."""
    try:
        (number,) = struct.unpack("f", bytes.fromhex(text.strip("'")))
    except (ValueError, struct.error):
        return math.nan
    return float(number)


def spoiled(history: History, different: tuple[Difference, ...], text: str) -> str:
    """What the engine has done to the tables that differ, or that a stop names; empty if nothing."""
    if history.died is not None:
        return f"died: {history.died}"
    wrong = misunderstood(history)
    for name, reason in wrong.items():
        if any(d.table == name for d in different) or name in text or name.replace(".", "`.`") in text:
            return f"{name}: {reason}"
    if different and all(is_known(d, history) or _is_of_rows(d, different) for d in different):
        known = [str(d) for d in different if is_known(d, history)]
        return f"values: {known[0]}" if known else ""
    return ""


def _is_of_rows(difference: Difference, different: tuple[Difference, ...]) -> bool:
    """Whether it only says how many rows differ, beside the columns in which they do."""
    return (
        difference.what == "rows"
        and not difference.column
        and any(d.column and d.table == difference.table for d in different)
    )
