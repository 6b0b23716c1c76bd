"""CREATE TABLE.

CREATE TABLE [IF NOT EXISTS] `db`.`t` ( columns and keys ) options          the table
CREATE TABLE `t` LIKE `x`                                                   as `x`
CREATE TABLE `t` … [AS] SELECT …                                            refused: its rows have no row events
CREATE OR REPLACE TABLE …                                                   dropped, then created
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from changefeed.model.definition import Table, UniqueKey
from changefeed.model.table import Column
from changefeed.mysql.ddl.columns import ColumnDefinition, definition
from changefeed.mysql.ddl.keys import is_key, key, named
from changefeed.mysql.ddl.statements import CreateTable, DropTable, Statement
from changefeed.mysql.ddl.tables import table_name
from changefeed.mysql.ddl.tokens import Tokens
from changefeed.mysql.ddl.types import binary

_QUERY = frozenset({"SELECT", "AS", "VALUES", "TABLE"})


@dataclass(slots=True)
class Items:
    """The columns and keys between the parentheses."""

    columns: list[ColumnDefinition] = field(default_factory=list)
    keys: list[UniqueKey] = field(default_factory=list)


def create_table(tokens: Tokens, database: str | None, *, replaces: bool) -> list[Statement]:
    """Parses the statements after CREATE [OR REPLACE] TABLE."""
    if_not_exists = tokens.accept("IF", "NOT", "EXISTS")
    name = table_name(tokens, database)
    dropped: list[Statement] = [DropTable(*name, if_exists=True)] if replaces else []
    inside = tokens.peek().upper == "(" and tokens.peek(1).upper == "LIKE"
    if inside:
        tokens.take()
    if tokens.accept("LIKE"):
        like = table_name(tokens, database)
        if inside:
            tokens.expect(")")
        tokens.finish()
        return [*dropped, CreateTable(*name, like=like, if_not_exists=if_not_exists)]
    if tokens.peek().upper != "(":
        tokens.fail("expected ( and columns: a table made from a query has no row events")
    listed = items(tokens)
    return [*dropped, _created(name, listed, _options(tokens), if_not_exists)]


def items(tokens: Tokens) -> Items:
    """Takes the columns and keys in parentheses."""
    listed = Items()
    tokens.expect("(")
    while True:
        if is_key(tokens):
            declared = key(tokens)
            listed.keys += [] if declared is None else [declared]
        else:
            listed.columns.append(definition(tokens))
        tokens.check_count(len(listed.columns) + len(listed.keys))
        if not tokens.accept(","):
            break
    tokens.expect(")")
    return listed


def _options(tokens: Tokens) -> str | None:
    """Takes the table's options up to the end; returns the character set, if declared."""
    charset = None
    while not tokens.ended():
        word = tokens.peek().upper
        if word == "START":
            tokens.expect("START", "TRANSACTION")  # MySQL 8 logs CREATE TABLE … SELECT so; its row events follow
        elif word in _QUERY:
            tokens.fail("a table made from a query has no row events")
        elif tokens.accept("CHARSET") or tokens.accept("CHARACTER", "SET") or tokens.accept("CHAR", "SET"):
            tokens.accept("=")
            charset = tokens.take().value.lower()
        elif tokens.accept("COLLATE"):
            tokens.accept("=")
            charset = "binary" if tokens.take().value.lower() == "binary" else charset
        elif word == "(":
            tokens.skip_group()
        else:
            tokens.take()
            tokens.accept("=")
    return charset


def _created(name: tuple[str, str], listed: Items, charset: str | None, if_not_exists: bool) -> CreateTable:
    """Builds the statement; keys declared by columns come after those of the table, as TiDB numbers them."""
    declared = listed.keys + [key for d in listed.columns for key in d.uniques]
    uniques = spelled(named([], declared), [d.column for d in listed.columns])
    virtual = tuple((i, d.column.name) for i, d in enumerate(listed.columns) if d.generated == "virtual")
    columns = tuple(_in_charset(d, charset) for d in listed.columns if d.generated != "virtual")
    table = Table.define(*name, columns, tuple(uniques), virtual)
    return CreateTable(*name, table.columns, table.keys, table.uniques, virtual, if_not_exists=if_not_exists)


def _in_charset(d: ColumnDefinition, charset: str | None) -> Column:
    """The column with the table's character set, if it declares none itself; only `binary` changes the type."""
    return replace(d.column, type=binary(d.column.type)) if charset == "binary" and d.charset is None else d.column


def spelled(keys: list[UniqueKey], columns: list[Column]) -> list[UniqueKey]:
    """Returns the keys with the spelling of the columns: in DDL they may be written in any case."""
    names = {c.name.lower(): c.name for c in columns}
    return [replace(k, columns=tuple(names.get(n.lower(), n) for n in k.columns)) for k in keys]
