"""Column type codes of the MySQL protocol, and TiDB's column flags.

    1 tinyint      7 timestamp   13 year                 245 json      250 mediumtext  mediumblob
    2 smallint     8 bigint      14 newdate (date)       246 decimal   251 longtext    longblob
    3 int          9 mediumint   15 varchar  varbinary   247 enum      252 text        blob
    4 float       10 date        16 bit                  248 set       253 var_string (varchar)
    5 double      11 time       225 vector (TiDB)        249 tinytext  254 char        binary
    6 null        12 datetime                                tinyblob  255 geometry: TiDB has none

    flag    1 binary     charset binary: blobs, binaries, and every number, date, bit, JSON
            2 handle     column of the handle key       16 unique     of a unique index
            4 generated                                 32 multiple   of an index with several columns
            8 primary    of the primary key             64 nullable
                                                       128 unsigned   year and bit too

TiDB sets the flags of an index on all its columns, MySQL on the first only.
"""

from __future__ import annotations

from changefeed.errors import ProtocolError
from changefeed.model.types import INTEGERS, TEXTS, ColumnType

MOST_COLUMNS = 4096  # of a table of MySQL or TiDB
MOST_DIMENSIONS = 16_383  # of a vector of TiDB or MySQL
BINARY, HANDLE, GENERATED, PRIMARY, UNIQUE, MULTIPLE, NULLABLE, UNSIGNED = (1 << bit for bit in range(8))

_NAMES = {
    1: "tinyint",
    2: "smallint",
    3: "int",
    4: "float",
    5: "double",
    6: "null",
    7: "timestamp",
    8: "bigint",
    9: "mediumint",
    10: "date",
    11: "time",
    12: "datetime",
    13: "year",
    14: "date",
    16: "bit",
    225: "vector",
    245: "json",
    246: "decimal",
    247: "enum",
    248: "set",
}
# Types whose name depends on the binary flag: (without, with).
_STRINGS = {
    15: ("varchar", "varbinary"),
    249: ("tinytext", "tinyblob"),
    250: ("mediumtext", "mediumblob"),
    251: ("longtext", "longblob"),
    252: ("text", "blob"),
    253: ("varchar", "varbinary"),
    254: ("char", "binary"),
}
TEXT_CODES = frozenset({15, 253, 254})

# Type name -> code, without the codes that are never sent (14, 253).
_CODES = {name: code for code, name in _NAMES.items() if code != 14}
_CODES |= {name: code for code, names in _STRINGS.items() if code != 253 for name in names}
_CODES["boolean"] = 1
_CHARACTERS = TEXTS | {"enum", "set", "null"}
_NUMBERS = {*INTEGERS, "float", "double", "decimal"}


def column_type(code: int, flags: int) -> ColumnType:
    """Returns the type of a code and flags, without length, scale and members.

    Raises:
        ProtocolError: the code is unknown, or TiDB has no such type.
    """
    if code in _STRINGS:
        return ColumnType(_STRINGS[code][flags & BINARY])
    name = _NAMES.get(code)
    if name is None:
        raise ProtocolError(f"column type {code} is unknown", reason="unknown-type")
    return ColumnType(name, unsigned=name in _NUMBERS and bool(flags & UNSIGNED))


def type_code(t: ColumnType) -> int | None:
    """The code of a type; None for geometry, which TiDB does not have."""
    return _CODES.get(t.name)


def type_flags(t: ColumnType) -> int:
    """The flags that follow from the type alone: binary and unsigned."""
    flags = 0 if t.name in _CHARACTERS else BINARY
    if t.unsigned or t.name in ("year", "bit"):
        flags |= UNSIGNED
    return flags
