"""Families: rows that are described in the same way, and the shapes that their values have made so far.

Rule 1. Which shape a row joins depends on the shapes before it, so a family that has made one is kept until all are forgotten:
        which family is dropped must not depend on which rows were decoded lately.
Rule 2. A family that has made no shape, because its rows were refused, changes nothing and may be dropped.
Rule 3. A family keeps the first shapes that it makes. A row that agrees with none of them gets a shape of its own each time.
Rule 4. Its shapes differ in what only values show, such as fraction digits. A NULL shows nothing: a row joins the first shape
        that agrees where the row is not NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from changefeed.model.table import TableShape

LIMIT = 256  # shapes of one family; the kernel has the same number in `rows.rs`
_FEW = 1024


class _Family(Protocol):
    @property
    def is_bare(self) -> bool:
        """Whether it has made no shape."""
        ...


_F = TypeVar("_F", bound=_Family)
_V = TypeVar("_V")


class Families(Generic[_F]):
    """Families by what describes their rows."""

    __slots__ = ("_families", "_many")

    def __init__(self) -> None:
        self.forget()

    def of(self, described: Hashable, make: Callable[[], _F]) -> _F:
        """Returns the family that is described like this; `make` makes it, and may refuse to."""
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
    """The shapes of one family, each with what the values of its rows show: one entry a column, in the order of the family."""

    __slots__ = ("_make", "_shapes")

    def __init__(self, make: Callable[[Sequence[_V | None]], tuple[Sequence[_V | None], TableShape]]) -> None:
        """No shapes yet.

        Args:
            make: what a row shows, None for NULL -> the same completed for the columns that are NULL, and the shape.
        """
        self._make = make
        self._shapes: list[tuple[Sequence[_V | None], TableShape]] = []

    def __len__(self) -> int:
        return len(self._shapes)

    def find(self, shown: Sequence[_V | None]) -> TableShape | None:
        """The first shape that agrees; None if there is none."""
        for known, shape in self._shapes:
            if all(new is None or new == old for new, old in zip(shown, known, strict=True)):
                return shape
        return None

    def shape(self, shown: Sequence[_V | None], *, keep: bool = True) -> TableShape:
        """The shape of a row, which is made if no other agrees.

        Args:
            shown: what its values show, None for NULL.
            keep: later rows may join a new shape, so not before the row is known to be good.
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
