"""The texts of statements in schema changes: those that Debezium's connector writes, whose parser takes statements apart.

text in the log                             texts of the schema changes
/* why */ ALTER TABLE a ADD b INT           ALTER TABLE a ADD b INT
/*!40000 ALTER TABLE a ADD b INT */         ALTER TABLE a ADD b INT
SET STATEMENT x=1 FOR ALTER TABLE a …       ALTER TABLE a …
RENAME TABLE a TO b, c TO a                 RENAME TABLE a TO b   RENAME TABLE c TO a
DROP TABLE IF EXISTS a, b                   DROP TABLE IF EXISTS `app`.`a`   DROP TABLE IF EXISTS `app`.`b`
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from changefeed.errors import UnsupportedError
from changefeed.mysql.ddl.tables import table_name
from changefeed.mysql.ddl.tokens import Token, Tokens
from changefeed.sources.mysql.tables import quoted

_LINES = re.compile(r"^(?:\s|#[^\n]*\n|--\s[^\n]*\n)+")


def whole(text: str) -> str:
    """Returns a statement from its first word to its last, without what is around it; one with unknown signs as it is."""
    try:
        tokens = _tokens(text)
    except UnsupportedError:
        return text
    return _between(text, tokens[0], tokens[-1]) if tokens else text


def renamed(text: str) -> list[str]:
    """Returns a statement for each table that RENAME TABLE renames."""
    tokens = _tokens(text)
    first = next((i + 1 for i, lexeme in enumerate(tokens) if lexeme.upper in ("TABLE", "TABLES")), 0)
    if tokens[first : first + 2] and tokens[first].upper == "IF":
        first += 2
    commas = [i for i, lexeme in enumerate(tokens) if lexeme.raw == ","]
    bounds = zip([first, *(i + 1 for i in commas)], [*commas, len(tokens)], strict=True)
    head = _between(text, tokens[0], tokens[first - 1])
    return [f"{head} {_between(text, tokens[begin], tokens[end - 1])}" for begin, end in bounds]


def dropped(text: str, database: str, table: str) -> str:
    """Returns the statement for one of the tables that DROP TABLE drops."""
    tokens = _tokens(text)
    first = next(i + 1 for i, lexeme in enumerate(tokens) if lexeme.upper in ("TABLE", "TABLES"))
    if tokens[first].upper == "IF":
        first += 2
    head = text[tokens[0].start : tokens[first].start]
    tail = f" {tokens[-1].raw}" if tokens[-1].upper in ("RESTRICT", "CASCADE") else ""
    return f"{head}{quoted(database)}.{quoted(table)}{tail}"


def without_line_comments(text: str) -> str:
    """Returns a statement without the lines of comments in front of it."""
    return _LINES.sub("", text)


def is_of_index(text: str) -> bool:
    """Whether a statement that changes a table is CREATE INDEX or DROP INDEX."""
    tokens = _tokens(text)
    return bool(tokens) and tokens[0].upper in ("CREATE", "DROP")


def is_rename(text: str) -> bool:
    """Whether a statement is RENAME TABLE, which may rename several; not so ALTER TABLE … RENAME."""
    tokens = _tokens(text)
    return bool(tokens) and tokens[0].upper == "RENAME"


def altered_table(text: str, database: str | None) -> tuple[str, str] | None:
    """Returns the table of an ALTER TABLE, whatever it changes; None for another statement, and if it cannot be read."""
    try:
        reader = Tokens(whole(text))
        if not reader.accept("ALTER") or not (reader.accept("TABLE") or reader.accept("IGNORE", "TABLE")):
            return None
        reader.accept("IF", "EXISTS")
        return table_name(reader, database)
    except UnsupportedError:
        return None


def in_hash_order(database: str, tables: Iterable[str]) -> str:
    """Returns the names of tables of a database as a source block has them: joined, in the order of Java's HashSet."""
    return ",".join(sorted(tables, key=lambda table: _bucket(f"{database}.{table}")))


def _bucket(text: str) -> int:
    """The bucket of a text in a HashSet with up to twelve members."""
    code, units = 0, text.encode("utf-16-be")
    for i in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[i : i + 2], "big")) & 0xFFFFFFFF
    return (code ^ code >> 16) & 15


def _tokens(text: str) -> list[Token]:
    """The tokens of a statement, without MariaDB's SET STATEMENT … FOR in front of it."""
    reader, tokens = Tokens(text), list[Token]()
    while (lexeme := reader.take()).kind != "end":
        tokens.append(lexeme)
    while tokens and tokens[-1].raw == ";":
        del tokens[-1]
    if [lexeme.upper for lexeme in tokens[:2]] == ["SET", "STATEMENT"]:
        begin = next((i + 1 for i, lexeme in enumerate(tokens) if lexeme.upper == "FOR"), 0)
        return tokens[begin:]
    return tokens


def _between(text: str, first: Token, last: Token) -> str:
    """The text from a lexeme to another; a comment that is read, and that begins between them, is whole."""
    end = last.end
    if text.rfind("/*", first.start, end) > text.rfind("*/", first.start, end) and "*/" in text[end:]:
        end = text.index("*/", end) + 2
    return text[first.start : end]
