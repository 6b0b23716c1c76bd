"""Derives the text of an Avro schema from the text of a Connect schema, as Confluent's AvroConverter does.

    {"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"optional":false,"name":"p.d.t.Key"}
    {"type":"record","name":"Key","namespace":"p.d.t","fields":[{"name":"id","type":"int"}],"connect.name":"p.d.t.Key"}

Rule 1. The members of a type have this order: type, (name, namespace, fields | items | values), scale, precision, then
        connect.doc, connect.version, connect.parameters, connect.default, connect.name, connect.type, logicalType.
Rule 2. A struct that occurred before is written as its name; a namespace equal to the enclosing one is omitted.
Rule 3. An optional type is ["null",T] with the default null, or [T,"null"] if it has a default of its own.
Rule 4. The default of a float has the digits of a float in the type, and those of a double in the field.
"""

from __future__ import annotations

from typing import Any

from changefeed.connect import java_json
from changefeed.wire import base64_text
from changefeed.wire.floats import float32
from changefeed.wire.strict_json import Number

_C = "org.apache.kafka.connect.data."
_BASES = {"int8": "int", "int16": "int", "int32": "int", "int64": "long"}
_LOGICAL = {
    _C + "Decimal": "decimal",
    _C + "Date": "date",
    _C + "Time": "time-millis",
    _C + "Timestamp": "timestamp-millis",
}
_UNNAMED = ("ConnectDefault", "io.confluent.connect.avro")
_PRECISION = "64"
Tree = dict[str, Any]


def text(connect: str) -> str:
    """Returns the Avro schema of a Connect schema; both are JSON texts."""
    return java_json.write(_Deriver().type(java_json.read(connect.encode(), "schema"), ""))


class _Deriver:
    def __init__(self) -> None:
        self._seen: set[str] = set()

    def type(self, schema: Tree, namespace: str) -> Any:
        """Returns the type, in a union if it is optional."""
        made = self._plain(schema, namespace)
        if not schema.get("optional"):
            return made
        return [made, "null"] if "default" in schema else ["null", made]

    def _plain(self, schema: Tree, namespace: str) -> Any:
        kind = schema["type"]
        if kind == "struct":
            return self._record(schema, namespace)
        made: Tree = {"type": _BASES.get(kind, kind)}
        if kind == "array":
            made["items"] = self.type(schema["items"], namespace)
        elif kind == "map":
            made["values"] = self.type(schema["values"], namespace)
        made |= _more(schema)
        return made["type"] if len(made) == 1 else made

    def _record(self, schema: Tree, namespace: str) -> Any:
        inside, _, name = schema.get("name", "").rpartition(".")
        if not name:
            name, inside = _UNNAMED
        full = f"{inside}.{name}" if inside else name
        if full in self._seen:
            return name if inside == namespace else full
        self._seen.add(full)
        made: Tree = {"type": "record", "name": name}
        if inside and inside != namespace:
            made["namespace"] = inside
        made["fields"] = [self._field(field, inside) for field in schema["fields"]]
        return made | _more(schema)

    def _field(self, schema: Tree, namespace: str) -> Tree:
        made: Tree = {"name": schema["field"], "type": self.type(schema, namespace)}
        if "default" in schema:
            made["default"] = _wide(schema) if schema["type"] == "float" else _default(schema)
        elif schema.get("optional"):
            made["default"] = None
        return made


def _more(schema: Tree) -> Tree:
    """Returns the members of a type after those of its structure."""
    name, parameters = schema.get("name"), schema.get("parameters", {})
    made: Tree = {}
    if name == _C + "Decimal":
        made["scale"] = Number(parameters.get("scale", "0"))
        made["precision"] = Number(parameters.get("connect.decimal.precision", _PRECISION))
    for member, value in (
        ("connect.doc", schema.get("doc")),
        ("connect.version", schema.get("version")),
        ("connect.parameters", parameters or None),
        ("connect.default", _default(schema) if "default" in schema else None),
        ("connect.name", name),
        ("connect.type", schema["type"] if schema["type"] in ("int8", "int16") else None),
        ("logicalType", _LOGICAL.get(name or "")),
    ):
        if value is not None:
            made[member] = value
    return made


def _default(schema: Tree) -> Any:
    value = schema["default"]
    if schema["type"] == "bytes" and type(value) is str:
        return base64_text.read(value).decode("latin-1")
    return value


def _wide(schema: Tree) -> Any:
    value = schema["default"]
    single = float32(value) if type(value) is Number else None
    return value if single is None else java_json.number(single, 64)
