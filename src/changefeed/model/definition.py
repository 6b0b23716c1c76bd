"""A table as its DDL defines it: columns, unique keys, and the handle key, which identifies a row.

The handle key is the primary key. Without one, it is the unique key with the fewest columns, all of them NOT NULL; the
oldest of several. Otherwise there is none.

Virtual generated columns are kept apart from the columns that rows carry: TiDB never sends them, Debezium does. `carrying`
moves one to its place among the others when a row has it. So are columns that the pipeline's definition excludes.

A table also has what later statements inherit or name: its character set, and the names of its other indexes, which share
one name space with the unique keys.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from changefeed.model.names import full_name
from changefeed.model.table import Column, Declared
from changefeed.model.types import ColumnType

PRIMARY = "PRIMARY"
_COMPARED = 5  # the members of a `VirtualColumn` before `declared`


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A unique index of a table; the primary key has the name `PRIMARY`."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """An index that does not identify rows: one that is not unique, or is unique only for some rows or for expressions.

    Attributes:
        columns: the columns of its parts; "" for a part that is an expression.
        implied: the server made it for a foreign key, and drops it when another index serves.
    """

    name: str
    columns: tuple[str, ...]
    implied: bool = False


class VirtualColumn(NamedTuple):
    """A column that rows do not carry. A tuple, so that ledgers with only place and name can be read.

    Attributes:
        place: its place among all columns of the table, from 0.
        type: type `null` if only place and name are known.
        expression, declared, charset, default: as in `Column`.
        excluded: the pipeline's definition excludes it; otherwise it is a virtual generated column.
    """

    place: int
    name: str
    type: ColumnType = ColumnType("null")
    nullable: bool | None = None
    expression: str | None = None
    declared: Declared | None = None
    charset: str | None = None
    default: str | None = None
    excluded: bool = False

    def __eq__(self, other: object) -> bool:
        """Compares all but `declared`, as columns do."""
        return isinstance(other, VirtualColumn) and self._compared == other._compared

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._compared)

    @property
    def _compared(self) -> tuple[object, ...]:
        return *self[:_COMPARED], self.excluded

    @property
    def column(self) -> Column:
        """The column as rows would carry it."""
        return Column(
            self.name, self.type, self.nullable, False, self.default, self.expression, charset=self.charset,
            declared=self.declared,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """A table's definition: columns and keys. A plain dataclass, which msgspec reads and writes as JSON.

    Attributes:
        database, name: names of the database and of the table.
        columns: the columns that rows carry, in upstream order.
        keys: names of the handle key's columns, in the key's order; empty if there is no handle key.
        uniques: all unique keys, oldest first; empty if unknown.
        virtual: columns that rows do not carry, sorted by place: virtual generated ones, and those that are excluded.
        indexes: all other indexes, oldest first; empty if unknown.
        charset: the default character set of its columns, in lower case; None if unknown.
        comment: its comment; None without one. It makes no difference between tables.
    """

    database: str
    name: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ()
    uniques: tuple[UniqueKey, ...] = ()
    virtual: tuple[VirtualColumn, ...] = ()
    indexes: tuple[Index, ...] = ()
    charset: str | None = None
    comment: str | None = field(default=None, compare=False)

    @property
    def full_name(self) -> str:
        """See `names.full_name`."""
        return full_name(self.database, self.name)

    @classmethod
    def define(
        cls,
        database: str,
        name: str,
        columns: tuple[Column, ...],
        uniques: tuple[UniqueKey, ...],
        virtual: tuple[VirtualColumn, ...] = (),
        indexes: tuple[Index, ...] = (),
        charset: str | None = None,
    ) -> Table:
        """Creates a table from its columns and indexes: chooses the handle key, and marks its columns.

        Args:
            database: name of the database.
            name: name of the table.
            columns: the columns, in their order; those of the primary key become NOT NULL.
            uniques: the primary key and the unique keys.
            virtual, indexes, charset: as the attributes.
        """
        primary = next((k.columns for k in uniques if k.name == PRIMARY), ())
        columns = tuple(replace(c, nullable=False) if c.name in primary else c for c in columns)
        keys = handle_key(columns, uniques)
        columns = tuple(replace(c, key=c.name in keys) for c in columns)
        return cls(database, name, columns, keys, uniques, virtual, indexes, charset)

    def column(self, name: str) -> Column | None:
        """Returns the column with this name, ignoring case as MySQL does."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)

    def carrying(self, names: Collection[str]) -> Table:
        """The table whose rows carry the virtual columns with these names, too: each is at its upstream place.

        A virtual column of which only place and name are known keeps type `null`: its type is that of the rows.
        """
        carried = {name.lower() for name in names}
        order = list(self.columns)
        for virtual in self.virtual:
            order.insert(virtual.place, virtual.column)
        hidden = {v.name for v in self.virtual if v.name.lower() not in carried}
        columns = tuple(c for c in order if c.name not in hidden)
        return replace(self, columns=columns, virtual=tuple(v for v in self.virtual if v.name in hidden))


def handle_key(columns: tuple[Column, ...], uniques: tuple[UniqueKey, ...]) -> tuple[str, ...]:
    """Chooses the handle key among the unique keys; returns its column names in the key's order, empty if there is none."""
    required = {c.name for c in columns if c.nullable is False}
    carried = {c.name for c in columns}
    for key in uniques:
        if key.name == PRIMARY and carried.issuperset(key.columns):
            return key.columns
    usable = [key.columns for key in uniques if key.name != PRIMARY and required.issuperset(key.columns)]
    return min(usable, key=len, default=())
