"""The sink's type map: which Spark type, and so which Arrow type, a MySQL column has downstream.

    MySQL                              Spark                  why
    tinyint smallint int bigint        the same               mediumint: int
      … unsigned                       one size up            Spark has no unsigned; bigint unsigned: decimal(20,0)
    year                               int
    bit(n)                             bigint                 decimal(20,0) when n is 64 or unknown
    float, double                      float, double
    decimal(p,s), p <= 38              decimal(p,s)
    decimal(p,s), p > 38               string                 Spark stops at 38 digits
    decimal                            string                 precision unknown: any number of digits may come yet
    date                               date
    datetime                           timestamp_ntz          a wall clock, no zone
    timestamp                          timestamp              a moment
    time                               string                 runs to ±838:59:59, which no Spark type does
    char, varchar, text kinds, json    string
    binary, varbinary, blob kinds      binary
    enum(…), set(…)                    string                 members joined by ','
    enum, set                          int, decimal(20,0)     members unknown: the index, the bits
    geometry kinds                     struct<srid, wkb>
    vector                             array<float>
    boolean                            boolean
    null                               string                 type unknown until a value or a schema change declares it

`widen` is for tables without DDL, whose types are learned from rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import pyarrow as pa

from changefeed.model.types import BINARIES, GEOMETRIES, INTEGERS, TEXTS, ColumnType

_SIGNED = {"tinyint": "tinyint", "smallint": "smallint", "mediumint": "int", "int": "int", "bigint": "bigint"}
_UNSIGNED = {
    "tinyint": "smallint",
    "smallint": "int",
    "mediumint": "int",
    "int": "bigint",
    "bigint": "decimal(20,0)",
}
_SINK = {
    "year": "int",
    "float": "float",
    "double": "double",
    "date": "date",
    "datetime": "timestamp_ntz",
    "timestamp": "timestamp",
    "vector": "array<float>",
    "boolean": "boolean",
}
_ARROW = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(20,0)": pa.decimal128(20, 0),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "array<float>": pa.list_(pa.float32()),
    # PySpark 4.1 looks into the metadata of every field named wkb for its own geometry type, and fails if it has none.
    "struct<srid:bigint,wkb:binary>": pa.struct(
        [pa.field("srid", pa.int64()), pa.field("wkb", pa.binary(), metadata={"geometry": "false"})]
    ),
}
SPARK_DIGITS = 38


@dataclass(frozen=True, slots=True)
class SinkType:
    """The type of a column in the sink's table.

    Attributes:
        sql: Spark SQL text, as `decimal(12,2)`.
        arrow: the Arrow type that `mapInArrow` returns for it.
        lossy: a sentence about what the type does not keep; None if it keeps everything.
    """

    sql: str
    arrow: pa.DataType
    lossy: str | None = None


@cache
def sink_type(t: ColumnType) -> SinkType:
    """The type that a column of `t` has downstream."""
    if t.name == "decimal" and t.length is not None and t.length <= SPARK_DIGITS:
        return SinkType(f"decimal({t.length},{t.scale or 0})", pa.decimal128(t.length, t.scale or 0))
    sql = _sql(t)
    return SinkType(sql, _ARROW[sql], _lossy(t))


def _sql(t: ColumnType) -> str:
    if t.name in INTEGERS:
        return _UNSIGNED[t.name] if t.unsigned else _SIGNED[t.name]
    if t.name == "bit":
        return "bigint" if t.length is not None and t.length < 64 else "decimal(20,0)"
    if t.name in BINARIES:
        return "binary"
    if t.name in GEOMETRIES:
        return "struct<srid:bigint,wkb:binary>"
    if t.name in ("enum", "set") and t.members is None:
        return "int" if t.name == "enum" else "decimal(20,0)"
    return _SINK.get(t.name, "string")


def _lossy(t: ColumnType) -> str | None:
    if t.name == "decimal":
        if t.length is None:
            return "precision unknown until a schema change declares it: the number is kept as text"
        return f"{t.length} digits are more than Spark's {SPARK_DIGITS}: the number is kept as text"
    if t.name in ("enum", "set") and t.members is None:
        number = "index is" if t.name == "enum" else "bits are"
        return f"members unknown until a schema change names them: the {number} kept as a number"
    if t.name == "null":
        return "type unknown until a value or a schema change declares it"
    return None


# From here on: the smallest type that holds the values of two.

_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_BIGGER = ("tinyint", "smallint", "mediumint", "int", "bigint")
_ANY = ColumnType("longtext")
_KINDS = (
    ("char", "varchar", "tinytext", "text", "mediumtext", "longtext"),
    ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
)


def widen(a: ColumnType, b: ColumnType) -> ColumnType:
    """The smallest type that holds every value of `a` and of `b`.

    Integers grow by size and sign, `bigint` with `bigint unsigned` is `decimal(20,0)`; decimals keep all digits before
    and after the point; temporal types keep the most fraction digits; text and binary kinds take the longer; a list of
    members wins over an unknown one when either is, and the longer when it continues the other. What has no type in
    common is `longtext`, the canonical text.
    """
    if a == b or b.name == "null":
        return a
    if a.name == "null":
        return b
    if a.name == b.name and a.name in ("date", "year", "json", "boolean"):
        return a
    for rule in (_wider_number, _wider_temporal, _wider_kind, _wider_members):
        result = rule(a, b)
        if result is not None:
            return result
    if a.name in GEOMETRIES and b.name in GEOMETRIES:
        return ColumnType("geometry")
    if a.name == b.name == "vector":
        return ColumnType("vector")
    return _ANY


def _span(t: ColumnType) -> tuple[int, bool] | None:
    """Bits and sign of an integer type; None for any other."""
    if t.name in _BITS:
        return _BITS[t.name], not t.unsigned
    if t.name == "bit":
        return t.length or 64, False
    return {"year": (12, False), "boolean": (1, False)}.get(t.name)


def _wider_number(a: ColumnType, b: ColumnType) -> ColumnType | None:
    if a.name == b.name == "bit":
        return ColumnType("bit", length=None if None in (a.length, b.length) else max(a.length or 0, b.length or 0))
    first, second = _span(a), _span(b)
    if first and second:
        return _wider_integer(first, second)
    names = {a.name, b.name}
    if names <= {"float", "double"}:
        return ColumnType("float" if names == {"float"} else "double")
    spans = [s for s in (first, second) if s]
    if spans and names & {"float", "double"}:
        return ColumnType("double") if spans[0][0] <= 32 else None  # a double holds no integer beyond 2^53 exactly
    if "decimal" in names and (spans or names == {"decimal"}):
        return _wider_decimal(a, b)
    return None


def _wider_integer(first: tuple[int, bool], second: tuple[int, bool]) -> ColumnType:
    signed = first[1] or second[1]
    bits = max(size if sign == signed else size + 1 for size, sign in (first, second))
    name = next((n for n in _BIGGER if _BITS[n] >= bits), None)
    return ColumnType("decimal", length=20, scale=0) if name is None else ColumnType(name, unsigned=not signed)


def _wider_decimal(a: ColumnType, b: ColumnType) -> ColumnType:
    whole = scale = 0
    for t in (a, b):
        span = _span(t)
        if span:
            whole = max(whole, len(str(2 ** (span[0] - span[1]))))
        elif t.length is None:
            return ColumnType("decimal")
        else:
            whole, scale = max(whole, t.length - (t.scale or 0)), max(scale, t.scale or 0)
    return ColumnType("decimal", length=whole + scale, scale=scale) if whole + scale <= 65 else ColumnType("decimal")


def _wider_temporal(a: ColumnType, b: ColumnType) -> ColumnType | None:
    names = {a.name, b.name}
    if len(names) == 1 and names <= {"datetime", "timestamp", "time"}:
        return max(a, b, key=lambda t: t.length or 0)
    if names == {"date", "datetime"}:
        return a if a.name == "datetime" else b
    return None


def _wider_kind(a: ColumnType, b: ColumnType) -> ColumnType | None:
    for kinds, names in zip(_KINDS, (TEXTS, BINARIES), strict=True):
        if a.name in names and b.name in names:
            return _longer(a, b, kinds)
    if (a.name in TEXTS and b.name in BINARIES) or (a.name in BINARIES and b.name in TEXTS):
        return ColumnType("longblob")
    return None


def _longer(a: ColumnType, b: ColumnType, kinds: tuple[str, ...]) -> ColumnType:
    low, high = sorted((a, b), key=lambda t: kinds.index(t.name))
    if low.name in kinds[:2] and high.name in kinds[:2]:
        length = None if a.length is None or b.length is None else max(a.length, b.length)
        return ColumnType(high.name, length=length)
    if low.name in kinds[:2] and high.name == kinds[2]:  # a varchar may be longer than a tinytext
        return ColumnType(kinds[3])
    return ColumnType(high.name)


def _wider_members(a: ColumnType, b: ColumnType) -> ColumnType | None:
    if a.name != b.name or a.name not in ("enum", "set"):
        return None
    if a.members is None or b.members is None:
        return b if a.members is None else a
    short, long = sorted((a.members, b.members), key=len)
    return replace(a, members=long) if long[: len(short)] == short else None
