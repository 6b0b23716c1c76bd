"""Shadows: tables outside the sink that may take the place of one in it.

Tools for online schema changes make a copy of a table with the new columns, fill it, and rename both:

    CREATE TABLE _orders_gho LIKE orders; ALTER TABLE _orders_gho ADD kg INT …      a shadow: its DDL is followed
    RENAME TABLE orders TO _orders_del, _orders_gho TO orders                       its definition becomes that of `orders`

Rule 1. The DDL of tables that are excluded, or have the name that a tool gives to a copy, is followed as definitions. Each
column keeps the name that it had when the shadow was created, so that the rows of the original can be converted.
Rule 2. A table that is renamed leaves a shadow under its new name, with the rows as they were: if another table takes the old
name as its copy, the rows are there again.
Rule 3. A table of the sink whose columns are not known yet (CREATE … LIKE an unknown table) is a shadow without columns: its rows
make it, and if it is renamed before, it has none.
Rule 4. Only a name shows that a table is a copy: `_orders_gho` (gh-ost), `_orders_new` (pt-online-schema-change, spirit),
`__osc_new_orders` (Facebook), `lhmn_orders` (LHM). The same tools name the replaced table `_orders_del`, `_orders_old` and so on.
Rule 5. A shadow has the columns that the definition excludes, too (`column_rules.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from changefeed.errors import SchemaError
from changefeed.model.definition import PRIMARY, Table, UniqueKey
from changefeed.model.names import full_name
from changefeed.model.table import Column
from changefeed.mysql.ddl import statements as sql
from changefeed.mysql.ddl.apply import alter
from changefeed.pipeline.planning.column_rules import shown
from changefeed.pipeline.planning.names import Name
from changefeed.pipeline.state import Shadow, TableState

_COPY = re.compile(r"[_~]+(?P<table>.+)_(?:gho|ghr|new)|__osc_new_(?P<osc>.+)|lhmn_(?P<lhm>.+)", re.IGNORECASE)
_REPLACED = re.compile(
    r"[_~]+(?P<table>.+?)(?:_\d{8,20})?_(?:del|old)(?:_\d+)*|__osc_old_(?P<osc>.+)|lhma_[\d_]+_(?P<lhm>.+)",
    re.IGNORECASE,
)
_LONGEST = 64  # characters of a table's name: tools shorten names in longer ones
_MOST_RENAMED = 64  # renamed tables that are remembered


def is_copy(name: str, original: str) -> bool:
    """Whether a table has the name that a tool gives to the copy of this table."""
    return _belongs(_COPY, name, original)


def is_replaced(name: str, original: str) -> bool:
    """Whether a table has the name that a tool gives to this table after its copy has taken its place."""
    return _belongs(_REPLACED, name, original)


def _belongs(pattern: re.Pattern[str], name: str, original: str) -> bool:
    match = pattern.fullmatch(name)
    part = next((g for g in match.groups() if g), "").lower() if match else ""
    return bool(part) and (part == original.lower() or (len(name) >= _LONGEST and original.lower().startswith(part)))


@dataclass(slots=True)
class Shadows:
    """The shadows at the current point in commit order, by `database.table`."""

    shadows: dict[str, Shadow]

    def names(self) -> set[Name]:
        """Database and name of every shadow."""
        return {(s.table.database, s.table.name) for s in self.shadows.values()}

    def follow(self, statement: sql.Statement, name: Name, model: Table | None, *, excluded: bool) -> None:
        """Applies a statement about the table of this name: see Rule 1; `model`: the table that CREATE … LIKE copies."""
        full = full_name(*name)
        match statement:
            case sql.CreateTable(if_not_exists=there) if not (there and full in self.shadows):
                self.shadows.pop(full, None)
                table = statement.definition if statement.like is None else model
                if table is not None and (excluded or _COPY.fullmatch(name[1])):
                    table = replace(shown(table), database=name[0], name=name[1])
                    self.shadows[full] = Shadow(table, {c.name: c.name for c in table.columns})
            case sql.AlterTable() if full in self.shadows:
                self._alter(full, statement)
            case sql.DropTable():
                self.shadows.pop(full, None)

    def create(self, database: str, table: str) -> None:
        """Remembers a new table whose columns are not known: until its rows come, it has none."""
        self.shadows.setdefault(full_name(database, table), Shadow(Table(database, table, ()), {}))

    def is_outside(self, shadow: Shadow) -> bool:
        """Whether a shadow was made as one, and is not what a rename has left of a table in the sink."""
        return self.is_new(shadow.table.full_name) or _COPY.fullmatch(shadow.table.name) is not None

    def is_new(self, name: str) -> bool:
        """Whether `create` has remembered the table."""
        shadow = self.shadows.get(name)
        return shadow is not None and not shadow.sources and shadow.former is None

    def drop_database(self, database: str, drops: Callable[[str], bool]) -> None:
        """Forgets the shadows of a database; `drops`: whether one of this name, too, because its turn has come."""
        self.shadows = {n: s for n, s in self.shadows.items() if s.table.database != database or not drops(n)}

    def rename(self, old: Name, new: Name) -> None:
        """Renames a shadow."""
        shadow = self.shadows.pop(full_name(*old), None)
        if shadow is not None:
            self.shadows[full_name(*new)] = replace(shadow, table=replace(shadow.table, database=new[0], name=new[1]))

    def leave(self, rows: TableState, new: Name) -> None:
        """Remembers a table of the sink that gets a new name: see Rule 2."""
        former = rows.table.full_name
        self.take(former)
        table = replace(shown(rows.table), database=new[0], name=new[1])
        self.shadows.pop(full_name(*new), None)
        self.shadows[full_name(*new)] = Shadow(table, {c.name: c.name for c in table.columns}, former, rows)
        renamed = [name for name, shadow in self.shadows.items() if shadow.former is not None]
        for name in renamed[:-_MOST_RENAMED]:
            del self.shadows[name]

    def former(self, name: str) -> tuple[str, TableState] | None:
        """The name that the table of this name has now, and the table as the rename left it; None if it is not remembered."""
        matches = ((n, s.rows) for n, s in self.shadows.items() if s.former == name and s.rows is not None)
        return next(matches, None)

    def take(self, name: str) -> None:
        """Forgets the rows that a table of this name had: another table has it now."""
        self.shadows = {
            n: replace(s, former=None, rows=None) if s.former == name else s for n, s in self.shadows.items()
        }

    def _alter(self, full: str, statement: sql.AlterTable) -> None:
        shadow = self.shadows[full]
        if self.is_new(full):  # its columns stay unknown
            return
        try:
            change = alter(shadow.table, statement)
        except SchemaError:  # the definition is no longer known
            del self.shadows[full]
            return
        names = ((p.column.name, shadow.sources.get(p.source.name)) for p in change.rows if p.source is not None)
        sources = {name: source for name, source in names if source is not None}
        self.shadows[full] = replace(shadow, table=change.table, sources=sources)


# The ALTER TABLE that a tool has made of a copy.


def redefined(table: Table, columns: tuple[Column, ...]) -> Table:
    """The table with the columns of an event, and its primary key; the other unique keys stay, as far as their columns do."""
    names, keys = {c.name for c in columns}, tuple(c.name for c in columns if c.key)
    primary = (UniqueKey(PRIMARY, table.keys if set(table.keys) == set(keys) else keys),) if keys else ()
    others = tuple(k for k in table.uniques if k.name != PRIMARY and names.issuperset(k.columns))
    return Table.define(table.database, table.name, columns, primary + others)


def unknown_values(old: Table, new: Table) -> str | None:
    """A sentence: why the values of old rows in the columns of a copy are unknown, if only its columns are known; None if not."""
    gone = [c.name for c in old.columns if new.column(c.name) is None]
    added = [c for c in new.columns if old.column(c.name) is None]
    if gone and added:
        return f"column {gone[0]} is gone and {added[0].name} is new, and no statement shows whether it was renamed"
    bare = next((c for c in added if c.nullable is False and c.default is None), None)
    return None if bare is None else f"column {bare.name} is new, and no row event contains its values in existing rows"


def with_nulls(old: Table, new: Table) -> Table:
    """The definition `new`, with columns that `old` lacks and that may be NULL."""
    columns = tuple(replace(c, nullable=c.nullable or old.column(c.name) is None) for c in new.columns)
    return replace(new, columns=columns)


def difference(old: Table, new: Table, sources: dict[str, str]) -> sql.AlterTable:
    """The ALTER TABLE that makes `new` of `old`.

    Args:
        old: the table in the sink.
        new: the definition of the table that takes its place.
        sources: column of `new` -> column of `old` whose values it has.
    """
    old_names = {c.name.lower(): c.name for c in old.columns}
    names = {c.name: old_names.get(sources.get(c.name, "").lower()) for c in new.columns}
    changes: list[sql.ColumnChange] = [sql.DropColumn(c.name) for c in old.columns if c.name not in names.values()]
    before: str | None = None
    for column in new.columns:
        source = names[column.name]
        place = (column, before is None, before)
        changes.append(sql.AddColumn(*place) if source is None else sql.ModifyColumn(source, *place))
        before = column.name
    renamed = {source: name for name, source in names.items() if source is not None}
    return sql.AlterTable(new.database, new.name, (*changes, *_keys(old, new, renamed)))


def _keys(old: Table, new: Table, names: dict[str, str]) -> list[sql.ColumnChange]:
    """The changes of unique keys; `names`: column of `old` -> its name in `new`."""
    old_keys = old.uniques or ((UniqueKey(PRIMARY, old.keys),) if old.keys else ())
    renamed = {k.name: tuple(names.get(c, "") for c in k.columns) for k in old_keys}
    unchanged = {k.name for k in new.uniques if renamed.get(k.name) == k.columns}
    dropped = [sql.DropKey(k.name) for k in old_keys if k.name not in unchanged]
    return [*dropped, *(sql.AddKey(k) for k in new.uniques if k.name not in unchanged)]
