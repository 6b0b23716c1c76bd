"""Columns that the definition excludes: statements have them, and rows do not.

    CREATE TABLE customers (id, name, email)     the table has id and name; `email` is in `Table.virtual`, as excluded
    ALTER TABLE customers RENAME name TO email   the column is dropped
    ALTER TABLE customers RENAME email TO mail   refused: no row has the values
    RENAME TABLE customers TO clients            columns that the patterns select under this name are dropped

Rule 1. The patterns decide when a column is created, and when it or its table gets another name. Until then, it stays as it is:
        other patterns mean another copy of the table, before which its rows come as they did.
Rule 2. A column that was excluded under the table's earlier name stays so until rows carry it. Then the run stops, unless the
        table is empty: earlier rows lack the values.
Rule 3. A column that identifies rows cannot be excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from changefeed.errors import SchemaError
from changefeed.model.definition import Table
from changefeed.mysql.ddl.apply import Altered, Projection
from changefeed.mysql.ddl.create import virtual_column
from changefeed.mysql.ddl.defaults import Default

Excludes = Callable[[str, str, str], bool]  # of a database, a table and a column


def nothing(database: str, table: str, column: str) -> bool:
    """Excludes no column."""
    return False


def shown(table: Table) -> Table:
    """The table with the columns that are excluded, as statements see it."""
    names = {v.name for v in table.virtual if v.excluded}
    return table.carrying(names) if names else table


def created(table: Table, excludes: Excludes) -> Table:
    """A new table without the columns that the patterns exclude.

    Raises:
        SchemaError: Rule 3.
    """
    table = shown(table)
    return _without(table, _selected(table, excludes))


def altered(before: Table, change: Altered, excludes: Excludes) -> Altered:
    """A change of `shown(before)`, without the columns that are excluded.

    Raises:
        SchemaError: Rule 3.
    """
    earlier = {v.name for v in before.virtual if v.excluded}
    selected, rows = _selected(change.table, excludes), list[Projection]()
    hidden = {v.name for v in change.table.virtual if v.name in selected}
    for p in change.rows:
        name, old = p.column.name, None if p.source is None else p.source.name
        if name in earlier if old == name else name in selected:
            hidden.add(name)
        elif old in earlier:
            unknown = f"column {name}: it was excluded as {old}, and no row that was read has its values"
            rows.append(replace(p, source=None, default=Default(unknown=unknown)))
        else:
            rows.append(p)
    return Altered(_without(change.table, hidden), tuple(rows))


def renamed(table: Table, excludes: Excludes) -> Altered | None:
    """The change of a table that has got another name; None if it excludes no further columns.

    Raises:
        SchemaError: Rule 3.
    """
    hidden = {c.name for c in table.columns} & _selected(table, excludes)
    if not hidden:
        return None
    after = _without(shown(table), hidden | {v.name for v in table.virtual if v.excluded})
    return Altered(after, tuple(Projection(c, table.column(c.name)) for c in after.columns))


def _selected(table: Table, excludes: Excludes) -> set[str]:
    """The names of the columns that the patterns select."""
    if excludes is nothing:
        return set()
    names = (*(c.name for c in table.columns), *(v.name for v in table.virtual))
    return {name for name in names if excludes(table.database, table.name, name)}


def _without(table: Table, names: Collection[str]) -> Table:
    """The table whose rows do not carry these columns."""
    if not names:
        return table
    if keys := [key for key in table.keys if key in names]:
        raise SchemaError(
            f"column {keys[0]} of {table.full_name} identifies its rows, and cannot be excluded: take it out of "
            "source.exclude-columns"
        )
    generated = {v.name for v in table.virtual}
    every = table.carrying(generated)
    virtual = tuple(
        virtual_column(place, column)._replace(default=column.default, excluded=column.name in names)
        for place, column in enumerate(every.columns)
        if column.name in names or column.name in generated
    )
    columns = tuple(c for c in table.columns if c.name not in names)
    if not columns:
        raise SchemaError(f"source.exclude-columns leaves no column of {table.full_name}")
    return replace(table, columns=columns, virtual=virtual)
