"""Dead letters: every record, or message of one, that could not be decoded, in a Delta table of the pipeline's own.

A letter is written once, by its position, before the step that follows it: a step that is repeated finds it there. What
happens then is the policy's: `stop` ends the run, and the records stay unread; `continue` and `quarantine` go on.
`replayed` is NULL while a letter waits; `replay.py` feeds letters back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changefeed.errors import ProtocolError
from changefeed.model.position import Place
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.failpoint import failpoint
from changefeed.pipeline.ledger import owner
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.pending.store import ChunkInfo, PendingStore
from changefeed.pipeline.state import Positions
from changefeed.sinks.delta.errors import translated
from changefeed.sinks.delta.log import snapshot
from changefeed.sinks.delta.read import query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "at timestamp, pipeline string, reason string, error string, protocol string, topic string, `partition` int, "
    "`offset` bigint, `index` int, byte bigint, schema_id string, sha256 string, database string, `table` string, "
    "key binary, value binary, headers array<struct<key: string, value: binary>>, replayed timestamp"
)
_SAID = (
    "reason string, error string, protocol string, `index` int, byte bigint, schema_id string, key string, value string, "
    "headers array<array<string>>"
)


def letters(definition: Definition, *, replayed: bool = False) -> list[dict[str, Any]]:
    """The letters that wait, as dicts with the names of `COLUMNS`, by position; with `replayed`, the others too.

    Needs no Spark.

    Raises:
        ConfigError: the ledger beside them is another pipeline's.
        SinkError: they cannot be read.
    """
    owner(definition)
    which = "" if replayed else "WHERE replayed IS NULL "
    order = 'ORDER BY topic, partition, "offset", "index"'
    return query(f"{own_folder(definition)}/dead_letters", f"SELECT * FROM t {which}{order}")


def position(letter: dict[str, Any]) -> str:
    """Where the message of a letter lies, as text."""
    return str(Place(letter["topic"], letter["partition"], letter["offset"], letter["index"]))


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one pipeline."""

    spark: SparkSession
    path: str
    policy: str
    pipeline: str

    def take(self, pending: PendingStore, folder: str, fresh: list[ChunkInfo]) -> None:
        """Writes down the dead letters of a batch.

        Raises:
            ProtocolError: there are some, and the policy is to stop.
        """
        found = sum(c.rows for c in fresh if c.kind == "dead")
        if not found:
            return
        failpoint("letters.before")
        letters = self._letters(pending.read([folder]))
        self._write(letters)
        failpoint("letters.after")
        nameless = [c for c in fresh if c.kind == "dead" and c.table is None]
        if self.policy == "stop" or (self.policy == "quarantine" and nameless):
            chosen = letters if self.policy == "stop" else letters.where("table IS NULL")
            first = chosen.orderBy("topic", "partition", "offset", "index").first()
            said = first["error"] if first is not None else ""
            which = "" if self.policy == "stop" else " and names no table that could be held"
            raise ProtocolError(
                f"{found:,} record{'s' if found > 1 else ''} could not be decoded, the first{which}: "
                f"{said}{'' if said.endswith('?') else '.'} They are kept: changefeed dlq list. Correct the protocol or its "
                "options and run again, or set pipeline.dead-letters to `continue`",
                reason="dead-letters",
            )

    def count(self) -> int:
        """How many letters there are that have not been replayed."""
        return 0 if not self.exists() else self.read().where("replayed IS NULL").count()

    def mark(self, places: Iterable[str]) -> None:
        """Notes that the letters at these positions have been replayed."""
        parsed = [Place.parse(text) for text in places]
        rows = [(place.topic, place.partition, place.offset, place.index) for place in parsed]
        failpoint("letters.before")
        self._mark(self.spark.createDataFrame(rows, "topic string, `partition` int, `offset` bigint, `index` int"))
        failpoint("letters.after")

    def settle(self, positions: Positions) -> None:
        """Marks the letters of records that have not been passed yet, for a run that reads them again.

        Policy `stop` leaves such letters. Those that cannot be decoded again are written again.
        """
        if not self.exists():
            return
        with translated(self.path):
            self._settle(positions)

    def _settle(self, positions: Positions) -> None:
        passed = [(topic, p, offset) for topic, offsets in positions.items() for p, offset in offsets.items()]
        until = self.spark.createDataFrame(passed, "topic string, `partition` int, next bigint")
        waiting = self.read().where("replayed IS NULL").join(until, ["topic", "partition"], "left")
        ahead = waiting.where("next IS NULL OR `offset` >= next").select("topic", "partition", "offset", "index")
        if not ahead.isEmpty():
            self._mark(ahead)

    def exists(self) -> bool:
        """Whether a letter was ever written."""
        way_out = "Restore the folder, or move it away: what is in it is then no longer listed, and cannot be replayed"
        return snapshot(self.spark, self.path, self.pipeline, way_out) is not None

    def read(self) -> DataFrame:
        """All letters."""
        return self.spark.read.format("delta").load(self.path)

    def _letters(self, chunks: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        dead = chunks.where("kind = 'dead'").withColumn("said", F.from_json(F.col("payload").cast("string"), _SAID))
        headers = F.transform("said.headers", lambda h: F.struct(h[0].alias("key"), F.unbase64(h[1]).alias("value")))
        columns: list[Any] = [
            F.current_timestamp().alias("at"),
            F.lit(self.pipeline).alias("pipeline"),
            "said.reason", "said.error", "said.protocol", "topic", "partition",
            F.col("first_offset").alias("offset"),
            "said.index", "said.byte", "said.schema_id",
            F.sha2(F.concat(*(F.coalesce(F.unbase64(f"said.{c}"), F.lit(b"")) for c in ("key", "value"))), 256).alias("sha256"),
            "database", "table",
            F.unbase64("said.key").alias("key"),
            F.unbase64("said.value").alias("value"),
            headers.alias("headers"),
            F.lit(None).cast("timestamp").alias("replayed"),
        ]  # fmt: skip
        return dead.select(*columns)

    def _write(self, letters: DataFrame) -> None:
        if not self.exists():
            self.spark.createDataFrame([], COLUMNS).write.format("delta").mode("ignore").save(self.path)
        self._merge(letters, "WHEN MATCHED AND t.replayed IS NOT NULL THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")

    def _mark(self, places: DataFrame) -> None:
        self._merge(places, "WHEN MATCHED AND t.replayed IS NULL THEN UPDATE SET t.replayed = current_timestamp()")

    def _merge(self, letters: DataFrame, clauses: str) -> None:
        session = letters.sparkSession
        letters.createOrReplaceTempView("changefeed_letters")
        try:
            with translated(self.path):
                session.sql(
                    f"MERGE INTO delta.`{self.path}` t USING changefeed_letters s ON t.topic = s.topic "
                    f"AND t.partition = s.partition AND t.offset = s.offset AND t.index <=> s.index {clauses}"
                )
        finally:
            session.catalog.dropTempView("changefeed_letters")
