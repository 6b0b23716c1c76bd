"""The contract of a table of dead letters: a sink keeps records that could not be decoded there, in its own format.

A letter is identified by its position: topic, partition, offset, index (NULL for a whole record). Each has one row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# In Spark's DDL. `replayed` is NULL while a letter waits.
COLUMNS = (
    "at timestamp, pipeline string, reason string, error string, protocol string, topic string, `partition` int, "
    "`offset` bigint, `index` int, byte bigint, schema_id string, sha256 string, database string, `table` string, "
    "key binary, value binary, headers array<struct<key: string, value: binary>>, replayed timestamp"
)


class LetterTable(Protocol):
    """Dead letters at one location. `exists`, `rows`, `waiting` and `tables` need no Spark.

    Raises, every method:
        SinkError: the table cannot be read or written; the message has the remedy.
    """

    def exists(self) -> bool:
        """Whether a letter was ever written."""
        ...

    def rows(self, *, replayed: bool = False) -> list[dict[str, Any]]:
        """The letters that wait, by place, as dicts with the names of `COLUMNS`; with `replayed`, the others too."""
        ...

    def waiting(self) -> int:
        """Number of dead letters that have not been replayed."""
        ...

    def tables(self) -> set[tuple[str | None, str | None]]:
        """The (database, table) of every letter, waiting or not."""
        ...

    def write(self, letters: DataFrame) -> None:
        """Adds letters, with `COLUMNS`. One that waits at the same place stays; one that was replayed is replaced."""
        ...

    def mark(self, places: DataFrame) -> None:
        """Notes now as the time at which the letters that wait at these places were replayed.

        Args:
            places: topic, partition, offset, index.
        """
        ...

    def mark_from(self, positions: DataFrame) -> None:
        """Notes the same of the letters that wait at or behind these positions, and of all in other partitions.

        Args:
            positions: topic, partition, next.
        """
        ...
