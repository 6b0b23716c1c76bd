"""Values as they arrive once the column's type is known, according to README.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changefeed.model.types import ColumnType
from changefeed.model.values import writer
from tests.model.doubles import decimal_of_double


def arriving(t: ColumnType, value: Any, _options: Mapping[str, str]) -> Any:
    """The canonical value that arrives; None for one that arrives as NULL or irregular."""
    if value is None:
        return None
    if t.name == "decimal":
        return decimal_of_double(t, value)
    if t.name == "time":
        return _time(value)
    if t.name == "timestamp":
        return writer(t)(value if value >= 1_000_000 else 0)
    text = writer(t)(value)
    if t.name in ("date", "datetime") and text < "0100":
        year = int(text[:4]) + (2000 if text < "0070" else 1900)
        return f"{year}{text[4:]}"
    return text


def _time(text: str) -> str | None:
    """The text of a TIME(0); None if it has a fraction, which does not fit."""
    whole, _, fraction = text.partition(".")
    if fraction.strip("0"):
        return None
    return whole.removeprefix("-") if not whole.strip("-0:") else whole
