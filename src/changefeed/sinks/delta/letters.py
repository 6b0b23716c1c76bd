"""Dead letters in a Delta table: implements the contract of `sinks.letters`."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changefeed.sinks.delta import log, read
from changefeed.sinks.delta.errors import translated
from changefeed.sinks.delta.native.incomplete import take_back_newest
from changefeed.sinks.letters import COLUMNS
from changefeed.sinks.ways_out import LETTERS_DAMAGED
from changefeed.spark_runtime.files import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)
_SAME_PLACE = "t.topic = s.topic AND t.partition = s.partition AND t.offset = s.offset AND t.index <=> s.index"


@dataclass(frozen=True, slots=True)
class DeltaLetters:
    """A Delta table of dead letters.

    Attributes:
        path: location of the table.
        session: the Spark session; None to use only methods that need no Spark.
    """

    path: str
    session: SparkSession | None = None

    def exists(self) -> bool:
        """See `LetterTable`."""
        if self.session is None:
            return read.properties(self.path) is not None
        if is_local(self.path) and not os.path.exists(f"{self.path}/_delta_log"):
            return False  # Delta's own reader, which most runs do without, takes a second to start
        self._take_back()
        return log.snapshot(self.session, self.path, way_out=LETTERS_DAMAGED) is not None

    def rows(self, *, replayed: bool = False) -> list[dict[str, Any]]:
        """See `LetterTable`."""
        which = "" if replayed else "WHERE replayed IS NULL "
        return read.query(self.path, f'SELECT * FROM t {which}ORDER BY topic, partition, "offset", "index"')

    def waiting(self) -> int:
        """See `LetterTable`."""
        counted = read.query(self.path, "SELECT count(*) AS n FROM t WHERE replayed IS NULL")
        return int(counted[0]["n"]) if counted else 0

    def tables(self) -> set[tuple[str | None, str | None]]:
        """See `LetterTable`."""
        named = read.query(self.path, 'SELECT DISTINCT database, "table" FROM t')
        return {(one["database"], one["table"]) for one in named}

    def write(self, letters: DataFrame) -> None:
        """See `LetterTable`."""
        if not self.exists():
            self._spark.createDataFrame([], COLUMNS).write.format("delta").mode("ignore").save(self.path)
        self._merge(letters, "WHEN MATCHED AND t.replayed IS NOT NULL THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    def mark(self, places: DataFrame) -> None:
        """See `LetterTable`."""
        self._merge(places, "WHEN MATCHED AND t.replayed IS NULL THEN UPDATE SET t.replayed = current_timestamp()")

    def mark_from(self, positions: DataFrame) -> None:
        """See `LetterTable`."""
        with translated(self.path):
            letters = self._spark.read.format("delta").load(self.path)
            waiting = letters.where("replayed IS NULL").join(positions, ["topic", "partition"], "left")
            ahead = waiting.where("next IS NULL OR `offset` >= next").select("topic", "partition", "offset", "index")
            if not ahead.isEmpty():
                self.mark(ahead)

    def _take_back(self) -> None:
        """Removes commits that a power cut has left incomplete: the run reads their records again."""
        if is_local(self.path) and (taken := take_back_newest(self.path)):
            _log.warning("%s: a power cut has left commits incomplete (%s)", self.path, ", ".join(map(str, taken)))

    @property
    def _spark(self) -> SparkSession:
        assert self.session is not None, "the dead letters were opened without a session"
        return self.session

    def _merge(self, letters: DataFrame, clauses: str) -> None:
        self._take_back()
        session = letters.sparkSession
        letters.createOrReplaceTempView("changefeed_letters")
        try:
            with translated(self.path):
                session.sql(f"MERGE INTO delta.`{self.path}` t USING changefeed_letters s ON {_SAME_PLACE} {clauses}")
        finally:
            session.catalog.dropTempView("changefeed_letters")
