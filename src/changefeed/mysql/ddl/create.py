"""CREATE TABLE.

CREATE TABLE [IF NOT EXISTS] `db`.`t` ( columns and keys ) options          the table
CREATE TABLE `t` LIKE `x`                                                   as `x`
CREATE TABLE `t` … [AS] SELECT …                                            refused: its rows have no row events
CREATE OR REPLACE TABLE …                                                   dropped, then created
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from changefeed.model.definition import Table, VirtualColumn
from changefeed.model.table import Column
from changefeed.model.types import TEXTS
from changefeed.mysql import charsets
from changefeed.mysql.ddl.columns import ColumnDefinition, definition
from changefeed.mysql.ddl.indexes import created, split
from changefeed.mysql.ddl.keys import is_key, key, period
from changefeed.mysql.ddl.statements import AddIndex, AddKey, CreateTable, DropTable, Statement
from changefeed.mysql.ddl.tables import charset_option, table_name
from changefeed.mysql.ddl.tokens import Tokens
from changefeed.mysql.ddl.types import binary

_QUERY = frozenset({"SELECT", "AS", "VALUES", "TABLE"})


@dataclass(slots=True)
class Items:
    """The columns and keys between the parentheses.

    Attributes:
        keys: those of the table, and those that columns declare, in the order of the text.
        periods: lower-case name of each period -> its columns.
    """

    columns: list[ColumnDefinition] = field(default_factory=list)
    keys: list[AddKey | AddIndex] = field(default_factory=list)
    periods: dict[str, tuple[str, str]] = field(default_factory=dict)


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
    created = _created(name, listed, _options(tokens), if_not_exists, restored=tokens.restored)
    return [*dropped, replace(created, comment=tokens.comment)]


def items(tokens: Tokens) -> Items:
    """Takes the columns and keys in parentheses."""
    listed = Items()
    tokens.expect("(")
    own = [] if tokens.restored else listed.keys  # TiDB numbers the keys that columns declare after those of the table
    count = 0
    while True:
        if is_key(tokens):
            _item(tokens, listed)
        else:
            declared = definition(tokens)
            listed.columns.append(declared)
            own += [AddKey(unique) for unique in declared.uniques]
        count += 1
        tokens.check_count(count)
        if not tokens.accept(","):
            break
    tokens.expect(")")
    listed.keys += own if own is not listed.keys else []
    return listed


def _item(tokens: Tokens, listed: Items) -> None:
    named = period(tokens)
    if named is not None:
        listed.periods[named[0].lower()] = named[1]
        return
    declared = key(tokens)
    if declared is not None:
        listed.keys.append(declared)


def _options(tokens: Tokens) -> str | None:
    """Takes the table's options up to the end; returns the character set, if declared."""
    charset = None
    while not tokens.ended():
        word = tokens.peek().upper
        if word == "START":
            tokens.expect("START", "TRANSACTION")  # MySQL 8 logs CREATE TABLE … SELECT so; its row events follow
        elif word in _QUERY:
            tokens.fail("a table made from a query has no row events")
        elif (declared := charset_option(tokens)) is not None:
            charset = None if declared == "default" else declared
        elif word == "(":
            tokens.skip_group()
        elif tokens.accept("COMMENT"):
            tokens.accept("=")
            tokens.comment = tokens.take().value
        else:
            tokens.take()
            tokens.accept("=")
    return charset


def _created(
    name: tuple[str, str], listed: Items, charset: str | None, if_not_exists: bool, *, restored: bool
) -> CreateTable:
    columns = [_in_period(in_charset(d.column, d.charset, charset), listed) for d in listed.columns]
    names = [c.name for c in columns]
    uniques, indexes = split(created(listed.keys, names, listed.periods, named_first=restored))
    virtual = tuple(
        virtual_column(place, column)
        for place, (column, d) in enumerate(zip(columns, listed.columns, strict=True))
        if d.generated == "virtual"
    )
    carried = tuple(c for c, d in zip(columns, listed.columns, strict=True) if d.generated != "virtual")
    table = Table.define(*name, carried, uniques, virtual, indexes, charset)
    return CreateTable(
        *name,
        table.columns,
        table.keys,
        uniques,
        virtual,
        if_not_exists=if_not_exists,
        indexes=indexes,
        charset=charset,
    )


def virtual_column(place: int, column: Column) -> VirtualColumn:
    """The column as a virtual one that rows do not carry, at this place among all columns."""
    return VirtualColumn(
        place, column.name, column.type, column.nullable, column.expression, column.declared, column.charset
    )


def in_charset(column: Column, declared: str | None, charset: str | None) -> Column:
    """The column with the table's character set, if it declares none itself; only `binary` changes the type."""
    if charset == "binary" and declared is None:
        column = replace(column, type=binary(column.type))
    has_texts = column.type.name in TEXTS or column.type.name in ("enum", "set")
    name = (declared or charset) if has_texts else None
    return replace(column, charset=None if name is None else charsets.known(name))


def _in_period(column: Column, listed: Items) -> Column:
    """The column, NOT NULL if a period begins or ends with it."""
    bounds = {name.lower() for pair in listed.periods.values() for name in pair}
    return replace(column, nullable=False) if column.name.lower() in bounds else column
