"""DDL statements by their first words: table statements are parsed completely, statements without effect on rows skipped.

Statements that change rows without row events (DROP PARTITION, a logged INSERT, FLASHBACK TABLE) are `Unapplied`; the
pipeline refuses them. A statement that begins with words not listed here is an error.
"""

from __future__ import annotations

from collections.abc import Callable

from changefeed.model.definition import UniqueKey
from changefeed.mysql.ddl.alter import alter_table
from changefeed.mysql.ddl.create import create_table
from changefeed.mysql.ddl.keys import parts
from changefeed.mysql.ddl.statements import (
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
from changefeed.mysql.ddl.tables import table_name
from changefeed.mysql.ddl.tokens import Tokens

# Objects of CREATE, ALTER and DROP besides tables, databases and indexes; DEFINER and the like may come before them.
_OBJECTS_TEXT = """
    VIEW TRIGGER PROCEDURE FUNCTION EVENT USER ROLE SERVER TABLESPACE LOGFILE UNDO SEQUENCE PACKAGE PLACEMENT RESOURCE
    BINDING STATISTICS SPATIAL INSTANCE LIBRARY MASKING RANGE
"""
_OBJECTS = frozenset(_OBJECTS_TEXT.split())
_HEAD = 40  # words before the object, at most
_PASSED_TEXT = """
    ANALYZE OPTIMIZE REPAIR CHECK CHECKSUM CACHE GRANT REVOKE SET USE FLUSH LOCK UNLOCK BEGIN START COMMIT ROLLBACK
    SAVEPOINT RELEASE XA INSTALL UNINSTALL KILL RESET PURGE SHOW DESCRIBE DESC EXPLAIN ADMIN SPLIT REFRESH
"""
_PASSED = frozenset(_PASSED_TEXT.split())
_ROWS = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "IMPORT", "FLASHBACK", "RECOVER"})


def parse(text: str, database: str | None, *, restored: bool = False) -> list[Statement]:
    """Parses a statement into its effects on tables, in order; at least one, which may be `Passed`.

    Args:
        text: one DDL statement of MySQL, MariaDB or TiDB. It is parsed, never executed.
        database: the database of unqualified table names.
        restored: TiDB generated the text (every TiCDC protocol): it does not escape backslashes in ENUM and SET members.

    Raises:
        UnsupportedError: the text is not a statement, or not of a supported kind; the message shows the position.
    """
    tokens = Tokens(text, restored=restored)
    first = tokens.take()
    read = _READ.get(first.upper)
    if read is not None:
        parsed = read(tokens, database)
        if not isinstance(parsed[-1], Passed):
            tokens.finish()
        return parsed
    if first.upper in _ROWS:
        return [Unapplied(first.raw.lower(), text)]
    if first.upper in _PASSED:
        return [Passed(first.raw.lower(), text)]
    tokens.fail("expected a DDL statement", first)


def _create(tokens: Tokens, database: str | None) -> list[Statement]:
    replaces = tokens.accept("OR", "REPLACE")
    if tokens.accept("TEMPORARY") or tokens.accept("GLOBAL", "TEMPORARY"):
        return [Passed("create_temporary_table", tokens.text)]  # its rows are never replicated
    if tokens.accept("TABLE"):
        return create_table(tokens, database, replaces=replaces)
    if tokens.accept_any("DATABASE", "SCHEMA"):
        if_not_exists = tokens.accept("IF", "NOT", "EXISTS")
        name = tokens.name()
        tokens.skip_item()
        dropped: list[Statement] = [DropDatabase(name, if_exists=True)] if replaces else []
        return [*dropped, CreateDatabase(name, if_not_exists)]
    tokens.accept_any("ONLINE", "OFFLINE")
    if tokens.accept("UNIQUE", "INDEX"):
        return _unique_index(tokens, database)
    if tokens.peek().upper in ("INDEX", "FULLTEXT") or tokens.peek(1).upper == "INDEX":
        return [Passed("create_index", tokens.text)]
    return _object("create", tokens)


def _unique_index(tokens: Tokens, database: str | None) -> list[Statement]:
    if_not_exists = tokens.accept("IF", "NOT", "EXISTS")
    name = tokens.name()
    if tokens.accept_any("USING", "TYPE"):
        tokens.take()
    tokens.expect("ON")
    table = table_name(tokens, database)
    columns = parts(tokens)
    tokens.skip_item()
    if columns is None:
        return [Passed("create_index", tokens.text)]
    return [AlterTable(*table, (AddKey(UniqueKey(name, columns), if_not_exists),))]


def _alter(tokens: Tokens, database: str | None) -> list[Statement]:
    tokens.accept_any("ONLINE", "OFFLINE")
    tokens.accept("IGNORE")
    if tokens.accept("TABLE"):
        return alter_table(tokens, database)
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
        return [DropDatabase(tokens.name(), if_exists)]
    tokens.accept_any("ONLINE", "OFFLINE")
    if tokens.accept("INDEX"):
        tokens.accept("IF", "EXISTS")
        name = tokens.name()
        tokens.expect("ON")
        table = table_name(tokens, database)
        tokens.skip_all()
        return [AlterTable(*table, (DropKey(name),))]
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
    tokens.accept("IF", "EXISTS")
    renamed: list[Statement] = []
    while True:
        old = table_name(tokens, database)
        _wait(tokens)
        tokens.expect("TO")
        renamed.append(RenameTable(*old, *table_name(tokens, database)))
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
            return [Passed(f"{verb}_{token.raw.lower()}", tokens.text)]
        if token.kind == "end":
            break
    tokens.fail(f"{verb.upper()} of an unknown kind of object", first)


_READ: dict[str, Callable[[Tokens, str | None], list[Statement]]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
}
