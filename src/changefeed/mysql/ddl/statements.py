"""What a DDL statement does, as far as tables and their rows go."""

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
    """A database is gone, with all its tables."""

    database: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A new, empty table.

    Attributes:
        columns, keys, uniques, virtual: as in `model.definition.Table`.
        like: database and table whose definition it takes over; then the four above are empty.
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
        """The table; meaningless with `like`, which names where to look instead."""
        return Table(self.database, self.table, self.columns, self.keys, self.uniques, self.virtual)


@dataclass(frozen=True, slots=True)
class DropTable:
    """A table is gone."""

    database: str
    table: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    """A table has another name, perhaps in another database; its rows are the same."""

    database: str
    table: str
    to_database: str
    to_table: str


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """All rows of a table are gone."""

    database: str
    table: str


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column.

    Attributes:
        first: it comes first.
        after: the column that it follows; neither of the two: it comes last.
        generated: `virtual`, `stored`, or None for a plain column.
        counted: AUTO_INCREMENT: the upstream numbers the rows that exist.
    """

    column: Column
    first: bool = False
    after: str | None = None
    generated: str | None = None
    counted: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column is gone."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ModifyColumn:
    """A column defined anew (MODIFY), perhaps under another name (CHANGE): `name` becomes `column`."""

    name: str
    column: Column
    first: bool = False
    after: str | None = None
    generated: str | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """A column has another name; its values are the same."""

    name: str
    to: str


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Another default for rows to come; None for none. Rows that exist keep their values."""

    name: str
    default: str | None


@dataclass(frozen=True, slots=True)
class AddKey:
    """A new unique key; it may become the handle key. `PRIMARY` is the primary key's name, "" stands for none given."""

    key: UniqueKey
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropKey:
    """An index is gone: perhaps a unique one, perhaps the handle key."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameKey:
    """An index has another name."""

    name: str
    to: str


ColumnChange = AddColumn | DropColumn | ModifyColumn | RenameColumn | SetDefault | AddKey | DropKey | RenameKey


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Changes of one table's columns and unique keys, made at once: names in them are those from before."""

    database: str
    table: str
    changes: tuple[ColumnChange, ...]


@dataclass(frozen=True, slots=True)
class Passed:
    """A statement that concerns neither rows nor columns: recorded, and passed over.

    Attributes:
        kind: snake case, as `create_index` or `alter_table`.
    """

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Unapplied:
    """A statement that changes rows without row events, as DROP PARTITION does: it cannot be followed from its text.

    Attributes:
        kind: snake case, as `drop_partition`.
        tables: database and name of the tables concerned, as far as named.
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
