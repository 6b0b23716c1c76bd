r"""Converts column values between JSON strings and ready values (see `model.values`), type by type.

    tinyint … bigint, year, bit(n)     "-1", "2026", "257"
    float, double                      "0.1", plain digits from TiCDC; from Canal as Java prints it, "1.0E7"
    decimal                            "12.50"
    date, time(p)                      "2026-01-02", "-838:59:59.000"
    datetime(p), timestamp(p)          "2026-01-02 03:04:05.100", timestamp in the producer's zone
    enum, set                          "1", the number of the member; "5", the bits of the members
    char … longtext, json              the text
    binary … longblob                  one character a byte, ISO-8859-1
    geometry kinds                     the same: SRID little-endian, then WKB
    vector                             "[1,2.5]"

Rule 1. All values are strings, or null. One of another form than its type's is an error, never converted.
Rule 2. A value of the right form that its type cannot hold is `ticdc.texts.Irregular`.
Rule 3. Where `mysqlType` lists the members, an enum or a set is their text; a number beyond them is irregular.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from datetime import tzinfo
from functools import lru_cache
from typing import Any

from changefeed.errors import ProtocolError, SchemaError, UnsupportedError
from changefeed.model import values as model
from changefeed.model.types import BINARIES, GEOMETRIES, INTEGERS, TEXTS, ColumnType
from changefeed.model.values import Irregular, Moment
from changefeed.mysql.zone import to_local
from changefeed.protocols.canal_json.options import NAME
from changefeed.ticdc.texts import TEMPORAL, moment, or_irregular, read_string, read_vector
from changefeed.wire.floats import fixed, float32

Read = Callable[[str], Any]
Write = Callable[[Any], str]

_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,19})", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,4})?", re.ASCII)
_LARGEST = {"enum": 2**16 - 1, "set": 2**64 - 1}


@lru_cache(maxsize=4096)
def reader(t: ColumnType, zone: tzinfo) -> Read:
    """Returns a function that converts text to ready values, `Moment` for datetime and timestamp, or `Irregular`; not for null.

    It raises SchemaError for a text of another form.
    """
    name = t.name
    if name in INTEGERS or name in ("year", "bit"):
        return _integer(t)
    if name in _LARGEST:
        return _numbered(t)
    if name in ("float", "double"):
        return _float(t)
    if name in ("decimal", "date", "time"):
        return or_irregular(model.reader(t))
    if name in TEMPORAL:
        return _moment(t, zone)
    if name == "vector":
        return read_vector
    if name in BINARIES:
        return _bytes
    if name in GEOMETRIES:
        return _geometry
    return read_string  # texts and JSON


def _integer(t: ColumnType) -> Read:
    check, bits = model.reader(t), t.length if t.name == "bit" else None

    def read(text: str) -> Any:
        if not _INTEGER.fullmatch(text):
            raise SchemaError(f"{text!r:.60} is not of type {t}")
        number = int(text)
        try:
            check(number)
        except SchemaError:
            return Irregular(text.encode())
        return number if bits is None or number.bit_length() <= bits else Irregular(text.encode())

    return read


def _numbered(t: ColumnType) -> Read:
    """Returns the reader of an enum or set without known members: the member's number, or the members' bits."""
    largest, members = _LARGEST[t.name], t.members

    def read(text: str) -> Any:
        if not _INTEGER.fullmatch(text) or text[0] == "-":
            raise SchemaError(f"{text!r:.60} is not the number of a member of {t!s:.60}")
        number = int(text)
        if number > (largest if members is None else len(members) if t.name == "enum" else 2 ** len(members) - 1):
            return Irregular(text.encode())
        if members is None:
            return number
        if t.name == "enum":
            return members[number - 1] if number else ""
        return ",".join(member for place, member in enumerate(members) if number >> place & 1)

    return read


def _float(t: ColumnType) -> Read:
    def read(text: str) -> float:
        number = None
        if _NUMBER.fullmatch(text):
            number = float32(text) if t.name == "float" else float(text)
        if number is None or math.isinf(number):
            raise SchemaError(f"{text!r:.60} is not of type {t}")
        return number

    return read


def _moment(t: ColumnType, zone: tzinfo) -> Read:
    read = moment(zone if t.name == "timestamp" else None)
    if t.length is None:
        return read

    def within(text: str) -> Any:
        result = read(text)
        return Irregular(text.encode()) if isinstance(result, Moment) and result.digits > (t.length or 0) else result

    return within


def _bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as error:
        raise SchemaError(f"{text!r:.60} has characters that are not a byte of ISO-8859-1") from error


def _geometry(text: str) -> Any:
    data = _bytes(text)
    if len(data) < 4:
        return Irregular(text.encode())
    return {"srid": struct.unpack_from("<I", data)[0], "wkb": data[4:]}


@lru_cache(maxsize=4096)
def writer(t: ColumnType, zone: tzinfo) -> Write:
    """Returns a function that converts ready values to text, without quotes; not for NULL.

    Raises:
        UnsupportedError: the protocol cannot represent the type; by that function: it cannot represent a value.
    """
    name = t.name
    if name in INTEGERS or name in ("year", "bit"):
        return str
    if name == "boolean":
        return lambda value: "1" if value else "0"
    if name in _LARGEST:
        return str if t.members is None else _member_number(t, t.members)
    if name in ("float", "double"):
        return _write_float(32 if name == "float" else 64)
    if name in ("decimal", "date"):
        return model.writer(t)
    if name in TEMPORAL:
        return _write_moment(t, zone if name == "timestamp" else None)
    if name == "vector":
        number = _write_float(32)
        return lambda value: "[" + ",".join(map(number, value)) + "]"
    if name in BINARIES:
        return lambda value: bytes(value).decode("latin-1")
    if name in GEOMETRIES:
        return lambda value: struct.pack("<I", value["srid"] or 0).decode("latin-1") + value["wkb"].decode("latin-1")
    if name in TEXTS or name in ("json", "time"):
        return lambda value: value
    raise UnsupportedError(f"{NAME} cannot carry a column of type {t}")


def write_irregular(data: bytes, t: ColumnType, zone: tzinfo) -> str:
    """Returns the text of a value that the column's type cannot hold.

    Raises:
        UnsupportedError: the text would be read as another value.
    """
    text = data.decode("utf-8", "surrogateescape")
    if t.name in TEXTS or t.name == "json":
        return text
    try:
        if type(reader(t, zone)(text)) is Irregular:
            return text
    except ProtocolError:
        pass
    raise UnsupportedError(f"{NAME} cannot carry {text!r:.60} in a column of type {t}")


def _member_number(t: ColumnType, members: tuple[str, ...]) -> Write:
    places = {member: place for place, member in enumerate(members)}

    def place(member: str) -> int:
        if member not in places:
            raise UnsupportedError(f"{NAME}: {member!r} is not a member of {t}")
        return places[member]

    if t.name == "enum":
        return lambda value: "0" if value == "" and "" not in places else str(place(value) + 1)
    return lambda value: str(sum(1 << place(member) for member in set(filter(None, value.split(",")))))


def _write_float(bits: int) -> Write:
    def write(value: float) -> str:
        if not math.isfinite(value):
            raise UnsupportedError(f"{NAME} cannot carry {value}")
        return fixed(value, bits)

    return write


def _write_moment(t: ColumnType, zone: tzinfo | None) -> Write:
    def write(us: int) -> str:
        try:
            return model.write_datetime(us if zone is None else to_local(us, zone), t.length or 0)
        except (OverflowError, ValueError) as error:
            raise UnsupportedError(f"{NAME} cannot carry {us} µs since 1970 as {t}") from error

    return write
