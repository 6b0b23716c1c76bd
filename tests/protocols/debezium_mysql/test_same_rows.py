"""The same history through another protocol: the same rows, once the definitions of the schema-change topic are applied.

What the README's table of definitions says is done here, value by value.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from changefeed.model import text
from changefeed.model.event import SchemaChange
from changefeed.model.table import Column, canonical
from changefeed.wire.events import Row, in_order
from tests.protocols.conformance.cases import decode, histories

FILES = {history.file: history for history in histories()}
TABLES = ["audit", "items", "order_items", "orders", "refunds"]


def mended(value: Any, column: Column) -> Any:
    """A canonical value as its definition has it, and an ENUM as TiCDC sends it: by its number."""
    t = column.type
    if value is None:
        return None
    if t.name == "bigint" and t.unsigned and value < 0:
        return value + 2**64
    if t.name in ("time", "datetime"):
        clock, _, fraction = value.partition(".")
        digits = t.length or 0
        assert fraction[digits:].strip("0") == ""
        return f"{clock}.{fraction[:digits]}" if digits else clock
    return {"index": (t.members or ()).index(value) + 1} if t.name == "enum" else value


def rows(file: str, *, defined: bool) -> dict[str, Counter[str]]:
    """How often each change of each table occurs."""
    decoded = decode(FILES[file])
    shown = iter([event for event in map(json.loads, text.lines(decoded)) if event["kind"] == "row"])
    tables: dict[str | None, dict[str, Column]] = {}
    found: dict[str, Counter[str]] = {}
    for event in in_order(decoded):
        if isinstance(event, SchemaChange) and event.columns is not None:
            tables[event.table] = {c.name: c for c in event.columns}
        elif isinstance(event, Row):
            row, table = next(shown), event.shape.table
            images = [row["before"], row["after"]]
            if defined:
                columns = tables[table]
                images = [image and {n: mended(v, columns[n]) for n, v in image.items()} for image in images]
            ordered = [image and dict(sorted(image.items())) for image in images]
            found.setdefault(table, Counter())[canonical([row["op"], *ordered])] += 1
    return found


@pytest.mark.parametrize("table", TABLES)
def test_mended_rows_are_those_of_the_open_protocol(table: str) -> None:
    ours = rows("shop/debezium-mysql/mariadb-10.11-schema.jsonl.gz", defined=True)[table]
    theirs = rows("shop/ticdc-open/open-1.classic.jsonl.gz", defined=False)[table]
    assert (ours - theirs, theirs - ours) == (Counter(), Counter())
