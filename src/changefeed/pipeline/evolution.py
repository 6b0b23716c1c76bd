"""How a table's columns change: by what its rows say, and what that means for the rows that are there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from changefeed.errors import SchemaError
from changefeed.frames.types import sink_type, widen
from changefeed.model.definition import Table
from changefeed.model.table import Column, TableShape
from changefeed.model.types import BINARIES, INTEGERS, TEXTS, ColumnType
from changefeed.sinks.merge import quoted
from changefeed.wire.ddl.apply import Altered, Projection
from changefeed.wire.ddl.defaults import Default


def learn(here: Table | None, shapes: Iterable[TableShape], *, declared: bool) -> Table:
    """The table that holds rows of these shapes.

    A declared table keeps the types that its DDL gave; a learned one widens. Either gains the columns it lacks.
    """
    columns: dict[str, Column] = {c.name: c for c in here.columns} if here else {}
    keys = here.keys if here else ()
    database, name = (here.database, here.name) if here else ("", "")
    for shape in shapes:
        database, name = database or shape.database, name or shape.table
        keys = keys or shape.keys
        for column in shape.columns:
            known = columns.get(column.name)
            if known is None:
                columns[column.name] = column
            elif not declared:
                columns[column.name] = replace(known, type=widen(known.type, column.type))
    found = tuple(replace(c, key=c.name in keys) for c in columns.values())
    if here is not None:
        return replace(here, columns=found if found != here.columns else here.columns, keys=keys)
    return Table(database, name, found, keys)


def columns_added(old: Table, new: Table) -> bool:
    """Whether `new` has columns that `old` lacks."""
    return bool({c.name for c in new.columns} - {c.name for c in old.columns})


def rewritten(old: Table, altered: Altered) -> dict[str, str] | None:
    """Column -> SQL expression over the old row, when the rows that exist do not stay as they are; else None.

    None also when only columns are added that are NULL in every row: that is no work for the rows.

    Raises:
        SchemaError: what the upstream made of the rows cannot be told from the statement.
    """
    unknown = next((p.unknown for p in altered.rows if p.unknown), None)
    if unknown is not None:
        raise SchemaError(unknown)
    sources = [p.source for p in altered.rows if p.source is not None]
    expressions = {p.column.name: _expression(p) for p in altered.rows}
    dropped = {c.name for c in old.columns} - {c.name for c in sources}
    kept = all(
        expressions[p.column.name] == (quoted(p.column.name) if p.source is not None else _null(p.column))
        for p in altered.rows
    )
    return None if kept and not dropped else expressions


def without_unknown(altered: Altered) -> Altered:
    """The same change with NULL for what only the upstream knows."""
    return replace(altered, rows=tuple(replace(p, default=Default()) if p.unknown else p for p in altered.rows))


def _expression(p: Projection) -> str:
    new = p.column
    if p.source is None:
        return _null(new) if p.default.value is None else _literal(p.default.value, new)
    _check_retype(p.source.type, new.type, new.name)
    name = quoted(p.source.name)
    return (
        name
        if sink_type(p.source.type).sql == sink_type(new.type).sql
        else f"CAST({name} AS {sink_type(new.type).sql})"
    )


def _check_retype(old: ColumnType, new: ColumnType, name: str) -> None:
    """Lets pass what Spark's CAST and MySQL do alike, or what leaves every value as it is."""
    numbers = {*INTEGERS, "bit", "year", "decimal", "float", "double"}
    words = {*TEXTS, "enum", "set"}
    alike = (
        old.name == new.name
        or {old.name, new.name} <= numbers
        or (old.name in words and new.name in words)
        or (old.name in BINARIES and new.name in BINARIES)
        or (old.name, new.name) == ("date", "datetime")
        or (old.name in INTEGERS and new.name in TEXTS)
    )
    shorter = old.name in ("datetime", "timestamp", "time") and (old.length or 0) > (new.length or 0)
    if not alike or shorter:
        raise SchemaError(
            f"column {name}: what the upstream made of its values cannot be told from a change of {old} to {new}"
        )


def _null(column: Column) -> str:
    return f"CAST(NULL AS {sink_type(column.type).sql})"


def _literal(value: Any, column: Column) -> str:
    """A canonical value as a Spark SQL expression of the column's type."""
    sql = sink_type(column.type).sql
    if isinstance(value, dict):
        return f"unbase64('{value['base64']}')"
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{text}'" if sql == "string" else f"CAST('{text}' AS {sql})"
