"""Reads the columns from a schema block, once for each text, independently of any payload.

    {"type":"struct","optional":false,"name":"default.shop.t.Envelope","version":1,"fields":[
      {"type":"struct","optional":true,"name":"default.shop.t.Value","field":"before","fields":[F,…]},
      {"type":"struct","optional":true,"name":"default.shop.t.Value","field":"after","fields":[F,…]},
      source, op, ts_ms, transaction]}
    F   {"tidb_type":"bigint","type":"int64","optional":false,"name":…,"version":1,"parameters":{…},"field":"id","default":…}

Rule 1. A field may have no payload (virtual generated columns), and may be there twice: the first one counts.
Rule 2. Whether a field has a `default` matters, not what it is: a NULL may have been sent as that default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model.types import ColumnType
from changefeed.protocols.ticdc_debezium import types
from changefeed.protocols.ticdc_debezium.parts import by_text
from changefeed.protocols.ticdc_debezium.values import Read, Write, reader, writer
from changefeed.wire import strict_json
from changefeed.wire.json_form import at, mapping, refuse_others, show, string

_MEMBERS = frozenset({"tidb_type", "type", "optional", "name", "version", "parameters", "field", "default"})


@dataclass(frozen=True, slots=True)
class Field:
    """The description of a column in a schema block."""

    name: str
    type: ColumnType
    nullable: bool
    has_default: bool
    read: Read
    write: Write


Fields = Mapping[str, Field]


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The fields of both images, by name in the order of the block."""

    before: Fields
    after: Fields


@by_text
def row_schema(text: str) -> RowSchema:
    """Compiles the schema of a row's value.

    Raises:
        ProtocolError: the schema is not that of a row, or has a column of an unknown type.
    """
    images: dict[str, Fields] = {}
    for place, member in enumerate(_fields(_read(text, "value"), "schema")):
        where = f"schema.fields[{place}]"
        name = mapping(member, "field", where).get("field")
        if name in ("before", "after"):
            images[name] = columns(member, where)
    if images.keys() != {"before", "after"}:
        raise SchemaError("schema lacks the fields before and after - at `schema.fields`")
    return RowSchema(images["before"], images["after"])


@by_text
def key_schema(text: str) -> Fields:
    """Compiles the schema of a row's key: the columns of the handle key.

    Raises:
        ProtocolError: as `row_schema`.
    """
    return columns(_read(text, "key"), "schema")


@by_text
def key_table(text: str) -> tuple[str | None, str | None]:
    """Returns database and table from the name of a key's schema, such as `default.shop.orders.Key`.

    Names with `_` are ambiguous, because `_` may replace another character: for these it returns None.
    """
    try:
        name = _read(text, "key").get("name")
    except ProtocolError:
        return None, None
    parts = name.removesuffix(".Key").split(".", 2) if type(name) is str and name.endswith(".Key") else []
    if len(parts) < 3 or not all(parts) or "_" in parts[1] + parts[2] or parts[:2] == ["io", "debezium"]:
        return None, None
    return parts[1], parts[2]


def _read(text: str, what: str) -> dict[str, Any]:
    return mapping(strict_json.read(text.encode(), f"schema of the {what}"), "schema", "schema")


def _fields(struct: Mapping[str, Any], where: str) -> list[Any]:
    fields = struct.get("fields")
    if struct.get("type") != "struct" or type(fields) is not list:
        raise SchemaError(f"{show(struct.get('type'))} is not a struct with fields - at `{where}`")
    return fields


def columns(struct: Mapping[str, Any], where: str) -> Fields:
    """Reads the fields of a struct that describes an image."""
    columns: dict[str, Field] = {}
    for place, member in enumerate(_fields(struct, where)):
        inside = f"{where}.fields[{place}]"
        field = _field(mapping(member, "field", inside), inside)
        if columns.setdefault(field.name, field).type != field.type:
            raise SchemaError(f"column {field.name} is described twice, differently{at(inside)}")
    return columns


def _field(member: dict[str, Any], where: str) -> Field:
    refuse_others(member, _MEMBERS, "field", where)
    name, optional = string(member, "field", where + "."), member.get("optional")
    if type(optional) is not bool:
        raise SchemaError(f"{show(optional)} is not a boolean - at `{where}.optional`")
    try:
        kind = types.declared(member)
    except ProtocolError as error:
        raise ProtocolError(f"{error}{at(where)}", reason=error.reason) from error
    return Field(name, kind, optional, "default" in member, reader(kind), writer(kind))
