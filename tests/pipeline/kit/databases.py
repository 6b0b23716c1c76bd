"""Compares Delta tables with the database's tables that they follow, value by value."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from changefeed.model.definition import Table
from changefeed.model.names import full_name
from changefeed.pipeline.config.definition import Definition
from tests.pipeline.kit.running import published
from tests.pipeline.kit.tables import rows
from tests.services.database import Database
from tests.services.debezium import MARKER

# Columns, and how often each row is there. Values are the server's text.
Content = tuple[list[str], dict[str, int]]


def content(database: Database, name: str) -> dict[str, Content]:
    """The tables of a database, without the tests' own marker table."""
    return {table: _content(database.rows(name, table)) for table in database.tables(name) if table != MARKER}


def check_equal(pipeline: Definition, database: str, wanted: Mapping[str, Content], but: Collection[str] = ()) -> None:
    """Asserts that the last cut has exactly these tables; the rows of the tables in `but` are not compared.

    Tables that are known by DDL alone are left out, and empty in the database.
    """
    left_out = {name for name in wanted if full_name(database, name) in published(pipeline)[-1].state.uncaptured}
    assert not [name for name in left_out if wanted[name][1]]
    wanted = {name: content for name, content in wanted.items() if name not in left_out}
    actual_tables = {}
    for current in published(pipeline)[-1].state.tables.values():
        if current.table.database == database and current.table.name != MARKER:
            actual = rows(f"{pipeline.sink.path}/{current.path}", current.version, current.table)
            actual_tables[current.table.name] = _content([_as_server(row, current.table) for row in actual])
    assert sorted(actual_tables) == sorted(wanted)
    for name, (columns, lines) in wanted.items():
        if name in but:
            continue
        assert sorted(actual_tables[name][0]) == sorted(columns) or not lines or not actual_tables[name][1], name
        left, right = Counter(actual_tables[name][1]), Counter(lines)
        assert left == right, f"{name}: not wanted {list(left - right)[:3]}, missing {list(right - left)[:3]}"


def _content(lines: list[dict[str, Any]]) -> Content:
    texts = Counter("\t".join(f"{name}={_plain(row[name])}" for name in sorted(row)) for row in lines)
    return (sorted(lines[0]) if lines else []), dict(sorted(texts.items()))


def _plain(value: str | None) -> str | None:
    """A time without a fraction of zeros: the number of fractional digits cannot be inferred from rows alone."""
    return value and re.sub(r"(:\d\d)\.0+$", r"\1", value)


def _as_server(row: dict[str, Any], table: Table) -> dict[str, Any]:
    return {name: _text(value, str(table.column(name).type)) for name, value in row.items()}  # type: ignore[union-attr]


def _text(value: Any, kind: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return base64.b64decode(value["base64"]).hex().upper()
    if kind.startswith("timestamp"):
        return str(value).replace("T", " ").removesuffix("Z")
    return str(value)
