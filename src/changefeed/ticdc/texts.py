"""Column values that TiCDC sends as text, as MySQL prints them -> ready values (see `model.values`).

A text of the right form that the type cannot represent (0000-00-00, a local time that the zone skips, text that is not
UTF-8) is `Irregular`: NULL in the column, with its bytes kept separately. A text of another form is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo
from typing import Any

from changefeed.errors import SchemaError
from changefeed.model import values as model
from changefeed.model.values import Irregular, Moment
from changefeed.mysql.type_codes import MOST_DIMENSIONS
from changefeed.mysql.zone import to_utc
from changefeed.wire import strict_json
from changefeed.wire.floats import float32
from changefeed.wire.strict_json import Number

TEMPORAL = frozenset({"datetime", "timestamp"})

Read = Callable[[str], Any]


def or_irregular(then: Read) -> Read:
    """Wraps a reader: returns `Irregular` for a text that the type cannot represent."""

    def read(text: str) -> Any:
        try:
            return then(text)
        except model.IrregularError:
            return Irregular(text.encode())

    return read


def moment(zone: tzinfo | None) -> Read:
    """Returns the reader of a date and time; with `zone`, of a TIMESTAMP whose text is in that zone."""

    def read(text: str) -> Any:
        if len(text) < 19 or text[10] != " " or text[-1] == "Z":
            raise SchemaError(f"{text!r:.60} is not a date and time")
        us, digits = model.read_datetime(text)
        if zone is not None:
            utc = to_utc(us, zone)
            return Irregular(text.encode()) if utc is None else Moment(utc, digits)
        return Moment(us, digits)

    return or_irregular(read)


def read_string(text: str) -> Any:
    """Returns the text, or `Irregular` if it contains bytes that are not UTF-8 (surrogateescape)."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return Irregular(text.encode("utf-8", "surrogateescape"))
    return text


def read_vector(text: str) -> list[float]:
    """Returns the float32 values of a text such as `[1,2.5]`."""
    if text.count(",") >= MOST_DIMENSIONS:
        raise SchemaError(f"{text!r:.60}… is a vector of more than {MOST_DIMENSIONS} numbers")
    items = strict_json.read(text.encode("utf-8", "surrogateescape"), "vector")
    if type(items) is not list:
        raise SchemaError(f"{text!r:.60} is not a vector")
    return [_item(item) for item in items]


def _item(value: Any) -> float:
    number = float32(value) if type(value) is Number else None
    if number is None:
        raise SchemaError(f"{value!r:.60} is not a float")
    return number
