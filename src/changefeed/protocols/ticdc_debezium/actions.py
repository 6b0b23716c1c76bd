"""The action of a schema change: CREATE, ALTER or DROP from the message, the rest from the statement.

    CREATE  create_database create_table create_view
    DROP    drop_database drop_table drop_index truncate_table drop_view
    ALTER   those of `_ALTER`, of a statement with one change; several are `multi_schema_change`
    none    any other change: TiCDC sends no message

TiDB writes the statement from what it had parsed: keywords in upper case, names in backquotes.
"""

from __future__ import annotations

from changefeed.errors import UnsupportedError
from changefeed.mysql.ddl.tokens import Tokens

_MOST_TOKENS = 100_000
# First words of a statement -> what it does.
_STATEMENTS: tuple[tuple[str, str], ...] = (
    ("CREATE DATABASE", "create_database"),
    ("CREATE SCHEMA", "create_database"),
    ("CREATE TABLE", "create_table"),
    ("CREATE VIEW", "create_view"),
    ("CREATE OR REPLACE", "create_view"),
    ("CREATE ALGORITHM", "create_view"),
    ("CREATE DEFINER", "create_view"),
    ("CREATE SQL", "create_view"),
    ("CREATE INDEX", "add_index"),
    ("CREATE UNIQUE", "add_index"),
    ("DROP DATABASE", "drop_database"),
    ("DROP SCHEMA", "drop_database"),
    ("DROP TABLE", "drop_table"),
    ("DROP VIEW", "drop_view"),
    ("DROP INDEX", "drop_index"),
    ("TRUNCATE", "truncate_table"),
    ("RENAME TABLE", "rename_table"),
    ("ALTER DATABASE", "modify_database_charset"),
    ("ALTER SCHEMA", "modify_database_charset"),
)
# First words of what ALTER TABLE does -> its name; the longest that fits counts.
_ALTER: dict[str, str] = {
    "ADD": "add_column",
    "ADD COLUMN": "add_column",
    "ADD INDEX": "add_index",
    "ADD KEY": "add_index",
    "ADD UNIQUE": "add_index",
    "ADD FULLTEXT": "add_index",
    "ADD PRIMARY": "add_primary_key",
    "ADD PARTITION": "add_table_partition",
    "DROP": "drop_column",
    "DROP COLUMN": "drop_column",
    "DROP INDEX": "drop_index",
    "DROP KEY": "drop_index",
    "DROP PRIMARY": "drop_primary_key",
    "DROP PARTITION": "drop_table_partition",
    "MODIFY": "modify_column",
    "CHANGE": "modify_column",
    "RENAME COLUMN": "modify_column",
    "RENAME INDEX": "rename_index",
    "RENAME KEY": "rename_index",
    "RENAME": "rename_table",
    "ALTER": "set_default_value",
    "ALTER COLUMN": "set_default_value",
    "ALTER INDEX": "alter_index_visibility",
    "AUTO_INCREMENT": "rebase_auto_id",
    "COMMENT": "modify_table_comment",
    "CONVERT": "modify_table_charset",
    "CHARACTER": "modify_table_charset",
    "CHARSET": "modify_table_charset",
    "DEFAULT": "modify_table_charset",
    "COLLATE": "modify_table_charset",
    "TRUNCATE PARTITION": "truncate_table_partition",
    "EXCHANGE": "exchange_table_partition",
    "REORGANIZE": "reorganize_partition",
    "PARTITION BY": "alter_table_partitioning",
    "REMOVE PARTITIONING": "remove_partitioning",
}
CREATES = frozenset({"create_database", "create_table", "create_tables", "create_view"})
DROPS = frozenset({"drop_database", "drop_table", "drop_index", "truncate_table", "drop_view"})
ALTERS = frozenset({*_ALTER.values(), "rename_tables", "modify_database_charset", "multi_schema_change"})


def change(action: str) -> str | None:
    """`CREATE`, `ALTER` or `DROP`; None for an action that TiCDC sends no message of."""
    if action in CREATES or action in DROPS:
        return "CREATE" if action in CREATES else "DROP"
    return "ALTER" if action in ALTERS else None


def action(statement: str) -> str:
    """Returns the kind of a DDL statement, such as `create_table`; `other` if it is unknown."""
    try:
        words = _words(statement)
    except UnsupportedError:
        return "other"
    text = " ".join(words[:3])
    for opening, name in _STATEMENTS:
        if text == opening or text.startswith(opening + " "):
            return name
    return _alter(words) if words[:2] == ["ALTER", "TABLE"] else "other"


def _words(statement: str) -> list[str]:
    """The statement's words in upper case, `` ` `` for a name or literal, other signs as they are."""
    tokens = Tokens(statement, restored=True)
    words: list[str] = []
    while (word := tokens.take()).kind != "end" and len(words) < _MOST_TOKENS:
        words.append(word.upper or "`")
    return words[:-1] if words[-1:] == [";"] else words


def _alter(words: list[str]) -> str:
    rest = words[2:]
    while len(rest) > 2 and rest[1] == ".":
        del rest[:2]
    changes = _split(rest[1:])
    if len(changes) > 1 and not {"PARTITION", "PARTITIONS"} & set(changes[0][:3]):
        return "multi_schema_change"
    first = changes[0]
    if first[:1] == ["ADD"] and "(" in first[1:3] and first[1:2] in (["COLUMN"], ["("]):
        return "multi_schema_change" if _columns_in(first) > 1 else "add_column"
    if first[:2] == ["ADD", "CONSTRAINT"]:
        named = next((word for word in first[2:] if word in ("PRIMARY", "UNIQUE")), "")
        return _ALTER.get(f"ADD {named}", "other")
    return _ALTER.get(" ".join(first[:2])) or _ALTER.get("".join(first[:1]), "other")


def _split(words: list[str]) -> list[list[str]]:
    """The parts between commas outside of parentheses."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if word == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _columns_in(words: list[str]) -> int:
    """The number of columns in `ADD COLUMN (…)`."""
    opening = words.index("(")
    return len(_split(words[opening + 1 : -1]))
