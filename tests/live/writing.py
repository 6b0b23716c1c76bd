"""Executes a history on a server: drawn statement by statement from the tables that there are, or repeated from a list."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Protocol

from tests.live.columns import Dialect
from tests.live.history import Columns, History, Statement
from tests.live.rows import Rows
from tests.live.schema import MARKER, ServerTable, content, quoted, tables
from tests.live.session import Session
from tests.live.statements import Statements

PHASES = 3
Tables = Mapping[tuple[str, str], ServerTable]
_ROWS = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "BEGIN", "COMMIT", "ROLLBACK", "USE", "SET"})
_FILL = re.compile(r"INSERT (?:IGNORE )?INTO (\S+) \(.*\) SELECT .* FROM ")
_BEGIN = "SET sql_mode='STRICT_TRANS_TABLES'"


class Writer(Protocol):
    """Executes the statements of a history, phase by phase."""

    history: History

    def write(self, phase: int) -> None:
        """Executes the statements of a phase."""

    def end(self) -> None:
        """Reads the tables at the end."""


class _Base:
    """The parts of both writers.

    Attributes:
        accepts: whether a statement is executed; another one counts as refused.
        noticed: called after a statement with the tables that it has changed, but not those that it has dropped.
    """

    def __init__(self, session: Session, history: History, count: int) -> None:
        self.session, self.history = session, history
        self.databases = [f"{history.name}{letter}" for letter in "abc"[:count]]
        self.tables: dict[tuple[str, str], ServerTable] = {}
        self.phase = 0
        self.accepts: Callable[[str], bool] = lambda text: True
        self.noticed: Callable[[Tables], None] = lambda changed: None

    def begin(self, phase: int) -> None:
        """The same state of the session for each phase."""
        self.phase = phase
        if phase == 0:
            for database in self.databases:
                self.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        self.execute(_BEGIN)
        self.execute(f"USE {self.databases[0]}")

    def execute(self, text: str) -> None:
        """Executes a statement, and looks what it has made of the tables."""
        error = self.session.execute(text) if self.accepts(text) else "not accepted"
        statement = Statement(text, error, self.phase)
        self.history.statements.append(statement)
        first = text.removeprefix("SET STATEMENT").partition(" ")[0]
        if statement.error is not None or first in _ROWS:
            return
        before, self.tables = self.tables, tables(self.session, self.databases)
        changed = {n: t for n, t in self.tables.items() if before.get(n) != t}
        statement.columns = {full_name(name): _plain(table) for name, table in changed.items()}
        statement.columns |= {full_name(name): [] for name in before.keys() - self.tables.keys()}
        if statement.columns:
            self.noticed(changed)

    def mark(self, phase: int) -> str:
        """The end of a phase: a row in a table that is not judged. Returns the row's key."""
        name, table = f"{self.history.name}-{phase}", f"{self.databases[0]}.{MARKER}"
        for text in (
            f"CREATE TABLE IF NOT EXISTS {table} (name VARCHAR(40) PRIMARY KEY)",
            f"INSERT INTO {table} VALUES ('{name}')",
        ):
            self.session.execute(text)
        return name

    def end(self) -> None:
        """Reads the tables at the end."""
        self.tables = tables(self.session, self.databases)
        self.history.tables = {full_name(name): content(self.session, table) for name, table in self.tables.items()}

    def drop(self) -> None:
        """Drops the databases."""
        for database in self.databases:
            self.session.execute(f"DROP DATABASE IF EXISTS {database}")


class Drawing(_Base):
    """A history that is drawn from a seed."""

    def __init__(
        self, session: Session, history: History, seed: int, dialect: Dialect, *, rows_before: bool = True
    ) -> None:
        self.random = Random(seed)
        super().__init__(session, history, self.random.choice([2, 2, 3]))
        self.statements = Statements(self.random, dialect, self.databases)
        self.rows = Rows(self.random, dialect)
        self.rows_before = rows_before

    def write(self, phase: int) -> None:
        """Draws a phase: the first one has the first tables."""
        self.begin(phase)
        self.statements.current, self.rows.wild = self.databases[0], False
        steps = self.random.randint(3, 9)
        for step in range(steps):
            share = 0.75 if phase == 0 and step < 3 else 0.5
            if self.random.random() < share:
                for text in self._tables():
                    self.execute(text)
            elif phase or self.rows_before:
                self.rows.tables = self.tables
                for text in self.rows.draw():
                    self.execute(text)
        if phase or self.rows_before:
            self.rows.tables = self.tables
            for text in self.rows.draw() + self.rows.draw():
                self.execute(text)

    def _tables(self) -> Iterator[str]:
        self.statements.tables = self.tables
        for text in self.statements.draw():
            yield text
            if self.history.statements[-1].error is not None:
                return  # a migration ends whose copy has failed
            if text.startswith("SET sql_mode"):
                self.rows.wild = "STRICT" not in text


class Repeating(_Base):
    """A history whose statements are known."""

    def __init__(self, session: Session, history: History, statements: Sequence[Statement], prefix: str) -> None:
        """The statements' databases begin with `prefix`, and get the history's own names."""
        texts = " ".join(statement.text for statement in statements)
        count = 1 + max((("abc".index(letter)) for letter in re.findall(rf"{prefix}([abc])\b", texts)), default=0)
        super().__init__(session, history, max(count, 1))
        name = re.compile(rf"\b{prefix}(?=[abc]\b)")
        self.statements = [Statement(name.sub(history.name, s.text), None, s.phase) for s in statements]
        self._unfilled = set[str]()  # copies of tables that the server has refused to fill

    def write(self, phase: int) -> None:
        """Repeats a phase; a migration ends whose copy has failed."""
        self.phase = phase
        for statement in self.statements:
            text = statement.text
            if statement.phase != phase or ("RENAME" in text and any(copy in text for copy in self._unfilled)):
                continue
            self.execute(text)
            if self.history.statements[-1].error is not None and (match := _FILL.match(text)):
                self._unfilled.add(match[1])


def full_name(name: tuple[str, str]) -> str:
    """The name of a table in a history."""
    return f"{name[0]}.{name[1]}"


def _plain(table: ServerTable) -> list[tuple[str, str]]:
    return [(column.name, column.type) for column in table.columns]


__all__ = ["PHASES", "Columns", "Drawing", "Repeating", "Writer", "full_name", "quoted"]
