"""The types of MySQL and TiDB columns, their text, and the Arrow type that carries each without loss.

The text is MySQL's own (`bigint unsigned`, `decimal(12,2)`, `enum('a','b')`), reduced to the details that a protocol sends:
just `decimal` if the precision is unknown, just `enum` if the members are unknown. The Arrow type depends on the same
details, so text and Arrow type always agree:

    type                       Arrow                     type               Arrow
    tinyint … bigint           int8 int16 int32 int64    date               date32
      … unsigned               uint8 … uint64            datetime(p)        timestamp[us]
    year                       uint16                    timestamp(p)       timestamp[us, UTC]
    bit(n)                     uint64                    time(p)            string, canonical text
    float, double              float32, float64          enum, set          uint16 index, uint64 bits
    decimal(p,s)               decimal128 or 256         enum(…), set(…)    string
    decimal                    string, canonical text    json               string
    char, varchar, … text      string                    geometry kinds     struct<srid, wkb>
    binary, … blob             binary                    vector(n)          list<float32>
    boolean                    bool (a protocol's own)   null               null

TIME goes up to ±838:59:59 and keeps its number of digits, which no Arrow type can: it is the text that MySQL prints.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache

import pyarrow as pa

from changefeed.errors import SchemaError

INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 32, "int": 32, "bigint": 64}
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BINARIES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
GEOMETRIES = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
    }
)
_PLAIN: dict[str, pa.DataType] = {
    "year": pa.uint16(),
    "bit": pa.uint64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "time": pa.string(),
    "json": pa.string(),
    "vector": pa.list_(pa.float32()),
    "boolean": pa.bool_(),
    "null": pa.null(),
}
NAMES = frozenset({*INTEGERS, *TEXTS, *BINARIES, *GEOMETRIES, *_PLAIN, "decimal", "enum", "set"})
_ALIASES = {
    "integer": "int",
    "bool": "tinyint(1)",
    "numeric": "decimal",
    "dec": "decimal",
    "fixed": "decimal",
    "real": "double",
    "double precision": "double",
    "geomcollection": "geometrycollection",
    "nvarchar": "varchar",
    "nchar": "char",
    "int1": "tinyint",
    "int2": "smallint",
    "int3": "mediumint",
    "int4": "int",
    "int8": "bigint",
}
# name, then (…) when there is one, then attributes. Members may hold any character, ')' too.
_TEXT = re.compile(r"\s*([a-z][a-z0-9]*(?: precision)?)\s*(?:\((.*)\))?\s*([a-z ]*)", re.DOTALL)
_MEMBER = re.compile(r"\s*'((?:[^']|'')*)'\s*(,|$)")

GEOMETRY = pa.struct([("srid", pa.uint32()), ("wkb", pa.binary())])


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The MySQL type of a column, as far as it is known.

    Attributes:
        name: the base name in lower case, one of `NAMES`.
        unsigned: whether it is UNSIGNED; only for numbers.
        length: the first number in parentheses: characters, bytes, bits, digits of a decimal, fraction digits of a
            temporal type, dimension of a vector. None if absent or unknown.
        scale: digits after the point of decimal, float and double. None if absent or unknown.
        members: members of an enum or set; None if unknown.
    """

    name: str
    unsigned: bool = False
    length: int | None = None
    scale: int | None = None
    members: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, text: str) -> ColumnType:
        """Parses the text of a MySQL type.

        Args:
            text: a type as in DDL, in any case: `decimal(12,2)`, `INT UNSIGNED`, `enum('a','b')`. Other properties of a
                column, such as NOT NULL or a charset, are not allowed.

        Raises:
            SchemaError: the text is not a MySQL type.
        """
        return _parse(text)

    def __str__(self) -> str:
        if self.members is not None:
            inside = ",".join("'" + m.replace("'", "''") + "'" for m in self.members)
        elif self.length is None:
            inside = ""
        else:
            inside = str(self.length) if self.scale is None else f"{self.length},{self.scale}"
        return self.name + (f"({inside})" if inside else "") + (" unsigned" if self.unsigned else "")

    @property
    def with_article(self) -> str:
        """The type in a sentence: `a date`, `an int unsigned`."""
        return f"{'an' if self.name[0] in 'aeio' else 'a'} {self}"

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type that can hold every value of this MySQL type."""
        return _arrow(self)


@lru_cache(maxsize=4096)
def _parse(text: str) -> ColumnType:
    match = _TEXT.match(text if "'" in text else text.lower())
    if match is None:  # members keep their case: only the name in front of them is lowered
        match = _TEXT.match(re.sub(r"^\s*\w+", lambda m: m.group().lower(), text))
    if match is None:
        raise SchemaError(f"{text!r} is not a MySQL type")
    name, inside, attributes = match.groups()
    name = _ALIASES.get(name, name)
    if name == "tinyint(1)":
        return ColumnType("tinyint", length=1)
    if name not in NAMES:
        raise SchemaError(f"{text!r} is not a MySQL type")
    unsigned = "unsigned" in attributes or "zerofill" in attributes
    if name in ("enum", "set"):
        return ColumnType(name, members=None if inside is None else _members(inside, text))
    if not inside:
        return ColumnType(name, unsigned)
    try:
        numbers = [int(part) for part in inside.split(",")]
    except ValueError as error:
        raise SchemaError(f"{text!r} is not a MySQL type") from error
    length, scale = numbers[0], numbers[1] if len(numbers) > 1 else None
    if name == "decimal" and scale is None:
        scale = 0
    return ColumnType(name, unsigned, length, scale)


def _members(inside: str, text: str) -> tuple[str, ...]:
    members, at = [], 0
    while at < len(inside):
        match = _MEMBER.match(inside, at)
        if match is None:
            raise SchemaError(f"{text!r}: members must be quoted and separated by commas")
        members.append(match[1].replace("''", "'"))
        at = match.end()
    return tuple(members)


@cache
def _arrow(t: ColumnType) -> pa.DataType:
    if t.name in INTEGERS:
        return pa.type_for_alias(f"{'u' if t.unsigned else ''}int{INTEGERS[t.name]}")
    if t.name == "decimal":
        if t.length is None:
            return pa.string()
        return pa.decimal128(t.length, t.scale or 0) if t.length <= 38 else pa.decimal256(t.length, t.scale or 0)
    if t.name in TEXTS:
        return pa.string()
    if t.name in BINARIES:
        return pa.binary()
    if t.name in GEOMETRIES:
        return GEOMETRY
    if t.name in ("enum", "set"):
        return pa.string() if t.members is not None else pa.uint16() if t.name == "enum" else pa.uint64()
    return _PLAIN[t.name]
