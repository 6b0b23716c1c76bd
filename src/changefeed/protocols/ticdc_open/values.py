r"""Converts column values between JSON `v` and ready values (see `model.values`), type by type.

    type                      t                 v
    tinyint … bigint, year    1 2 3 8 9, 13     number
    float, double             4 5               number, shortest of its width
    bit                       16                unsigned number
    enum, set                 247 248           index from 1, bit mask
    decimal                   246               string, the column's scale
    date                      10 14             "2026-01-02"
    datetime, timestamp       12 7              "2026-01-02 03:04:05.100", timestamp in the producer's zone
    time                      11                "-838:59:59"
    json                      245               string with JSON text
    vector                    225               "[1,2.5]"
    text kinds, blob kinds    249–252           base64 of the bytes, text and blob alike
    char, varchar             15 253 254        string
    binary, varbinary         15 253 254 + f&1  what `strconv.Quote` prints, see `ticdc.go_quote`

Rule 1. A value that does not have the form of its type is an error; it is never converted.
Rule 2. A value of the right form that its type cannot hold is `ticdc.texts.Irregular`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import tzinfo
from functools import lru_cache
from typing import Any

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model import values as model
from changefeed.model.types import BINARIES, INTEGERS, TEXTS, ColumnType
from changefeed.model.values import Irregular
from changefeed.mysql.type_codes import TEXT_CODES
from changefeed.mysql.zone import to_local
from changefeed.ticdc import go_quote
from changefeed.ticdc.texts import TEMPORAL, moment, or_irregular, read_string, read_vector
from changefeed.wire import base64_text
from changefeed.wire.floats import fixed, float32
from changefeed.wire.go_json import JsonDialect
from changefeed.wire.json_form import show
from changefeed.wire.strict_json import Number

Read = Callable[[Any], Any]
Write = Callable[[Any], str]


@lru_cache(maxsize=4096)
def reader(t: ColumnType, code: int, zone: tzinfo, legacy: bool) -> Read:
    """Returns a function that converts JSON values, except null, to ready values.

    That function returns `Moment` for datetime and timestamp, and `Irregular` for a value that the type cannot hold.

    Args:
        t: the column's type.
        code: the type's number in the record.
        zone: time zone of the text of a TIMESTAMP.
        legacy: whether char and binary columns are base64 too, as before v4.0.5.
    """
    name = t.name
    if name in INTEGERS or name in ("year", "bit"):
        return _integer(t, model.reader(t))
    if name == "enum":
        return _integer(t, _at_most(t, 2**16 - 1))
    if name == "set":
        return _integer(t, _at_most(t, 2**64 - 1))
    if name in ("float", "double"):
        return _read_float if name == "float" else _read_double
    if name in ("decimal", "date", "time"):
        return _text(t, or_irregular(model.reader(t)))
    if name in TEMPORAL:
        return _text(t, moment(zone if name == "timestamp" else None))
    if name == "vector":
        return _text(t, read_vector)
    if code in TEXT_CODES and name in BINARIES and not legacy:
        return _text(t, _read_quoted)
    if name in BINARIES:
        return _text(t, base64_text.read)
    if name in TEXTS and (code not in TEXT_CODES or legacy):
        return _text(t, lambda text: _decoded(base64_text.read(text)))
    if name in TEXTS or name == "json":
        return _text(t, read_string)
    return model.reader(t)  # null has no values


def _integer(t: ColumnType, check: Read) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not Number or len(value) > 20 or not _is_integer(value):
            raise SchemaError(f"{show(value)} is not {t.with_article}")
        return check(int(value))

    return read


def _is_integer(text: str) -> bool:
    return text.isdigit() or (text[0] == "-" and text[1:].isdigit())


def _at_most(t: ColumnType, limit: int) -> Read:
    def check(number: int) -> int:
        if not 0 <= number <= limit:
            raise SchemaError(f"{number} is not {t.with_article}")
        return number

    return check


def _read_float(value: Any) -> float:
    number = float32(value) if type(value) is Number else None
    if number is None:
        raise SchemaError(f"{show(value)} is not a float")
    return number


def _read_double(value: Any) -> float:
    number = float(value) if type(value) is Number else math.inf
    if math.isinf(number):
        raise SchemaError(f"{show(value)} is not a double")
    return number


def _text(t: ColumnType, then: Read) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not str:
            raise SchemaError(f"{show(value)} is not {t.with_article}")
        return then(value)

    return read


def _decoded(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Irregular(data)


def _read_quoted(text: str) -> bytes:
    return go_quote.unquote(text)


@lru_cache(maxsize=4096)
def writer(t: ColumnType, code: int, zone: tzinfo, json: JsonDialect, legacy: bool) -> Write:
    """Returns a function that converts ready values to JSON text; not for NULL.

    Raises:
        UnsupportedError: the protocol cannot represent the type.
    """
    name = t.name
    if name in INTEGERS or name in ("year", "bit"):
        return str
    if name in ("enum", "set"):
        return str if t.members is None else _members(t, t.members)
    if name in ("float", "double"):
        return _write_float(json, 32 if name == "float" else 64)
    if name in TEMPORAL:
        return _write_moment(t, json, zone if name == "timestamp" else None)
    if name in TEXTS and (code not in TEXT_CODES or legacy):
        return lambda value: json.string(base64_text.write(value.encode("utf-8", "surrogateescape")))
    if name in TEXTS or name in ("json", "time"):
        return json.string
    if name in BINARIES and code in TEXT_CODES and not legacy:
        return lambda value: json.string(go_quote.quote(value))
    if name in BINARIES:
        return lambda value: json.string(base64_text.write(value))
    if name == "vector":
        return lambda value: json.string("[" + ",".join(_finite(fixed, item, 32) for item in value) + "]")
    if name in ("decimal", "date"):
        text = model.writer(t)
        return lambda value: json.string(text(value))
    if name == "null":
        return lambda value: "null"
    if name == "boolean":
        return lambda value: "1" if value else "0"
    raise UnsupportedError(f"ticdc-open cannot carry a column of type {t}")


def write_irregular(data: bytes, t: ColumnType, code: int, json: JsonDialect, legacy: bool) -> str:
    """Returns the JSON text of a value that the column's type cannot hold.

    Raises:
        UnsupportedError: the column is a number, but the text is not.
    """
    if t.name in TEXTS and (code not in TEXT_CODES or legacy):
        return json.string(base64_text.write(data))
    text = data.decode("utf-8", "surrogateescape")
    if t.name in TEXTS or t.name in ("json", "date", "datetime", "timestamp", "time", "decimal"):
        return json.string(text)
    raise UnsupportedError(f"ticdc-open cannot carry {text!r:.60} in a column of type {t}")


def _members(t: ColumnType, members: tuple[str, ...]) -> Write:
    places = {member: place for place, member in enumerate(members)}

    def place(member: str) -> int:
        if member not in places:
            raise UnsupportedError(f"{member!r} is not a member of {t}")
        return places[member]

    if t.name == "enum":
        return lambda value: "0" if value == "" and "" not in places else str(place(value) + 1)
    return lambda value: str(sum(1 << place(member) for member in value.split(",") if value))


def _write_float(json: JsonDialect, bits: int) -> Write:
    return lambda value: _finite(json.float, value, bits)


def _finite(write: Callable[[float, int], str], value: float, bits: int) -> str:
    if not math.isfinite(value):
        raise UnsupportedError(f"ticdc-open cannot carry {value}")
    return write(value, bits)


def _write_moment(t: ColumnType, json: JsonDialect, zone: tzinfo | None) -> Write:
    def write(us: int) -> str:
        try:
            local = us if zone is None else to_local(us, zone)
            return json.string(model.write_datetime(local, t.length or 0))
        except (OverflowError, ValueError) as error:
            raise UnsupportedError(f"ticdc-open cannot carry {us} µs since 1970 as {t}") from error

    return write
