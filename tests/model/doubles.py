"""What a protocol that sends decimals as doubles leaves of them."""

from __future__ import annotations

from typing import Any

from changefeed.model.types import ColumnType
from changefeed.model.values import IrregularError, reader, writer
from changefeed.wire.floats import fixed


def decimal_of_double(t: ColumnType, value: Any) -> str | None:
    """The canonical text of a decimal that came as the nearest double; None where the type cannot hold that one."""
    digits = fixed(float(value), 64)
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
