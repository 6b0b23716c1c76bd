"""Writes schema blocks as the producers do: for keys and values of rows, for schema changes and for watermarks.

    row          <cluster>.<schema>.<table>.Key        .Envelope: before, after (.Value), SRC, OP, TS, TX
    watermark    <cluster>.watermark.Key               .Envelope: SRC, OP, TS, TX
    DDL          io.debezium.connector.mysql.SchemaChangeKey, …SchemaChangeValue: SRC and the members of a change

newarch with enable-tidb-extension appends commit_ts and cluster_id to SRC, with debezium-include-start-ts start_ts (of rows).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from changefeed.model.table import Column, TableShape
from changefeed.protocols.ticdc_debezium import types
from changefeed.protocols.ticdc_debezium.defaults import schema_default
from changefeed.protocols.ticdc_debezium.options import Options
from changefeed.protocols.ticdc_debezium.parts import Document
from changefeed.wire.go_json import W_RAW

_quoted = W_RAW.string


@dataclass(frozen=True, slots=True)
class Blocks:
    """The texts of the two schema blocks of a record."""

    key: str
    value: str


def _member(kind: str, optional: bool, field: str) -> str:
    return f'{{"type":"{kind}","optional":{"true" if optional else "false"},"field":"{field}"}}'


def _backward(field: str, optional: bool, kind: str) -> str:
    """Returns a member of a schema change's block, in which attributes have another order."""
    return f'{{"field":"{field}","optional":{"true" if optional else "false"},"type":"{kind}"}}'


def _members(text: str) -> list[str]:
    """Parses members such as `int64? thread`: an optional int64 named thread."""
    pairs = [part.split() for part in text.split(",")]
    return [_member(kind.removesuffix("?"), kind.endswith("?"), name) for kind, name in pairs]


def _backwards(text: str) -> str:
    pairs = [part.split() for part in text.split(",")]
    return ",".join(_backward(name, kind.endswith("?"), kind.removesuffix("?")) for kind, name in pairs)


_SNAPSHOT = (
    '{"type":"string","optional":true,"name":"io.debezium.data.Enum","version":1,'
    '"parameters":{"allowed":"true,last,false,incremental"},"default":"false","field":"snapshot"}'
)
_SOURCE = [
    *_members("string version, string connector, string name, int64 ts_ms"),
    _SNAPSHOT,
    *_members("string db, string? sequence, string? table, int64 server_id, string? gtid, string file, int64 pos"),
    *_members("int32 row, int64? thread, string? query"),
]
_EXTENDED = _members("int64 commit_ts, string cluster_id")
_OP, _TS = _members("string op, int64? ts_ms")
_TX = (
    '{"type":"struct","fields":['
    + ",".join(_members("string id, int64 total_order, int64 data_collection_order"))
    + '],"optional":true,"name":"event.block","version":1,"field":"transaction"}'
)
_STRINGS = '"items":{"type":"string","optional":false}'
_COLUMN = (
    _backwards("string name, int32 jdbcType, int32? nativeType, string typeName, string? typeExpression")
    + ","
    + _backwards("string? charsetName, int32? length, int32? scale, int32 position, boolean? optional")
    + ","
    + _backwards("boolean? autoIncremented, boolean? generated, string? comment, string? defaultValueExpression")
    + f',{{"field":"enumValues","optional":true,"type":"array",{_STRINGS}}}'
)
_TABLE = (
    _backwards("string? defaultCharsetName")
    + f',{{"field":"primaryKeyColumnNames","optional":true,"type":"array",{_STRINGS}}},'
    + '{"field":"columns","optional":false,"type":"array","items":{"name":"io.debezium.connector.schema.Column",'
    + f'"optional":false,"type":"struct","version":1,"fields":[{_COLUMN}]}}}},'
    + _backwards("string? comment")
)
_CHANGES = (
    '{"field":"tableChanges","optional":false,"type":"array","items":{"name":"io.debezium.connector.schema.Change",'
    + f'"optional":false,"type":"struct","version":1,"fields":[{_backwards("string type, string id")},'
    + '{"field":"table","optional":true,"type":"struct","name":"io.debezium.connector.schema.Table","version":1,'
    + f'"fields":[{_TABLE}]}}]}}}}'
)


def _source(options: Options, *, row: bool = False) -> str:
    members = list(_SOURCE)
    if options.enable_tidb_extension and not options.classic:
        members += _EXTENDED
    if row and options.debezium_include_start_ts:
        members += _members("int64 start_ts")
    return (
        f'{{"type":"struct","fields":[{",".join(members)}],"optional":false,'
        '"name":"io.debezium.connector.mysql.Source","field":"source"}'
    )


@lru_cache(maxsize=64)
def ddl(options: Options) -> Blocks:
    """Returns the blocks of a schema change."""
    name = "io.debezium.connector.mysql.SchemaChange"
    key = (
        f'{{"type":"struct","name":"{name}Key","optional":false,"version":1,'
        f'"fields":[{_backward("databaseName", False, "string")}]}}'
    )
    rest = _backwards("int64 ts_ms, string? databaseName, string? schemaName, string? ddl")
    value = (
        f'{{"optional":false,"type":"struct","version":1,"name":"{name}Value",'
        f'"fields":[{_source(options)},{rest},{_CHANGES}]}}'
    )
    return Blocks(key, value)


@lru_cache(maxsize=64)
def watermark(cluster_id: str, options: Options) -> Blocks:
    """Returns the blocks of a watermark."""
    name = f"{sanitised(cluster_id)}.watermark"
    return Blocks(_key(name, ()), _envelope(name, (_source(options), _OP, _TS, _TX)))


def row(shape: TableShape, keys: Iterable[str], cluster_id: str, options: Options) -> Blocks:
    """Returns the blocks of a row whose key has the columns `keys`.

    Raises:
        UnsupportedError: the protocol does not have the type of a column.
    """
    name = struct_name(cluster_id, shape.database, shape.table)
    fields = {c.name: _field(c, options) for c in shape.columns}
    images = [_image(name, which, fields.values()) for which in ("before", "after")]
    value = _envelope(name, (*images, _source(options, row=True), _OP, _TS, _TX))
    return Blocks(_key(name, [fields[key] for key in keys]), value)


def _key(name: str, fields: Iterable[str]) -> str:
    return f'{{"type":"struct","name":"{name}.Key","optional":false,"fields":[{",".join(fields)}]}}'


def _envelope(name: str, fields: Iterable[str]) -> str:
    return f'{{"type":"struct","optional":false,"name":"{name}.Envelope","version":1,"fields":[{",".join(fields)}]}}'


def _image(name: str, which: str, fields: Iterable[str]) -> str:
    return f'{{"type":"struct","optional":true,"name":"{name}.Value","field":"{which}","fields":[{",".join(fields)}]}}'


def _field(column: Column, options: Options) -> str:
    kind, name, parameters = types.described(column.type)
    optional = types.optional(column)
    members = [f'"tidb_type":{_quoted(types.tidb_type(column.type))}'] if options.enable_tidb_extension else []
    members += [f'"type":"{kind}"', f'"optional":{"true" if optional else "false"}']
    if name is not None:
        members.append(f'"name":"{name}"')
        if column.type.name != "vector":
            members.append('"version":1')
    if parameters:
        pairs = ",".join(f"{_quoted(n)}:{_quoted(text)}" for n, text in parameters.items())
        members.append(f'"parameters":{{{pairs}}}')
    members.append(f'"field":{_quoted(column.name)}')
    default = schema_default(column, options)
    if default is not None:
        members.append(f'"default":{default}')
    return "{" + ",".join(members) + "}"


def struct_name(cluster_id: str, database: str, table: str) -> str:
    """Returns `<cluster>.<schema>.<table>` with sanitised parts; the table keeps dots and leading digits."""
    return f"{sanitised(cluster_id)}.{sanitised(database)}.{re.sub(r'[^A-Za-z0-9_.]', '_', table)}"


def sanitised(name: str) -> str:
    """Converts a name to `[A-Za-z_][A-Za-z0-9_]*`: other characters become `_`, and a first digit gets a `_` before it."""
    return ("_" if re.match(r"[0-9]", name) else "") + re.sub(r"[^A-Za-z0-9_]", "_", name)


def unusual(key: Document | None, value: Document, usual: Blocks) -> dict[str, Any]:
    """Returns the parts of a mark's key and blocks that do not follow from payload and options, for its origin."""
    if key is None:
        return {"key": None} | ({} if value.schema in (None, usual.value) else {"schemas": [None, value.schema]})
    sent = [key.schema, value.schema]
    return {} if sent in ([None, None], [usual.key, usual.value]) else {"schemas": sent}


def beside(payload: str, schema: str | None) -> bytes:
    """Joins a payload and its schema, if there is one, to a document."""
    front, tail = around(schema)
    return f"{front}{payload}{tail}".encode("utf-8", "surrogateescape")


def around(schema: str | None) -> tuple[str, str]:
    """Returns the text before a document's payload, and the text after it."""
    return '{"payload":', "}" if schema is None else f',"schema":{schema}}}'


def documents(
    key: str, payload: str, origin: Mapping[str, Any], usual: Blocks, options: Options
) -> tuple[bytes | None, bytes]:
    """Returns key and value of a mark; `origin`: the result of `unusual`, or the origin of a foreign mark."""
    schemas = origin.get("schemas", [usual.key, usual.value])
    if options.debezium_disable_schema:
        schemas = [None, None]
    return None if origin.get("key", "") is None else beside(key, schemas[0]), beside(payload, schemas[1])
