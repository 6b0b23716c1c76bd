"""The contract of a table of dead letters, in the format of the sink.

A dead letter is identified by its position: topic, partition, offset, index (NULL for a whole record). Each has one row.
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
    """A table of dead letters. `exists`, `rows`, `waiting` and `tables` need no Spark.

    Every method raises:
        SinkError: the table cannot be read or written; the message contains the fix.
    """

    def exists(self) -> bool:
        """Whether a dead letter was ever written."""
        ...

    def rows(self, *, replayed: bool = False) -> list[dict[str, Any]]:
        """Returns the dead letters that have not been replayed, sorted by position, as dicts; with `replayed`, all of them."""
        ...

    def waiting(self) -> int:
        """Returns the number of dead letters that have not been replayed."""
        ...

    def tables(self) -> set[tuple[str | None, str | None]]:
        """Returns the (database, table) of every dead letter, replayed or not."""
        ...

    def write(self, letters: DataFrame) -> None:
        """Adds dead letters, with the columns `COLUMNS`.

        If there is one at the same position, it is replaced if it has been replayed, and kept otherwise.
        """
        ...

    def mark(self, places: DataFrame) -> None:
        """Marks the dead letters at these positions as replayed now.

        Args:
            places: (topic, partition, offset, index) of each.
        """
        ...

    def mark_from(self, positions: DataFrame) -> None:
        """Marks as replayed the dead letters at or after these positions, and all dead letters in other partitions.

        Args:
            positions: (topic, partition, offset of the next record) of each partition.
        """
        ...
