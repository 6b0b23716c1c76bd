"""The value that NULL becomes where MariaDB changes a table in place: the default that the column had before.

A column that becomes NOT NULL has a value in the rows in which it was NULL, without strict mode and with ALTER IGNORE. MySQL, and
MariaDB where it copies the table, write the implicit default of the type. Where MariaDB changes the table in place, its buffer
of the row has the old default beneath the NULL, and the new column shows it:

    CREATE TABLE t (id INT PRIMARY KEY, v INT DEFAULT 7); INSERT INTO t VALUES (1, NULL)
    ALTER TABLE t MODIFY v INT NOT NULL                       7; with ALGORITHM=COPY, or as BIGINT, it is 0

Rule 1. It copies the table if a column changes its form of storage, if the primary key goes without another one, and for ORDER
BY. If the table has a generated column, it depends on the kind and the places of the columns: the value is unknown.
Rule 2. BLOB, TEXT and their like have no default beneath NULL, and an expression is none: the implicit default comes in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from changefeed.model.definition import PRIMARY, Table
from changefeed.model.table import Column
from changefeed.model.types import INTEGERS, ColumnType
from changefeed.mysql.ddl.constants import UNKNOWN, constant
from changefeed.mysql.ddl.defaults import NULL, Default, existing_rows
from changefeed.mysql.ddl.statements import AddKey, AlterTable, DropKey

_APART = frozenset(
    {"tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext", "longtext", "json", "geometry"}
)  # stored apart from the row

_UNKNOWN = (
    "column {}: NULL becomes its old default or the implicit one, which depends on the generated columns of the table, and no "
    "row event contains the values"
)


def nulls(table: Table, new: Table, columns: Iterable[tuple[Column, Column]], change: AlterTable) -> dict[str, Default]:
    """Returns what NULL becomes in columns that MariaDB changes in place, by new name; others get the implicit default.

    Args:
        table, new: before and after the change.
        columns: each old column, and what it becomes.
        change: the statement.
    """
    columns = list(columns)
    defaults = {b.name: _beneath_null(a, b) for a, b in columns}
    defaults = {name: default for name, default in defaults.items() if default != NULL}
    if not defaults or _is_copied(columns, change):
        return {}
    if any(column.expression is not None for t in (table, new) for column in _columns(t)):
        return {name: Default(unknown=_UNKNOWN.format(name)) for name in defaults}
    return defaults


def _columns(table: Table) -> tuple[Column, ...]:
    return (*table.columns, *(virtual.column for virtual in table.virtual))


def _is_copied(columns: Iterable[tuple[Column, Column]], change: AlterTable) -> bool:
    """Whether MariaDB copies a table without generated columns, as far as a statement shows."""
    dropped = any(isinstance(part, DropKey) and part.name.upper() == PRIMARY for part in change.changes)
    if change.copies or (dropped and not any(isinstance(part, AddKey) for part in change.changes)):
        return True
    return not all(_has_same_form(old, new) for old, new in columns)


def _beneath_null(old: Column, new: Column) -> Default:
    """The default of a column that becomes NOT NULL; NULL if the new type's implicit default counts in any case."""
    if new.nullable is not False or old.nullable is False or old.default is None:
        return NULL
    if old.type.name in _APART or constant(old.default) is UNKNOWN:
        return NULL
    default = existing_rows(replace(old, type=new.type))
    return NULL if default.unknown else default


def _has_same_form(old: Column, new: Column) -> bool:
    before, after = _form(old.type), _form(new.type)
    if (old.charset or "") != (new.charset or "") or before.name != after.name:
        return False
    if before.name == "varchar":
        return (before.length or 0) <= (after.length or 0)
    if before.members and after.members:
        return after.members[: len(before.members)] == before.members
    return before == after


def _form(t: ColumnType) -> ColumnType:
    """The type without its display width."""
    return replace(t, length=None) if t.name in INTEGERS else t
