"""Readers of column values in row images, one for each column of a table map.

    TINY SHORT INT24 LONG LONGLONG    1 2 3 4 8 bytes, little-endian          FLOAT DOUBLE  4 8 bytes, IEEE 754
    YEAR                              1 byte, from 1900; 0 is 0000             NEWDECIMAL    `decimals`
    BIT(n)                            (n + 7) / 8 bytes, big-endian            dates, times  `moments`
    ENUM, SET                         1 or 2, 1 to 8 bytes: number, bitmap     JSON          4 bytes of length, `json_binary`
    STRING VARCHAR                    length of 1 byte, or of 2 if the column may have more than 255 bytes
    BLOB kinds, GEOMETRY, VECTOR      length of 1 to 4 bytes; a geometry is SRID (4) and WKB

Values have the canonical form of `model/values.py`, with bytes as `bytes`: ints, floats, texts of decimals, dates and JSON,
`{"srid", "wkb"}`, `{"index"}` and `{"bits"}` where the members are unknown.

Rule 1. Text without a known character set stays bytes. Text that is invalid in its character set is an `Irregular`.
Rule 2. A number of unknown sign is an int if both readings agree, else an `UnknownSign`.
Rule 3. A BINARY column is filled up with zero bytes to its length: the server does not send them.
Rule 4. UUID, INET4 and INET6 of MariaDB look like BINARY, its VECTOR like VARBINARY; the caller's `mariadb_type` makes texts and
        numbers of them.
"""

from __future__ import annotations

import ipaddress
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from changefeed.errors import ProtocolError, SchemaError
from changefeed.model import values
from changefeed.model.types import ColumnType
from changefeed.model.values import Irregular
from changefeed.mysql import charsets
from changefeed.mysql.binlog import codes, moments
from changefeed.mysql.binlog.compression import inflate_column
from changefeed.mysql.binlog.cursor import EventCursor
from changefeed.mysql.binlog.decimals import groups, read_decimal
from changefeed.mysql.binlog.json_binary import to_text
from changefeed.mysql.binlog.table_map import MappedColumn

Read = Callable[[EventCursor], Any]

_INTEGERS = {codes.TINY: 1, codes.SHORT: 2, codes.INT24: 3, codes.LONG: 4, codes.LONGLONG: 8}
_BLOBS = {codes.TINY_BLOB: 1, codes.MEDIUM_BLOB: 3, codes.LONG_BLOB: 4}
_PLAIN: dict[int, Read] = {
    codes.DATE: moments.read_date,
    codes.NEWDATE: moments.read_date,
    codes.TIME: moments.read_old_time,
    codes.DATETIME: moments.read_old_datetime,
    codes.TIMESTAMP: moments.read_old_timestamp,
}
_FRACTIONS: dict[int, Callable[[EventCursor, int], str]] = {
    codes.TIME2: moments.read_time,
    codes.DATETIME2: moments.read_datetime,
    codes.TIMESTAMP2: moments.read_timestamp,
}
_FLOATS = {
    codes.FLOAT: (4, struct.Struct("<f"), values.writer(ColumnType("float"))),
    codes.DOUBLE: (8, struct.Struct("<d"), values.writer(ColumnType("double"))),
}


@dataclass(frozen=True, slots=True)
class UnknownSign:
    """An integer of a column whose signedness is unknown, and whose two readings differ."""

    signed: int
    unsigned: int


def reader(column: MappedColumn) -> Read:
    """Returns a function that reads values of this column, which are not NULL.

    That function raises ProtocolError for bytes that contradict the type.

    Raises:
        ProtocolError: no column of this type has this metadata.
    """
    code, metadata = column.code, column.metadata
    if code in _INTEGERS:
        return _integer(_INTEGERS[code], column.unsigned)
    if code in _PLAIN:
        return _PLAIN[code]
    if code in _FRACTIONS:
        if metadata > moments.MOST_DIGITS:
            raise _no_such(column)
        read_moment = _FRACTIONS[code]
        return lambda cursor: read_moment(cursor, metadata)
    if code in _FLOATS:
        return _float(column)
    return _KINDS[code](column)


def _integer(size: int, unsigned: bool | None) -> Read:
    if unsigned:
        return lambda cursor: cursor.uint(size)
    top = 1 << (8 * size)

    def read_signed(cursor: EventCursor) -> int:
        number = cursor.uint(size)
        return number - top if number >= top >> 1 else number

    def read_either(cursor: EventCursor) -> int | UnknownSign:
        number = cursor.uint(size)
        return UnknownSign(number - top, number) if number >= top >> 1 else number

    return read_signed if unsigned is False else read_either


def _float(column: MappedColumn) -> Read:
    size, packed, canonical = _FLOATS[column.code]
    if column.metadata != size:
        raise _no_such(column)
    return lambda cursor: canonical(packed.unpack(cursor.take(size))[0])


def _year(column: MappedColumn) -> Read:
    def read_year(cursor: EventCursor) -> int:
        number = cursor.uint(1)
        return 1900 + number if number else 0

    return read_year


def _decimal(column: MappedColumn) -> Read:
    precision, scale = column.metadata >> 8, column.metadata & 0xFF
    groups(precision, scale)

    def read(cursor: EventCursor) -> str:
        text, cursor.at = read_decimal(cursor.data, cursor.at, precision, scale)
        return text

    return read


def _bit(column: MappedColumn) -> Read:
    bits = column.metadata
    if not 0 < bits <= 64:
        raise _no_such(column)

    def read(cursor: EventCursor) -> int:
        number = int.from_bytes(cursor.take((bits + 7) // 8), "big")
        if number >> bits:
            raise ProtocolError(f"{number} has more than {bits} bits", reason="bad-value", byte=cursor.at)
        return number

    return read


def _enum(column: MappedColumn) -> Read:
    size, members = column.metadata, column.members
    if size not in (1, 2):
        raise _no_such(column)
    if members is None:
        return lambda cursor: {"index": cursor.uint(size)}
    labels = ("", *members)  # 0 is the value of an invalid text

    def read(cursor: EventCursor) -> str:
        number = cursor.uint(size)
        if number >= len(labels):
            raise ProtocolError(f"member {number} of {len(members)}", reason="bad-value", byte=cursor.at - size)
        return labels[number]

    return read


def _set(column: MappedColumn) -> Read:
    size, members = column.metadata, column.members
    if not 0 < size <= 8:
        raise _no_such(column)
    if members is None:
        return lambda cursor: {"bits": cursor.uint(size)}

    def read(cursor: EventCursor) -> str:
        bits = cursor.uint(size)
        if bits >> len(members):
            raise ProtocolError(
                f"bitmap {bits:#x} of {len(members)} members", reason="bad-value", byte=cursor.at - size
            )
        return ",".join(member for i, member in enumerate(members) if bits >> i & 1)

    return read


def _string(column: MappedColumn) -> Read:
    size = 1 if column.metadata < 256 else 2
    if column.mariadb_type is not None:
        return _mariadb(column, size)
    if column.charset == charsets.BINARY and column.code == codes.STRING:
        length = column.metadata

        def read_padded(cursor: EventCursor) -> bytes:
            return cursor.prefixed(size).ljust(length, b"\0")

        return read_padded
    return _text(column, lambda cursor: cursor.prefixed(size))


def _blob(column: MappedColumn) -> Read:
    size = _length_size(column)
    return _text(column, lambda cursor: cursor.prefixed(size))


def _length_size(column: MappedColumn) -> int:
    size = _BLOBS.get(column.code, column.metadata)
    if not 0 < size <= 4:
        raise _no_such(column)
    return size


def _compressed_string(column: MappedColumn) -> Read:
    size = 1 if column.metadata < 256 else 2
    return _text(column, lambda cursor: inflate_column(cursor.prefixed(size)))


def _compressed_blob(column: MappedColumn) -> Read:
    size = _length_size(column)
    return _text(column, lambda cursor: inflate_column(cursor.prefixed(size)))


def _text(column: MappedColumn, read_bytes: Read) -> Read:
    """Rule 1."""
    charset = None if column.charset is None else charsets.known(column.charset)
    if charset is None or charset == charsets.BINARY:
        return read_bytes

    def read(cursor: EventCursor) -> str | Irregular:
        data = read_bytes(cursor)
        try:
            return charsets.decode(data, charset)
        except SchemaError:
            return Irregular(data)

    return read


def _json(column: MappedColumn) -> Read:
    size = _length_size(column)

    def read(cursor: EventCursor) -> str:
        data = cursor.prefixed(size)
        try:
            return to_text(data)
        except ProtocolError as error:
            error.byte = cursor.at - len(data) + (error.byte or 0)
            raise

    return read


def _geometry(column: MappedColumn) -> Read:
    size = _length_size(column)

    def read(cursor: EventCursor) -> dict[str, Any] | Irregular:
        data = cursor.prefixed(size)
        if len(data) < 4:
            return Irregular(data)
        return {"srid": int.from_bytes(data[:4], "little"), "wkb": data[4:]}

    return read


def _vector(column: MappedColumn) -> Read:
    return _vector_of(_length_size(column))


def _vector_of(size: int) -> Read:
    canonical = values.writer(ColumnType("vector"))

    def read(cursor: EventCursor) -> list[Any]:
        data = cursor.prefixed(size)
        if len(data) % 4:
            raise ProtocolError(f"a vector has {len(data)} bytes", reason="bad-value", byte=cursor.at)
        written: list[Any] = canonical(struct.unpack(f"<{len(data) // 4}f", data))
        return written

    return read


def _null(column: MappedColumn) -> Read:
    def read(cursor: EventCursor) -> Any:
        raise ProtocolError("a column of type NULL has a value", reason="bad-value", byte=cursor.at)

    return read


def _mariadb(column: MappedColumn, size: int) -> Read:
    """Rule 4: types that MariaDB keeps as bytes."""
    if column.mariadb_type == "vector":
        return _vector_of(size)
    write = _MARIADB.get(column.mariadb_type or "")
    if write is None or write[0] != column.metadata:
        raise _no_such(column)
    length, text_of = write
    return lambda cursor: text_of(cursor.prefixed(size).ljust(length, b"\0"))


def _uuid(data: bytes) -> str:
    """A UUID as MariaDB stores it: the five groups in reverse, so that those of version 1 sort by time.

    From version 6 on UUIDs sort as they are, and are stored so; the variant bit of a reversed UUID is in byte 6.
    """
    if data[6] & 0x80 and not data[8] & 0x80:
        data = data[12:16] + data[10:12] + data[8:10] + data[6:8] + data[0:6]
    return str(uuid.UUID(bytes=data))


def _inet6(data: bytes) -> str:
    """An IPv6 address as MariaDB prints it: an address of IPv4 inside of it with points."""
    address = ipaddress.IPv6Address(data)
    if data[:10] == bytes(10) and data[10:12] in (b"\0\0", b"\xff\xff") and data[12:14] != b"\0\0":
        return f"::{'ffff:' if data[10] else ''}{ipaddress.IPv4Address(data[12:])}"
    return str(address)


_MARIADB: dict[str, tuple[int, Callable[[bytes], str]]] = {
    "uuid": (16, _uuid),
    "inet4": (4, lambda data: str(ipaddress.IPv4Address(data))),
    "inet6": (16, _inet6),
}
_KINDS: dict[int, Callable[[MappedColumn], Read]] = {
    codes.YEAR: _year,
    codes.NEWDECIMAL: _decimal,
    codes.BIT: _bit,
    codes.ENUM: _enum,
    codes.SET: _set,
    codes.STRING: _string,
    codes.VAR_STRING: _string,
    codes.VARCHAR: _string,
    codes.TINY_BLOB: _blob,
    codes.BLOB: _blob,
    codes.MEDIUM_BLOB: _blob,
    codes.LONG_BLOB: _blob,
    codes.VARCHAR_COMPRESSED: _compressed_string,
    codes.BLOB_COMPRESSED: _compressed_blob,
    codes.JSON: _json,
    codes.GEOMETRY: _geometry,
    codes.VECTOR: _vector,
    codes.NULL: _null,
}


def _no_such(column: MappedColumn) -> ProtocolError:
    return ProtocolError(f"column type {column.code} with metadata {column.metadata} is unknown", reason="unknown-type")
