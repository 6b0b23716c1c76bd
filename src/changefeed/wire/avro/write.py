"""Compiled writers: the inverse of `read`, with one form for each value.

A value of another type is an `UnsupportedError` that ends with the path of the field; values are never converted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from changefeed.errors import UnsupportedError
from changefeed.wire.avro.schema import Type

Write = Callable[[Any, bytearray], None]
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def writer(t: Type) -> Write:
    """Returns a function that appends the encoded value to a bytearray; it raises UnsupportedError."""
    return _KINDS[t.kind](t)


def _varint(number: int, out: bytearray) -> None:
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _integer(bits: int) -> Write:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def write(value: Any, out: bytearray) -> None:
        if type(value) is not int or not low <= value <= high:
            raise _unfit(value, f"an integer of {bits} bits")
        _varint(value, out)

    return write


def _null(value: Any, out: bytearray) -> None:
    if value is not None:
        raise _unfit(value, "null")


def _boolean(value: Any, out: bytearray) -> None:
    if type(value) is not bool:
        raise _unfit(value, "a boolean")
    out.append(value)


def _float(value: Any, out: bytearray) -> None:
    if type(value) is not float:
        raise _unfit(value, "a float")
    try:
        out += _FLOAT.pack(value)
    except OverflowError as error:
        raise _unfit(value, "a float") from error


def _double(value: Any, out: bytearray) -> None:
    if type(value) is not float:
        raise _unfit(value, "a double")
    out += _DOUBLE.pack(value)


def _bytes(value: Any, out: bytearray) -> None:
    if type(value) is not bytes:
        raise _unfit(value, "bytes")
    _varint(len(value), out)
    out += value


def _string(value: Any, out: bytearray) -> None:
    if type(value) is not str:
        raise _unfit(value, "a string")
    try:
        data = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise _unfit(value, "a string that UTF-8 can encode") from error
    _varint(len(data), out)
    out += data


def _fixed(t: Type) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if type(value) is not bytes or len(value) != t.size:
            raise _unfit(value, f"{t.size} bytes")
        out += value

    return write


def _enum(t: Type) -> Write:
    places = {symbol: place for place, symbol in enumerate(t.symbols)}

    def write(value: Any, out: bytearray) -> None:
        if value not in places:
            raise _unfit(value, f"a symbol of {t.name}")
        _varint(places[value], out)

    return write


def _union(t: Type) -> Write:
    null = next((place for place, branch in enumerate(t.branches) if branch.kind == "null"), None)
    place, branch = next((p, b) for p, b in enumerate(t.branches) if b.kind != "null")
    write_other = writer(branch)

    def write(value: Any, out: bytearray) -> None:
        if value is None and null is not None:
            _varint(null, out)
        else:
            _varint(place, out)
            write_other(value, out)

    return write


def _record(t: Type) -> Write:
    fields = tuple((field.name, writer(field.type)) for field in t.fields)

    def write(value: Any, out: bytearray) -> None:
        if not isinstance(value, dict) or value.keys() != {name for name, _ in fields}:
            raise _unfit(value, f"a record with the fields of {t.name}")
        name = ""
        try:
            for name, write_field in fields:
                write_field(value[name], out)
        except UnsupportedError as error:
            raise _located(error, name) from error

    return write


def _array(t: Type) -> Write:
    write_item = writer(t.items or t)

    def write(value: Any, out: bytearray) -> None:
        if type(value) is not list:
            raise _unfit(value, "an array")
        if value:
            _varint(len(value), out)
            for item in value:
                write_item(item, out)
        out.append(0)

    return write


def _map(t: Type) -> Write:
    write_item = writer(t.items or t)

    def write(value: Any, out: bytearray) -> None:
        if type(value) is not dict:
            raise _unfit(value, "a map")
        if value:
            _varint(len(value), out)
            for name, item in value.items():
                _string(name, out)
                write_item(item, out)
        out.append(0)

    return write


def _unfit(value: Any, what: str) -> UnsupportedError:
    text = repr(value)
    return UnsupportedError(f"{text if len(text) <= 60 else text[:57] + '…'} is not {what}")


def _located(error: UnsupportedError, name: str) -> UnsupportedError:
    message, _, path = str(error).partition(" - at `")
    return UnsupportedError(f"{message} - at `{name}.{path}" if path else f"{message} - at `{name}`")


_KINDS: dict[str, Callable[[Type], Write]] = {
    "null": lambda t: _null,
    "boolean": lambda t: _boolean,
    "int": lambda t: _integer(32),
    "long": lambda t: _integer(64),
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
