"""DDL statements: their effect on tables and rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from changefeed.model.definition import Index, Table, UniqueKey, VirtualColumn
from changefeed.model.table import Column


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """A new database.

    Attributes:
        charset: the default character set of its tables, in lower case; None if the statement has none.
    """

    database: str
    if_not_exists: bool = False
    charset: str | None = None


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """Drops a database with all its tables."""

    database: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A new, empty table.

    Attributes:
        columns, keys, uniques, virtual, indexes, charset: as in `model.definition.Table`.
        like: database and table whose definition it copies; then those above are empty.
    """

    database: str
    table: str
    columns: tuple[Column, ...] = ()
    keys: tuple[str, ...] = ()
    uniques: tuple[UniqueKey, ...] = ()
    virtual: tuple[VirtualColumn, ...] = ()
    like: tuple[str, str] | None = None
    if_not_exists: bool = False
    indexes: tuple[Index, ...] = ()
    charset: str | None = None
    comment: str | None = field(default=None, compare=False)

    @property
    def definition(self) -> Table:
        """The table; not valid with `like`, which names the table to copy."""
        return Table(
            self.database, self.table, self.columns, self.keys, self.uniques, self.virtual, self.indexes, self.charset
        )


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
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """Deletes all rows of a table."""

    database: str
    table: str


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column.

    Attributes:
        column: its definition; a text type is not yet converted to the table's character set.
        first: it becomes the first column.
        after: the column before it; without `first` and `after` it becomes the last column.
        generated: `virtual`, `stored`, or None for a plain column.
        counted: AUTO_INCREMENT: the upstream numbers the existing rows.
        charset: the character set that the column declares; None if it takes the table's.
        undeclared: a TIMESTAMP that declares neither NULL, NOT NULL nor a default.
    """

    column: Column
    first: bool = False
    after: str | None = None
    generated: str | None = None
    counted: bool = False
    if_not_exists: bool = False
    charset: str | None = None
    undeclared: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drops a column with its values."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ModifyColumn:
    """Redefines a column (MODIFY), perhaps with a new name (CHANGE): `name` becomes `column`.

    Attributes:
        first, after, generated, charset: as in `AddColumn`; without `first` and `after` it keeps its place.
    """

    name: str
    column: Column
    first: bool = False
    after: str | None = None
    generated: str | None = None
    if_exists: bool = False
    charset: str | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Renames a column; its values are unchanged."""

    name: str
    to: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetDefault:
    """Sets the default for new rows, None for no default. Existing rows keep their values."""

    name: str
    default: str | None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetCharset:
    """Sets the table's default character set, in lower case; with `converts`, its text columns are converted to it."""

    charset: str
    converts: bool = False


@dataclass(frozen=True, slots=True)
class AddKey:
    """Adds a unique key, which may become the handle key. The primary key is named `PRIMARY`, an unnamed one "".

    Attributes:
        period: the name among the key's columns that is a period, not a column: WITHOUT OVERLAPS.
    """

    key: UniqueKey
    if_not_exists: bool = False
    period: str | None = None


@dataclass(frozen=True, slots=True)
class AddIndex:
    """Adds an index that does not identify rows; an unnamed one is named ""."""

    index: Index
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropKey:
    """Drops an index, which may be unique and may be the handle key.

    Attributes:
        constraint: the statement drops a constraint: a unique key, or a constraint that is not an index.
    """

    name: str
    if_exists: bool = False
    constraint: bool = False


@dataclass(frozen=True, slots=True)
class RenameKey:
    """Renames an index."""

    name: str
    to: str
    if_exists: bool = False


IndexChange = AddIndex | DropKey | RenameKey
ColumnChange = AddColumn | DropColumn | ModifyColumn | RenameColumn | SetDefault | SetCharset | AddKey | IndexChange


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Changes one table's columns, indexes and character set.

    Attributes:
        changes: its parts, as written; `apply.alter` has the rules of their order.
        copies: the server makes a copy of the table: ALGORITHM=COPY, ORDER BY.
        ignores: MariaDB's ALTER IGNORE: the server deletes rows whose values of a unique key become equal.
    """

    database: str
    table: str
    changes: tuple[ColumnChange, ...]
    if_exists: bool = False
    copies: bool = False
    ignores: bool = False

    @property
    def is_internal(self) -> bool:
        """Whether neither rows, columns nor unique keys change: only indexes are added, and defaults of later columns set."""
        return all(isinstance(c, AddIndex) or (isinstance(c, SetCharset) and not c.converts) for c in self.changes)


@dataclass(frozen=True, slots=True)
class Passed:
    """A statement without effect on rows and columns: recorded, but not applied.

    Attributes:
        kind: in snake case, such as `create_view` or `alter_table`.
        understood: the whole statement was read; otherwise its first words decided, and if it mentions a table of the
            pipeline (`mentions.mentioned`), that is worth a warning.
    """

    kind: str
    text: str
    understood: bool = True


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
