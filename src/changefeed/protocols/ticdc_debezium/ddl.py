r"""Reads and writes the messages of DDL statements.

    key      {"payload":{"databaseName":"shop"}}
    value    {"payload":{"source":{…},"ts_ms":…,"databaseName":"shop","schemaName":null,"ddl":"ALTER TABLE …",
               "tableChanges":[{"type":"ALTER","id":"\"shop\".\"t\"","table":{…}}]}}

Rule 1. `tableChanges` stays in the origin, word for word: its columns have less than those of the statement, and more
        than an event's `columns` hold. See `table_changes` for what they are made of.
Rule 2. Producers send messages of the changes that `actions` lists; other changes are not written.
"""

from __future__ import annotations

from typing import Any

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model.event import Instant, SchemaChange
from changefeed.model.position import Place
from changefeed.protocols.ticdc_debezium import actions, blocks, envelope, table_changes
from changefeed.protocols.ticdc_debezium.envelope import SourceBlock
from changefeed.protocols.ticdc_debezium.options import Options
from changefeed.protocols.ticdc_debezium.parts import Document
from changefeed.ticdc import tso
from changefeed.ticdc.commit_ts import needed_ts
from changefeed.wire.go_json import W_RAW
from changefeed.wire.json_form import INT64, integer, refuse_others, show, string
from changefeed.wire.strict_json import REPLACED, Number

_MEMBERS = frozenset({"source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges"})
_MOST_DEPTH = 8


def read(place: Place, key: Document | None, value: Document, source: SourceBlock, options: Options) -> SchemaChange:
    """Reads the schema change of a record.

    Raises:
        ProtocolError: the payload is not a schema change.
    """
    payload = value.payload
    refuse_others(payload, _MEMBERS, "payload", "payload")
    missing = sorted(_MEMBERS - payload.keys())
    if missing:
        raise SchemaError(f"payload has no op and no {', '.join(missing)} - at `payload`")
    statement = payload["ddl"]
    if type(statement) is not str:
        raise SchemaError(f"{show(statement)} is not a string - at `payload.ddl`")
    database = string(payload, "databaseName", "payload.")
    origin = envelope.mark(payload, source)
    if database != source.database:
        origin["databaseName"] = database
    if payload["schemaName"] is not None:
        origin["schemaName"] = string(payload, "schemaName", "payload.")
    origin["tableChanges"] = _plain(payload["tableChanges"], "payload.tableChanges", _MOST_DEPTH)
    if key is not None and key.payload != {"databaseName": database}:
        refuse_others(key.payload, {"databaseName"}, "key", "key")
        origin["key"] = {"databaseName": string(key.payload, "databaseName", "key.")}
    statement = statement.replace(REPLACED, "\ufffd")
    return SchemaChange(
        actions.action(statement),
        source.database or None,
        source.table or None,
        statement,
        place,
        table_changes.columns(origin["tableChanges"]),
        source.commit_ts,
        Instant(tso.milliseconds(source.commit_ts) * 1000, 3),
        origin | blocks.unusual(key, value, blocks.ddl(options)),
    )


def _plain(value: Any, where: str, depth: int) -> Any:
    """Converts a value to plain Python types; all of its numbers must be integers."""
    if depth == 0:
        raise SchemaError(f"{where} is nested too deeply - at `{where}`")
    if type(value) is Number:
        return integer({"": value}, "", INT64, where)
    if type(value) is list:
        return [_plain(item, where, depth - 1) for item in value]
    if type(value) is dict:
        return {_plain(name, where, depth): _plain(item, where, depth - 1) for name, item in value.items()}
    return value.replace(REPLACED, "\ufffd") if type(value) is str else value


def write(event: SchemaChange, cluster_id: str, options: Options) -> tuple[bytes | None, bytes] | None:
    """Returns key and value of a schema change; None for a change for which TiCDC sends no message.

    Raises:
        UnsupportedError: the event lacks a necessary part.
    """
    ours = event.origin.get("connector") == envelope.CONNECTOR
    origin: dict[str, Any] = event.origin if ours else {}
    if not ours and not any(map(actions.change, (event.type, actions.action(event.ddl or "")))):
        return None  # by its name, which others may choose otherwise, and by its statement
    if event.ddl is None:
        raise UnsupportedError(f"ticdc-debezium: {event.type} at {event.place} has no statement to send")
    source = envelope.of(
        origin, event.database or "", event.table or "", needed_ts(event, "ticdc-debezium"), cluster_id
    )
    database = W_RAW.string(origin.get("databaseName", source.database))
    changes = origin["tableChanges"] if "tableChanges" in origin else table_changes.made(event)
    schema_name = origin.get("schemaName")
    payload = (
        f'{{"source":{envelope.write(source)},"ts_ms":{envelope.clock(origin, source.commit_ts)},"databaseName":{database},'
        f'"schemaName":{"null" if schema_name is None else W_RAW.string(schema_name)},'
        f'"ddl":{W_RAW.string(event.ddl)},"tableChanges":{_text(changes)}}}'
    )
    key = _text(origin.get("key") or {"databaseName": origin.get("databaseName", source.database)})
    return blocks.documents(key, payload, origin, blocks.ddl(options), options)


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return W_RAW.string(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{W_RAW.string(name)}:{_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return str(int(value))
