"""Builds the schemas and the wire text of foreign shapes, as the connector would write them for their column types.

    column type                  schema
    tinyint, smallint            int16; unsigned smallint int32
    mediumint, int, year         int32; unsigned int int64; year named time.Year
    bigint                       int64; unsigned by bigint.unsigned.handling.mode
    decimal                      by decimal.handling.mode; of unknown precision a string
    float, double, boolean       the same, float(m,d) a double; bit(1) boolean, bit(n) bytes named data.Bits
    char … longtext, json        string; json named data.Json on MySQL
    binary … longblob            by binary.handling.mode
    enum, set                    string named data.Enum, data.EnumSet; without members there is no such schema
    date, time, datetime         by time.precision.mode
    timestamp                    string named time.ZonedTimestamp
    geometry kinds, vector       struct named geometry.Geometry or geometry.Point, array of float

Rule 1. A column is optional unless it is known not to be; columns of the key are not.
Rule 2. Defaults are written where shapes have them: those of a database's own log.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from changefeed.connect.java_json import string
from changefeed.connect.schema import Node, read
from changefeed.errors import UnsupportedError
from changefeed.model.table import Column, TableShape
from changefeed.model.types import BINARIES, GEOMETRIES, ColumnType
from changefeed.protocols.debezium_mysql import blocks, names
from changefeed.protocols.debezium_mysql.defaults import schema_default
from changefeed.protocols.debezium_mysql.options import Options, keys_of
from changefeed.protocols.debezium_mysql.shapes import MARK
from changefeed.protocols.debezium_mysql.values import numbers

_D, _C = "io.debezium.", "org.apache.kafka.connect.data."
_INTEGERS = {
    "tinyint": ("int16", "int16"),
    "smallint": ("int16", "int32"),
    "mediumint": ("int32", "int32"),
    "int": ("int32", "int64"),
    "bigint": ("int64", "int64"),
}
_TIME_MODES: dict[str, dict[str, tuple[str, str]]] = {
    "adaptive_time_microseconds": {
        "date": ("int32", _D + "time.Date"),
        "time": ("int64", _D + "time.MicroTime"),
        "datetime": ("int64", _D + "time.Timestamp"),
        "datetime_fine": ("int64", _D + "time.MicroTimestamp"),
    },
    "connect": {
        "date": ("int32", _C + "Date"),
        "time": ("int32", _C + "Time"),
        "datetime": ("int64", _C + "Timestamp"),
        "datetime_fine": ("int64", _C + "Timestamp"),
    },
    "microseconds": {
        "date": ("int32", _D + "time.Date"),
        "time": ("int64", _D + "time.MicroTime"),
        "datetime": ("int64", _D + "time.MicroTimestamp"),
        "datetime_fine": ("int64", _D + "time.MicroTimestamp"),
    },
    "nanoseconds": {
        "date": ("int32", _D + "time.Date"),
        "time": ("int64", _D + "time.NanoTime"),
        "datetime": ("int64", _D + "time.NanoTimestamp"),
        "datetime_fine": ("int64", _D + "time.NanoTimestamp"),
    },
    "isostring": {
        "date": ("string", _D + "time.IsoDate"),
        "time": ("string", _D + "time.IsoTime"),
        "datetime": ("string", _D + "time.IsoTimestamp"),
        "datetime_fine": ("string", _D + "time.IsoTimestamp"),
    },
}
_GEOMETRY_FIELDS = '{{"type":"bytes","optional":{},"field":"wkb"}},{{"type":"int32","optional":true,"field":"srid"}}'


@lru_cache(1024)
def wire(shape: TableShape, name: str, options: Options) -> str:
    """Returns the wire text of a foreign shape; `name` is the prefix of its schemas' names.

    Raises:
        UnsupportedError: a column's type has no schema.
    """
    full, fields = _full(name, options), _fields(shape, options)
    key = f'{{"schema":{key_schema(shape, name, options)}}}' if keys(shape, options) else "null"
    value = blocks.envelope(full, ",".join(fields.values()), options.connector, options.debezium_version)
    return f'{MARK}"key":{key},"value":{{"schema":{value}}}}}'


def keys(shape: TableShape, options: Options) -> tuple[str, ...]:
    """Returns the columns of a shape's key, in the key's order.

    Raises:
        UnsupportedError: the options name a column that the table lacks.
    """
    for pattern, columns in keys_of(options.message_key_columns):
        if pattern.fullmatch(f"{shape.database}.{shape.table}"):
            missing = [name for name in columns if name not in shape.by_name]
            if missing:
                raise UnsupportedError(f"debezium-mysql: {shape.table} has no column {missing[0]} for its key")
            return columns
    return shape.keys


def key_schema(shape: TableShape, name: str, options: Options) -> str:
    """Returns the schema of a shape's key."""
    fields = _fields(shape, options)
    listed = ",".join(fields[key] for key in keys(shape, options))
    return f'{{"type":"struct","fields":[{listed}],"optional":false,"name":"{_full(name, options)}.Key"}}'


@lru_cache(1024)
def node(t: ColumnType, options: Options) -> Node:
    """Returns the schema of a field for a column of this type.

    Raises:
        UnsupportedError: the connector has no schema for the type.
    """
    return read(_field(Column("v", t), options).encode())


def _full(name: str, options: Options) -> str:
    return string(names.adjusted(name, options.schema_name_adjustment_mode))[1:-1]


def _fields(shape: TableShape, options: Options) -> dict[str, str]:
    details = details_of(shape)
    fields = {c.name: _field(c, options, *(of.get(c.name) for of in details)) for c in shape.columns}
    if len({_name(c, options) for c in shape.columns}) != len(fields):
        raise UnsupportedError(f"debezium-mysql: two columns of {shape.table} have the same name after adjustment")
    return fields


def _name(column: Column, options: Options) -> str:
    return names.adjusted(column.name, options.field_name_adjustment_mode)


def details_of(shape: TableShape) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Returns comments, types and masks of columns that the wire text of the source `mysql` has."""
    if not shape.wire.startswith(('{"comments":', '{"types":', '{"masks":')):
        return {}, {}, {}
    details = msgspec.json.decode(shape.wire, type=dict[str, dict[str, str]])
    return details.get("comments", {}), details.get("types", {}), details.get("masks", {})


def _field(
    column: Column, options: Options, comment: str | None = None, kind: str | None = None, mask: str | None = None
) -> str:
    base, name, parameters, more = _schema(column.type, options)
    name = {"uuid": _D + "data.Uuid", "json": _D + "data.Json"}.get(kind or "", name)
    optional = column.nullable is not False and column.key is not True
    text = f'{{"type":"{base}"{more},"optional":{"true" if optional else "false"}'
    if name:
        text += f',"name":"{name}","version":1'
    if column.type.name in GEOMETRIES:
        comment = "Geometry (POINT)" if column.type.name == "point" else "Geometry"
    elif not options.with_comments:
        comment = None
    text += "" if comment is None else f',"doc":{string(comment)}'
    if mask is not None:  # name and value of a parameter
        parameters = {**(parameters or {}), **dict([mask.split(" ")])}
    if parameters:
        text += ',"parameters":{' + ",".join(f"{string(n)}:{string(v)}" for n, v in parameters.items()) + "}"
    if column.default is not None:
        numeric, binary = options.decimal_format == "NUMERIC", options.binary_mode
        node, is_mariadb = read(f"{text}}}".encode()), options.connector == "mariadb"
        default = schema_default(column, node, numeric=numeric, binary=binary, is_mariadb=is_mariadb)
        text += "" if default is None else f',"default":{default}'
    return f'{text},"field":{string(_name(column, options))}}}'


# Base type, semantic name, parameters, members behind the type.
_Schema = tuple[str, str, dict[str, str], str]


def _schema(t: ColumnType, options: Options) -> _Schema:
    name = t.name
    if name in _INTEGERS:
        if name == "bigint" and t.unsigned and options.bigint_unsigned_handling_mode == "precise":
            return "bytes", _C + "Decimal", _precision(20, 0), ""
        return _INTEGERS[name][t.unsigned], "", {}, ""
    if name == "decimal":
        return _decimal(t, options)
    if name in ("date", "time", "datetime"):
        fine = "_fine" if name == "datetime" and (t.length or 0) > 3 else ""
        return *_TIME_MODES[options.time_mode][name + fine], {}, ""
    if name in BINARIES:
        return "bytes" if options.binary_mode == "bytes" else "string", "", {}, ""
    if name in ("enum", "set"):
        if t.members is None:
            raise UnsupportedError(f"debezium-mysql cannot carry a column of type {t}: its members are not known")
        allowed = numbers.write_members(t.members)
        return "string", _D + ("data.Enum" if name == "enum" else "data.EnumSet"), {"allowed": allowed}, ""
    if name == "bit" and t.length != 1:
        return "bytes", _D + "data.Bits", {"length": str(t.length or 64)}, ""
    if name == "float" and t.scale is not None:  # FLOAT(m,d): its single, widened
        return "double", "", {}, ""
    if name == "point":
        axes = ",".join(f'{{"type":"double","optional":false,"field":"{axis}"}}' for axis in "xy")
        return "struct", _D + "data.geometry.Point", {}, f',"fields":[{axes},{_GEOMETRY_FIELDS.format("true")}]'
    if name in GEOMETRIES:
        return "struct", _D + "data.geometry.Geometry", {}, f',"fields":[{_GEOMETRY_FIELDS.format("false")}]'
    if name == "json" and options.connector == "mysql":
        return "string", _D + "data.Json", {}, ""
    return _OTHERS.get(name, ("string", "", {}, ""))


_OTHERS: dict[str, _Schema] = {
    "bit": ("boolean", "", {}, ""),
    "boolean": ("boolean", "", {}, ""),
    "float": ("float", "", {}, ""),
    "double": ("double", "", {}, ""),
    "year": ("int32", _D + "time.Year", {}, ""),
    "timestamp": ("string", _D + "time.ZonedTimestamp", {}, ""),
    "vector": ("array", _D + "data.FloatVector", {}, ',"items":{"type":"float","optional":false}'),
}


def _decimal(t: ColumnType, options: Options) -> _Schema:
    if t.length is None or options.decimal_handling_mode == "string":
        return "string", "", {}, ""
    if options.decimal_handling_mode == "double":
        return "double", "", {}, ""
    return "bytes", _C + "Decimal", _precision(t.length, t.scale or 0), ""


def _precision(digits: int, scale: int) -> dict[str, str]:
    return {"scale": str(scale), "connect.decimal.precision": str(digits)}
