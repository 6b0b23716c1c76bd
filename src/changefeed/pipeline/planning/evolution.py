"""How a table's columns change: by DDL or by what its rows say, and what that means for the rows that are there.

Names of columns are compared without regard to case; the spelling that counts is the table's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from changefeed.errors import SchemaError
from changefeed.frames.types import widen
from changefeed.model.definition import Table
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl.apply import Altered, Projection, alter
from changefeed.mysql.ddl.defaults import NULL
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
from changefeed.sinks.base import Constant, Converted, Expression, Null, Texts, TypeMap

# Types whose bare name says that rows do not tell the rest: what DDL told of them stays.
_BARE = frozenset({"decimal", "bit", "enum", "set"})


# What rows say.


def learn(here: Table | None, shapes: Iterable[TableShape], *, declared: bool) -> Table:
    """The table that holds rows of these shapes.

    A declared table keeps the types that its DDL gave; a learned one widens. Either gains the columns it lacks.
    """
    columns: dict[str, Column] = {c.name.lower(): c for c in here.columns} if here else {}
    keys = here.keys if here else ()
    database, name = (here.database, here.name) if here else ("", "")
    for shape in shapes:
        database, name = database or shape.database, name or shape.table
        keys = keys or shape.keys
        for column in shape.columns:
            known = columns.setdefault(column.name.lower(), column)
            if not declared:
                columns[column.name.lower()] = replace(known, type=_both(known.type, column.type))
    keys = tuple(columns[key.lower()].name for key in keys)
    found = tuple(replace(c, key=c.name in keys) for c in columns.values())
    if here is not None:
        return replace(here, columns=found, keys=keys)
    return Table(database, name, found, keys)


def _both(known: ColumnType, said: ColumnType) -> ColumnType:
    bare = said.name == known.name and said.name in _BARE and said.length is None and said.members is None
    return known if bare else widen(known, said)


def columns_added(old: Table, new: Table) -> bool:
    """Whether `new` has columns that `old` lacks."""
    return bool({c.name for c in new.columns} - {c.name for c in old.columns})


def widened(old: Table, new: Table, types: TypeMap) -> tuple[Expression, ...] | None:
    """The values of the new columns if rows have widened a type so that the sink's type or values change; else None.

    Raises:
        SchemaError: the sink cannot convert the old values to the new type.
    """
    before = {c.name: c for c in old.columns}
    rewrites = False
    for column in new.columns:
        if known := before.get(column.name):
            conversion = types.conversion(known.type, column.type, widening=True)
            if conversion is None:
                raise SchemaError(
                    f"column {column.name} was {known.type} and now needs {column.type}, which its values cannot be taken to"
                )
            rewrites |= conversion == "rewrite"
    if not rewrites:
        return None
    return tuple(
        Converted(column=c.name, type=before[c.name].type, widening=True) if c.name in before else Null()
        for c in new.columns
    )


# What DDL says.


def altered(here: Table, change: AlterTable, *, declared: bool, lenient: bool) -> Altered:
    """The table after an ALTER; with `lenient`, columns that it drops stay, and one that comes back is the one that stayed.

    Of a table that was learned from rows, parts that name what no row has named are skipped: its rows will tell.

    Raises:
        SchemaError: a declared table has not what the change names; the message names it.
    """
    parts = change.changes
    if not declared:
        parts = tuple(p for p in (_known(here, p) for p in parts) if p is not None)
    if lenient:
        parts = tuple(_again(here, parts, p) for p in parts)
    found = alter(here, replace(change, changes=parts))
    if not lenient:
        return found
    sources = {p.source.name for p in found.rows if p.source is not None}
    taken = {c.name.lower() for c in found.table.columns}
    left = [c for c in here.columns if c.name not in sources and c.name.lower() not in taken]
    stay = tuple(Projection(replace(c, nullable=True, key=False), c) for c in left)
    columns = found.table.columns + tuple(p.column for p in stay)
    return Altered(replace(found.table, columns=columns), found.rows + stay)


def _known(here: Table, part: ColumnChange) -> ColumnChange | None:
    def has(name: str) -> bool:
        return here.column(name) is not None or any(name.lower() == v.lower() for _, v in here.virtual)

    match part:
        case AddColumn(column=column) if has(column.name):
            return None
        case DropColumn(name=name) | RenameColumn(name=name) | SetDefault(name=name) | ModifyColumn(name=name) if (
            not has(name)
        ):
            return None
        case AddKey(key=key) if not all(has(name) for name in key.columns):
            return None
        case AddColumn(after=after) | ModifyColumn(after=after) if after is not None and not has(after):
            return replace(part, after=None)
    return part


def _again(here: Table, parts: tuple[ColumnChange, ...], part: ColumnChange) -> ColumnChange:
    """A column that is added although it is there was dropped upstream and has stayed."""
    if not isinstance(part, AddColumn) or here.column(part.column.name) is None:
        return part
    name = part.column.name
    if any(isinstance(p, (DropColumn, RenameColumn, ModifyColumn)) and p.name.lower() == name.lower() for p in parts):
        return part
    return ModifyColumn(name, part.column, part.first, part.after, part.generated)


def rewritten(
    old: Table, change: Altered, types: TypeMap, irregular: str = "null"
) -> tuple[tuple[Expression, ...], Texts | None] | None:
    """The values of the new columns, and what becomes of irregular texts, if rows that exist change; else None.

    None also when only columns are added that are NULL in every row: that is no work for the rows. There are texts only
    where `irregular` is `keep`.

    Raises:
        SchemaError: what the upstream made of the rows cannot be told from the statement, or is irregular and `irregular`
            is `fail`.
    """
    expressions = tuple(_expression(p, types, irregular) for p in change.rows)
    sources = {p.source.name for p in change.rows if p.source is not None}
    dropped = {c.name for c in old.columns} - sources
    stays = all(_stays(p, e, types) for p, e in zip(change.rows, expressions, strict=True))
    added = dict(irregular_defaults(change)) if irregular == "keep" else {}
    if stays and not dropped and not added:
        return None
    if irregular != "keep":
        return expressions, None
    renamed = {p.source.name: p.column.name for p in change.rows if p.source and p.source.name != p.column.name}
    return expressions, Texts(dropped=tuple(sorted(dropped)), renamed=renamed, added=added)


def _stays(p: Projection, expression: Expression, types: TypeMap) -> bool:
    """Whether the column is as it was, or new and NULL in every row."""
    if p.source is None:
        return isinstance(expression, Null)
    return p.source.name == p.column.name and types.conversion(p.source.type, p.column.type) == "none"


def irregular_defaults(change: Altered) -> list[tuple[str, str]]:
    """The new columns in which rows that exist hold what their type cannot: name and text."""
    return [(p.column.name, p.default.irregular) for p in change.rows if p.default.irregular is not None]


def passable(change: Altered, types: TypeMap) -> Altered:
    """The same change as far as it can be followed: NULL for what only the upstream knows, types as they were."""
    rows = tuple(_passable(p, types) for p in change.rows)
    return Altered(replace(change.table, columns=tuple(p.column for p in rows)), rows)


def _passable(p: Projection, types: TypeMap) -> Projection:
    if p.source is None:
        return replace(p, default=NULL) if p.unknown else p
    if types.conversion(p.source.type, p.column.type) is None:
        return replace(p, column=replace(p.column, type=p.source.type))
    return p


def _expression(p: Projection, types: TypeMap, irregular: str) -> Expression:
    new = p.column
    if p.unknown:
        raise SchemaError(p.unknown)
    if p.source is None:
        if p.default.irregular is not None and irregular == "fail":
            raise SchemaError(
                f"column {new.name}: the rows there were got {p.default.irregular!r}, which {new.type} cannot hold downstream, "
                "and `irregular: fail` is set"
            )
        return Null() if p.default.value is None else _constant(p.default.value)
    if types.conversion(p.source.type, new.type) is None:
        raise SchemaError(
            f"column {new.name}: what the upstream made of its values cannot be derived from a change of {p.source.type} to "
            f"{new.type}"
        )
    return Converted(column=p.source.name, type=p.source.type)


def _constant(value: Any) -> Constant:
    """A canonical value."""
    return Constant(value=value if isinstance(value, dict) else str(value))
