"""A table as its DDL defines it: columns, unique keys, and the handle key, which identifies a row.

The handle key is the primary key. Without one, it is the unique key with the fewest columns, all of them NOT NULL; the
oldest of several. Otherwise there is none. Virtual generated columns never occur in rows: only their names and places are
kept, so that later DDL may name them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from changefeed.model.names import full_name
from changefeed.model.table import Column

PRIMARY = "PRIMARY"


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A unique index of a table; the primary key has the name `PRIMARY`."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table's definition: columns and keys. A plain dataclass, which msgspec reads and writes as JSON.

    Attributes:
        database, name: names of the database and of the table.
        columns: the columns that rows carry, in upstream order.
        keys: names of the handle key's columns, in the key's order; empty if there is no handle key.
        uniques: all unique keys, oldest first; empty if unknown.
        virtual: virtual generated columns as (place among all columns, from 0; name), sorted by place.
    """

    database: str
    name: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ()
    uniques: tuple[UniqueKey, ...] = ()
    virtual: tuple[tuple[int, str], ...] = ()

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
        virtual: tuple[tuple[int, str], ...] = (),
    ) -> Table:
        """Creates a table from its columns and unique keys: chooses the handle key, and marks its columns.

        Args:
            database: name of the database.
            name: name of the table.
            columns: the columns, in their order; those of the primary key become NOT NULL.
            uniques: the primary key and the unique keys.
            virtual: as the attribute `virtual`.
        """
        primary = next((k.columns for k in uniques if k.name == PRIMARY), ())
        columns = tuple(replace(c, nullable=False) if c.name in primary else c for c in columns)
        keys = handle_key(columns, uniques)
        columns = tuple(replace(c, key=c.name in keys) for c in columns)
        return cls(database, name, columns, keys, uniques, virtual)

    def column(self, name: str) -> Column | None:
        """Returns the column with this name, ignoring case as MySQL does."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


def handle_key(columns: tuple[Column, ...], uniques: tuple[UniqueKey, ...]) -> tuple[str, ...]:
    """Chooses the handle key among the unique keys; returns its column names in the key's order, empty if there is none."""
    required = {c.name for c in columns if c.nullable is False}
    carried = {c.name for c in columns}
    for key in uniques:
        if key.name == PRIMARY and carried.issuperset(key.columns):
            return key.columns
    usable = [key.columns for key in uniques if key.name != PRIMARY and required.issuperset(key.columns)]
    return min(usable, key=len, default=())
