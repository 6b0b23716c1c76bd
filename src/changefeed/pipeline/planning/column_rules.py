"""Columns that the definition excludes or masks: statements have them as they are, and rows do not.

    CREATE TABLE customers (id, name, email)     the table has id and name; `email` is in `Table.virtual`, as excluded
    ALTER TABLE customers RENAME name TO email   the column is dropped
    ALTER TABLE customers RENAME email TO mail   refused: no row has the values
    RENAME TABLE customers TO clients            columns that are excluded under this name are dropped

Rule 1. The patterns decide when a column is created, and when it or its table gets another name. Until then, it stays as it is:
        other patterns mean another copy of the table, before which its rows come as they did.
Rule 2. A column that was excluded under the table's earlier name stays so until rows carry it. Then the run stops, unless the
        table is empty: earlier rows lack the values.
Rule 3. A column that identifies rows can be neither excluded nor masked.
Rule 4. A masked column keeps its values when its type changes to another text: they are not those that the server converts.
        What a statement gives to existing rows is masked. A name with another mask is refused: the values are not known. A table
        whose columns are not masked under its new name keeps the values that it has, with a note.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from changefeed.errors import SchemaError
from changefeed.model.definition import Table
from changefeed.model.table import Column
from changefeed.model.types import TEXTS
from changefeed.mysql.ddl.apply import Altered, Projection
from changefeed.mysql.ddl.create import virtual_column
from changefeed.mysql.ddl.defaults import NULL, Default, implicit
from changefeed.sources.section import TextMask


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """The columns that the definition excludes or masks, by database, table and column.

    Attributes:
        excludes: whether rows lack the column.
        mask: the mask of its texts; None if it has none.
    """

    excludes: Callable[[str, str, str], bool] = lambda database, table, column: False
    mask: Callable[[str, str, str], TextMask | None] = lambda database, table, column: None

    def excluded(self, table: Table) -> set[str]:
        """The names of the columns of a table that are excluded by its name."""
        names = (*(c.name for c in table.columns), *(v.name for v in table.virtual))
        return {name for name in names if self.excludes(table.database, table.name, name)}

    def mask_of(self, table: Table, column: Column) -> TextMask | None:
        """The mask of a column of a table."""
        return self.mask(table.database, table.name, column.name)


ALL_AS_THEY_ARE = ColumnRules()


def shown(table: Table) -> Table:
    """The table with the columns that are excluded, as statements see it."""
    names = {v.name for v in table.virtual if v.excluded}
    return table.carrying(names) if names else table


def created(table: Table, rules: ColumnRules) -> Table:
    """A new table without the columns that are excluded.

    Raises:
        SchemaError: Rule 3.
    """
    table = shown(table)
    return _checked(_without(table, rules.excluded(table)), rules)


def altered(before: Table, change: Altered, rules: ColumnRules) -> Altered:
    """A change of `shown(before)`, as rows without excluded and with masked columns have it.

    Raises:
        SchemaError: Rule 3.
    """
    earlier = {v.name for v in before.virtual if v.excluded}
    excluded, rows = rules.excluded(change.table), list[Projection]()
    hidden = {v.name for v in change.table.virtual if v.name in excluded}
    for p in change.rows:
        name, old = p.column.name, None if p.source is None else p.source.name
        if name in earlier if old == name else name in excluded:
            hidden.add(name)
        elif old in earlier:
            unknown = f"column {name}: it was excluded as {old}, and no row that was read has its values"
            rows.append(replace(p, source=None, default=Default(unknown=unknown)))
        else:
            rows.append(_masked(p, before, change.table, rules))
    return Altered(_checked(_without(change.table, hidden), rules), tuple(rows))


def renamed(before: Table, table: Table, rules: ColumnRules) -> Altered | None:
    """The change of a table that has got another name; None if that concerns no column.

    Raises:
        SchemaError: Rule 3.
    """
    hidden = {c.name for c in table.columns} & rules.excluded(table)
    after = _without(shown(table), hidden | {v.name for v in table.virtual if v.excluded}) if hidden else table
    after = _checked(after, rules)
    stays = (Projection(c, table.column(c.name)) for c in after.columns)
    rows = tuple(_masked(p, before, table, rules) if rules.mask_of(table, p.column) is not None else p for p in stays)
    return Altered(after, rows) if hidden or any(p.source is None for p in rows) else None


def unmasked(before: Table, table: Table, rules: ColumnRules) -> list[str]:
    """The names of the columns that are not masked any more, because the table has got another name."""
    return [c.name for c in table.columns if rules.mask_of(before, c) is not None and rules.mask_of(table, c) is None]


def _masked(p: Projection, before: Table, after: Table, rules: ColumnRules) -> Projection:
    """The values of a column that may be masked: Rule 4."""
    mask, name = rules.mask_of(after, p.column), p.column.name
    if p.source is None:
        return p if mask is None else replace(p, default=_of_default(p.default, mask))
    if mask != rules.mask_of(before, p.source):
        how = "not masked" if mask is None else "masked in another way"
        unknown = (
            f"column {name}: it is {how} under its new name, and rows that were read have the mask of {p.source.name}"
        )
        if mask is not None and rules.mask_of(before, p.source) is None:
            unknown = f"column {name}: it is masked under its new name, and rows that were read are not"
        return replace(p, source=None, default=Default(unknown=unknown))
    if mask is None:
        return p
    if p.column.type.name not in TEXTS:
        return replace(p, source=None, default=Default(unknown=f"column {name}: it is masked, and no text any more"))
    source = replace(p.source, type=p.column.type, charset=p.column.charset)
    null = implicit(p.column.type, is_mariadb=False) if p.null == NULL else p.null
    return replace(p, source=source, null=_of_default(null, mask))


def _of_default(default: Default, mask: TextMask) -> Default:
    return replace(default, value=mask.text(default.value)) if isinstance(default.value, str) else default


def _checked(table: Table, rules: ColumnRules) -> Table:
    """The table, if its key is not masked."""
    if keys := [c.name for c in table.columns if c.name in table.keys and rules.mask_of(table, c) is not None]:
        raise SchemaError(
            f"column {keys[0]} of {table.full_name} identifies its rows, and cannot be masked: set it to `keep` in "
            "source.mask-columns"
        )
    return table


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
