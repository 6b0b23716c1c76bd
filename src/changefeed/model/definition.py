"""A table as its DDL defines it: the columns that rows carry, its unique keys, and the one that identifies a row.

The handle key is the primary key; else, of the unique keys whose columns are all NOT NULL, the one with the fewest
columns, the oldest of several; else there is none. Virtual generated columns never reach a row: a table has only
their names and places, so that later DDL may name them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from changefeed.model.names import full_name
from changefeed.model.table import Column

PRIMARY = "PRIMARY"


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A unique index; the primary key is the one named `PRIMARY`."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table's definition. It travels as JSON by msgspec, like any dataclass of plain values.

    Attributes:
        columns: those that rows carry, in upstream order.
        keys: the handle key's columns in the key's order; empty when there is none.
        uniques: all unique keys, oldest first; empty if unknown.
        virtual: virtual generated columns: their place among all columns, from 0, and their name; in that order.
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
        """The table with these unique keys: its handle key chosen, and its columns marked accordingly."""
        primary = next((k.columns for k in uniques if k.name == PRIMARY), ())
        columns = tuple(replace(c, nullable=False) if c.name in primary else c for c in columns)
        keys = handle_key(columns, uniques)
        columns = tuple(replace(c, key=c.name in keys) for c in columns)
        return cls(database, name, columns, keys, uniques, virtual)

    def column(self, name: str) -> Column | None:
        """The column of this name, compared as MySQL does, without regard to case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


def handle_key(columns: tuple[Column, ...], uniques: tuple[UniqueKey, ...]) -> tuple[str, ...]:
    """Names of the handle key's columns among `columns`, in the key's order."""
    required = {c.name for c in columns if c.nullable is False}
    carried = {c.name for c in columns}
    for key in uniques:
        if key.name == PRIMARY and carried.issuperset(key.columns):
            return key.columns
    usable = [key.columns for key in uniques if key.name != PRIMARY and required.issuperset(key.columns)]
    return min(usable, key=len, default=())
