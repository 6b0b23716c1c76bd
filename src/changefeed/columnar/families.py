"""Families: rows with the same description, and the shapes that have been inferred from their values so far.

Rule 1. The shape of a row depends on the shapes before it, so a family with a shape is kept until all are forgotten: whether
        a family is dropped must not depend on which rows were decoded recently.
Rule 2. A family without shapes, because its rows were refused, has no effect and may be dropped.
Rule 3. A family keeps its first `LIMIT` shapes. After that, a row that matches none of them gets a shape of its own each time.
Rule 4. Shapes of a family differ in properties that only values show, such as fraction digits. A NULL shows nothing: a row
        joins the first shape that matches in the columns that are not NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from changefeed.model.table import TableShape

LIMIT = 256  # shapes of one family; the kernel has the same limit in `rows.rs`
_FEW = 1024


class _Family(Protocol):
    @property
    def is_bare(self) -> bool:
        """Whether the family has no shape."""
        ...


_F = TypeVar("_F", bound=_Family)
_V = TypeVar("_V")


class Families(Generic[_F]):
    """The families of a decoder, by the description of their rows."""

    __slots__ = ("_families", "_many")

    def __init__(self) -> None:
        self.forget()

    def of(self, described: Hashable, make: Callable[[], _F]) -> _F:
        """Returns the family of a description; a new one is built by `make`, which may raise."""
        family = self._families.get(described)
        if family is None:
            if len(self._families) >= self._many:
                self._prune()
            family = self._families[described] = make()
        return family

    def forget(self) -> None:
        """Drops all families."""
        self._families: dict[Hashable, _F] = {}
        self._many = _FEW

    def _prune(self) -> None:
        self._families = {described: family for described, family in self._families.items() if not family.is_bare}
        self._many = max(_FEW, 2 * len(self._families))


class ShapeFamily(Generic[_V]):
    """The shapes of one family, each with the properties of its values: one entry per column, in the family's order."""

    __slots__ = ("_make", "_shapes")

    def __init__(self, make: Callable[[Sequence[_V | None]], tuple[Sequence[_V | None], TableShape]]) -> None:
        """Builds a family without shapes.

        Args:
            make: converts the properties of a row (None for NULL) to the same properties without None, and the shape.
        """
        self._make = make
        self._shapes: list[tuple[Sequence[_V | None], TableShape]] = []

    def __len__(self) -> int:
        return len(self._shapes)

    def find(self, shown: Sequence[_V | None]) -> TableShape | None:
        """Returns the first shape that matches; None if there is none."""
        for known, shape in self._shapes:
            if all(new is None or new == old for new, old in zip(shown, known, strict=True)):
                return shape
        return None

    def shape(self, shown: Sequence[_V | None], *, keep: bool = True) -> TableShape:
        """Returns the shape of a row; a new one if none matches.

        Args:
            shown: the properties of its values, None for NULL.
            keep: later rows may join a new shape; set it only if the row is known to be valid.
        """
        shape = self.find(shown)
        if shape is None:
            known, shape = self._make(shown)
            if keep and len(self._shapes) < LIMIT:
                self._shapes.append((known, shape))
        return shape

    def truncate(self, count: int) -> None:
        """Drops all shapes but the first `count`."""
        del self._shapes[count:]
