"""ALTER TABLE: each part is a change of columns or keys, another statement, or has no effect on rows.

    ALTER TABLE `db`.`t` ADD COLUMN `a` INT NOT NULL DEFAULT 3 AFTER `b`, DROP COLUMN `c`, ENGINE = InnoDB
                         ^part, by its first word                         ^part            ^skipped

A part that begins with a word that is not listed here is an error: no unknown part is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from changefeed.model.definition import PRIMARY
from changefeed.mysql.ddl.columns import ColumnDefinition, default, definition
from changefeed.mysql.ddl.create import items
from changefeed.mysql.ddl.keys import is_key, key, period
from changefeed.mysql.ddl.statements import (
    AddColumn,
    AddKey,
    AlterTable,
    ColumnChange,
    DropColumn,
    DropKey,
    ModifyColumn,
    Passed,
    RenameColumn,
    RenameKey,
    RenameTable,
    SetCharset,
    SetDefault,
    Statement,
    Unapplied,
)
from changefeed.mysql.ddl.tables import charset_option, column_name, table_name
from changefeed.mysql.ddl.tokens import Tokens

# Reserved words that begin a part: inside an option they mean that a comma is missing.
_PARTS = frozenset({"ADD", "DROP", "CHANGE", "RENAME", "ALTER"})
_OPTIONS_TEXT = """
    AFFINITY ALGORITHM ATTRIBUTES AUTOEXTEND_SIZE AUTO_ID_CACHE AUTO_INCREMENT AUTO_RANDOM_BASE AVG_ROW_LENGTH CACHE
    CHAR CHARACTER CHARSET CHECKSUM COLLATE COMMENT COMPACT COMPRESSION CONNECTION DATA DEFAULT DELAY_KEY_WRITE DISABLE
    ENABLE ENCRYPTED ENCRYPTION ENCRYPTION_KEY_ID ENGINE ENGINE_ATTRIBUTE FORCE IETF_QUOTES INDEX INSERT_METHOD LOCK
    KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS NOCACHE ORDER PACK_KEYS PAGE_CHECKSUM PAGE_COMPRESSED PAGE_COMPRESSION_LEVEL
    PASSWORD PLACEMENT PRE_SPLIT_REGIONS READ ROW_FORMAT SECONDARY_ENGINE SECONDARY_ENGINE_ATTRIBUTE SECONDARY_LOAD
    SECONDARY_UNLOAD SEQUENCE SET SHARD_ROW_ID_BITS SOFTDELETE STATS_AUTO_RECALC STATS_BUCKETS STATS_COLS_CHOICE
    STATS_COL_CHOICE STATS_COL_LIST STATS_OPTIONS STATS_PERSISTENT STATS_SAMPLE_PAGES STATS_SAMPLE_RATE STATS_TOPN
    STORAGE TABLESPACE TRANSACTIONAL TTL TTL_ENABLE TTL_JOB_INTERVAL UNION WITH WITHOUT
"""
_OPTIONS = frozenset(_OPTIONS_TEXT.split())
_VERSIONED = ("SYSTEMVERSIONING", "PERIODFOR")  # MariaDB: history of rows, not their current values


@dataclass(slots=True)
class _Parts:
    """The parts of the statement that have been parsed."""

    table: tuple[str, str]
    current: str  # the database of a table that is named without one
    tokens: Tokens
    changes: list[ColumnChange] = field(default_factory=list)
    others: list[Statement] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    if_exists: bool = False
    copies: bool = False

    def add(self, d: ColumnDefinition, **place: Any) -> None:
        self.changes.append(
            AddColumn(
                d.column,
                generated=d.generated,
                counted=d.counted,
                charset=d.charset,
                undeclared=d.undeclared,
                **place,
            )
        )

    def unapplied(self, kind: str, *tables: tuple[str, str]) -> None:
        self.others.append(Unapplied(kind, self.tokens.text, (self.table, *tables)))


def alter_table(tokens: Tokens, database: str | None, *, ignores: bool = False) -> list[Statement]:
    """Parses the statements after ALTER [IGNORE] TABLE.

    Args:
        tokens: those after TABLE.
        database: the database of a table that is named without one.
        ignores: MariaDB's ALTER IGNORE: a new unique key or CHECK deletes rows.
    """
    if_exists = tokens.accept("IF", "EXISTS")
    table = table_name(tokens, database)
    parts = _Parts(table, database or table[0], tokens, if_exists=if_exists)
    if tokens.accept("WAIT"):
        tokens.integer()
    tokens.accept("NOWAIT")
    while not tokens.ended():
        word = tokens.peek().upper
        read = _READ.get(word)
        if read is not None:
            tokens.take()
            read(tokens, parts)
        elif word in _OPTIONS or tokens.peek(1).upper == "=":
            _options(tokens, parts)
        else:
            tokens.fail("expected a change of the table")
        tokens.check_count(len(parts.changes))
        if not tokens.accept(",") and not tokens.ended() and tokens.peek().upper != "PARTITION":
            tokens.fail("expected a comma")
    if ignores and (any(isinstance(change, AddKey) for change in parts.changes) or _has_check(tokens.text)):
        parts.unapplied("alter_ignore")
    changes = tuple(parts.changes)
    altered: list[Statement] = [AlterTable(*parts.table, changes, if_exists, parts.copies, ignores)] if changes else []
    statements = altered + parts.others
    return statements or [Passed(next(iter(parts.passed), "alter_table"), tokens.text)]


def _has_check(text: str) -> bool:
    """Whether a text has a CHECK constraint, of a column or of the table."""
    tokens = Tokens(text)
    while tokens.peek().kind != "end":
        if tokens.accept("CHECK", "("):
            return True
        tokens.take()
    return False


def _options(tokens: Tokens, parts: _Parts) -> None:
    """Takes options, which need no comma between them."""
    parts.passed.append("alter_table")
    if tokens.accept("ORDER", "BY"):  # is the last part
        parts.copies = True
        tokens.skip_all(_PARTS)
    while not tokens.ended() and tokens.peek().upper != ",":
        if tokens.peek().upper in _PARTS:
            tokens.fail("expected a comma")
        charset = charset_option(tokens)
        if charset is not None:
            parts.changes.append(SetCharset(charset))
        elif tokens.accept("ENGINE"):
            tokens.accept("=")
            if tokens.take().value.upper() == "BLACKHOLE":
                parts.unapplied("engine_blackhole")
        elif tokens.accept("ALGORITHM"):
            tokens.accept("=")
            parts.copies |= tokens.take().upper == "COPY"
        elif tokens.peek().upper == "(":
            tokens.skip_group()
        else:
            tokens.take()


def _add(tokens: Tokens, parts: _Parts) -> None:
    if tokens.accept("PARTITION"):
        _partitions(tokens, parts, "add_partition")
    elif tokens.accept("SYSTEM", "VERSIONING") or period(tokens) is not None:
        parts.passed.append("alter_table")
    elif is_key(tokens):
        declared = key(tokens)
        parts.changes += [] if declared is None else [declared]
        parts.passed.append("add_check")
    else:
        tokens.accept("COLUMN")
        if_not_exists = tokens.accept("IF", "NOT", "EXISTS")
        if tokens.peek().upper != "(":
            d = definition(tokens)
            parts.add(d, **_place(tokens), if_not_exists=if_not_exists)
            parts.changes += [AddKey(k, if_not_exists) for k in d.uniques]
            return
        listed = items(tokens)
        for d in listed.columns:
            parts.add(d, if_not_exists=if_not_exists)
        parts.changes += listed.keys


def _place(tokens: Tokens) -> dict[str, Any]:
    if tokens.accept("FIRST"):
        return {"first": True}
    return {"after": column_name(tokens)} if tokens.accept("AFTER") else {}


def _drop(tokens: Tokens, parts: _Parts) -> None:
    if tokens.accept("PARTITION"):
        _removed(tokens, parts, "drop_partition")
    elif tokens.accept("PRIMARY", "KEY"):
        parts.changes.append(DropKey(PRIMARY))
    elif tokens.peek().upper in ("INDEX", "KEY", "CONSTRAINT"):
        constraint = tokens.take().upper == "CONSTRAINT"
        if_exists = tokens.accept("IF", "EXISTS")
        parts.changes.append(DropKey(tokens.name(), if_exists, constraint))
    elif tokens.accept_any("FOREIGN", "CHECK") or tokens.peek().upper + tokens.peek(1).upper in _VERSIONED:
        tokens.skip_item(_PARTS)
        parts.passed.append("alter_table")
    else:
        tokens.accept("COLUMN")
        if_exists = tokens.accept("IF", "EXISTS")
        parts.changes.append(DropColumn(column_name(tokens), if_exists))
        tokens.accept_any("RESTRICT", "CASCADE")


def _modify(tokens: Tokens, parts: _Parts) -> None:
    tokens.accept("COLUMN")
    if_exists = tokens.accept("IF", "EXISTS")
    d = definition(tokens)
    _redefine(tokens, parts, d.column.name, d, if_exists)


def _change(tokens: Tokens, parts: _Parts) -> None:
    tokens.accept("COLUMN")
    if_exists = tokens.accept("IF", "EXISTS")
    name = column_name(tokens)
    _redefine(tokens, parts, name, definition(tokens), if_exists)


def _redefine(tokens: Tokens, parts: _Parts, name: str, d: ColumnDefinition, if_exists: bool) -> None:
    place = _place(tokens)
    redefined = ModifyColumn(name, d.column, generated=d.generated, if_exists=if_exists, charset=d.charset, **place)
    parts.changes.append(redefined)
    parts.changes += [AddKey(k, if_exists) for k in d.uniques]


def _alter(tokens: Tokens, parts: _Parts) -> None:
    if tokens.accept_any("INDEX", "KEY", "CHECK", "CONSTRAINT"):
        tokens.skip_item(_PARTS)
        parts.passed.append("alter_table")
        return
    tokens.accept("COLUMN")
    if_exists = tokens.accept("IF", "EXISTS")
    name = column_name(tokens)
    if tokens.accept("SET", "DEFAULT"):
        parts.changes.append(SetDefault(name, default(tokens), if_exists))
    elif tokens.accept("DROP", "DEFAULT"):
        parts.changes.append(SetDefault(name, None, if_exists))
    elif tokens.accept("SET", "VISIBLE") or tokens.accept("SET", "INVISIBLE"):
        parts.passed.append("alter_table")
    else:
        tokens.fail("expected SET or DROP DEFAULT")


def _rename(tokens: Tokens, parts: _Parts) -> None:
    if tokens.accept("COLUMN"):
        if_exists = tokens.accept("IF", "EXISTS")
        name = column_name(tokens)
        tokens.expect("TO")
        parts.changes.append(RenameColumn(name, tokens.name(), if_exists))
    elif tokens.accept_any("INDEX", "KEY"):
        if_exists = tokens.accept("IF", "EXISTS")
        name = tokens.name()
        tokens.expect("TO")
        parts.changes.append(RenameKey(name, tokens.name(), if_exists))
    else:
        tokens.accept_any("TO", "AS", "=")
        parts.others.append(RenameTable(*parts.table, *table_name(tokens, parts.current), parts.if_exists))


def _convert(tokens: Tokens, parts: _Parts) -> None:
    """CONVERT TO CHARACTER SET x; `binary` makes text columns binary. MariaDB also converts partitions to tables and back."""
    if tokens.accept("TABLE"):
        parts.unapplied("convert_partition", table_name(tokens, parts.current))
        tokens.skip_all(_PARTS)
        return
    if tokens.accept("PARTITION"):
        tokens.name()
        tokens.expect("TO", "TABLE")
        parts.unapplied("convert_partition", table_name(tokens, parts.current))
        tokens.skip_all(_PARTS)
        return
    tokens.expect("TO")
    charset = charset_option(tokens)
    if charset is None:
        tokens.fail("expected CHARACTER SET")
    if tokens.accept("COLLATE"):
        tokens.accept("=")
        tokens.take()
    parts.changes.append(SetCharset(charset, converts=True))


def _partitions(tokens: Tokens, parts: _Parts, kind: str) -> None:
    """Takes all up to the end: partitions are the only or the last part of a statement, and their lists have commas."""
    tokens.skip_all(_PARTS)
    parts.passed.append(kind)


def _removed(tokens: Tokens, parts: _Parts, kind: str) -> None:
    tokens.skip_all(_PARTS)
    parts.unapplied(kind)


def _exchange(tokens: Tokens, parts: _Parts) -> None:
    tokens.expect("PARTITION")
    tokens.name()
    tokens.expect("WITH", "TABLE")
    parts.unapplied("exchange_partition", table_name(tokens, parts.current))
    if tokens.accept_any("WITH", "WITHOUT"):
        tokens.expect("VALIDATION")


def _tablespace(kind: str) -> Callable[[Tokens, _Parts], None]:
    return lambda tokens, parts: _removed(tokens, parts, kind)


def _kept(kind: str) -> Callable[[Tokens, _Parts], None]:
    return lambda tokens, parts: _partitions(tokens, parts, kind)


_READ: dict[str, Callable[[Tokens, _Parts], None]] = {
    "ADD": _add,
    "DROP": _drop,
    "MODIFY": _modify,
    "CHANGE": _change,
    "ALTER": _alter,
    "RENAME": _rename,
    "CONVERT": _convert,
    "EXCHANGE": _exchange,
    "TRUNCATE": _tablespace("truncate_partition"),
    "DISCARD": _tablespace("discard_tablespace"),
    "IMPORT": _tablespace("import_tablespace"),
    "FIRST": _tablespace("drop_partition"),  # TiDB: FIRST PARTITION LESS THAN (…) drops those below
    "LAST": _kept("add_partition"),
    "MERGE": _kept("reorganize_partition"),
    "SPLIT": _kept("reorganize_partition"),
    "REORGANIZE": _kept("reorganize_partition"),
    "COALESCE": _kept("reorganize_partition"),
    "REMOVE": _kept("remove_partitioning"),
    "PARTITION": _kept("alter_table_partitioning"),
    "REBUILD": _kept("alter_table"),
    "OPTIMIZE": _kept("alter_table"),
    "ANALYZE": _kept("alter_table"),
    "CHECK": _kept("alter_table"),
    "REPAIR": _kept("alter_table"),
}
