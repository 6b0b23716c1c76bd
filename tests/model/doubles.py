"""Decimals as they are after a protocol has sent them as doubles."""

from __future__ import annotations

from typing import Any

from changefeed.model.types import ColumnType
from changefeed.model.values import IrregularError, reader, writer
from changefeed.wire.floats import fixed


def decimal_of_double(t: ColumnType, value: Any) -> str | None:
    """The canonical text of a decimal that came as the nearest double; None if the type cannot hold that double."""
    digits = fixed(float(value), 64)
    if digits == "-0":
        return None
    if t.length is None:
        return digits
    whole, _, fraction = digits.partition(".")
    shown = fraction.ljust(t.scale or 0, "0")
    try:
        return str(writer(t)(reader(t)(f"{whole}.{shown}" if shown else whole)))
    except IrregularError:  # rounded up to a value that the type cannot hold
        return None
