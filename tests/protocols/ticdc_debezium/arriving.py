"""What arrives of a value that the protocol carries, once the column's type is known: nothing less than README.md says."""

from __future__ import annotations

from typing import Any

from changefeed.model.types import ColumnType
from changefeed.model.values import IrregularError, reader, writer
from changefeed.wire.floats import fixed


def arriving(t: ColumnType, value: Any) -> Any:
    """The canonical value that arrives; None for one that arrives as NULL or irregular."""
    if value is None:
        return None
    if t.name == "decimal":
        return _decimal(t, fixed(float(value), 64))
    if t.name == "time":
        return _time(value)
    if t.name == "timestamp":
        return writer(t)(value if value >= 1_000_000 else 0)
    text = writer(t)(value)
    if t.name in ("date", "datetime") and text < "0100":
        year = int(text[:4]) + (2000 if text < "0070" else 1900)
        return f"{year}{text[4:]}"
    return text


def _decimal(t: ColumnType, digits: str) -> str | None:
    if digits == "-0":
        return None
    if t.length is None:
        return digits
    whole, _, fraction = digits.partition(".")
    shown = fraction.ljust(t.scale or 0, "0")
    try:
        return str(writer(t)(reader(t)(f"{whole}.{shown}" if shown else whole)))
    except IrregularError:  # rounded up, beyond the type
        return None


def _time(text: str) -> str | None:
    """Of TIME(0): more digits do not fit."""
    whole, _, fraction = text.partition(".")
    if fraction.strip("0"):
        return None
    return whole.removeprefix("-") if not whole.strip("-0:") else whole
