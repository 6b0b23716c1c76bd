"""Dead letters in memory, for tests: implements the contract of `sinks.letters` without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Place = tuple[str, int, int, int | None]


@dataclass(frozen=True, slots=True)
class MemoryLetters:
    """A table of dead letters.

    Attributes:
        letters: position -> dead letter. Tables that share it are the same table.
    """

    letters: dict[_Place, dict[str, Any]] = field(default_factory=dict)

    def exists(self) -> bool:
        """See `LetterTable`."""
        return bool(self.letters)

    def rows(self, *, replayed: bool = False) -> list[dict[str, Any]]:
        """See `LetterTable`."""
        places = sorted(self.letters, key=lambda place: (*place[:3], place[3] is not None, place[3]))
        return [self.letters[place] for place in places if replayed or self.letters[place]["replayed"] is None]

    def waiting(self) -> int:
        """See `LetterTable`."""
        return len(self.rows())

    def tables(self) -> set[tuple[str | None, str | None]]:
        """See `LetterTable`."""
        return {(letter["database"], letter["table"]) for letter in self.letters.values()}

    def write(self, letters: DataFrame) -> None:
        """See `LetterTable`."""
        for letter in letters.toArrow().to_pylist():
            place = _place(letter)
            if place not in self.letters or self.letters[place]["replayed"] is not None:
                self.letters[place] = letter

    def mark(self, places: DataFrame) -> None:
        """See `LetterTable`."""
        self._mark(_place(row) for row in places.toArrow().to_pylist())

    def mark_from(self, positions: DataFrame) -> None:
        """See `LetterTable`."""
        ends = {(row["topic"], row["partition"]): row["next"] for row in positions.toArrow().to_pylist()}
        self._mark(place for place in self.letters if place[2] >= ends.get(place[:2], 0))

    def _mark(self, places: Iterable[_Place]) -> None:
        now = datetime.now(UTC)
        for place in places:
            letter = self.letters.get(place)
            if letter is not None and letter["replayed"] is None:
                self.letters[place] = letter | {"replayed": now}


def _place(row: dict[str, Any]) -> _Place:
    return row["topic"], row["partition"], row["offset"], row["index"]
