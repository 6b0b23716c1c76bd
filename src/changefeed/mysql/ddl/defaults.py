"""The value that existing rows get when a column is added.

DEFAULT 3, '3', b'11', x'41', TRUE, _utf8mb4'a'     that value, converted to the column's type
no default, NULL allowed                            NULL
no default, NOT NULL                                MySQL's implicit default of the type: 0, '', the first member, …
no default, date or datetime NOT NULL               the zero date: irregular, because it is not a calendar date
CURRENT_TIMESTAMP, (uuid()), generated columns,
AUTO_INCREMENT, '2026-01-01 …' for a timestamp      known only upstream (the last depends on the session's time zone)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

from changefeed.errors import ProtocolError
from changefeed.model.table import Column
from changefeed.model.types import BINARIES, INTEGERS, TEXTS, ColumnType
from changefeed.model.values import IrregularError, reader, writer
from changefeed.mysql.ddl.tokens import Tokens, bits_of

_ZERO_DATE, _ZERO_TIME = "0000-00-00", "00:00:00"
_NUMBER = re.compile(r"[+-]?(?:\d{1,80}(?:\.\d{0,80})?|\.\d{1,80})", re.ASCII)
_REAL = re.compile(_NUMBER.pattern + r"(?:[eE][+-]?\d{1,3})?", re.ASCII)
_TIME = re.compile(r"(-?)(\d{1,3}):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,6}))?)?", re.ASCII)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Default:
    """The value of existing rows in a new column.

    Attributes:
        value: in canonical form; None for NULL, and if one of the next two is set.
        irregular: text that the type cannot represent, such as a zero date.
        unknown: a sentence: why the value does not follow from the statement; None if it does.
    """

    value: Any = None
    irregular: str | None = None
    unknown: str | None = None


NULL = Default()


def existing_rows(column: Column) -> Default:
    """Returns the value of existing rows when `column` is added."""
    if column.default is None:
        return NULL if column.nullable is not False else _implicit(column.type)
    unknown = (
        f"column {column.name}: only the upstream has the values that DEFAULT {column.default} gave to existing rows"
    )
    return _read(column.default, column.type) or Default(unknown=unknown)


def _implicit(t: ColumnType) -> Default:
    """MySQL's implicit default of a NOT NULL column without DEFAULT."""
    fraction = "." + "0" * t.length if t.name in ("datetime", "timestamp", "time") and t.length else ""
    if t.name in INTEGERS or t.name in ("bit", "year"):
        return Default(0)
    if t.name == "decimal":
        return Default("0." + "0" * t.scale if t.scale else "0")
    if t.name in ("float", "double"):
        return Default(0.0)
    if t.name == "date":
        return Default(irregular=_ZERO_DATE)
    if t.name in ("datetime", "timestamp"):
        return Default(irregular=f"{_ZERO_DATE} {_ZERO_TIME}{fraction}")
    if t.name == "time":
        return Default(_ZERO_TIME + fraction)
    if t.name in TEXTS or t.name == "set":
        return Default("")
    if t.name in BINARIES:
        return Default(writer(t)(bytes(t.length or 0) if t.name == "binary" else b""))
    if t.name == "enum":
        return Default((t.members or ("",))[0])
    if t.name == "json":
        return Default("null")
    return Default(unknown=f"MySQL has no implicit default for a NOT NULL column of type {t}")


def _read(sql: str, t: ColumnType) -> Default | None:
    """Returns the value of a literal; None if the text is not a literal, or not one that the type accepts unchanged."""
    literal = _literal(sql)
    if literal is None:
        return None
    value = _canonical(*literal, t)
    if value is None:
        return None
    try:
        return Default(writer(t)(reader(t)(value)))
    except IrregularError:
        return Default(irregular=str(value))
    except ProtocolError:
        return None


def _literal(sql: str) -> tuple[str, str | bytes] | None:
    """Returns the kind of a literal (`text`, `number` or `bits`) and its text or bytes; None if it is not a literal."""
    tokens = Tokens(sql)
    sign = "-" if tokens.accept("-") else ""
    if tokens.peek().kind == "word" and tokens.peek().raw[0] == "_":
        tokens.take()
    token = tokens.take()
    parts = [token]
    while tokens.peek().kind == "text":
        parts.append(tokens.take())
    if tokens.peek().kind != "end":
        return None
    if token.kind == "bits" and not sign:
        return "bits", bits_of(token.raw)[1]
    if token.kind == "text" and not sign:
        return "text", "".join(p.value for p in parts)
    if token.kind == "number":
        return "number", sign + token.raw
    return ("number", "1" if token.upper == "TRUE" else "0") if token.upper in ("TRUE", "FALSE") else None


def _canonical(kind: str, literal: str | bytes, t: ColumnType) -> Any:
    """Returns the literal in the type's canonical form, which `reader` then checks; None if that is not possible."""
    if t.name in INTEGERS or t.name in ("bit", "year"):
        return _integer(kind, literal, t)
    if t.name in BINARIES:
        data = literal if isinstance(literal, bytes) else literal.encode("utf-8", "surrogateescape")
        return writer(t)(data.ljust(t.length or 0, b"\0") if t.name == "binary" else data)
    if isinstance(literal, bytes):
        try:
            literal = literal.decode()
        except UnicodeDecodeError:
            return None
    if t.name in TEXTS:
        return literal.rstrip(" ") if t.name == "char" else literal
    if t.name in ("enum", "set"):
        return _members(literal, t) if kind == "text" else None
    if t.name == "decimal":
        return _decimal(literal, t)
    if t.name in ("float", "double"):
        return float(literal) if _REAL.fullmatch(literal) else None
    return _temporal(literal, t)


def _integer(kind: str, literal: str | bytes, t: ColumnType) -> int | None:
    if isinstance(literal, bytes):
        return int.from_bytes(literal, "big")
    if not _NUMBER.fullmatch(literal) or (
        t.name == "bit" and kind == "text"
    ):  # MySQL takes the bytes of the text as bits
        return None
    number = Decimal(literal)
    short = t.name == "year" and 0 < number < 1901  # 70 stands for 1970, 69 for 2069
    return int(number) if number == number.to_integral_value() and not short else None


def _decimal(literal: str, t: ColumnType) -> str | None:
    if not _NUMBER.fullmatch(literal):
        return None
    with localcontext(prec=200):
        number = Decimal(literal)
        exact = number.quantize(Decimal(1).scaleb(-(t.scale or 0)))
    return format(exact, "f") if exact == number else None


def _members(literal: str, t: ColumnType) -> str | None:
    """Matches members ignoring case, as the usual collations do; returns them in the table's spelling."""
    known = {m.lower(): m for m in reversed(t.members or ())}
    if t.name == "enum":
        return known.get(literal.rstrip(" ").lower())
    chosen = {known.get(part.lower()) for part in literal.split(",")} if literal else set()
    return None if None in chosen else ",".join(m for m in t.members or () if m in chosen)


def _temporal(literal: str, t: ColumnType) -> str | None:
    digits = t.length or 0
    if t.name == "time":
        match = _TIME.fullmatch(literal)
        if match is None or len((match[5] or "").rstrip("0")) > digits:
            return None
        fraction = "." + (match[5] or "").ljust(6, "0")[:digits] if digits else ""
        return f"{match[1]}{int(match[2]):02}:{match[3]}:{match[4] or '00'}{fraction}"
    match = _MOMENT.fullmatch(literal)
    if match is None or len((match[3] or "").rstrip("0")) > digits:
        return None
    if t.name == "date":
        return match[1] if match[2] in (None, _ZERO_TIME) else None
    if t.name == "timestamp" and match[1] != _ZERO_DATE:
        return None
    if t.name not in ("datetime", "timestamp"):
        return None
    fraction = "." + (match[3] or "").ljust(6, "0")[:digits] if digits else ""
    return f"{match[1]} {match[2] or _ZERO_TIME}{fraction}"
