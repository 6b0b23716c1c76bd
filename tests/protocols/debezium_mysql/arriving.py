"""What arrives of a value that the protocol carries, once the column's type is known: nothing less than README.md says."""

from __future__ import annotations

from typing import Any

from changefeed.model.types import ColumnType
from changefeed.model.values import writer


def arriving(t: ColumnType, value: Any) -> Any:
    """The canonical value that arrives; None for one that arrives as NULL or irregular."""
    if value is None:
        return None
    if t.name == "binary":
        value = value.ljust(t.length or 1, b"\0")
    if t.name == "time":
        clock, _, fraction = value.partition(".")
        return None if fraction.strip("0") else clock  # a TIME of no digits does not hold more
    return writer(t)(value)
