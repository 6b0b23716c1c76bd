"""A constant -> the value that a column of a type stores for it, in canonical form.

Rule 1. Only a value that every server stores without an error in strict mode has a result, and only if no setting decides what
        it is: the session's time zone (a timestamp), the connection's character set (bytes of a text outside ASCII).
Rule 2. Decimals and texts are rounded halves away from zero, floats to integers halves to even.
Rule 3. Dates and times are read as loosely as MySQL reads them: `2024-1-2`, `20240102`, 20240102, `1:2:3`, `10` (seconds).
        Where MariaDB cuts a fraction that MySQL rounds up, there is no result.
        JSON is written as MySQL and TiDB write it; MariaDB keeps the text, see `defaults.py`.
Rule 4. A result may still be no value of the type, such as a zero date: the caller finds out with `model.values.reader`.
"""

from __future__ import annotations

import json
import math
import re
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

from changefeed.model.types import BINARIES, INTEGERS, TEXTS, ColumnType
from changefeed.model.values import writer
from changefeed.mysql.ddl.constants import Quotient, Temporal, Value

_NUMBER = re.compile(r" *([+-]?(?:\d{1,80}(?:\.\d{0,80})?|\.\d{1,80})(?:[eE][+-]?\d{1,3})?) *", re.ASCII)
_DATE = re.compile(r"(\d{1,4})[-./:](\d{1,2})[-./:](\d{1,2})", re.ASCII)
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,6}))?)?)?", re.ASCII)
_TIME = re.compile(r"(-?)(?:(\d{1,2}) )?(\d{1,3}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,6}))?)?", re.ASCII)
_SHORT_TIME = re.compile(r"(-?)(\d{1,7})(?:\.(\d{0,6}))?", re.ASCII)
_US = 1_000_000


def stored(value: Value, t: ColumnType) -> Any:
    """Returns the stored value in canonical form; None if it is not known."""
    if t.name in INTEGERS:
        return _integer(value, t)
    if t.name == "bit":
        return _bits(value, t)
    if t.name == "year":
        return _year(value)
    if t.name == "decimal":
        return _decimal(value, t)
    if t.name in ("float", "double"):
        return _float(value, t)
    if t.name in BINARIES:
        return _binary(value, t)
    if t.name in ("date", "datetime", "timestamp"):
        return _moment(value, t)
    if t.name == "time":
        return _time(value, t)
    text = _text(value)
    if text is None:
        return None
    if t.name in TEXTS:
        return _fitting(text, t)
    if t.name in ("enum", "set"):
        return _members(value, text, t)
    return _normal_json(text) if t.name == "json" and not isinstance(value, Decimal) else None


def _exact(value: Value) -> Decimal | None:
    """A number, without rounding; that of a text if it is wholly a number."""
    if isinstance(value, bytes):
        return Decimal(int.from_bytes(value, "big")) if len(value) <= 8 else None
    if isinstance(value, int | Decimal):
        return Decimal(value)
    if isinstance(value, float):
        return Decimal(repr(value))
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    try:
        return None if match is None else Decimal(match[1])
    except InvalidOperation:
        return None


def _rounded(number: Decimal, scale: int, rounding: str = ROUND_HALF_UP) -> Decimal:
    with localcontext(prec=400):
        rounded = number.quantize(Decimal(1).scaleb(-scale), rounding)
    return abs(rounded) if rounded == 0 else rounded


def _integer(value: Value, t: ColumnType) -> int | None:
    number = _exact(value)
    if number is None or abs(number) > 2**65:
        return None
    whole = int(_rounded(number, 0, ROUND_HALF_EVEN if isinstance(value, float) else ROUND_HALF_UP))
    width = INTEGERS[t.name]
    low, high = (0, 2**width - 1) if t.unsigned else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    return whole if low <= whole <= high else None


def _bits(value: Value, t: ColumnType) -> int | None:
    if isinstance(value, str):  # its bytes
        number = int.from_bytes(value.encode(), "big") if value.isascii() and len(value) <= 8 else None
    else:
        exact = None if isinstance(value, float) else _exact(value)
        number = None if exact is None or abs(exact) > 2**65 else int(_rounded(exact, 0))
    return number if number is not None and 0 <= number < 2 ** (t.length or 1) else None


def _year(value: Value) -> int | None:
    number = _exact(value) if not isinstance(value, bytes | float) else None
    if number is None or abs(number) > 3000:
        return None
    year = int(_rounded(number, 0))
    if isinstance(value, str):
        if not value.isdigit():
            return None
        if year == 0:
            return 2000 if len(value) < 4 else 0
    if 0 < year < 100:
        year += 2000 if year < 70 else 1900
    return year if year == 0 or 1901 <= year <= 2155 else None


def _decimal(value: Value, t: ColumnType) -> str | None:
    number = _exact(value)
    if number is None or t.length is None or abs(number) > Decimal(10) ** 66:
        return None
    rounded = _rounded(number, t.scale or 0)
    fits = abs(rounded) < Decimal(10) ** (t.length - (t.scale or 0)) and not (t.unsigned and rounded < 0)
    return format(rounded, "f") if fits else None


def _float(value: Value, t: ColumnType) -> float | None:
    number = _exact(value)
    if number is None:
        return None
    if t.scale is None or t.length is None:
        return float(number)
    whole = math.floor(float(number))  # the server rounds the fraction alone
    rounded: float = whole + round((float(number) - whole) * 10.0**t.scale) / 10.0**t.scale
    return rounded if abs(rounded) < 10.0 ** (t.length - t.scale) else None


def _text(value: Value) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, Quotient):
        return None
    if isinstance(value, int | Decimal):
        return format(value, "f") if isinstance(value, Decimal) else str(value)
    if isinstance(value, bytes):
        return value.decode() if value.isascii() else None
    if isinstance(value, float):
        return _float_text(value)
    return None


def _float_text(value: float) -> str | None:
    """The text of a float in plain notation; None if MySQL may write an exponent."""
    return format(Decimal(repr(value)).normalize(), "f") if value == 0 or 1e-4 <= abs(value) < 1e14 else None


def _fitting(text: str, t: ColumnType) -> str | None:
    text = text.rstrip(" ") if t.name == "char" else text
    return text if t.length is None or len(text) <= t.length else None


def _binary(value: Value, t: ColumnType) -> Any:
    if isinstance(value, bytes):
        data = value
    else:
        text = _text(value)
        if text is None or not text.isascii():
            return None
        data = text.encode()
    if t.length is not None and len(data) > t.length:
        return None
    return writer(t)(data.ljust(t.length or 1, b"\0") if t.name == "binary" else data)


def _members(value: Value, text: str, t: ColumnType) -> str | None:
    """Matches members ignoring case, as the usual collations do; returns them in the table's spelling."""
    members = t.members or ()
    known = {m.lower(): m for m in reversed(members)}
    if isinstance(value, int) or (text.isdigit() and text not in known):
        number = int(text) if len(text) < 20 else -1
        if t.name == "enum":
            return members[number - 1] if 0 < number <= len(members) else None
        return (
            ",".join(m for i, m in enumerate(members) if number >> i & 1) if 0 <= number < 2 ** len(members) else None
        )
    if not isinstance(value, str):
        return None
    if t.name == "enum":
        return known.get(text.rstrip(" ").lower())
    chosen = {known.get(part.rstrip(" ").lower()) for part in text.split(",")} if text else set()
    return None if None in chosen else ",".join(m for m in members if m in chosen)


def _normal_json(text: str) -> str | None:
    """The form in which MySQL and TiDB write JSON; None if they differ, or it is not known."""
    if "\\" in text or len(text) > 1000:
        return None
    try:
        tree = json.loads(
            text, parse_float=_fraction, parse_int=_whole, parse_constant=_no_number, object_pairs_hook=_ordered
        )
    except (ValueError, RecursionError):
        return None
    return json.dumps(tree, ensure_ascii=False)


def _no_number(text: str) -> Any:
    raise ValueError(text)


def _fraction(text: str) -> float:
    """A number that is not whole and that every server reads exactly, and writes without an exponent."""
    number = float(text)
    if number.is_integer() or not 1e-4 <= abs(number) < 1e15 or sum(c.isdigit() for c in text) > 15:
        raise ValueError(text)
    return number


def _whole(text: str) -> int:
    """A number of 64 bits; the servers have others as floats."""
    if text == "-0" or not -(2**63) <= int(text) < 2**64:
        raise ValueError(text)
    return int(text)


def _ordered(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members in the order of MySQL (by length, then bytes), which must be that of TiDB (by bytes)."""
    names = sorted(name for name, _ in members)
    if len(set(names)) < len(names) or names != sorted(names, key=lambda name: (len(name.encode()), name.encode())):
        raise ValueError(names)
    return {name: dict(members)[name] for name in names}


# Dates and times.


def _moment(value: Value, t: ColumnType) -> str | None:
    parsed = _date_and_time(value)
    if parsed is None:
        return None
    (year, month, day), us = parsed
    digits = 0 if t.name == "date" else t.length or 0
    if _is_cut_differently(us, digits) or (t.name == "timestamp" and (year, month, day) != (0, 0, 0)):
        return None
    date = f"{year:04}-{month:02}-{day:02}"
    return date if t.name == "date" else f"{date} {_clock(us, digits)}"


def _is_cut_differently(us: int, digits: int) -> bool:
    """Whether MySQL, which rounds, and MariaDB, which cuts, keep different fractions."""
    unit: int = 10 ** (6 - digits)
    return us % unit * 2 >= unit > 1


def _date_and_time(value: Value) -> tuple[tuple[int, int, int], int] | None:
    """A date and the microseconds of its day."""
    if isinstance(value, Temporal):
        if value.kind == "time":
            return None
        value = value.text
    if isinstance(value, bytes | float | Decimal):
        return None
    text = str(value).strip() if isinstance(value, int | str) else ""
    if text.isascii() and text.isdigit():
        return _from_digits(text, number=isinstance(value, int))
    match = _DATE.match(text)
    if match is None:
        return None
    date, rest = _full_year(match), text[match.end() :]
    if not rest:
        return date, 0
    us = _us_of_day(rest[1:].strip()) if rest[0] in " T" else None
    return None if us is None else (date, us)


def _full_year(match: re.Match[str]) -> tuple[int, int, int]:
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if len(match[1]) == 2 and (year, month, day) != (0, 0, 0):
        year += 2000 if year < 70 else 1900
    return year, month, day


def _from_digits(text: str, *, number: bool) -> tuple[tuple[int, int, int], int] | None:
    if number and int(text) == 0:
        return (0, 0, 0), 0
    if len(text) in (8, 14):
        year, rest = int(text[:4]), text[4:]
    elif len(text) in (6, 12):
        year, rest = int(text[:2]), text[2:]
        year += 2000 if year < 70 else 1900
    else:
        return None
    us = _us_of_day(":".join(rest[i : i + 2] for i in (4, 6, 8))) if len(rest) == 10 else 0
    return None if us is None else ((year, int(rest[:2]), int(rest[2:4])), us)


def _us_of_day(text: str) -> int | None:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(match[i] or 0) for i in (1, 2, 3))
    if hour > 23 or minute > 59 or second > 59:
        return None
    return ((hour * 60 + minute) * 60 + second) * _US + int((match[4] or "").ljust(6, "0"))


def _time(value: Value, t: ColumnType) -> str | None:
    text = value.text if isinstance(value, Temporal) and value.kind == "time" else value
    if isinstance(text, int | Decimal):
        text = format(text, "f") if isinstance(text, Decimal) else str(text)
    if not isinstance(text, str):
        return None
    match, short = _TIME.fullmatch(text.strip()), _SHORT_TIME.fullmatch(text.strip())
    if match is not None:
        sign, hours = match[1], int(match[2] or 0) * 24 + int(match[3])
        minutes, seconds, fraction = int(match[4]), int(match[5] or 0), match[6] or ""
    elif short is not None:
        number = int(short[2])
        sign, hours, minutes, seconds = short[1], number // 10000, number // 100 % 100, number % 100
        fraction = short[3] or ""
    else:
        return None
    digits = t.length or 0
    us = ((hours * 60 + minutes) * 60 + seconds) * _US + int(fraction[:6].ljust(6, "0"))
    if minutes > 59 or seconds > 59 or us > (838 * 3600 + 59 * 60 + 59) * _US or _is_cut_differently(us, digits):
        return None
    us -= us % 10 ** (6 - digits)
    return ("-" if sign and us else "") + _clock(us, digits)


def _clock(us: int, digits: int) -> str:
    seconds, fraction = divmod(us, _US)
    tail = f".{fraction:06}"[: digits + 1] if digits else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{tail}"
