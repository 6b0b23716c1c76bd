"""Short helpers for expected statements."""

from __future__ import annotations

from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.mysql.ddl import parse


def column(name: str, kind: str, *, nullable: bool = True, key: bool = False, default: str | None = None) -> Column:
    """A column by the text of its type."""
    return Column(name, ColumnType.parse(kind), nullable, key, default)


def the(text: str, database: str | None = "db") -> object:
    """The only statement of the text."""
    [statement] = parse(text, database)
    return statement
