"""Converts values from the type in the record to the type in the DDL, for the modes of the connector.

Rule 1. A conversion keeps the value, or fails: only zeros are dropped from digits, and only two types wrap: bigint unsigned
        in mode `long`, and int unsigned, which connectors before 3.6 take for signed if the DDL spells it INTEGER.
Rule 2. A value that is not a member of the type, is out of its range or has too many digits raises `IrregularError`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from changefeed.columnar.conversions import ByColumn, wrapped
from changefeed.connect import java_json
from changefeed.errors import SchemaError
from changefeed.model import values
from changefeed.model.types import BINARIES, GEOMETRIES, INTEGERS, TEXTS, ColumnType
from changefeed.model.values import IrregularError
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.values import numbers
from changefeed.wire import base64_text
from changefeed.wire.floats import float32

Change = Callable[[Any], Any]
_Fit = Callable[[ColumnType, ColumnType, Options], Change]

_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})*", re.ASCII)
# As the connector writes it. Base64 of random bytes is so once in 65,536.
_LIKE_HEX = re.compile(r"[0-9a-f]{8,}", re.ASCII)
_FLOAT_DIGITS = 9  # tell any two float32 apart


def kind_of(t: ColumnType) -> str:
    """Returns the kind of a type, by which a conversion is chosen."""
    if t.name in INTEGERS or t.name == "year":
        return "integer"
    if t.name in TEXTS or t.name == "json":
        return "text"
    if t.name in BINARIES:
        return "binary"
    if t.name in GEOMETRIES:
        return "geometry"
    return {"float": "real", "double": "real"}.get(t.name, t.name)


def same(value: Any) -> Any:
    """Returns the value unchanged."""
    return value


def _stays(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    return same


# Numbers.


def _integer(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    check = values.reader(defined)
    long = str(inferred) == "bigint" and options.bigint_unsigned_handling_mode == "long"
    wrap = {"int unsigned": 2**32, "bigint unsigned": 2**64 if long else 0}.get(str(defined), 0)

    def change(value: int) -> Any:
        try:
            return check(int(value) + (wrap if -wrap <= 2 * value < 0 else 0))
        except SchemaError as error:
            raise IrregularError(f"{value} does not fit {defined}") from error

    return ByColumn(change, wrapped) if wrap == 2**64 else change


def unscaled(scale: int, sure: bool) -> Change:
    """Returns the reader of a decimal in mode `precise`; unless `sure`, text that may be plain digits is refused."""

    def read(text: str) -> Decimal:
        number = numbers.read_unscaled(text, scale)
        if number is None or numbers.write_unscaled(numbers.unscaled(number, scale)) != text:
            raise SchemaError(f"{text[:40]!r} is not base64 of a decimal")
        if not sure and scale == 0 and text.isdigit():
            raise SchemaError(f"{text!r} is ambiguous: a number, or base64 of {number}")
        return number

    return read


def _bits(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    def change(value: int) -> int:
        if int(value).bit_length() > (defined.length or 64):
            raise IrregularError(f"{int(value)} does not fit {defined}")
        return int(value)

    return change


def _whole(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    check = _integer(ColumnType("decimal"), defined, options)

    def change(value: Any) -> Any:
        number = Decimal(value)
        if number != int(number):
            raise IrregularError(f"{value} does not fit {defined}")
        return check(int(number))

    return change


def _decimal(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    return lambda value: _digits(format(Decimal(value), "f"), defined)


def _decimal_of_double(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    def change(value: float) -> Any:
        if not math.isfinite(value):
            raise IrregularError(f"{value} does not fit {defined}")
        bits = 32 if inferred.name == "float" else 64
        return _digits(format(Decimal(str(java_json.number(value, bits))), "f"), defined)

    return change


def _decimal_of_text(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    return lambda value: _digits(values.read_decimal(value), defined)


def _digits(text: str, defined: ColumnType) -> Any:
    """Converts digits to a decimal with the fraction digits of the type."""
    if defined.length is None:
        return values.read_decimal(text)
    whole, _, fraction = text.partition(".")
    kept = fraction.rstrip("0").ljust(defined.scale or 0, "0")
    return values.reader(defined)(f"{whole}.{kept}" if kept else whole)


def _real(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    if defined.name == "double" or inferred.name == "float":
        return same

    def change(value: float) -> float:
        if not math.isfinite(value):
            return value
        text = java_json.number(value, 64)
        rounded = float32(text)
        short = len(Decimal(str(text)).normalize().as_tuple().digits) <= _FLOAT_DIGITS
        if rounded is None or (rounded != value and not short):
            raise IrregularError(f"{text} does not fit {defined}")
        return rounded

    return change


# Dates and times.


def _moment(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    digits = defined.length or 0

    def change(us: int) -> int:
        if us % 10 ** (6 - digits):
            raise IrregularError(f"'{values.write_datetime(us, 6)}' has more than {digits} fraction digits")
        return us

    return change


def _time(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    digits = defined.length or 0

    def change(text: str) -> str:
        clock, _, fraction = text.partition(".")
        if fraction[digits:].strip("0"):
            raise IrregularError(f"{text!r} has more than {digits} fraction digits")
        return f"{clock}.{fraction.ljust(digits, '0')[:digits]}" if digits else clock

    return change


# Bytes and members.


def _padded(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    if defined.name != "binary":
        return same
    length = defined.length or 1
    return lambda value: value.ljust(length, b"\0")


def _decoded(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    pad = _padded(inferred, defined, options)
    read = {"hex": _unhex, "base64-url-safe": _url_safe}.get(options.binary_mode, base64_text.read)
    return lambda text: pad(read(text))


def unlike_hex(defined: ColumnType) -> Change:
    """Returns the reader of base64 that refuses what is hex, too, unless a BINARY of all its bytes shows which it is."""
    length = (defined.length or 1) if defined.name == "binary" else None

    def read(text: str) -> bytes:
        data = base64_text.read(text)
        if len(data) != length and _LIKE_HEX.fullmatch(text) is not None:
            raise SchemaError(f"{text[:40]!r} is ambiguous: hex, or base64 of {len(data)} bytes")
        return data

    return read


def of_characters(defined: ColumnType) -> Change:
    """Returns the reader of text with a character for each byte."""
    pad = _padded(ColumnType("varbinary"), defined, Options())

    def change(text: str) -> Any:
        try:
            return pad(text.encode("latin-1"))
        except UnicodeEncodeError as error:
            raise IrregularError(f"{text!r:.60} has characters that are not one byte each") from error

    return change


def _unhex(text: str) -> bytes:
    if _HEX.fullmatch(text) is None:
        raise SchemaError(f"{text[:40]!r} is not hex")
    return bytes.fromhex(text)


def _url_safe(text: str) -> bytes:
    if "+" in text or "/" in text:
        raise SchemaError(f"{text[:40]!r} is not URL-safe base64")
    return base64_text.read(text.translate(str.maketrans("-_", "+/")))


def _member(inferred: ColumnType, defined: ColumnType, options: Options) -> Change:
    known = {"", *(defined.members or ())}

    def change(value: str) -> str:
        labels = [value] if defined.name == "enum" else value.split(",")
        if not known.issuperset(labels):
            raise IrregularError(f"{value!r:.60} does not fit {defined}")
        return value

    return change


FITS: dict[tuple[str, str], _Fit] = {
    ("integer", "integer"): _integer,
    ("boolean", "integer"): _integer,
    ("boolean", "bit"): _bits,
    ("bit", "bit"): _bits,
    ("decimal", "integer"): _whole,
    ("decimal", "decimal"): _decimal,
    ("real", "real"): _real,
    ("date", "date"): _stays,
    ("datetime", "datetime"): _moment,
    ("timestamp", "timestamp"): _moment,
    ("datetime", "timestamp"): _moment,  # an instant in UTC: TimestampConverter, or Avro's logical type
    ("time", "time"): _time,
    ("text", "text"): _stays,
    ("binary", "binary"): _padded,
    ("enum", "enum"): _member,
    ("set", "set"): _member,
    ("geometry", "geometry"): _stays,
    ("vector", "vector"): _stays,
}
# What the connector's field for a column may be, of another kind than the column.
AS_SENT = FITS | {
    ("real", "decimal"): _decimal_of_double,
    ("text", "decimal"): _decimal_of_text,
    ("text", "binary"): _decoded,
    ("boolean", "boolean"): _stays,
}
