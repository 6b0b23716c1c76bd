"""Families: rows that are described in the same way, and the shapes that their values have made so far.

Rule 1. Which shape a row joins depends on the shapes before it, so a family that has made one is kept until all are forgotten:
        what is let go must not depend on which rows were looked at lately.
Rule 2. A family that has made no shape, because its rows were refused, changes nothing and may be let go.
Rule 3. A family keeps the first shapes that it makes. A row that agrees with none of them gets a shape of its own each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

LIMIT = 256  # shapes of one family; the kernel has the same number in `rows.rs`
_FEW = 1024


class _Family(Protocol):
    @property
    def is_bare(self) -> bool:
        """Whether it has made no shape."""
        ...


_F = TypeVar("_F", bound=_Family)


class Families(Generic[_F]):
    """Families by what describes their rows."""

    __slots__ = ("_found", "_many")

    def __init__(self) -> None:
        self.forget()

    def of(self, described: Hashable, make: Callable[[], _F]) -> _F:
        """The family that is described like this; `make` makes it, and may refuse to."""
        found = self._found.get(described)
        if found is None:
            if len(self._found) >= self._many:
                self._prune()
            found = self._found[described] = make()
        return found

    def forget(self) -> None:
        """Lets go of all families."""
        self._found: dict[Hashable, _F] = {}
        self._many = _FEW

    def _prune(self) -> None:
        self._found = {described: family for described, family in self._found.items() if not family.is_bare}
        self._many = max(_FEW, 2 * len(self._found))
