"""DDL statements: their effect on tables and rows."""

from __future__ import annotations

from dataclasses import dataclass

from changefeed.model.definition import Table, UniqueKey
from changefeed.model.table import Column


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """A new database."""

    database: str
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """Drops a database with all its tables."""

    database: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A new, empty table.

    Attributes:
        columns, keys, uniques, virtual: as in `model.definition.Table`.
        like: database and table whose definition it copies; then the four above are empty.
    """

    database: str
    table: str
    columns: tuple[Column, ...] = ()
    keys: tuple[str, ...] = ()
    uniques: tuple[UniqueKey, ...] = ()
    virtual: tuple[tuple[int, str], ...] = ()
    like: tuple[str, str] | None = None
    if_not_exists: bool = False

    @property
    def definition(self) -> Table:
        """The table; not valid with `like`, which names the table to copy."""
        return Table(self.database, self.table, self.columns, self.keys, self.uniques, self.virtual)


@dataclass(frozen=True, slots=True)
class DropTable:
    """Drops a table with all its rows."""

    database: str
    table: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    """Renames a table, perhaps to another database; its rows are unchanged."""

    database: str
    table: str
    to_database: str
    to_table: str


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """Deletes all rows of a table."""

    database: str
    table: str


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column.

    Attributes:
        first: it becomes the first column.
        after: the column before it; without `first` and `after` it becomes the last column.
        generated: `virtual`, `stored`, or None for a plain column.
        counted: AUTO_INCREMENT: the upstream numbers the existing rows.
    """

    column: Column
    first: bool = False
    after: str | None = None
    generated: str | None = None
    counted: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drops a column with its values."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ModifyColumn:
    """Redefines a column (MODIFY), perhaps with a new name (CHANGE): `name` becomes `column`."""

    name: str
    column: Column
    first: bool = False
    after: str | None = None
    generated: str | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Renames a column; its values are unchanged."""

    name: str
    to: str


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Sets the default for new rows, None for no default. Existing rows keep their values."""

    name: str
    default: str | None


@dataclass(frozen=True, slots=True)
class AddKey:
    """Adds a unique key, which may become the handle key. The primary key is named `PRIMARY`, an unnamed one ""."""

    key: UniqueKey
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropKey:
    """Drops an index, which may be unique and may be the handle key."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameKey:
    """Renames an index."""

    name: str
    to: str


ColumnChange = AddColumn | DropColumn | ModifyColumn | RenameColumn | SetDefault | AddKey | DropKey | RenameKey


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Changes one table's columns and unique keys at once: all parts use the names from before the statement."""

    database: str
    table: str
    changes: tuple[ColumnChange, ...]


@dataclass(frozen=True, slots=True)
class Passed:
    """A statement without effect on rows and columns: recorded, but not applied.

    Attributes:
        kind: in snake case, such as `create_index` or `alter_table`.
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Unapplied:
    """A statement that changes rows without row events, such as DROP PARTITION: its text does not determine the rows.

    Attributes:
        kind: in snake case, such as `drop_partition`.
        tables: database and name of the affected tables, as far as the statement names them.
    """

    kind: str
    text: str
    tables: tuple[tuple[str, str], ...] = ()


Statement = (
    CreateDatabase
    | DropDatabase
    | CreateTable
    | DropTable
    | RenameTable
    | TruncateTable
    | AlterTable
    | Passed
    | Unapplied
)
