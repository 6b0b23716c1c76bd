"""Statements that change rows, drawn for the tables that there are."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.live.columns import Dialect
from tests.live.schema import ServerColumn, ServerTable, quoted
from tests.live.values import literal, plain


class Rows:
    """Draws INSERT, UPDATE, DELETE, REPLACE and transactions."""

    def __init__(self, random: Random, dialect: Dialect) -> None:
        self.random, self.dialect = random, dialect
        self.tables: Mapping[tuple[str, str], ServerTable] = {}
        self.wild = False  # also values that do not fit

    def draw(self) -> list[str]:
        """Statements that belong together: one, or a transaction."""
        if not self.tables:
            return []
        if self.random.random() < 0.15:
            inside = [self.one() for _ in range(self.random.randint(2, 5))]
            return ["BEGIN", *inside, self.random.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])]
        return [self.one() for _ in range(self.random.choice([1, 1, 2, 3]))]

    def one(self) -> str:
        """One statement."""
        table = self.random.choice(list(self.tables.values()))
        if not table.handle:  # nothing identifies a row that changes
            return self.insert(table)
        kinds = {self.insert: 10, self.update: 6, self.update_key: 2, self.delete: 3, self.replace: 3, self.upsert: 2}
        return self.random.choices(list(kinds), list(kinds.values()))[0](table)

    def insert(self, table: ServerTable, word: str = "INSERT", rows: int | None = None) -> str:
        """INSERT of one or many rows."""
        columns = [column for column in table.columns if not column.generated]
        if self.random.random() < 0.2:
            columns = [c for c in columns if not (c.has_default or c.nullable) or self.random.random() < 0.6] or columns
        count = rows or self.random.choice([1, 1, 1, 2, 3, 6])
        lines = [", ".join(self._value(column) for column in columns) for _ in range(count)]
        names = ", ".join(quoted(column.name) for column in columns)
        ignore = " IGNORE" if word == "INSERT" and self.random.random() < 0.3 else ""
        return f"{word}{ignore} INTO {_name(table)} ({names}) VALUES " + ", ".join(f"({line})" for line in lines)

    def replace(self, table: ServerTable) -> str:
        """REPLACE of several rows, some of which may replace each other."""
        return self.insert(table, "REPLACE", self.random.choice([1, 2, 4, 6]))

    def upsert(self, table: ServerTable) -> str:
        """INSERT … ON DUPLICATE KEY UPDATE."""
        free = self._free(table)
        if not free:
            return self.insert(table)
        column = self.random.choice(free)
        return f"{self.insert(table)} ON DUPLICATE KEY UPDATE {quoted(column.name)} = {self._value(column)}"

    def update(self, table: ServerTable) -> str:
        """UPDATE of columns outside the key."""
        free = self._free(table)
        if not free:
            return self.insert(table)
        chosen = self.random.sample(free, min(len(free), self.random.choice([1, 1, 2])))
        sets = ", ".join(f"{quoted(column.name)} = {self._value(column)}" for column in chosen)
        return f"UPDATE {_name(table)} SET {sets}{self._some(table)}"

    def update_key(self, table: ServerTable) -> str:
        """Rows get another key."""
        column = table.column(self.random.choice(table.handle))
        if column.kind in ("int", "bigint", "smallint", "mediumint") and self.random.random() < 0.7:
            name = quoted(column.name)
            more, rows = self.random.choice([1, 7, 100]), self.random.randint(1, 3)
            return f"UPDATE {_name(table)} SET {name} = {name} + {more} ORDER BY {name} DESC LIMIT {rows}"
        return f"UPDATE {_name(table)} SET {quoted(column.name)} = {plain(self.random, column)}{self._some(table, 1)}"

    def delete(self, table: ServerTable) -> str:
        """DELETE of some rows, at times of all."""
        return f"DELETE FROM {_name(table)}" + (self._some(table) if self.random.random() < 0.93 else "")

    def _some(self, table: ServerTable, most: int = 3) -> str:
        order = ", ".join(quoted(name) for name in table.handle)
        return f" ORDER BY {order}{self.random.choice(['', ' DESC'])} LIMIT {self.random.randint(1, most)}"

    def _free(self, table: ServerTable) -> list[ServerColumn]:
        return [column for column in table.columns if not column.generated and column.name not in table.handle]

    def _value(self, column: ServerColumn) -> str:
        if column.auto_increment and self.random.random() < 0.4:
            return "NULL"
        return literal(self.random, column, wild=self.wild)


def _name(table: ServerTable) -> str:
    return f"{quoted(table.database)}.{quoted(table.name)}"
