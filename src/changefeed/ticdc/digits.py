"""Fraction digits of datetimes and timestamps, where no schema has them but the values show them.

Rule 1. Rows described alike are one family; it has one shape for each set of fraction digits that its datetimes and
        timestamps were sent with: `datetime(3)`, and `datetime` for none.
Rule 2. A row of NULLs alone makes or joins `datetime`; see `columnar.families`, rule 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from changefeed.columnar.families import ShapeFamily
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType


def shapes_by_digits(make: Callable[[tuple[int, ...]], TableShape]) -> ShapeFamily[int]:
    """The shapes of one family. `make` makes the shape for digits, in the order of the family's temporal columns."""

    def completed(shown: Sequence[int | None]) -> tuple[Sequence[int], TableShape]:
        digits = tuple(sent or 0 for sent in shown)
        return digits, make(digits)

    return ShapeFamily(completed)


def with_digits(column: Column, digits: int) -> Column:
    """The column with this many digits in its type."""
    kind = ColumnType(column.type.name, length=digits or None)
    return Column(column.name, kind, column.nullable, column.key)
