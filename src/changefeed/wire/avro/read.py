"""Compiled readers: the schema is visited once, and the resulting function reads each value.

    null       no bytes                   int, long     zigzag, 7 bits per byte, lowest first: 1 is 02, -1 is 01
    boolean    00 or 01                   float, double 4, 8 bytes, little-endian
    bytes      length as a long, bytes    fixed         its bytes
    string     the same, UTF-8            enum          number of the symbol, an int
    record     its fields                 union         number of the branch, a long; the value
    array      count as a long, items, …, 00; a negative count is followed by the size of the block in bytes
    map        the same with a string before each item

Rule 1. Integers in a longer form than necessary, and booleans other than 0 and 1, are refused: each value has one form, so
        that writing it again gives the same bytes.
Rule 2. A length is checked before the slice is taken, a count against the bytes that are left.
Rule 3. Bytes of a string that are not UTF-8 become U+DC80 … U+DCFF (surrogateescape).
Rule 4. A record is a dict in the order of its fields; errors end with the path of the field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from changefeed.errors import ProtocolError, SchemaError, TruncatedError
from changefeed.wire.avro.schema import Type
from changefeed.wire.cursor import Cursor

Read = Callable[[Cursor], Any]
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def reader(t: Type) -> Read:
    """Returns a function that reads one value of the type from a cursor; the caller checks for trailing bytes.

    That function raises ProtocolError (`truncated`, `bad-varint`, `bad-length`, `schema`) with the byte.
    """
    return _KINDS[t.kind](t)


def _varint(cursor: Cursor, bits: int) -> int:
    data, start = cursor.data, cursor.at
    most = -(-bits // 7)
    number = shift = 0
    for at in range(start, min(len(data), start + most)):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if (byte == 0 and at > start) or number >> bits:
                break
            cursor.at = at + 1
            return (number >> 1) ^ -(number & 1)
        shift += 7
    else:
        if len(data) - start < most:
            raise TruncatedError(f"{cursor.what} ends 1 byte early", byte=len(data))
    message = f"{cursor.what} has no integer of {bits} bits in its shortest form"
    raise ProtocolError(message, reason="bad-varint", byte=start)


def _length(cursor: Cursor) -> int:
    start = cursor.at
    length = _varint(cursor, 64)
    if length < 0:
        raise ProtocolError(f"{cursor.what} has a length of {length}", reason="bad-length", byte=start)
    return length


def _boolean(cursor: Cursor) -> bool:
    byte = cursor.take(1)[0]
    if byte > 1:
        raise SchemaError(f"{byte:02x} is not a boolean", byte=cursor.at - 1)
    return byte == 1


def _bytes(cursor: Cursor) -> bytes:
    return cursor.take(_length(cursor))


def _string(cursor: Cursor) -> str:
    return cursor.take(_length(cursor)).decode("utf-8", "surrogateescape")


def _float(cursor: Cursor) -> float:
    return float(_FLOAT.unpack(cursor.take(4))[0])


def _double(cursor: Cursor) -> float:
    return float(_DOUBLE.unpack(cursor.take(8))[0])


def _fixed(t: Type) -> Read:
    return lambda cursor: cursor.take(t.size)


def _enum(t: Type) -> Read:
    symbols = t.symbols

    def read(cursor: Cursor) -> str:
        start = cursor.at
        place = _varint(cursor, 32)
        if not 0 <= place < len(symbols):
            raise SchemaError(f"{t.name} has {len(symbols)} symbols, but the value has number {place}", byte=start)
        return symbols[place]

    return read


def _union(t: Type) -> Read:
    branches = tuple(reader(branch) for branch in t.branches)

    def read(cursor: Cursor) -> Any:
        start = cursor.at
        place = _varint(cursor, 64)
        if not 0 <= place < len(branches):
            raise SchemaError(f"union has {len(branches)} branches, but the value has number {place}", byte=start)
        return branches[place](cursor)

    return read


def _record(t: Type) -> Read:
    fields = tuple((field.name, reader(field.type)) for field in t.fields)

    def read(cursor: Cursor) -> dict[str, Any]:
        values: dict[str, Any] = {}
        name = ""
        try:
            for name, read_field in fields:
                values[name] = read_field(cursor)
        except ProtocolError as error:
            raise located(error, name) from error
        return values

    return read


def located(error: ProtocolError, name: str) -> ProtocolError:
    """Returns the error with the field's name added before its path."""
    message, _, path = str(error).partition(" - at `")
    path = f"{name}.{path}" if path else f"{name}`"
    return type(error)(f"{message} - at `{path}", reason=error.reason, byte=error.byte)


def _blocks(cursor: Cursor, one: Callable[[], None]) -> None:
    """Calls `one` for each item of all blocks."""
    while count := _varint(cursor, 64):
        start, end = cursor.at, None
        if count < 0:
            count = -count
            end = _length(cursor) + cursor.at
        if count > cursor.left:
            raise TruncatedError(f"{cursor.what} ends before all of its {count} items", byte=start)
        for _ in range(count):
            one()
        if end is not None and cursor.at != end:
            raise ProtocolError(f"{cursor.what} has a block with a wrong size", reason="bad-length", byte=start)


def _array(t: Type) -> Read:
    read_item = reader(t.items or t)

    def read(cursor: Cursor) -> list[Any]:
        items: list[Any] = []
        _blocks(cursor, lambda: items.append(read_item(cursor)))
        return items

    return read


def _map(t: Type) -> Read:
    read_item = reader(t.items or t)

    def read(cursor: Cursor) -> dict[str, Any]:
        items: dict[str, Any] = {}

        def one() -> None:
            start, name = cursor.at, _string(cursor)
            if name in items:
                raise SchemaError(f"map has {name!r:.60} twice", byte=start)
            items[name] = read_item(cursor)

        _blocks(cursor, one)
        return items

    return read


_KINDS: dict[str, Callable[[Type], Read]] = {
    "null": lambda t: lambda cursor: None,
    "boolean": lambda t: _boolean,
    "int": lambda t: partial(_varint, bits=32),
    "long": lambda t: partial(_varint, bits=64),
    "float": lambda t: _float,
    "double": lambda t: _double,
    "bytes": lambda t: _bytes,
    "string": lambda t: _string,
    "fixed": _fixed,
    "enum": _enum,
    "union": _union,
    "record": _record,
    "array": _array,
    "map": _map,
}
