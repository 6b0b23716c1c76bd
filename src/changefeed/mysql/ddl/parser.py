"""DDL statements by their first words: table statements are parsed completely, statements without effect on rows skipped.

Rule 1. Statements that change rows without row events (DROP PARTITION, a logged INSERT, FLASHBACK TABLE) are `Unapplied`; the
        pipeline refuses them.
Rule 2. A statement that begins with words not listed here is an error.
Rule 3. A statement that runs another one is that one: `SET STATEMENT … FOR x` is x, whatever x is.
Rule 4. If only its first words decide that a statement has no effect, it is not `understood`: a caller can look for the names
        of its tables (`mentions.py`).
Rule 5. A text may have several statements, with semicolons between them. The body of a routine is part of its statement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from changefeed.model.definition import Index
from changefeed.mysql.ddl.alter import alter_table
from changefeed.mysql.ddl.create import create_table
from changefeed.mysql.ddl.keys import parts, unique
from changefeed.mysql.ddl.statements import (
    AddIndex,
    AddKey,
    AlterTable,
    CreateDatabase,
    DropDatabase,
    DropKey,
    DropTable,
    Passed,
    RenameTable,
    Statement,
    TruncateTable,
    Unapplied,
)
from changefeed.mysql.ddl.tables import charset_option, table_name
from changefeed.mysql.ddl.tokens import Tokens

# Objects of CREATE, ALTER and DROP besides tables, databases and indexes; DEFINER and the like may come before them.
_OBJECTS_TEXT = """
    VIEW TRIGGER PROCEDURE FUNCTION EVENT USER ROLE SERVER TABLESPACE LOGFILE UNDO SEQUENCE PACKAGE PLACEMENT RESOURCE
    BINDING STATISTICS SPATIAL INSTANCE LIBRARY MASKING RANGE COMPRESSION_DICTIONARY
"""
_OBJECTS = frozenset(_OBJECTS_TEXT.split())
_ROUTINES = frozenset(
    {"TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "PACKAGE", "LIBRARY"}
)  # whose bodies have semicolons
_HEAD = 40  # words before the object, at most
_PASSED_TEXT = """
    CACHE GRANT REVOKE FLUSH LOCK UNLOCK COMMIT ROLLBACK SAVEPOINT RELEASE XA INSTALL UNINSTALL KILL RESET PURGE SHOW
    DESCRIBE DESC EXPLAIN SPLIT START SET
"""
_PASSED = frozenset(_PASSED_TEXT.split())  # no form of them changes rows; SET STATEMENT is read before
_UNREAD = frozenset({"ADMIN", "REFRESH"})  # only some of their forms are known to have no effect
_MAINTENANCE = frozenset({"ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "CHECKSUM"})
_INDEXES = frozenset({"INDEX", "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR"})
_ROWS = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "IMPORT", "FLASHBACK", "RECOVER"})
# Words that may follow the table if the statement changes only that table; none: any.
_BEHIND_TABLE: dict[str, tuple[str, ...]] = {
    "insert": (),
    "replace": (),
    "update": ("SET",),
    "delete": ("WHERE", "ORDER", "LIMIT"),
    "flashback": ("TO", "BEFORE", "TIMESTAMP", "TSO"),
}
_MODIFIERS = ("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "CONCURRENT", "QUICK", "IGNORE", "LOCAL")


def parse(text: str, database: str | None, *, restored: bool = False, escapes: bool = False) -> list[Statement]:
    """Parses statements into their effects on tables, in order; at least one, which may be `Passed`.

    Args:
        text: DDL statements of MySQL, MariaDB or TiDB, usually one. They are parsed, never executed.
        database: the database of unqualified table names.
        restored: TiDB generated the text (every TiCDC protocol): it does not escape backslashes in ENUM and SET members.
        escapes: names of columns and keys are escaped: see `model.escaped_names`.

    Raises:
        UnsupportedError: the text is not a statement, or not of a supported kind; the message shows the position.
    """
    tokens = Tokens(text, restored=restored, escapes=escapes)
    statements: list[Statement] = []
    while True:
        if tokens.accept("USE"):
            database = tokens.table()
            statements.append(Passed("use", text))
        else:
            statements += _statement(tokens, database)
        tokens.finish()
        while tokens.accept(";"):
            tokens.check_count(len(statements))
        if tokens.peek().kind == "end":
            effects = [s for s in statements if not isinstance(s, Passed) or not s.understood]
            return effects or statements[:1]


def _statement(tokens: Tokens, database: str | None) -> list[Statement]:
    while tokens.accept("SET", "STATEMENT"):
        _variables(tokens)
    first = tokens.take()
    word = first.upper
    read = _READ.get(word)
    if read is not None:
        parsed = read(tokens, database)
        if all(isinstance(s, Passed) for s in parsed) and not tokens.skip_statement():
            parsed = [replace(s, understood=False) for s in parsed if isinstance(s, Passed)]
        return parsed
    if word in _INDEXES:  # Debezium's connector for MySQL may cut CREATE away
        return _index(tokens, database, word, replaces=False)
    if word in _ROWS:
        return _rows(tokens, database, first.raw.lower())
    if word in _MAINTENANCE:
        return _maintenance(tokens, database, first.raw.lower())
    if word in _PASSED or word in _UNREAD:
        whole = tokens.skip_statement()
        return [Passed(first.raw.lower(), tokens.text, understood=whole and word in _PASSED)]
    tokens.fail("expected a DDL statement", first)


def _variables(tokens: Tokens) -> None:
    """Takes the variables of MariaDB's SET STATEMENT, and FOR."""
    while not tokens.accept("FOR"):
        if tokens.ended():
            tokens.fail("expected FOR")
        if tokens.peek().upper == "(":
            tokens.skip_group()
        else:
            tokens.take()


def _begin(tokens: Tokens, database: str | None) -> list[Statement]:
    """BEGIN of a transaction, or MariaDB's compound statement, of which a server logs only the parts."""
    tokens.accept("WORK")
    if tokens.ended():
        return [Passed("begin", tokens.text)]
    tokens.skip_text()
    return [Passed("begin", tokens.text, understood=False)]


def _maintenance(tokens: Tokens, database: str | None, kind: str) -> list[Statement]:
    """ANALYZE TABLE and the like; MariaDB's ANALYZE [FORMAT=JSON] runs a statement."""
    if kind == "analyze" and tokens.accept("FORMAT", "="):
        tokens.take()
    first = tokens.peek()
    if first.upper in _ROWS:
        tokens.take()
        return _rows(tokens, database, first.raw.lower())
    return [Passed(kind, tokens.text, understood=tokens.skip_statement())]


def _rows(tokens: Tokens, database: str | None, kind: str) -> list[Statement]:
    """A statement that changes rows, with its table if it clearly has one."""
    if kind == "delete" and tokens.accept("HISTORY"):  # MariaDB: of rows, not their current values
        return [Passed("delete_history", tokens.text, understood=tokens.skip_statement())]
    tables: list[tuple[str, str]] = []
    while tokens.accept_any(*_MODIFIERS):
        pass
    tokens.accept_any("INTO", "FROM", "TABLE")
    if kind in _BEHIND_TABLE and tokens.peek().kind in ("name", "word") and (database or tokens.peek(1).upper == "."):
        tables.append(table_name(tokens, database))
        if kind == "flashback" and tokens.accept("TO") and tokens.peek().upper not in ("BEFORE", "TIMESTAMP", "TSO"):
            tables.append(table_name(tokens, database))
        behind = _BEHIND_TABLE[kind]
        tables = tables if not behind or tokens.ended() or tokens.peek().upper in behind else []
    tokens.skip_statement()
    return [Unapplied(kind, tokens.text, tuple(tables))]


def _create(tokens: Tokens, database: str | None) -> list[Statement]:
    replaces = tokens.accept("OR", "REPLACE")
    if tokens.accept("TEMPORARY") or tokens.accept("GLOBAL", "TEMPORARY"):
        return [Passed("create_temporary_table", tokens.text)]  # its rows are never replicated
    if tokens.accept("TABLE"):
        return create_table(tokens, database, replaces=replaces)
    if tokens.accept_any("DATABASE", "SCHEMA"):
        if_not_exists = tokens.accept("IF", "NOT", "EXISTS")
        name = tokens.table()
        charset = _database_charset(tokens)
        dropped: list[Statement] = [DropDatabase(name, if_exists=True)] if replaces else []
        return [*dropped, CreateDatabase(name, if_not_exists, charset)]
    tokens.accept_any("ONLINE", "OFFLINE")
    if tokens.peek().upper in _INDEXES and "INDEX" in (tokens.peek().upper, tokens.peek(1).upper):
        return _index(tokens, database, tokens.take().upper, replaces=replaces)
    return _object("create", tokens)


def _database_charset(tokens: Tokens) -> str | None:
    charset = None
    while not tokens.ended():
        declared = charset_option(tokens)
        charset = charset if declared is None else declared
        if declared is None:
            tokens.take()
    return charset


def _index(tokens: Tokens, database: str | None, word: str, *, replaces: bool) -> list[Statement]:
    """CREATE INDEX after its first word."""
    if word != "INDEX":
        tokens.expect("INDEX")
    if_not_exists = tokens.accept("IF", "NOT", "EXISTS")
    name = tokens.name()
    while tokens.accept_any("USING", "TYPE"):
        tokens.take()
    tokens.expect("ON")
    table = table_name(tokens, database)
    added: AddKey | AddIndex
    if word == "UNIQUE":
        added = unique(tokens, name, if_not_exists)
    else:
        added = AddIndex(Index(name, parts(tokens).names), if_not_exists)
        tokens.skip_item()
    dropped = (DropKey(name, if_exists=True),) if replaces else ()
    return [AlterTable(*table, (*dropped, added))]


def _alter(tokens: Tokens, database: str | None) -> list[Statement]:
    tokens.accept_any("ONLINE", "OFFLINE")
    ignores = tokens.accept("IGNORE")
    if tokens.accept("TABLE"):
        return alter_table(tokens, database, ignores=ignores)
    if tokens.accept_any("DATABASE", "SCHEMA"):
        return [Passed("alter_database", tokens.text)]
    return _object("alter", tokens)


def _drop(tokens: Tokens, database: str | None) -> list[Statement]:
    if tokens.accept("TEMPORARY") or tokens.accept("GLOBAL", "TEMPORARY"):
        return [Passed("drop_temporary_table", tokens.text)]
    if tokens.accept_any("TABLE", "TABLES"):
        return _drop_tables(tokens, database)
    if tokens.accept_any("DATABASE", "SCHEMA"):
        if_exists = tokens.accept("IF", "EXISTS")
        return [DropDatabase(tokens.table(), if_exists)]
    tokens.accept_any("ONLINE", "OFFLINE")
    if tokens.accept("INDEX"):
        if_exists = tokens.accept("IF", "EXISTS")
        name = tokens.name()
        tokens.expect("ON")
        table = table_name(tokens, database)
        tokens.skip_all()
        return [AlterTable(*table, (DropKey(name, if_exists),))]
    if tokens.peek().upper in ("PREPARE", "STATS"):
        return [Passed(f"drop_{tokens.take().raw.lower()}", tokens.text)]
    return _object("drop", tokens)


def _drop_tables(tokens: Tokens, database: str | None) -> list[Statement]:
    if_exists = tokens.accept("IF", "EXISTS")
    dropped: list[Statement] = [DropTable(*table_name(tokens, database), if_exists)]
    while tokens.accept(","):
        dropped.append(DropTable(*table_name(tokens, database), if_exists))
    _wait(tokens)
    tokens.accept_any("RESTRICT", "CASCADE")
    return dropped


def _rename(tokens: Tokens, database: str | None) -> list[Statement]:
    if tokens.accept("USER"):
        return [Passed("rename_user", tokens.text)]
    if not tokens.accept_any("TABLE", "TABLES"):
        tokens.fail("expected TABLE")
    if_exists = tokens.accept("IF", "EXISTS")
    renamed: list[Statement] = []
    while True:
        old = table_name(tokens, database)
        _wait(tokens)
        tokens.expect("TO")
        renamed.append(RenameTable(*old, *table_name(tokens, database), if_exists))
        if not tokens.accept(","):
            return renamed


def _truncate(tokens: Tokens, database: str | None) -> list[Statement]:
    tokens.accept("TABLE")
    table = table_name(tokens, database)
    _wait(tokens)
    return [TruncateTable(*table)]


def _wait(tokens: Tokens) -> None:
    if tokens.accept("WAIT"):
        tokens.integer()
    tokens.accept("NOWAIT")


def _object(verb: str, tokens: Tokens) -> list[Statement]:
    """A statement about an object other than a table; fails if the object is unknown."""
    first = tokens.peek()
    for ahead in range(_HEAD):
        token = tokens.peek(ahead)
        if token.upper in _OBJECTS:
            if verb != "drop" and token.upper in _ROUTINES:
                tokens.skip_text()
            return [Passed(f"{verb}_{token.raw.lower()}", tokens.text)]
        if token.kind == "end" or token.upper in ("TABLE", "TABLES", "INDEX", ";"):
            break
    tokens.fail(f"{verb.upper()} of an unknown kind of object", first)


_READ: dict[str, Callable[[Tokens, str | None], list[Statement]]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
    "BEGIN": _begin,
}
