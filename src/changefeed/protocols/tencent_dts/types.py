"""Determines the type of a column, and the DataType of its values.

    Column.originalType   the type text of the DDL: `int(11)`, `enum('a','b')`
    Data.dataType         width and form of a sent value

Rule 1. The type is that of `originalType`, if a value with the dataType can have it.
Rule 2. Otherwise it follows from the dataType: the text is unknown, the source is PostgreSQL, or the two contradict each other.
Rule 3. NULL has no dataType: without a type text the column's type is `null`.

    1 INT8 tinyint   3 INT32 int      5 … 8 UINT8 … UINT64 the same unsigned      11 BYTES varbinary
    2 INT16 smallint 4 INT64 bigint   9 FLOAT32 float   10 FLOAT64 double         12 DECIMAL decimal   13 STRING varchar,
                                                                                  of the charset binary varbinary
"""

from __future__ import annotations

from functools import lru_cache

from changefeed.errors import ProtocolError
from changefeed.model.types import BINARIES, GEOMETRIES, INTEGERS, TEXTS, ColumnType
from changefeed.mysql import charsets

Encoding = tuple[int, str]  # dataType and charset

NIL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT32, FLOAT64, BYTES, DECIMAL, STRING, NA = range(15)
NUMBERS = frozenset(range(INT8, FLOAT64 + 1)) | {DECIMAL}
TEMPORAL = frozenset({"date", "datetime", "timestamp", "time"})
WITH_CHARSET = TEXTS | {"enum", "set"}  # temporal values carry one too, but always the same
_INTEGERS = frozenset(range(INT8, UINT64 + 1))
_OWN = {
    INT8: ColumnType("tinyint"),
    INT16: ColumnType("smallint"),
    INT32: ColumnType("int"),
    INT64: ColumnType("bigint"),
    UINT8: ColumnType("tinyint", unsigned=True),
    UINT16: ColumnType("smallint", unsigned=True),
    UINT32: ColumnType("int", unsigned=True),
    UINT64: ColumnType("bigint", unsigned=True),
    FLOAT32: ColumnType("float"),
    FLOAT64: ColumnType("double"),
    BYTES: ColumnType("varbinary"),
    DECIMAL: ColumnType("decimal"),
    STRING: ColumnType("varchar"),
}
_WIDTHS = {"tinyint": INT8, "smallint": INT16, "mediumint": INT32, "int": INT32, "bigint": INT64}
_SENT = {"boolean": INT8, "bit": INT64, "year": INT64, "float": FLOAT32, "double": FLOAT64, "decimal": DECIMAL}
_SENT |= {"json": BYTES}
_SENT |= dict.fromkeys(BINARIES | GEOMETRIES, BYTES)
_SENT |= dict.fromkeys(WITH_CHARSET | TEMPORAL, STRING)
# What the dataType may be, beside the one that is usual.
_OTHERS = dict.fromkeys((*INTEGERS, "bit", "year"), _INTEGERS)
_OTHERS |= dict.fromkeys(WITH_CHARSET | TEMPORAL | BINARIES | GEOMETRIES | {"json"}, frozenset({BYTES, STRING}))
_LONGEST = 4_194_304  # characters of a type text: an enum of 65 535 members


def data_type(t: ColumnType) -> int | None:
    """Returns the DataType with which values of a type are usually sent; None if the protocol does not have the type."""
    if t.name in _WIDTHS:
        return _WIDTHS[t.name] + (UINT8 - INT8 if t.unsigned else 0)
    return _SENT.get(t.name)


@lru_cache(maxsize=4096)
def column_type(original: str, encoding: Encoding | None, postgres: bool) -> ColumnType:
    """Returns the type of a column whose values are sent in this encoding; the encoding is None for NULL."""
    known = None if postgres else _parse(original)
    if encoding is None:
        return known or ColumnType("null")
    sent, charset = encoding
    own = _OWN.get(sent)
    if known is not None and (own is None or sent in _OTHERS.get(known.name, {data_type(known)})):
        return known
    if sent == STRING and charsets.known(charset) == charsets.BINARY:
        return _OWN[BYTES]
    return own or ColumnType("null")


def _parse(original: str) -> ColumnType | None:
    """Parses the text of a type; None if MySQL does not have it."""
    if len(original) > _LONGEST:
        return None
    try:
        t = ColumnType.parse(original)
    except ProtocolError:
        return None
    if t.name == "boolean":
        return ColumnType("tinyint", length=1)
    return t if data_type(t) is not None and _possible(t) else None


def _possible(t: ColumnType) -> bool:
    """Whether MySQL has a type with this length and precision."""
    length, scale = t.length, t.scale or 0
    if length is None:
        return True
    if t.name == "decimal":
        return 0 < length <= 65 and 0 <= scale <= min(length, 30)
    if t.name in TEMPORAL:
        return t.name != "date" and length <= 6
    return length <= (64 if t.name == "bit" else 2**32 - 1)
