"""Writes the schema blocks that are the same for every record of a connector, for each version of the connector.

≤ 2.5  envelope version 1, no ts_us and ts_ns, source without version, 4 snapshot marks
2.6    envelope version 2, with them
2.7    the transaction in front of op
3.0    7 snapshot marks: 3.0.8 has them, MariaDB's 3.0.1 has not
3.6    source version 1: 3.1.3 and all later ones have it, 3.0.8 has not
"""

from __future__ import annotations

import re
from functools import cache

PROFILES = ("2.3", "2.6", "2.7", "3.0", "3.6")
_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})", re.ASCII)
_MARKS = dict.fromkeys(("2.3", "2.6", "2.7"), "true,last,false,incremental")
_ALL_MARKS = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
_STRING = '{{"type":"string","optional":{},"field":"{}"}}'

TRANSACTION_KEY = (
    '{"type":"struct","fields":[{"type":"string","optional":false,"field":"id"}],"optional":false,'
    '"name":"io.debezium.connector.common.TransactionMetadataKey","version":1}'
)
TRANSACTION = (
    '{"type":"struct","fields":[{"type":"string","optional":false,"field":"status"},'
    '{"type":"string","optional":false,"field":"id"},{"type":"int64","optional":true,"field":"event_count"},'
    '{"type":"array","items":{"type":"struct","fields":[{"type":"string","optional":false,"field":"data_collection"},'
    '{"type":"int64","optional":false,"field":"event_count"}],"optional":true,"name":"event.collection","version":1},'
    '"optional":true,"field":"data_collections"},{"type":"int64","optional":false,"field":"ts_ms"}],"optional":false,'
    '"name":"io.debezium.connector.common.TransactionMetadataValue","version":1}'
)
HEARTBEAT_KEY = (
    '{"type":"struct","fields":[{"type":"string","optional":false,"field":"serverName"}],"optional":false,'
    '"name":"io.debezium.connector.common.ServerNameKey","version":1}'
)
HEARTBEAT = (
    '{"type":"struct","fields":[{"type":"int64","optional":false,"field":"ts_ms"}],"optional":false,'
    '"name":"io.debezium.connector.common.Heartbeat","version":1}'
)
NOTIFICATION_KEY = (
    '{"type":"struct","fields":[{"type":"string","optional":false,"field":"id"}],"optional":false,'
    '"name":"io.debezium.connector.common.NotificationKey","version":1}'
)
NOTIFICATION = (
    '{"type":"struct","fields":[{"type":"string","optional":false,"field":"id"},'
    '{"type":"string","optional":false,"field":"type"},{"type":"string","optional":false,"field":"aggregate_type"},'
    '{"type":"map","keys":{"type":"string","optional":false},"values":{"type":"string","optional":false},'
    '"optional":true,"field":"additional_data"},{"type":"int64","optional":false,"field":"timestamp"}],'
    '"optional":false,"name":"io.debezium.connector.common.Notification","version":1}'
)
_COLUMN = (
    '{"type":"struct","fields":[{"type":"string","optional":false,"field":"name"},'
    '{"type":"int32","optional":false,"field":"jdbcType"},{"type":"int32","optional":true,"field":"nativeType"},'
    '{"type":"string","optional":false,"field":"typeName"},{"type":"string","optional":true,"field":"typeExpression"},'
    '{"type":"string","optional":true,"field":"charsetName"},{"type":"int32","optional":true,"field":"length"},'
    '{"type":"int32","optional":true,"field":"scale"},{"type":"int32","optional":false,"field":"position"},'
    '{"type":"boolean","optional":true,"field":"optional"},{"type":"boolean","optional":true,"field":"autoIncremented"},'
    '{"type":"boolean","optional":true,"field":"generated"},{"type":"string","optional":true,"field":"comment"},'
    '{"type":"string","optional":true,"field":"defaultValueExpression"},'
    '{"type":"array","items":{"type":"string","optional":false},"optional":true,"field":"enumValues"}],'
    '"optional":false,"name":"io.debezium.connector.schema.Column","version":1}'
)
_TABLE_CHANGES = (
    '{"type":"array","items":{"type":"struct","fields":[{"type":"string","optional":false,"field":"type"},'
    '{"type":"string","optional":false,"field":"id"},{"type":"struct","fields":['
    '{"type":"string","optional":true,"field":"defaultCharsetName"},'
    '{"type":"array","items":{"type":"string","optional":false},"optional":true,"field":"primaryKeyColumnNames"},'
    f'{{"type":"array","items":{_COLUMN},"optional":false,"field":"columns"}},'
    '{"type":"string","optional":true,"field":"comment"}],"optional":true,"name":"io.debezium.connector.schema.Table",'
    '"version":1,"field":"table"}],"optional":false,"name":"io.debezium.connector.schema.Change","version":1},'
    '"optional":false,"field":"tableChanges"}'
)
CHANGE_MEMBERS = ("source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges")


@cache
def source_members(profile: str) -> tuple[str, ...]:
    """Returns the members of the source block, in order."""
    fine = () if profile == "2.3" else ("ts_us", "ts_ns")
    head = ("version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", *fine)
    return (*head, "table", "server_id", "gtid", "file", "pos", "row", "thread", "query")


@cache
def envelope_members(profile: str) -> tuple[str, ...]:
    """Returns the members of a row's envelope, in order."""
    if profile == "2.3":
        return ("before", "after", "source", "op", "ts_ms", "transaction")
    if profile == "2.6":
        return ("before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction")
    return ("before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns")


def profile_of(version: object) -> str:
    """Returns the profile that a connector of this version has."""
    match = _VERSION.match(version) if isinstance(version, str) else None
    if match is None:
        return PROFILES[-1]
    major, minor = int(match[1]), int(match[2])
    if major >= 3:
        return "3.0" if (major, minor) == (3, 0) else "3.6"
    return "2.3" if (major, minor) < (2, 6) else "2.6" if minor == 6 else "2.7"


def is_at_least(version: str, least: tuple[int, int]) -> bool:
    """Whether a connector has this version or a later one; one that is not known is the latest."""
    match = _VERSION.match(version)
    return match is None or (int(match[1]), int(match[2])) >= least


@cache
def source(connector: str, profile: str) -> str:
    """Returns the schema of the source block, as a field."""
    marks = _MARKS.get(profile, _ALL_MARKS)
    snapshot = (
        '{"type":"string","optional":true,"name":"io.debezium.data.Enum","version":1,'
        f'"parameters":{{"allowed":"{marks}"}},"default":"false","field":"snapshot"}}'
    )
    fields = []
    for name in source_members(profile):
        if name == "snapshot":
            fields.append(snapshot)
        else:
            kind = {"server_id": "int64", "pos": "int64", "row": "int32", "thread": "int64"}.get(name, "string")
            kind = "int64" if name.startswith("ts_") else kind
            optional = name in ("sequence", "ts_us", "ts_ns", "table", "gtid", "thread", "query")
            fields.append(f'{{"type":"{kind}","optional":{_bool(optional)},"field":"{name}"}}')
    version = '"version":1,' if profile == "3.6" else ""
    return (
        f'{{"type":"struct","fields":[{",".join(fields)}],"optional":false,'
        f'"name":"io.debezium.connector.{connector}.Source",{version}"field":"source"}}'
    )


def _bool(value: bool) -> str:
    return "true" if value else "false"


@cache
def change_key(connector: str) -> str:
    """Returns the schema of a schema change's key."""
    return (
        '{"type":"struct","fields":[{"type":"string","optional":false,"field":"databaseName"}],"optional":false,'
        f'"name":"io.debezium.connector.{connector}.SchemaChangeKey","version":1}}'
    )


@cache
def change(connector: str, profile: str) -> str:
    """Returns the schema of a schema change's value."""
    texts = ",".join(_STRING.format("true", name) for name in ("databaseName", "schemaName", "ddl"))
    return (
        f'{{"type":"struct","fields":[{source(connector, profile)},'
        f'{{"type":"int64","optional":false,"field":"ts_ms"}},{texts},{_TABLE_CHANGES}],"optional":false,'
        f'"name":"io.debezium.connector.{connector}.SchemaChangeValue","version":1}}'
    )


@cache
def envelope(name: str, row: str, connector: str, profile: str) -> str:
    """Returns the schema of a row's envelope.

    Args:
        name: prefix of the names `….Envelope` and `….Value`, such as `srv1.inv.customers`, as JSON text without quotes.
        row: the fields of the row, separated by commas.
        connector: `mysql` or `mariadb`.
        profile: the profile of the connector's version.
    """
    image = '{{"type":"struct","fields":[{}],"optional":true,"name":"{}.Value","field":"{}"}}'
    fields = {
        "before": image.format(row, name, "before"),
        "after": image.format(row, name, "after"),
        "source": source(connector, profile),
        "transaction": (
            '{"type":"struct","fields":[{"type":"string","optional":false,"field":"id"},'
            '{"type":"int64","optional":false,"field":"total_order"},'
            '{"type":"int64","optional":false,"field":"data_collection_order"}],"optional":true,'
            '"name":"event.block","version":1,"field":"transaction"}'
        ),
        "op": _STRING.format("false", "op"),
        **{n: f'{{"type":"int64","optional":true,"field":"{n}"}}' for n in ("ts_ms", "ts_us", "ts_ns")},
    }
    shown = ",".join(fields[member] for member in envelope_members(profile))
    version = 1 if profile == "2.3" else 2
    return f'{{"type":"struct","fields":[{shown}],"optional":false,"name":"{name}.Envelope","version":{version}}}'
