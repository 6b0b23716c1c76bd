"""Numbers without a schema that another `time.precision.mode` has sent: whether the mode may be wrong that the user has not set.

    column            in the default mode            sign of another mode
    DATETIME(4–6)     µs since 1970                  a time on January 2 to 31 of 1970: ms of `connect`
    DATETIME          ms or µs since 1970            after year 9999: ns of `nanoseconds`, µs of `microseconds`
    TIME(p)           µs                             more than 838:59:59, or more than p fraction digits: ns, or ms of `connect`

Rule. Only numbers that the default mode does not send, or hardly ever, are doubted: the option, once it is set, is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.columnar.conversions import Convert
from changefeed.connect.schema import Node
from changefeed.model.types import ColumnType
from changefeed.model.values import write_datetime
from changefeed.protocols.debezium_mysql.values import times

_DAY_US = 86_400_000_000
_FIRST, _LAST = _DAY_US, 31 * _DAY_US - 1  # 1972-09-27 to 2054-12-02 in ms


@dataclass(frozen=True, slots=True)
class Doubt:
    """The doubt about a column's numbers: `of_value` returns a sentence about one, or None."""

    of_value: Callable[[int], str | None]
    is_fine: bool = False  # DATETIME in µs

    def with_columns(self, convert: Convert) -> Convert:
        """The conversion of whole columns, which leaves those with a doubted number to `of_value`."""
        if not self.is_fine:
            return convert  # what lies outside of the calendar is converted value by value

        def column(array: pa.Array) -> Any:
            is_early = pc.and_(pc.greater_equal(array, _FIRST), pc.less_equal(array, _LAST))
            return None if pc.any(is_early).as_py() else convert(array)

        return column


def of(defined: ColumnType, node: Node) -> Doubt | None:
    """Returns the doubt about numbers of a column in the default mode; None if there is none. `node`: of the connector."""
    if defined.name == "time":
        step = 10 ** (6 - (defined.length or 0))
        return Doubt(lambda number: _doubted(number, defined, number % step or abs(number) > times.LONGEST_US))
    if defined.name != "datetime":
        return None
    up, _ = times.COUNTS[node.name]
    if up > 1:
        return Doubt(lambda number: _doubted(number, defined, number * up > times.LAST_US))
    return Doubt(lambda number: _of_fine(number, defined), is_fine=True)


def _of_fine(number: int, defined: ColumnType) -> str | None:
    if _FIRST <= number <= _LAST:
        us, ms = write_datetime(number, 6), write_datetime(number * 1000, 3)
        return f"{number} is ambiguous: {us} in µs, or {ms} in ms"
    return _doubted(number, defined, number > times.LAST_US)


def _doubted(number: int, defined: ColumnType, why: Any) -> str | None:
    return f"{number} does not fit {defined}" if why else None
