"""Dead letters in one SQLite file, for the sink in `lake.py`; see `LetterTable`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from changefeed.errors import SinkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# `index` is NULL for a whole record, and SQLite takes no two NULLs for equal: it is -1 here.
_TABLE = """
    CREATE TABLE IF NOT EXISTS letters (
        topic TEXT, part INTEGER, "offset" INTEGER, "index" INTEGER, replayed TEXT, letter BLOB,
        PRIMARY KEY (topic, part, "offset", "index")
    )
"""


@dataclass(frozen=True, slots=True)
class SqliteLetters:
    """The dead letters in the folder `path`."""

    path: Path

    def exists(self) -> bool:
        """See `LetterTable`."""
        return self._file.exists()

    def rows(self, *, replayed: bool = False) -> list[dict[str, Any]]:
        """See `LetterTable`."""
        order = 'ORDER BY topic, part, "offset", "index"'
        wanted = "" if replayed else "WHERE replayed IS NULL"
        letters = self._read(f"SELECT letter, replayed FROM letters {wanted} {order}")
        return [
            msgspec.msgpack.decode(letter) | {"replayed": at and datetime.fromisoformat(at)} for letter, at in letters
        ]

    def waiting(self) -> int:
        """See `LetterTable`."""
        return len(self._read("SELECT 1 FROM letters WHERE replayed IS NULL"))

    def tables(self) -> set[tuple[str | None, str | None]]:
        """See `LetterTable`."""
        return {(letter["database"], letter["table"]) for letter in self.rows(replayed=True)}

    def write(self, letters: DataFrame) -> None:
        """See `LetterTable`."""
        rows = letters.toArrow().to_pylist()
        with self._open() as database:
            for row in rows:
                place = (row["topic"], row["partition"], row["offset"], _index(row))
                database.execute(
                    "INSERT INTO letters VALUES (?, ?, ?, ?, NULL, ?) ON CONFLICT DO UPDATE "
                    "SET letter = excluded.letter, replayed = NULL WHERE replayed IS NOT NULL",
                    (*place, msgspec.msgpack.encode(row)),
                )

    def mark(self, places: DataFrame) -> None:
        """See `LetterTable`."""
        rows = [(row["topic"], row["partition"], row["offset"], _index(row)) for row in places.toArrow().to_pylist()]
        self._mark('(topic, part, "offset", "index") IN (VALUES (?, ?, ?, ?))', rows)

    def mark_from(self, positions: DataFrame) -> None:
        """See `LetterTable`."""
        ends = {(row["topic"], row["partition"]): row["next"] for row in positions.toArrow().to_pylist()}
        places = self._read('SELECT topic, part, "offset", "index" FROM letters WHERE replayed IS NULL')
        behind = [place for place in places if place[2] >= ends.get(place[:2], 0)]
        self._mark('(topic, part, "offset", "index") IN (VALUES (?, ?, ?, ?))', behind)

    @property
    def _file(self) -> Path:
        return self.path / "letters.sqlite"

    def _mark(self, where: str, rows: list[Any]) -> None:
        if rows:
            now = datetime.now(UTC).isoformat()
            with self._open() as database:
                database.executemany(
                    f"UPDATE letters SET replayed = ? WHERE replayed IS NULL AND {where}", [(now, *row) for row in rows]
                )

    def _read(self, query: str) -> list[Any]:
        if not self.exists():
            return []
        with self._open() as database:
            return database.execute(query).fetchall()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A transaction; the file is made with its first letter."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._file, timeout=30)) as database, database:
                database.execute(_TABLE)
                yield database
        except (OSError, sqlite3.Error) as error:
            raise SinkError(
                f"{self._file}: {error}. Restore it from a copy, or delete it if no letter waits"
            ) from error


def _index(row: dict[str, Any]) -> int:
    return -1 if row["index"] is None else int(row["index"])
