"""Values as they arrive once the column's type is known, according to README.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from changefeed.model.types import ColumnType
from changefeed.model.values import writer
from tests.model.doubles import decimal_of_double


def arriving(t: ColumnType, value: Any, options: Mapping[str, str]) -> Any:
    """The canonical value that arrives under these options; None for one that arrives as NULL or irregular."""
    if value is None:
        return None
    if t.name == "binary":
        value = value.ljust(t.length or 1, b"\0")
    if t.name == "decimal" and t.length and options.get("decimal.handling.mode") == "double":
        return decimal_of_double(t, value)
    milliseconds = options.get("time.precision.mode") == "connect"
    if t.name == "datetime" and milliseconds:
        value = value // 1000 * 1000
    if t.name == "time":
        clock, _, fraction = value.partition(".")
        if fraction[: 3 if milliseconds else 6].strip("0"):
            return None  # a TIME without digits cannot hold a fraction
        return clock if not milliseconds or clock.strip("-0:") else "00:00:00"
    return writer(t)(value)
