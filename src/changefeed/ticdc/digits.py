"""Fraction digits of datetimes and timestamps, where no schema tells them but the values do.

Rule 1. Rows described alike are one family; it has one shape for each set of fraction digits that its datetimes and
        timestamps were sent with: `datetime(3)`, and `datetime` for none.
Rule 2. A NULL says nothing of its digits: a row joins the first shape of its family that agrees where it is not NULL.
        A row of NULLs alone makes or joins `datetime`.
Rule 3. The list of shapes is bounded; see `families`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from changefeed.columnar.families import LIMIT
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType


class ShapesByDigits:
    """The shapes of one family. `make` makes the shape for digits, in the order of the family's temporal columns."""

    __slots__ = ("_known", "_make")

    def __init__(self, make: Callable[[tuple[int, ...]], TableShape]) -> None:
        self._make = make
        self._known: list[tuple[tuple[int, ...], TableShape]] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is none yet."""
        return not self._known

    def shape(self, digits: Sequence[int | None], *, keep: bool = True) -> TableShape:
        """The shape of a row; `digits` are those of its temporal columns, None for NULL.

        Args:
            digits: in the order of the columns.
            keep: later rows may join it, so not before the row is known to be good.
        """
        for known, shape in self._known:
            if all(sent is None or sent == have for sent, have in zip(digits, known, strict=True)):
                return shape
        made = tuple(sent or 0 for sent in digits)
        shape = self._make(made)
        if keep and len(self._known) < LIMIT:
            self._known.append((made, shape))
        return shape


def with_digits(column: Column, digits: int) -> Column:
    """The column with this many digits in its type."""
    kind = ColumnType(column.type.name, length=digits or None)
    return Column(column.name, kind, column.nullable, column.key)
