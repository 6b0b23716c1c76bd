"""Changes of a table's columns by DDL and by rows, and their effect on existing rows.

Column names are compared case-insensitively; the spelling of the table is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import replace
from typing import Any, TypeAlias

from changefeed.errors import SchemaError
from changefeed.frames.retype import UNKNOWN, Details, Server
from changefeed.frames.types import widen
from changefeed.model.definition import Table
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl.apply import Altered, Projection, alter
from changefeed.mysql.ddl.defaults import UNKNOWN_EXECUTION, ZONE_NEEDED, Execution
from changefeed.mysql.ddl.statements import (
    AddColumn,
    AddKey,
    AlterTable,
    ColumnChange,
    DropColumn,
    ModifyColumn,
    RenameColumn,
    SetDefault,
)
from changefeed.pipeline.planning.values import DATES, conversion, default_for_null, details_of, gets_day
from changefeed.sinks.base import TypeMap
from changefeed.sinks.writes import Constant, ConvertedFrom, Expression, IrregularUpdate, Null

# Types of which rows contain only the bare name: the details come from DDL, and are kept.
_BARE = frozenset({"decimal", "bit", "enum", "set"})

# The new values of all columns, and the changes of irregular texts.
Rewriting: TypeAlias = tuple[tuple[Expression, ...], IrregularUpdate | None]


# Columns from rows.


def inferred(
    table: Table | None, shapes: Iterable[TableShape], undeclared: Container[str] = (), *, key_known: bool = False
) -> Table:
    """The table for rows of these shapes: columns that it lacks are added, virtual ones at their upstream place.

    Args:
        table: the table so far; None if there is none.
        shapes: of the rows.
        undeclared: names of its columns that widen; the other ones have the types of their DDL.
        key_known: DDL defines which key it has, if any; otherwise it may take that of the rows.
    """
    shapes = list(shapes)
    if table is not None and table.virtual:
        table = table.carrying({c.name for shape in shapes for c in shape.columns})
    columns: dict[str, Column] = {c.name.lower(): c for c in table.columns} if table else {}
    declared = {name for name, c in columns.items() if c.name not in undeclared and c.type.name != "null"}
    keys = table.keys if table else ()
    database, name = (table.database, table.name) if table else ("", "")
    for shape in shapes:
        database, name = database or shape.database, name or shape.table
        keys = keys or (() if key_known else shape.keys)
        for column in shape.columns:
            current = columns.setdefault(column.name.lower(), column)
            if column.name.lower() not in declared:
                columns[column.name.lower()] = replace(current, type=_common_type(current.type, column.type))
    keys = tuple(columns[key.lower()].name for key in keys)
    columns_with_keys = tuple(replace(c, key=c.name in keys) for c in columns.values())
    if table is not None:
        return replace(table, columns=columns_with_keys, keys=keys)
    return Table(database, name, columns_with_keys, keys)


def _common_type(current: ColumnType, other: ColumnType) -> ColumnType:
    bare = other.name == current.name and other.name in _BARE and other.length is None and other.members is None
    return current if bare else widen(current, other)


def columns_added(old: Table, new: Table) -> bool:
    """Whether `new` has columns that `old` lacks."""
    return bool({c.name for c in new.columns} - {c.name for c in old.columns})


def widened(old: Table, new: Table, types: TypeMap) -> tuple[Expression, ...] | None:
    """The values of the new columns, if rows have widened a type so that the sink's type or values change; otherwise None.

    Raises:
        SchemaError: the sink cannot convert the old values to the new type.
    """
    before = {c.name: c for c in old.columns}
    rewrites = False
    for column in new.columns:
        if old_column := before.get(column.name):
            conversion = types.conversion(old_column.type, column.type, widening=True)
            if conversion is None:
                raise SchemaError(
                    f"column {column.name} was {old_column.type} and now needs {column.type}, to which its values cannot be "
                    "converted"
                )
            rewrites |= conversion == "rewrite"
    if not rewrites:
        return None
    return tuple(
        ConvertedFrom(column=c.name, type=before[c.name].type, widening=True) if c.name in before else Null()
        for c in new.columns
    )


# Columns from DDL.


def altered(
    table: Table,
    change: AlterTable,
    *,
    declared: bool,
    lenient: bool,
    execution: Execution = UNKNOWN_EXECUTION,
) -> Altered:
    """The table after an ALTER; with `lenient`, dropped columns stay, and a column that is added again is the one that stayed.

    For a table inferred from rows, parts that name unknown columns are skipped: its rows will show its columns.

    Raises:
        SchemaError: a declared table lacks what the change names; the message names it.
    """
    parts = change.changes
    if not declared:
        parts = tuple(p for p in (_applicable_part(table, p) for p in parts) if p is not None)
    if lenient:
        parts = tuple(_add_or_modify(table, parts, p) for p in parts)
    after = alter(table, replace(change, changes=parts), execution)
    if not lenient:
        return after
    sources = {p.source.name for p in after.rows if p.source is not None}
    taken = {c.name.lower() for c in after.table.columns}
    kept_columns = [c for c in table.columns if c.name not in sources and c.name.lower() not in taken]
    stay = tuple(Projection(replace(c, nullable=True, key=False), c) for c in kept_columns)
    columns = after.table.columns + tuple(p.column for p in stay)
    return Altered(replace(after.table, columns=columns), after.rows + stay)


def _applicable_part(table: Table, part: ColumnChange) -> ColumnChange | None:
    def has(name: str) -> bool:
        return table.column(name) is not None or any(name.lower() == v.name.lower() for v in table.virtual)

    match part:
        case AddColumn(column=column) if has(column.name):
            return None
        case ModifyColumn(name=name, column=column) if not has(name):  # it exists upstream, with unknown values
            if part.if_exists or has(column.name):
                return None
            after = part.after if part.after is not None and has(part.after) else None
            return AddColumn(replace(column, nullable=True, default=None), part.first, after, part.generated)
        case DropColumn(name=name) | RenameColumn(name=name) | SetDefault(name=name) if not has(name):
            return None
        case AddKey(key=key) if not all(has(name) for name in key.columns):
            return None
        case AddColumn(after=after) | ModifyColumn(after=after) if after is not None and not has(after):
            return replace(part, after=None)
    return part


def _add_or_modify(table: Table, parts: tuple[ColumnChange, ...], part: ColumnChange) -> ColumnChange:
    """Handles a column that is added although it exists: it was dropped upstream, and has stayed, with its NULLs."""
    if not isinstance(part, AddColumn) or table.column(part.column.name) is None:
        return part
    name = part.column.name
    if any(isinstance(p, (DropColumn, RenameColumn, ModifyColumn)) and p.name.lower() == name.lower() for p in parts):
        return part
    column = replace(part.column, nullable=True)
    return ModifyColumn(name, column, part.first, part.after, part.generated, charset=part.charset)


def rewritten(
    old: Table,
    change: Altered,
    types: TypeMap,
    irregular: str = "null",
    widening: Collection[str] = (),
    session: Details = UNKNOWN,
) -> Rewriting | None:
    """The values of the new columns, and the changes of irregular texts, if existing rows change; otherwise None.

    None also if only columns are added that are NULL in every row: then no row has to be rewritten. Irregular texts exist
    only with `irregular: keep`. The columns named in `widening` get a type for all values, old and new.

    Raises:
        SchemaError: the new values cannot be derived from the statement, or are irregular and `irregular`
            is `fail`.
    """
    expressions = tuple(_expression(p, types, irregular, p.column.name in widening, session) for p in change.rows)
    sources = {p.source.name for p in change.rows if p.source is not None}
    dropped = {c.name for c in old.columns} - sources
    stays = all(_stays(p, e, types) for p, e in zip(change.rows, expressions, strict=True))
    added = dict(irregular_defaults(change)) if irregular == "keep" else {}
    nulls = _irregular_nulls(change, session.server) if irregular == "keep" else {}
    if stays and not dropped and not added and not nulls:
        return None
    if irregular != "keep":
        return expressions, None
    renamed = {p.source.name: p.column.name for p in change.rows if p.source and p.source.name != p.column.name}
    return expressions, IrregularUpdate(dropped=tuple(sorted(dropped)), renamed=renamed, added=added, nulls=nulls)


def _stays(p: Projection, expression: Expression, types: TypeMap) -> bool:
    """Whether the column is unchanged, or new and NULL in every row."""
    if p.source is None:
        return isinstance(expression, Null)
    assert isinstance(expression, ConvertedFrom)
    details, widening = expression.details, expression.widening
    unchanged = types.conversion(p.source.type, p.column.type, widening=widening, details=details) == "none"
    return p.source.name == p.column.name and unchanged and expression.null is None


def irregular_defaults(change: Altered) -> list[tuple[str, str]]:
    """New columns whose default their type cannot hold: name and text."""
    return [(p.column.name, p.default.irregular) for p in change.rows if p.default.irregular is not None]


def converted_without(change: Altered) -> list[tuple[str, str, str]]:
    """Columns that have become something else than a date: name, old type, new type.

    A zero date and its like are NULL in the sink, and stay NULL; the server converts them: `0000-00-00` to the number 0.
    """
    return [
        (p.column.name, str(p.source.type), str(p.column.type))
        for p in change.rows
        if p.source is not None and p.source.type.name in DATES and p.column.type.name not in DATES
    ]


def _irregular_nulls(change: Altered, server: Server) -> dict[str, str]:
    """Columns in which NULL becomes a value that their type cannot hold, such as a zero date: name -> text."""
    defaults = {p.column.name: default_for_null(p, server).irregular for p in change.rows}
    return {name: text for name, text in defaults.items() if text is not None}


def _expression(p: Projection, types: TypeMap, irregular: str, widening: bool, session: Details) -> Expression:
    new = p.column
    if p.unknown:
        raise SchemaError(p.unknown)
    if p.source is None:
        if p.default.irregular is not None and irregular == "fail":
            raise SchemaError(
                f"column {new.name}: existing rows get the default {p.default.irregular!r}, which {new.type} cannot hold "
                "downstream, and `irregular: fail` is set"
            )
        return Null() if p.default.value is None else _constant(p.default.value)
    if conversion(types, p.source, new, session, widening=widening) is None:
        raise SchemaError(underivable(p.source, new, session))
    null = default_for_null(p, session.server)
    if null.unknown:
        raise SchemaError(null.unknown)
    if null.irregular is not None and irregular == "fail":
        raise SchemaError(
            f"column {new.name}: NULL becomes {null.irregular!r} in existing rows, which {new.type} cannot hold downstream, "
            "and `irregular: fail` is set"
        )
    return ConvertedFrom(
        column=p.source.name,
        type=p.source.type,
        widening=widening,
        details=details_of(p.source, new, session),
        null=None if null.value is None else _constant(null.value).value,
    )


def underivable(old: Column, new: Column, session: Details) -> str:
    """A sentence: the values of a column with the type of `new` do not follow from those with the type of `old`."""
    why = f"column {new.name}: its values after the change of {old.type} to {new.type} cannot be derived from those before it"
    is_local = new.type.name == "timestamp" and old.type.name in ("date", "datetime")
    has_day = gets_day(old, new) and session.time is not None
    depends = old.type.name == "timestamp" or is_local or has_day
    return f"{why}: {ZONE_NEEDED}" if depends and not session.zone else why


def _constant(value: Any) -> Constant:
    """A value in canonical form."""
    return Constant(value=value if isinstance(value, dict) else str(value))
