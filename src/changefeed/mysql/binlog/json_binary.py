"""MySQL's binary JSON to text, exactly as the server prints it.

    document   type (1), value                                                      no bytes at all: null
    0, 1       object    ┌ count ┬ size ┬ key entries ┬ value entries ┬ keys ┬ values ┐
    2, 3       array     └ count ┴ size ┴─────────────┴ value entries ┴──────┴ values ┘
                         0 and 2 have offsets and counts of 2 bytes, 1 and 3 of 4; offsets count from the container's start
               key entry    offset, length (2)
               value entry  type (1), offset; or the value itself: literals, int16, uint16, in 1 and 3 also int32, uint32
    4          literal   00 null │ 01 true │ 02 false
    5 … a      int16 uint16 int32 uint32 int64 uint64
    b          double
    c          string    length of 7 bits a byte, UTF-8
    f          opaque    type of a column (1), length, bytes: DECIMAL, DATE, TIME, DATETIME; others are printed as base64

Rule 1. Members keep the order of the document, which the server sorts by length and bytes of the key.
Rule 2. Offsets must lie inside of their container; a document is at most 100 containers deep, as in the server.
Rule 3. Values do not share bytes. Without this, a small document could have an endless text.
Rule 4. A double has the fewest digits that read back; between 1e-15 and 1e15 without exponent; `.0` if it is whole.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable

from changefeed.errors import ProtocolError, TruncatedError
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.decimals import read_decimal
from changefeed.mysql.binlog.moments import packed_datetime, packed_time
from changefeed.wire.floats import shortest

_DEEPEST = 100
_LITERALS = {0: "null", 1: "true", 2: "false"}
_INTEGERS = {5: (2, True), 6: (2, False), 7: (4, True), 8: (4, False), 9: (8, True), 10: (8, False)}
_OBJECT, _LARGE_OBJECT, _ARRAY, _LARGE_ARRAY, _LITERAL, _DOUBLE, _STRING, _OPAQUE = 0, 1, 2, 3, 4, 11, 12, 15
_ESCAPES = {i: f"\\u{i:04x}" for i in range(32)}
_ESCAPES |= {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_BASE64_LINE = 76


def to_text(data: bytes) -> str:
    """Converts a document.

    Raises:
        ProtocolError: the bytes are not a document; `byte` is the offset in it.
    """
    return _Document(data).value(data[0], 1, len(data), 0) if data else "null"


class _Document:
    """One document, and how many of its bytes may still be read: Rule 3."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._unread = 2 * len(data)

    def value(self, kind: int, at: int, end: int, depth: int) -> str:
        """The text of a value at an offset; `end` is the end of the container that it belongs to."""
        if kind <= _LARGE_ARRAY:
            if depth == _DEEPEST:
                raise _bad(f"JSON is more than {_DEEPEST} levels deep", at)
            return self._container(kind, at, end, depth + 1)
        if kind == _LITERAL:
            literal = self._uint(at, 1, end)
            if literal not in _LITERALS:
                raise _bad(f"JSON literal {literal} is unknown", at)
            return _LITERALS[literal]
        if kind in _INTEGERS:
            size, signed = _INTEGERS[kind]
            return str(int.from_bytes(self._take(at, size, end), "little", signed=signed))
        if kind == _DOUBLE:
            (number,) = struct.unpack("<d", self._take(at, 8, end))
            return double_text(number)
        if kind == _STRING:
            size, at = self._length(at, end)
            return quote(_text(self._take(at, size, end), at))
        if kind == _OPAQUE:
            code = self._uint(at, 1, end)
            size, at = self._length(at + 1, end)
            return _opaque(code, self._take(at, size, end), at)
        raise _bad(f"JSON type {kind} is unknown", at)

    def _container(self, kind: int, start: int, outer: int, depth: int) -> str:
        width = 4 if kind in (_LARGE_OBJECT, _LARGE_ARRAY) else 2
        count, size = self._uint(start, width, outer), self._uint(start + width, width, outer)
        end = start + size
        if end > outer:
            raise TruncatedError(f"JSON ends {_bytes(end - outer)} early", byte=start)
        keyed = kind in (_OBJECT, _LARGE_OBJECT)
        keys_at = start + 2 * width
        entries_at = keys_at + count * (width + 2) if keyed else keys_at
        if entries_at + count * (width + 1) > end:
            raise _bad(f"JSON has {count} members in {_bytes(size)}", start)
        texts = []
        for i in range(count):
            entry = entries_at + i * (width + 1)
            kind = self._uint(entry, 1, end)
            inline = kind == _LITERAL or (kind in _INTEGERS and _INTEGERS[kind][0] <= width)
            text = self.value(kind, entry + 1 if inline else start + self._uint(entry + 1, width, end), end, depth)
            if keyed:
                key = keys_at + i * (width + 2)
                offset, length = self._uint(key, width, end), self._uint(key + width, 2, end)
                text = f"{quote(_text(self._take(start + offset, length, end), key))}: {text}"
            texts.append(text)
        return f"{{{', '.join(texts)}}}" if keyed else f"[{', '.join(texts)}]"

    def _length(self, at: int, end: int) -> tuple[int, int]:
        """A length of 7 bits a byte, and the offset after it."""
        size = 0
        for shift in range(0, 35, 7):
            byte = self._uint(at, 1, end)
            size |= (byte & 0x7F) << shift
            at += 1
            if byte < 0x80:
                return size, at
        raise _bad("a length in JSON has more than five bytes", at)

    def _uint(self, at: int, size: int, end: int) -> int:
        return int.from_bytes(self._take(at, size, end), "little")

    def _take(self, at: int, size: int, end: int) -> bytes:
        if at + size > end:
            raise TruncatedError(f"JSON ends {_bytes(at + size - end)} early", byte=at)
        self._unread -= size
        if self._unread < 0:
            raise _bad("values of JSON overlap", at)
        return self._data[at : at + size]


def _opaque(code: int, data: bytes, at: int) -> str:
    read = _OPAQUE_TEXTS.get(code)
    if read is not None:
        return read(data, at)
    coded = base64.b64encode(data).decode()
    lines = "\n".join(coded[i : i + _BASE64_LINE] for i in range(0, len(coded), _BASE64_LINE))
    return quote(f"base64:type{code}:{lines}")


def _decimal(data: bytes, at: int) -> str:
    if len(data) < 2:
        raise _bad("a decimal in JSON has no precision", at)
    text, size = read_decimal(data, 2, data[0], data[1])
    if size != len(data):
        raise _bad(f"a decimal in JSON ends at byte {size} of {len(data)}", at)
    return text


def _moment(read: Callable[[int], str]) -> Callable[[bytes, int], str]:
    def read_moment(data: bytes, at: int) -> str:
        if len(data) != 8:
            raise _bad(f"a date or time in JSON has {_bytes(len(data))}, expected 8", at)
        return f'"{read(int.from_bytes(data, "little", signed=True))}"'

    return read_moment


_OPAQUE_TEXTS: dict[int, Callable[[bytes, int], str]] = {
    codes.NEWDECIMAL: _decimal,
    codes.DATE: _moment(lambda packed: packed_datetime(packed)[:10]),
    codes.TIME: _moment(packed_time),
    codes.DATETIME: _moment(packed_datetime),
    codes.TIMESTAMP: _moment(packed_datetime),
}


def quote(text: str) -> str:
    """A JSON string as the server escapes it."""
    return f'"{text.translate(_ESCAPES)}"'


def double_text(number: float) -> str:
    """Formats a double: Rule 4.

    Raises:
        ProtocolError: the number is infinite or NaN, which JSON cannot have.
    """
    if number != number or number in (float("inf"), float("-inf")):
        raise ProtocolError(f"{number} is not a number of JSON", reason="bad-json")
    sign = "-" if str(number)[0] == "-" else ""
    if number == 0:
        return f"{sign}0.0"
    digits, exponent = shortest(abs(number), 64)
    if -15 <= exponent < 15:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{exponent}"


def _text(data: bytes, at: int) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _bad("a text in JSON is not UTF-8", at + error.start) from error


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _bad(message: str, at: int) -> ProtocolError:
    return ProtocolError(message, reason="bad-json", byte=at)
