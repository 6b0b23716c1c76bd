"""Converts between DDL messages and schema changes.

    TiCDC, Canal     CREATE  ALTER  ERASE  TRUNCATE  RENAME  CINDEX  DINDEX  QUERY (databases, views, all else)

Rule 1. The kind of a statement is derived from its text; from the message's `type` if the text is not understood.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changefeed.errors import ProtocolError, SchemaError, UnsupportedError
from changefeed.model.event import Instant, SchemaChange
from changefeed.model.position import Place
from changefeed.mysql.ddl.kind import kind
from changefeed.protocols.canal_json.envelope import CanalMessage
from changefeed.protocols.canal_json.options import NAME

_ACTIONS = {
    "CREATE": "create_table",
    "ERASE": "drop_table",
    "TRUNCATE": "truncate_table",
    "RENAME": "rename_table",
    "CINDEX": "add_index",
    "DINDEX": "drop_index",
}
_KINDS = {action: name for name, action in _ACTIONS.items()} | {
    "rename_tables": "RENAME",
    "add_foreign_key": "CINDEX",
    "add_primary_key": "CINDEX",
    "drop_foreign_key": "DINDEX",
    "drop_primary_key": "DINDEX",
}
# Those of TiDB's actions on a table that TiCDC calls ALTER; all others are QUERY.
_ALTERS = frozenset(
    {
        *("add_column", "drop_column", "modify_column", "rename_column", "add_columns", "drop_columns"),
        *("set_default_value", "rebase_auto_id", "modify_table_comment", "rename_index", "modify_table_charset"),
        *("add_table_partition", "drop_table_partition", "truncate_table_partition", "alter_index_visibility"),
        *("multi_schema_change", "reorganize_partition", "alter_table_partitioning", "remove_partitioning"),
        *("alter_table",),
    }
)


def read(message: CanalMessage, kept: dict[str, Any], place: Place) -> SchemaChange:
    """Reads the schema change of a message.

    Raises:
        SchemaError: the message has no statement, or it has rows.
    """
    if not message.sql:
        raise SchemaError("DDL has no statement - at `sql`")
    if message.data or message.old:
        raise SchemaError("DDL has rows - at `data`")
    if message.extension is not None and message.extension.commit_ts is None:
        raise SchemaError("extension of a DDL has no commitTs - at `_tidb`")
    origin = {**kept, "type": message.type}
    if message.replaced:
        origin["replaced"] = list(message.replaced)
    return SchemaChange(
        _action(message),
        message.database or None,
        message.table or None,
        message.sql,
        place,
        commit_ts=None if message.extension is None else message.extension.commit_ts,
        instant=Instant(message.es * 1000, 3),
        origin=origin,
    )


def _action(message: CanalMessage) -> str:
    try:
        word = kind(message.sql, message.database or None)
    except ProtocolError:
        word = "other"
    return _ACTIONS.get(message.type, word) if word == "other" else word


def message_type(event: SchemaChange, origin: Mapping[str, Any]) -> str:
    """Returns the `type` of the message for a schema change."""
    sent = origin.get("type")
    if isinstance(sent, str):
        return sent
    if event.ddl is None:
        raise UnsupportedError(f"{NAME}: {event.type} at {event.place} has no statement to send")
    return _KINDS.get(event.type, "ALTER" if event.type in _ALTERS else "QUERY")
