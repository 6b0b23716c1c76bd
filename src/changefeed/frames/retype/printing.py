"""Values as the server prints them: the texts that columns of other types become when they become text.

    int zerofill(5)     00025                       bit     its number
    year                0000, 2026                  enum    the member, '' for index 0
    decimal(5,2)        -0.50                       set     the members, joined by ','
    float               6 digits: 0.1, 16777200     date    2026-01-02
    double              the shortest text           datetime(3)   2026-01-02 03:04:05.100
    float(7,3)          0.100                       time(0)       -01:02:03

A float or double has an exponent if there are more than 15 digits before its point and none behind it, or more than 14
zeros behind it; in MySQL also if it would have more than 12 characters, or 24 for a double.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.frames.reshape.parts import family, plain_text
from changefeed.model.types import ColumnType

_POINT = 15  # the largest number of digits of a whole number, or of zeros behind the point, without an exponent
_FLOAT_DIGITS = 6
_WIDTHS = {"float": 12, "double": 24}  # of MySQL


def printed(array: pa.Array, old: ColumnType, server: str = "", width: int = 0) -> pa.Array:
    """Returns the texts of a column of the sink; `width` is the display width of a ZEROFILL column."""
    match family(old):
        case "integer":
            if pa.types.is_boolean(array.type):
                array = array.cast(pa.int8())
            text = array.cast(pa.string())
            return pc.utf8_lpad(text, 4 if old.name == "year" else width, "0")
        case "decimal":
            return plain_text(array)
        case "real":
            widest = None if server == "mariadb" else _WIDTHS[old.name]
            return pa.array([v if v is None else _real(v, old, widest) for v in array.to_pylist()], pa.string())
        case "date":
            return array.cast(pa.string())
        case "datetime":
            digits = old.length or 0
            return pc.utf8_slice_codeunits(array.cast(pa.string()), 0, 19 + (digits + 1 if digits else 0))
    return array


def _real(value: float, old: ColumnType, widest: int | None = None) -> str:
    """Formats a float or double, with an exponent if it would have more than `widest` characters."""
    if old.scale is not None:
        return f"{value:.{old.scale}f}"
    short = Decimal(f"{value:.{_FLOAT_DIGITS - 1}e}" if old.name == "float" else repr(value))
    digits = "".join(map(str, short.as_tuple().digits)).rstrip("0")
    if not digits:
        return "-0" if short.is_signed() else "0"
    point = short.adjusted() + 1  # the place of the point, counted from the first digit
    if point <= 0:
        text = "0." + "0" * -point + digits
    elif point >= len(digits):
        text = digits + "0" * (point - len(digits))
    else:
        text = f"{digits[:point]}.{digits[point:]}"
    sign = "-" if short.is_signed() else ""
    is_long = point > _POINT and point >= len(digits)
    if is_long or point <= -_POINT or (widest is not None and len(sign + text) > widest):
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        text = f"{digits[0]}{tail}e{point - 1}"
    return sign + text
