"""Reads and writes schema changes: records of the schema-change topic, and rows with op `t`.

    {"source":{…},"ts_ms":…,"databaseName":"shop","schemaName":null,"ddl":"ALTER TABLE …","tableChanges":[{…}]}
    {"before":null,"after":null,"source":{…},"transaction":…,"op":"t",…}            TRUNCATE, as an event of its table

Rule 1. `tableChanges` about a single table become the event's columns; they are always kept in the origin, unchanged.
Rule 2. The only statement of a truncate is the source's query; `wire` in its origin is that of the table's rows.
Rule 3. Without schema, if the members have another order than that of the version, the order is the origin's `layout`.
"""

from __future__ import annotations

from typing import Any

from changefeed.connect import java_json
from changefeed.connect.parts import ConnectPart
from changefeed.errors import SchemaError
from changefeed.model.event import SchemaChange
from changefeed.model.position import Place
from changefeed.mysql.ddl.kind import kind
from changefeed.protocols.debezium_mysql import blocks, envelope, table_changes
from changefeed.protocols.debezium_mysql.marks import RecordTrees, joined, key_origin, sides
from changefeed.protocols.debezium_mysql.values.reading import show
from changefeed.protocols.debezium_mysql.values.times import as_number
from changefeed.wire.strict_json import Number

_DEEPEST = 8


def read(key: ConnectPart | None, value: ConnectPart, place: Place, more: dict[str, Any]) -> SchemaChange:
    """Reads a record of the schema-change topic; `more`: the members that its headers add to the origin.

    Raises:
        SchemaError: a member is invalid.
    """
    tree = value.payload
    if value.schema is not None and "source" not in value.schema.by_name:
        raise SchemaError("schema is not that of a schema change")
    source = envelope.read_source(tree["source"])
    ddl, name = envelope.text(tree, "ddl", "value"), envelope.text(tree, "databaseName", "value")
    profile, connector = _standard(source.origin)
    origin = {
        **source.origin,
        "envelope": {"ts_ms": envelope.integer(tree, "ts_ms", "value")},
        "tableChanges": _table_changes(tree.get("tableChanges", [])),
        **sides(key, value, blocks.change_key(connector), blocks.change(connector, profile)),
        **key_origin(key, {"databaseName": name}),
        **_layout(value, profile),
        **_names(tree, name, source.database),
        **more,
    }
    others = {f"value.{n}": java_json.write(v) for n, v in tree.items() if n not in blocks.CHANGE_MEMBERS}
    if source.sent or others:
        origin["sent"] = source.sent | others
    return SchemaChange(
        kind(ddl or "", source.database or None),
        source.database or None,
        source.table,
        ddl,
        place,
        table_changes.columns(origin["tableChanges"], source.database, source.table),
        instant=source.time,
        origin=origin,
        sequence=source.sequence,
    )


def _table_changes(tree: Any) -> list[Any]:
    if not isinstance(tree, list) or not all(isinstance(change, dict) for change in tree):
        raise SchemaError(f"{show(tree)} is not a list of table changes - at `tableChanges`")
    return [plain(change) for change in tree]


def _names(tree: dict[str, Any], name: str | None, database: str) -> dict[str, Any]:
    """Returns the names that do not follow from the source block, for the origin."""
    names = {"databaseName": name} if name != database else {}
    schema = envelope.text(tree, "schemaName", "value")
    return names if schema is None else names | {"schemaName": schema}


def _standard(origin: dict[str, Any]) -> tuple[str, str]:
    connector = origin.get("connector")
    return blocks.profile_of(origin.get("version")), str(connector or "mysql")


def _layout(value: ConnectPart, profile: str) -> dict[str, Any]:
    members, source = tuple(value.payload), tuple(value.payload["source"])
    if value.schema is not None:
        members = value.schema.names
        source = value.schema.by_name["source"].names
    if members == blocks.CHANGE_MEMBERS and source == blocks.source_members(profile):
        return {}
    return {"layout": {"value": list(members), "source": list(source)}}


def plain(tree: Any, depth: int = 0) -> Any:
    """Converts the numbers of a tree to integers.

    Raises:
        SchemaError: a number is not an integer of 64 bits, or the tree is nested too deeply.
    """
    if depth > _DEEPEST:
        raise SchemaError(f"tableChanges are nested more than {_DEEPEST} deep")
    if type(tree) is Number:
        if not as_number(tree):
            raise SchemaError(f"{show(tree)} is not an integer - at `tableChanges`")
        return int(tree)
    if isinstance(tree, dict):
        return {name: plain(value, depth + 1) for name, value in tree.items()}
    return [plain(item, depth + 1) for item in tree] if isinstance(tree, list) else tree


def write(event: SchemaChange) -> RecordTrees:
    """Returns key and value of a schema change whose origin is complete."""
    origin = event.origin
    profile, connector = _standard(origin)
    layout = origin.get("layout", {})
    database = event.database or ""
    names = layout.get("source", blocks.source_members(profile))
    known: dict[str, Any] = {
        "source": envelope.write_source(names, database, event.table, event.instant, origin),
        "ts_ms": origin.get("envelope", {}).get("ts_ms"),
        "databaseName": origin.get("databaseName", database),
        "schemaName": origin.get("schemaName"),
        "ddl": event.ddl,
        "tableChanges": origin.get("tableChanges", []),
    }
    sent = origin.get("sent", {})
    value = {
        name: known[name] if name in known else java_json.read(sent.get(f"value.{name}", "null").encode(), "origin")
        for name in layout.get("value", blocks.CHANGE_MEMBERS)
    }
    key = {"databaseName": known["databaseName"]}
    return joined(origin, key, value, blocks.change_key(connector), blocks.change(connector, profile))


def truncate(source: envelope.SourceBlock, place: Place, origin: dict[str, Any]) -> SchemaChange:
    """Reads a row with op `t`; `origin` is complete. The event has no columns: its schema lacks details of a definition."""
    return SchemaChange(
        "truncate_table",
        source.database or None,
        source.table,
        source.origin.get("query"),
        place,
        instant=source.time,
        origin=origin,
        sequence=source.sequence,
    )
