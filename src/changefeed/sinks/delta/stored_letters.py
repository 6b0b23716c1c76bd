"""Dead letters in a Delta table in an object store: implements the contract of `sinks.letters`.

delta-rs reads and writes the table, because commits of Spark do not exclude each other there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from changefeed.errors import SinkError
from changefeed.sinks.delta.native import delta_rs
from changefeed.sinks.delta.read import queried, read_table
from changefeed.sinks.ways_out import LETTERS_DAMAGED
from changefeed.storage.objects import ObjectFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = ("topic", "partition", "offset")
_SAME_PLACE = " AND ".join(
    [*(f't."{name}" = s."{name}"' for name in _PLACE), 't."index" IS NOT DISTINCT FROM s."index"']
)
_PLACES = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("index", pa.int32())])


@dataclass(frozen=True, slots=True)
class StoredLetters:
    """The table of dead letters in a folder of an object store."""

    folder: ObjectFolder

    def exists(self) -> bool:
        """See `LetterTable`."""
        return self._read(lambda table: True) is not None

    def rows(self, *, replayed: bool = False) -> list[dict[str, Any]]:
        """See `LetterTable`."""
        which = "" if replayed else "WHERE replayed IS NULL "
        return self._query(f'SELECT * FROM t {which}ORDER BY topic, "partition", "offset", "index"')

    def waiting(self) -> int:
        """See `LetterTable`."""
        counted = self._query("SELECT count(*) AS n FROM t WHERE replayed IS NULL")
        return int(counted[0]["n"]) if counted else 0

    def tables(self) -> set[tuple[str | None, str | None]]:
        """See `LetterTable`."""
        return {(row["database"], row["table"]) for row in self._query('SELECT DISTINCT database, "table" FROM t')}

    def write(self, letters: DataFrame) -> None:
        """See `LetterTable`."""
        from deltalake import write_deltalake

        new = letters.toArrow()
        if not self.exists():
            url, options = delta_rs.location(self.folder)
            with _translated(self.folder.path):
                write_deltalake(url, new.slice(0, 0), mode="ignore", storage_options=options)
        merge = self._merge(new)
        with _translated(self.folder.path):
            merge.when_matched_update_all(predicate="t.replayed IS NOT NULL").when_not_matched_insert_all().execute()

    def mark(self, places: DataFrame) -> None:
        """See `LetterTable`."""
        self._mark(places.toArrow().to_pylist())

    def mark_from(self, positions: DataFrame) -> None:
        """See `LetterTable`."""
        passed = {(row["topic"], row["partition"]): row["next"] for row in positions.toArrow().to_pylist()}
        ahead = [
            row for row in self.rows()
            if (row["topic"], row["partition"]) not in passed or row["offset"] >= passed[row["topic"], row["partition"]]
        ]  # fmt: skip
        if ahead:
            self._mark(ahead)

    def _mark(self, rows: list[dict[str, Any]]) -> None:
        places = pa.Table.from_pylist([{name: row[name] for name in _PLACES.names} for row in rows], _PLACES)
        now = pa.repeat(pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC")), len(places))
        merge = self._merge(places.append_column("now", now))
        with _translated(self.folder.path):
            merge.when_matched_update({"replayed": "s.now"}, predicate="t.replayed IS NULL").execute()

    def _merge(self, source: pa.Table) -> Any:
        with _translated(self.folder.path):
            table = delta_rs.table(self.folder)
            return table.merge(source, _SAME_PLACE, source_alias="s", target_alias="t")

    def _query(self, sql: str) -> list[dict[str, Any]]:
        return self._read(partial(queried, sql=sql)) or []

    def _read(self, what: Any) -> Any:
        url, options = delta_rs.location(self.folder)
        return read_table(url, what, options)


@contextmanager
def _translated(path: str) -> Iterator[None]:
    """Translates errors of delta-rs."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError) as error:
        raise SinkError(f"{path}: {error}. {LETTERS_DAMAGED}", transient=True) from error
