"""The dead letters of `letters.py`, as the contract in `changefeed.sinks.letters` describes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.toys.letters import SqliteLetters


@dataclass
class Frame:
    """The part of a DataFrame that the table reads."""

    rows: list[dict[str, Any]]

    def toArrow(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows)


def frame(*rows: dict[str, Any]) -> Any:
    return Frame(list(rows))


def place(offset: int, index: int | None = None, partition: int = 0) -> dict[str, Any]:
    return {"topic": "app", "partition": partition, "offset": offset, "index": index}


def letter(offset: int, index: int | None = None, partition: int = 0, **values: Any) -> dict[str, Any]:
    named = {"database": "shop", "table": "orders", "reason": "truncated", "value": b"\xff"}
    return place(offset, index, partition) | named | values


def waiting(letters: SqliteLetters) -> list[tuple[int, int, int | None]]:
    return [(row["partition"], row["offset"], row["index"]) for row in letters.rows()]


def test_a_letter_is_kept_once_until_it_is_replayed(tmp_path: Path) -> None:
    letters = SqliteLetters(tmp_path / "letters")
    assert (letters.exists(), letters.rows(), letters.waiting(), letters.tables()) == (False, [], 0, set())
    letters.write(frame(letter(7), letter(7, 1), letter(3)))
    letters.write(frame(letter(7, reason="defect")))
    assert (letters.exists(), letters.waiting(), letters.tables()) == (True, 3, {("shop", "orders")})
    assert letters.rows()[1] == letter(7) | {"replayed": None}

    letters.mark(frame(place(7)))
    assert waiting(letters) == [(0, 3, None), (0, 7, 1)]
    assert [row["replayed"] is None for row in letters.rows(replayed=True)] == [True, False, True]

    letters.write(frame(letter(7, reason="defect")))
    assert [row["reason"] for row in letters.rows()] == ["truncated", "defect", "truncated"]


def test_letters_of_records_that_are_read_again_are_replayed(tmp_path: Path) -> None:
    letters = SqliteLetters(tmp_path / "letters")
    letters.write(frame(letter(3), letter(7), letter(8), letter(1, partition=1)))
    letters.mark_from(frame({"topic": "app", "partition": 0, "next": 7}))
    assert waiting(letters) == [(0, 3, None)]
