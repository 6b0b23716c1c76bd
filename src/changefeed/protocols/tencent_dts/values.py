"""Converts values between Data messages and the ready form, which the column's Arrow type takes.

    type              Data                              text
    integers, year    sv                                "-7"; read also with + and leading zeros
    bit(n)            sv                                the bits as a number; of 64 bits a signed one
    float, double     sv                                shortest; an exponent from 1e21 and below 1e-6; NaN, Inf, -Inf
    decimal(p,s)      sv                                s fraction digits; read also with an exponent
    text kinds        bv in the charset                 BYTES: UTF-8
    enum, set         bv in the charset                 labels, "a,c"; of unknown members the number
    date, time(p)     bv, charset utf8                  2026-01-02, -838:59:59.000
    datetime(p)       bv, charset utf8                  2026-01-02 03:04:05.000; read also with T
    timestamp(p)      bv, charset utf8                  2026-01-02 03:04:05.000 +00:00; read with any offset, or none
    binary kinds      bv
    json              bv                                the document's text in UTF-8
    geometry kinds    bv                                SRID, 4 bytes little-endian, then WKB

Rule 1. A value of the right form that its type cannot hold is irregular: zero dates, numbers out of range, bytes that
        are not of their charset, temporal text of another form, an unknown dataType.
Rule 2. Text of a number column that is not a number is an error.
Rule 3. Bytes that differ from those that would be written for the value are kept verbatim: see `images`, rule 3.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model import values
from changefeed.model.types import BINARIES, GEOMETRIES, INTEGERS, ColumnType
from changefeed.model.values import IrregularError
from changefeed.mysql import charsets
from changefeed.protocols.tencent_dts.types import BYTES, NUMBERS, STRING, TEMPORAL
from changefeed.wire.floats import float32
from changefeed.wire.go_json import W_RAW

Data = dict[str, Any]
Read = Callable[[Data], Any]
Write = Callable[[Any], Data]

_INTEGER = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)
_NO_NUMBER = re.compile(r"[+-]?(?:nan|inf(?:inity)?)", re.ASCII | re.IGNORECASE)
_OFFSET = re.compile(r"(.{19,26}?) ?(?:Z|([+-])(\d\d):?([0-5]\d))", re.ASCII)
_LONGEST = 1100  # characters of a number: the smallest double has 1075 in plain notation
_FIRST, _LAST = values.read_datetime("0001-01-01 00:00:00")[0], values.read_datetime("9999-12-31 23:59:59.999999")[0]


def kept(data: Data) -> bytes:
    """Returns the bytes that represent an irregular value."""
    text = data.get("sv")
    return text.encode() if text is not None else bytes(data.get("bv", b""))


@lru_cache(maxsize=4096)
def reader(t: ColumnType, sent: int, charset: str) -> Read:
    """Returns a function that converts Data to ready values, for a column of this type.

    That function raises IrregularError for a value that the type cannot hold, SchemaError for an invalid value.
    """
    if sent in NUMBERS:
        return _number(t)
    if sent not in (BYTES, STRING):
        return _unknown
    if t.name in BINARIES:
        return lambda data: data.get("bv", b"")
    if t.name in GEOMETRIES:
        return _geometry
    text = _text(sent, charset)
    if t.name in TEMPORAL:
        read_temporal = _temporal(t)
        return lambda data: _or_irregular(read_temporal, text(data))
    if t.name in ("enum", "set"):
        label = _label(t)
        return lambda data: label(text(data))
    return text


def _unknown(data: Data) -> Any:
    raise IrregularError(f"data type {data.get('dataType')} is unknown")


def _number(t: ColumnType) -> Read:
    read = _bits(t) if t.name == "bit" else _floating(t) if t.name in ("float", "double") else _exact(t)

    def read_number(data: Data) -> Any:
        text = data.get("sv", "")
        if len(text) > _LONGEST:
            raise SchemaError(f"a number has {len(text)} characters, expected at most {_LONGEST}")
        return read(text)

    return read_number


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise SchemaError(f"{text[:80]!r} is not an integer")
    return int(text)


def _exact(t: ColumnType) -> Callable[[str], Any]:
    canonical = values.reader(t)
    if t.name == "decimal":
        return lambda text: _or_irregular(canonical, _plain(text))

    def read(text: str) -> Any:
        number = _integer(text)
        return _or_irregular(canonical, number)

    return read


def _bits(t: ColumnType) -> Callable[[str], int]:
    size = t.length or 64

    def read(text: str) -> int:
        number = _integer(text)
        if number < 0 and size == 64:
            number += 2**64
        if not 0 <= number < 2**size:
            raise IrregularError(f"{text[:80]!r} does not fit {t}")
        return number

    return read


def _plain(text: str) -> str:
    """Formats a decimal in plain notation, without plus sign and leading zeros."""
    if not _NUMBER.fullmatch(text):
        raise SchemaError(f"{text[:80]!r} is not a decimal")
    number = Decimal(text)
    if abs(number.adjusted()) > _LONGEST:
        raise IrregularError(f"{text[:80]!r} does not fit a decimal")
    return format(number, "f")


def _floating(t: ColumnType) -> Callable[[str], float]:
    single = t.name == "float"

    def read(text: str) -> float:
        if _NO_NUMBER.fullmatch(text):
            return float(text)
        if not _NUMBER.fullmatch(text):
            raise SchemaError(f"{text[:80]!r} is not a number")
        number = float32(text) if single else float(text)
        if number is None or number in (float("inf"), float("-inf")):
            raise IrregularError(f"{text[:80]!r} does not fit {t}")
        return number

    return read


def _text(sent: int, charset: str) -> Callable[[Data], str]:
    """Reads bytes in an unknown charset: text if they are UTF-8."""
    known = None if sent == BYTES else charsets.known(charset)
    codec = "utf8" if known in (None, charsets.BINARY) else known

    def read(data: Data) -> str:
        try:
            return charsets.decode(data.get("bv", b""), codec)
        except SchemaError as error:
            raise IrregularError(str(error)) from error

    return read


def _or_irregular(read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except SchemaError as error:
        raise IrregularError(str(error)) from error


def _temporal(t: ColumnType) -> Callable[[str], Any]:
    if t.name == "date":
        return values.read_date
    if t.name == "time":
        return values.read_time
    read = _instant if t.name == "timestamp" else values.read_datetime
    step = 10 ** (6 - (t.length or 0))

    def read_moment(text: str) -> int:
        us, _ = read(text)
        if us % step:
            raise IrregularError(f"{text!r} has more digits than {t}")
        return us

    return read_moment


def _instant(text: str) -> tuple[int, int]:
    """Reads a date and time with an offset (UTC if there is none); returns microseconds since 1970 and fraction digits."""
    match = _OFFSET.fullmatch(text)
    if match is None:
        return values.read_datetime(text)
    local, sign, hours, minutes = match.groups()
    us, digits = values.read_datetime(local)
    if sign:
        us -= (int(hours) * 60 + int(minutes)) * 60_000_000 * (1 if sign == "+" else -1)
    if not _FIRST <= us <= _LAST:
        raise IrregularError(f"{text!r} is not a valid date and time")
    return us, digits


def _label(t: ColumnType) -> Callable[[str], Any]:
    """Returns the reader of labels; if members are known and the text is not one of them, it is a member's number."""
    members = t.members
    if members is None:
        limit = 2**16 if t.name == "enum" else 2**64
        return lambda text: _below(text, limit, t)
    several = t.name == "set"

    def read(text: str) -> str:
        labels = text.split(",") if several else [text]
        if not text or set(labels) <= set(members) or not (text.isascii() and text.isdigit() and len(text) <= 20):
            return text
        number = int(text)
        if several and number < 2 ** len(members):
            return ",".join(m for bit, m in enumerate(members) if number >> bit & 1)
        if not several and number <= len(members):
            return members[number - 1] if number else ""
        return text

    return read


def _below(text: str, limit: int, t: ColumnType) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 20) or int(text) >= limit:
        raise IrregularError(f"the members of {t} are not known")
    return int(text)


def _geometry(data: Data) -> dict[str, Any]:
    whole = data.get("bv", b"")
    if len(whole) < 4:
        raise IrregularError(f"{len(whole)} bytes are not a geometry")
    return {"srid": struct.unpack_from("<I", whole)[0], "wkb": whole[4:]}


@lru_cache(maxsize=4096)
def writer(t: ColumnType, sent: int, charset: str, bit64_signed: bool) -> Write:
    """Returns a function that converts ready values to Data, for a column of this type, the inverse of `reader`."""
    text = _text_of(t, bit64_signed)
    if sent in NUMBERS:
        return lambda value: {"dataType": sent, "sv": text(value)}
    if t.name in BINARIES or t.name in GEOMETRIES:
        raw = bytes if t.name in BINARIES else _geometry_bytes
        return lambda value: {"dataType": sent, "charset": charset, "bv": raw(value)}
    if sent == BYTES:
        return lambda value: {"dataType": sent, "bv": charsets.encode(text(value), "utf8")}
    known = charsets.known(charset)
    codec = "utf8" if known in (None, charsets.BINARY) else known
    return lambda value: {"dataType": sent, "charset": charset, "bv": charsets.encode(text(value), codec)}


def write_irregular(sent: int, charset: str, value: bytes) -> Data:
    """Returns the Data of a value that its type cannot hold."""
    if sent in NUMBERS:
        try:
            return {"dataType": sent, "sv": value.decode()}
        except UnicodeDecodeError as error:
            raise UnsupportedError(f"{value!r} is not a number's text") from error
    return {"dataType": sent, "charset": charset, "bv": value}


def _geometry_bytes(value: dict[str, Any]) -> bytes:
    return struct.pack("<I", value["srid"] or 0) + bytes(value["wkb"])


def _text_of(t: ColumnType, bit64_signed: bool) -> Callable[[Any], str]:
    if t.name in ("float", "double"):
        return lambda value: _float_text(value, 32 if t.name == "float" else 64)
    if t.name == "timestamp":
        return lambda value: values.write_datetime(value, t.length or 0, zone=" +00:00")
    if t.name == "bit" and bit64_signed and (t.length or 64) == 64:
        return lambda value: str(value - 2**64 if value >= 2**63 else value)
    if t.name in INTEGERS or t.name in ("year", "bit"):
        return str
    if t.name in ("enum", "set") and t.members is None:
        return str
    if t.name == "boolean":
        return lambda value: "1" if value else "0"
    return values.writer(t)


def _float_text(value: float, bits: int) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Inf" if value > 0 else "-Inf"
    return W_RAW.float(value, bits)
