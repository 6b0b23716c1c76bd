"""The tables of a server, and a definition that captures them: for `changefeed discover`.

Numbers of rows and bytes are the server's estimates. The definition has no password: it names an environment variable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from changefeed.sources.mysql.connection import Address
from changefeed.sources.mysql.rights import unreadable
from changefeed.sources.mysql.server import Requirement, Server
from changefeed.sources.mysql.tables import SYSTEM, Name, all_keys
from changefeed.sources.mysql.unlogged import unlogged_databases, unlogged_rows
from changefeed.sources.mysql.uri import DEFAULT_PORT, read_uri
from changefeed.ticdc.dispatch.matcher import TableFilter

_TABLES = """\
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS, DATA_LENGTH + INDEX_LENGTH FROM information_schema.TABLES
WHERE TABLE_TYPE = 'BASE TABLE' ORDER BY 1, 2"""
_COLUMNS = """\
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS
ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"""


UNNAMED = (
    "the log does not name the columns of its rows: they are known by the statements that the log has. SET GLOBAL "
    "binlog_row_metadata = FULL makes the log tell them, so that nothing can be missed"
)


@dataclass(frozen=True, slots=True)
class DiscoveredTable:
    """A table of a server.

    Attributes:
        rows, size_bytes: estimates.
        key: the columns of its primary key, else of a unique key without NULL; empty if it has neither.
        columns: name -> type, as the server prints it.
    """

    database: str
    table: str
    rows: int
    size_bytes: int
    key: tuple[str, ...]
    columns: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The table as a JSON object."""
        return {
            "database": self.database, "table": self.table, "rows": self.rows, "bytes": self.size_bytes,
            "key": list(self.key), "columns": self.columns,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Discovery:
    """A server and its tables.

    Attributes:
        version: of the server.
        wrong: settings and rights that are missing for capture.
        notes: a sentence for each table whose rows the log does not tell completely.
    """

    address: Address
    version: str
    tables: tuple[DiscoveredTable, ...]
    wrong: tuple[Requirement, ...]
    notes: tuple[str, ...] = ()

    def definition(self) -> str:
        """The text of a pipeline.yaml that captures the tables with a key."""
        patterns = sorted({f"{json.dumps(table.database)}.*" for table in self.tables})
        left_out = [f"!{json.dumps(t.database)}.{json.dumps(t.table)}" for t in self.tables if not t.key]
        lines = [
            "source:",
            "  type: mysql",
            f"  host: {json.dumps(self.address.host)}",
            f"  port: {self.address.port}",
            f"  user: {json.dumps(self.address.user)}",
            "  password: ${MYSQL_PASSWORD}",
            "  tables:",
            *(f"    - {json.dumps(pattern, ensure_ascii=False)}" for pattern in patterns),
            *(f"    - {json.dumps(pattern, ensure_ascii=False)}  # has no key" for pattern in left_out),
            "sink: {type: delta, path: lake}",
            "pipeline: {name: capture}",
        ]
        return "\n".join(lines) + "\n"


def address_of(uri: str) -> tuple[Address, str | None]:
    """Reads `mysql://user:password@host:port/database`; returns the address, and the database if the URI names one.

    Raises:
        ConfigError: the text is not such a URI.
    """
    read = read_uri(uri)
    return Address(read.host, read.port or DEFAULT_PORT, read.user, read.password or ""), read.database


def discover(uri: str) -> Discovery:
    """Asks a server for its tables.

    Args:
        uri: `mysql://user:password@host:port/database`; without a database, the tables of all but the system's.

    Raises:
        ConfigError: the text is not a URI, or the server is too old.
        AccessError, SourceError: the server refuses the user, or does not answer.
    """
    address, only = address_of(uri)
    server = Server.open(address)
    try:
        columns: dict[Name, dict[str, str]] = {}
        for database, table, column, kind in server.texts(_COLUMNS):
            columns.setdefault((database, table), {})[column] = kind
        tables = tuple(_tables(server.texts(_TABLES), columns, all_keys(server), only))
        rights = server.missing_rights(copies=True, locks=lambda: not all(table.key for table in tables))
        wrong = (*server.requirements(), *rights)
        selector = TableFilter([f"{json.dumps(only)}.*" if only else "*.*"])
        unnamed = [] if server.names_columns else [UNNAMED]
        hidden = [
            f"tables that the user may not read are not listed: {one.fix}" for one in unreadable(server, selector)
        ]
        notes = (*unnamed, *hidden, *unlogged_databases(server, selector), *unlogged_rows(server, selector))
        return Discovery(address, server.version, tables, wrong, notes)
    finally:
        server.close()


def _tables(
    listed: Iterable[tuple[str, ...]],
    columns: dict[Name, dict[str, str]],
    keys: dict[Name, list[str]],
    only: str | None,
) -> Iterable[DiscoveredTable]:
    for database, table, rows, size in listed:
        if database.lower() not in SYSTEM and only in (None, database):
            name = database, table
            key = tuple(keys.get(name, ()))
            yield DiscoveredTable(database, table, int(rows or 0), int(size or 0), key, columns.get(name, {}))
