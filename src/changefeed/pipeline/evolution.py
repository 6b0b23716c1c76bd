"""How a table's columns change: by DDL or by what its rows say, and what that means for the rows that are there.

Names of columns are compared without regard to case; the spelling that counts is the table's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from changefeed.errors import SchemaError
from changefeed.frames.reshape import family
from changefeed.frames.retype import retyped
from changefeed.frames.types import sink_type, widen
from changefeed.model.definition import Table
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.sinks.merge import IRREGULAR, quoted, text
from changefeed.wire.ddl.apply import Altered, Projection, alter
from changefeed.wire.ddl.defaults import NULL
from changefeed.wire.ddl.statements import (
    AddColumn,
    AddKey,
    AlterTable,
    ColumnChange,
    DropColumn,
    ModifyColumn,
    RenameColumn,
    SetDefault,
)

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


def widened(old: Table, new: Table) -> dict[str, str] | None:
    """Column -> SQL expression over the old row, when rows have widened a type so that the sink's changes; else None.

    Raises:
        SchemaError: Spark has no expression for what the old values are under the new type.
    """
    before = {c.name: c for c in old.columns}
    expressions = {c.name: _wider(before[c.name].type, c) if c.name in before else _null(c) for c in new.columns}
    same = all(expressions[name] == quoted(name) for name in before)
    return None if same else expressions


def _wider(old: ColumnType, new: Column) -> str:
    """As `retyped`, and to the texts and bytes that `widen` resorts to where types have little in common."""
    name, sql = quoted(new.name), sink_type(new.type).sql
    if sink_type(old).sql == sql:
        return name
    found = retyped(name, old, new.type)
    exact = family(old) in ("integer", "date") or (family(old) == "decimal" and sink_type(old).sql != "string")
    if found is None and exact and old.name != "boolean" and sql == "string":
        found = f"CAST({name} AS string)"
    if found is None and family(old) == "text" and sql == "binary":
        found = f"CAST({name} AS binary)"
    if found is None:
        raise SchemaError(f"column {new.name} was {old} and now needs {new.type}, which its values cannot be taken to")
    return found


# What DDL says.


def altered(here: Table, change: AlterTable, *, declared: bool, lenient: bool) -> Altered:
    """The table after an ALTER; with `lenient`, columns that it drops stay, and one that comes back is the one that stayed.

    Of a table that was learned from rows, parts that name what no row has named are passed over: its rows will tell.

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


def rewritten(old: Table, change: Altered, irregular: str = "null") -> dict[str, str] | None:
    """Column -> SQL expression over the old row, when the rows that exist do not stay as they are; else None.

    None also when only columns are added that are NULL in every row: that is no work for the rows. With `irregular`
    `keep` the map of irregular texts is among the columns.

    Raises:
        SchemaError: what the upstream made of the rows cannot be told from the statement, or is irregular and `irregular`
            is `fail`.
    """
    expressions = {p.column.name: _expression(p, irregular) for p in change.rows}
    sources = {p.source.name for p in change.rows if p.source is not None}
    dropped = {c.name for c in old.columns} - sources
    kept = all(
        expressions[p.column.name] == (quoted(p.column.name) if p.source is not None else _null(p.column))
        for p in change.rows
    )
    texts = irregular_defaults(change) if irregular == "keep" else []
    if kept and not dropped and not texts:
        return None
    return expressions | ({IRREGULAR: _texts(dropped, change, texts)} if irregular == "keep" else {})


def irregular_defaults(change: Altered) -> list[tuple[str, str]]:
    """The new columns in which rows that exist hold what their type cannot: name and text."""
    return [(p.column.name, p.default.irregular) for p in change.rows if p.default.irregular is not None]


def passable(change: Altered) -> Altered:
    """The same change as far as it can be followed: NULL for what only the upstream knows, types as they were."""
    rows = tuple(_passable(p) for p in change.rows)
    return Altered(replace(change.table, columns=tuple(p.column for p in rows)), rows)


def _passable(p: Projection) -> Projection:
    if p.source is None:
        return replace(p, default=NULL) if p.unknown else p
    if retyped("", p.source.type, p.column.type) is None:
        return replace(p, column=replace(p.column, type=p.source.type))
    return p


def _expression(p: Projection, irregular: str) -> str:
    new = p.column
    if p.unknown:
        raise SchemaError(p.unknown)
    if p.source is None:
        if p.default.irregular is not None and irregular == "fail":
            raise SchemaError(
                f"column {new.name}: the rows there were got {p.default.irregular!r}, which {new.type} cannot hold downstream, "
                "and `irregular: fail` is set"
            )
        return _null(new) if p.default.value is None else _literal(p.default.value, new)
    name = quoted(p.source.name)
    found = retyped(name, p.source.type, new.type)
    if found is None:
        raise SchemaError(
            f"column {new.name}: what the upstream made of its values cannot be told from a change of {p.source.type} to "
            f"{new.type}"
        )
    sql = sink_type(new.type).sql
    return name if found == f"CAST({name} AS {sql})" and sql == sink_type(p.source.type).sql else found


def _texts(dropped: set[str], change: Altered, added: list[tuple[str, str]]) -> str:
    """The map of irregular texts after the change: names follow their columns."""
    sql = f"coalesce({quoted(IRREGULAR)}, CAST(map() AS map<string,string>))"
    if dropped:
        sql = f"map_filter({sql}, (k, v) -> k NOT IN ({', '.join(text(name) for name in sorted(dropped))}))"
    moved = [(p.source.name, p.column.name) for p in change.rows if p.source and p.source.name != p.column.name]
    if moved:
        cases = " ".join(f"WHEN {text(old)} THEN {text(new)}" for old, new in moved)
        sql = f"transform_keys({sql}, (k, v) -> CASE k {cases} ELSE k END)"
    if added:
        sql = f"map_concat({sql}, map({', '.join(f'{text(n)}, {text(t)}' for n, t in added)}))"
    return sql


def _null(column: Column) -> str:
    return f"CAST(NULL AS {sink_type(column.type).sql})"


def _literal(value: Any, column: Column) -> str:
    """A canonical value as a Spark SQL expression of the column's type."""
    sql = sink_type(column.type).sql
    if isinstance(value, dict):
        return f"unbase64('{value['base64']}')"
    literal = text(str(value))
    return literal if sql == "string" else f"CAST({literal} AS {sql})"
