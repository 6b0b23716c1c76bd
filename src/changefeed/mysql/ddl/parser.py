"""A DDL statement by its first words: what concerns tables is read to its end, what cannot concern rows is passed over.

Statements that change rows without row events (DROP PARTITION, a logged INSERT, FLASHBACK TABLE) are `Unapplied`, for
the pipeline to refuse. A statement that begins with words not listed here is an error.
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

# What CREATE, ALTER and DROP may name besides tables, databases and indexes; definers and such come before it.
_OBJECTS_TEXT = """
    VIEW TRIGGER PROCEDURE FUNCTION EVENT USER ROLE SERVER TABLESPACE LOGFILE UNDO SEQUENCE PACKAGE PLACEMENT RESOURCE
    BINDING STATISTICS SPATIAL INSTANCE LIBRARY MASKING RANGE
"""
_OBJECTS = frozenset(_OBJECTS_TEXT.split())
_HEAD = 40  # words in front of the object, at most
_PASSED_TEXT = """
    ANALYZE OPTIMIZE REPAIR CHECK CHECKSUM CACHE GRANT REVOKE SET USE FLUSH LOCK UNLOCK BEGIN START COMMIT ROLLBACK
    SAVEPOINT RELEASE XA INSTALL UNINSTALL KILL RESET PURGE SHOW DESCRIBE DESC EXPLAIN ADMIN SPLIT REFRESH
"""
_PASSED = frozenset(_PASSED_TEXT.split())
_ROWS = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "IMPORT", "FLASHBACK", "RECOVER"})


def parse(text: str, database: str | None, *, restored: bool = False) -> list[Statement]:
    """What a statement does to tables, in order; at least one thing, if only that it is passed over.

    Args:
        text: one DDL statement of MySQL, MariaDB or TiDB. It is read, never executed.
        database: where tables lie that are named without their database.
        restored: TiDB wrote the text (every TiCDC protocol): it does not double backslashes in members of ENUM and SET.

    Raises:
        UnsupportedError: the statement is not one, or not one of the known kinds; the message shows the place.
    """
    tokens = Tokens(text, restored=restored)
    first = tokens.take()
    read = _READ.get(first.upper)
    if read is not None:
        found = read(tokens, database)
        if not isinstance(found[-1], Passed):
            tokens.finish()
        return found
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
    found: list[Statement] = [DropTable(*table_name(tokens, database), if_exists)]
    while tokens.accept(","):
        found.append(DropTable(*table_name(tokens, database), if_exists))
    _waiting(tokens)
    tokens.accept_any("RESTRICT", "CASCADE")
    return found


def _rename(tokens: Tokens, database: str | None) -> list[Statement]:
    if tokens.accept("USER"):
        return [Passed("rename_user", tokens.text)]
    if not tokens.accept_any("TABLE", "TABLES"):
        tokens.fail("expected TABLE")
    tokens.accept("IF", "EXISTS")
    found: list[Statement] = []
    while True:
        old = table_name(tokens, database)
        _waiting(tokens)
        tokens.expect("TO")
        found.append(RenameTable(*old, *table_name(tokens, database)))
        if not tokens.accept(","):
            return found


def _truncate(tokens: Tokens, database: str | None) -> list[Statement]:
    tokens.accept("TABLE")
    table = table_name(tokens, database)
    _waiting(tokens)
    return [TruncateTable(*table)]


def _waiting(tokens: Tokens) -> None:
    if tokens.accept("WAIT"):
        tokens.integer()
    tokens.accept("NOWAIT")


def _object(verb: str, tokens: Tokens) -> list[Statement]:
    """Passes over what is none of ours, when it is known at all."""
    first = tokens.peek()
    for ahead in range(_HEAD):
        token = tokens.peek(ahead)
        if token.upper in _OBJECTS:
            return [Passed(f"{verb}_{token.raw.lower()}", tokens.text)]
        if token.kind == "end":
            break
    tokens.fail(f"{verb.upper()} of something unknown", first)


_READ: dict[str, Callable[[Tokens, str | None], list[Statement]]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
}
