"""Applies ALTER TABLE to a table's definition: the new definition, and the effect on existing rows.

Rule 1. DROP, MODIFY, CHANGE, RENAME and ALTER COLUMN use the names from before the statement, so that `CHANGE a b …,
        CHANGE b a …` swaps two columns. Then ADD and everything with FIRST or AFTER is placed, one part after another, as in
        MySQL and MariaDB: AFTER uses the new names (an old one where no new one is meant), and a column that is to be moved
        stays at its old place until then.
Rule 2. Column names are compared ignoring case; the table's spelling is kept.
Rule 3. Indexes follow, see `indexes.py`, and the handle key is chosen again.
Rule 4. Every column of the new table has a projection: the old column that its values come from, or the default that
        existing rows get.
Rule 5. The server computes the values of a generated column again whenever it writes the table. They are the old ones if the
        expression, the type, and the values that it is computed from stay; otherwise they are unknown.
Rule 6. IF EXISTS and IF NOT EXISTS look at the columns from before the statement; IF NOT EXISTS also at those added so far.
Rule 7. A virtual column is in `Table.virtual` until rows carry it. From then on it is a column like any other, with an
        expression. No server changes a column between virtual and another kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from changefeed.errors import SchemaError
from changefeed.model.definition import Table
from changefeed.model.table import Column
from changefeed.model.types import INTEGERS, ColumnType
from changefeed.mysql import charsets
from changefeed.mysql.ddl import expressions, in_place, indexes
from changefeed.mysql.ddl.create import in_charset, virtual_column
from changefeed.mysql.ddl.defaults import NULL, UNKNOWN_EXECUTION, Default, Execution, existing_rows
from changefeed.mysql.ddl.statements import (
    AddColumn,
    AlterTable,
    ColumnChange,
    DropColumn,
    ModifyColumn,
    RenameColumn,
    SetCharset,
    SetDefault,
)


@dataclass(frozen=True, slots=True)
class Projection:
    """The source of one column's values, for existing rows.

    Attributes:
        column: of the new table.
        source: the old column; its type may differ from `column.type`. None for a new column.
        default: the value of a new column, if there is no source.
        null: what NULL becomes in a column that allows it no more, if that is not the type's implicit default.
    """

    column: Column
    source: Column | None
    default: Default = NULL
    null: Default = NULL

    @property
    def unknown(self) -> str | None:
        """A sentence: why the values cannot be determined; None if they can."""
        return self.default.unknown


@dataclass(frozen=True, slots=True)
class Altered:
    """A table after ALTER TABLE, and how its rows are computed from the rows before.

    Attributes:
        table: its definition.
        rows: one projection for each of `table.columns`, in that order.
    """

    table: Table
    rows: tuple[Projection, ...]


def alter(table: Table, change: AlterTable, execution: Execution = UNKNOWN_EXECUTION) -> Altered:
    """Applies the change; returns the new table and a projection of its rows.

    Args:
        table: before the change.
        change: its parts.
        execution: for the values of new columns.

    Raises:
        SchemaError: the change names a column or key that does not exist, or adds one that does; the message names it.
    """
    columns = _Columns(table, change.changes, is_mariadb=execution.is_mariadb is True)
    for part in change.changes:
        columns.drop(part)
    for part in change.changes:
        columns.redefine(part)
    for part in change.changes:
        columns.place(part)
    order = columns.finished()
    carried = [s for s in order if not s.hidden]
    virtual = tuple(virtual_column(i, s.column) for i, s in enumerate(order) if s.hidden)
    names = {s.old.name.lower(): s.column.name for s in order if s.old}
    uniques, others = indexes.split(indexes.altered(table, change.changes, names, [s.column.name for s in order]))
    new = Table.define(
        table.database, table.name, tuple(s.column for s in carried), uniques, virtual, others, columns.charset
    )
    again = _computed_again(order)
    rows = tuple(_projection(c, s, again, execution) for c, s in zip(new.columns, carried, strict=True))
    kept = [(p.source, p.column) for p in rows if p.source is not None]
    if execution.is_mariadb and (nulls := in_place.nulls(table, new, kept, change)):
        rows = tuple(replace(p, null=nulls.get(p.column.name, NULL)) for p in rows)
    return Altered(new, rows)


def deleted_by_ignore(table: Table, altered: Altered) -> str | None:
    """Returns a sentence: why MariaDB may delete rows when it makes a change with ALTER IGNORE; None if it keeps all.

    Of rows whose values of a unique key become equal it keeps one, by the order of its storage. It deletes rows whose value in a
    JSON column is not JSON, as the '' that a new column without NULL and default gives to existing rows.

    Args:
        table: before the change.
        altered: after it.
    """
    for p in altered.rows:
        if p.column.type.name == "json" and p.column.nullable is False:
            return (
                f"ALTER IGNORE deletes rows whose value of {p.column.name} is not JSON, as the '' that a JSON column without "
                "NULL and DEFAULT gives to existing rows: no row event names them"
            )
    unique = {name.lower() for key in table.uniques for name in key.columns}
    for p in altered.rows:
        if p.source is None or p.source.name.lower() not in unique:
            continue
        both = {p.source.charset, p.column.charset} - {None}
        if len(both) > 1 or _may_change(p.source, p.column):
            return (
                f"ALTER IGNORE changes values of the unique column {p.source.name}, and deletes rows in which they become equal: "
                "no row event names them"
            )
    return None


def changed_members(change: AlterTable, altered: Altered) -> list[str]:
    """Returns sentences about columns whose members get another text: CONVERT TO reads their bytes in the new character set."""
    if not any(isinstance(part, SetCharset) and part.converts for part in change.changes):
        return []
    redefined = {part.name.lower() for part in change.changes if isinstance(part, ModifyColumn)}
    return [
        f"column {p.column.name}: the server reads the members of {p.source.type.name.upper()} in the new character set, and "
        "changes those that are not ASCII"
        for p in altered.rows
        if p.source is not None and p.source.name.lower() not in redefined and not _keeps_members(p.source, p.column)
    ]


def _keeps_members(old: Column, new: Column) -> bool:
    if all(member.isascii() for member in old.type.members or ()):
        return True
    return old.charset is not None and new.charset is not None and charsets.reads(old.charset, new.charset)


@dataclass(slots=True, eq=False)
class _Slot:
    """A column while the table is altered: its old and its new definition. Rows do not contain `hidden` columns."""

    column: Column
    old: Column | None = None
    hidden: bool = False
    counted: bool = False
    undeclared: bool = False
    redefined: bool = False


def _projection(column: Column, slot: _Slot, again: list[_Slot], execution: Execution) -> Projection:
    if slot in again:
        return Projection(column, None, computed(column))
    if slot.counted:
        return Projection(column, None, _unknown(column, "the upstream numbered the existing rows"))
    if slot.old is not None:
        return Projection(column, slot.old)
    return Projection(column, None, existing_rows(column, execution, undeclared=slot.undeclared))


def computed(column: Column) -> Default:
    """The values of existing rows in a generated column: unknown."""
    return _unknown(column, "it is computed from other columns")


def _unknown(column: Column, why: str) -> Default:
    return Default(unknown=f"column {column.name}: {why}, and no row event contains the values")


def _computed_again(order: list[_Slot]) -> list[_Slot]:
    """The generated columns whose values may have changed: see Rule 5."""
    changed = {s.column.name.lower() for s in order if s.old and _may_change(s.old, s.column)}
    computed: list[_Slot] = []
    generated = [s for s in order if s.column.expression is not None]
    while True:
        more = [s for s in generated if s not in computed and not _stays(s, changed)]
        if not more:
            return computed
        computed += more
        changed |= {s.column.name.lower() for s in more}


def _may_change(old: Column, new: Column) -> bool:
    """Whether values of a column may be others: by their type, or where NULL is not allowed any more and becomes a value."""
    loses_null = new.nullable is False and old.nullable is not False and new.expression is None
    return loses_null or not _keeps_values(old.type, new.type)


def _stays(slot: _Slot, changed: set[str]) -> bool:
    old, new = slot.old, slot.column
    if old is None or old.expression is None or new.expression is None or old.type != new.type:
        return False
    return expressions.same(old.expression, new.expression) and not expressions.names_in(new.expression) & changed


def _keeps_values(old: ColumnType, new: ColumnType) -> bool:
    """Whether a conversion leaves every value as it is, so that what is computed from it stays, too."""
    if old.name in INTEGERS and new.name in INTEGERS and old.unsigned == new.unsigned:
        return INTEGERS[old.name] <= INTEGERS[new.name]
    if old.name == new.name == "varchar":
        return (old.length or 0) <= (new.length or 0)
    return old == new


class _Columns:
    """The columns of a table while it is altered: call `drop` for all parts, then `redefine`, then `place`.

    Attributes:
        charset: the table's character set after the statement, which its columns take wherever it stands.
    """

    def __init__(self, table: Table, changes: tuple[ColumnChange, ...], *, is_mariadb: bool) -> None:
        self._is_mariadb = is_mariadb
        self._table = f"{table.database}.{table.name}"
        self._order = [_Slot(c, c) for c in table.columns]
        for virtual in table.virtual:
            if table.column(virtual.name) is None:  # ledgers of earlier versions have a carried one in both
                self._order.insert(virtual.place, _Slot(virtual.column, virtual.column, hidden=True))
        self._old = {s.column.name.lower(): s for s in self._order}
        self._listed: set[str] = set()  # columns that earlier parts of the statement define
        self.charset = table.charset
        converted: str | None = None
        self._converts = False
        for part in changes:
            if isinstance(part, SetCharset):
                self.charset = None if part.charset == "default" else part.charset
                if part.converts:
                    self._converts, converted = True, self.charset
        self._of_columns = converted if self._converts else self.charset

    def drop(self, part: ColumnChange) -> None:
        """Drops a column."""
        if isinstance(part, DropColumn) and (self._has(part.name) or not part.if_exists):
            self._order.remove(self._find(part.name))

    def redefine(self, part: ColumnChange) -> None:
        """Modifies or renames an existing column."""
        match part:
            case ModifyColumn(name, if_exists=if_exists) if self._has(name) or not if_exists:
                self._modify(self._find(name), part)
            case RenameColumn(name, to, if_exists) if self._has(name) or not if_exists:
                slot = self._find(name)
                slot.column = replace(slot.column, name=to)
            case SetDefault(name, default, if_exists) if self._has(name) or not if_exists:
                slot = self._find(name)
                slot.column = replace(slot.column, default=default)

    def place(self, part: ColumnChange) -> None:
        """Adds or moves a column, relative to the columns at this point."""
        if isinstance(part, ModifyColumn) and self._has(part.name):
            self._listed.add(part.column.name.lower())
        match part:
            case AddColumn(column=column):
                name = column.name.lower()
                if part.if_not_exists and (name in self._old or name in self._listed):
                    return
                self._listed.add(name)
                column = in_charset(column, self._declared(part.charset), self._of_columns)
                slot = _Slot(column, None, part.generated == "virtual", part.counted, part.undeclared)
                self._insert(slot, part)
            case ModifyColumn(name) if (part.first or part.after is not None) and self._has(name):
                slot = self._find(name)
                self._order.remove(slot)
                self._insert(slot, part)

    def finished(self) -> list[_Slot]:
        """The columns in their new order, including those that rows do not carry."""
        seen: set[str] = set()
        for slot in self._order:
            name = slot.column.name
            if name.lower() in seen:
                self._fail(f"already has a column {name}")
            seen.add(name.lower())
            if self._converts and slot.old is not None and not slot.redefined:
                slot.column = self._converted(slot.column)
        if all(s.hidden for s in self._order):
            self._fail("would have no column left")
        self._rename_in_expressions()
        return self._order

    def _converted(self, column: Column) -> Column:
        """A column after CONVERT TO: a JSON column of MariaDB is a LONGTEXT."""
        if column.type.name == "json" and self._is_mariadb and self._of_columns == charsets.BINARY:
            return replace(column, type=ColumnType("longblob"), charset=charsets.BINARY)
        return in_charset(column, None, self._of_columns)

    def _rename_in_expressions(self) -> None:
        names = {s.old.name.lower(): s.column.name for s in self._order if s.old and s.old.name != s.column.name}
        for slot in self._order if names else ():
            if slot.old is not None and slot.old.expression is not None:
                renamed = expressions.renamed(slot.old.expression, names)
                slot.old = replace(slot.old, expression=renamed)
                if not slot.redefined:
                    slot.column = replace(slot.column, expression=renamed)

    def _modify(self, slot: _Slot, part: ModifyColumn) -> None:
        if slot.hidden and part.generated != "virtual":
            self._fail(f"column {part.name} cannot change between virtual and not")
        slot.column = in_charset(part.column, self._declared(part.charset), self._of_columns)
        slot.redefined = True

    def _declared(self, charset: str | None) -> str | None:
        """The character set that a column of the statement declares; CONVERT TO replaces all of them but `binary`."""
        return None if self._converts and charset != charsets.BINARY else charset

    def _insert(self, slot: _Slot, part: AddColumn | ModifyColumn) -> None:
        if part.first:
            self._order.insert(0, slot)
        elif part.after is None:
            self._order.append(slot)
        else:
            at = self._at(part.after)
            if at is None and self._has(part.after):
                at = self._order.index(self._find(part.after))
            if at is None:
                self._fail(f"has no column {part.after} to put {slot.column.name} after")
            self._order.insert(at + 1, slot)

    def _at(self, name: str) -> int | None:
        places = (i for i, s in enumerate(self._order) if s.column.name.lower() == name.lower())
        return next(places, None)

    def _has(self, name: str) -> bool:
        slot = self._old.get(name.lower())
        return any(s is slot for s in self._order)

    def _find(self, name: str) -> _Slot:
        if not self._has(name):
            self._fail(f"has no column {name}")
        return self._old[name.lower()]

    def _fail(self, what: str) -> NoReturn:
        raise SchemaError(f"table {self._table} {what}")
