"""Fraction digits of datetimes and timestamps, inferred from values because no schema declares them.

Rule 1. Rows with the same description are one family; it has one shape for each combination of fraction digits in its
        datetimes and timestamps: `datetime(3)`, or `datetime` without digits.
Rule 2. A row with NULLs only belongs to the shape `datetime`; see `columnar.families`, rule 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from changefeed.columnar.families import ShapeFamily
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType


def shapes_by_digits(make: Callable[[tuple[int, ...]], TableShape]) -> ShapeFamily[int]:
    """Returns a family of shapes. `make` builds the shape for digits, in the order of the family's temporal columns."""

    def completed(shown: Sequence[int | None]) -> tuple[Sequence[int], TableShape]:
        digits = tuple(sent or 0 for sent in shown)
        return digits, make(digits)

    return ShapeFamily(completed)


def with_digits(column: Column, digits: int) -> Column:
    """Returns the column with this number of fraction digits in its type."""
    kind = ColumnType(column.type.name, length=digits or None)
    return Column(column.name, kind, column.nullable, column.key)
