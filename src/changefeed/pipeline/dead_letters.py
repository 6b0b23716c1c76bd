"""Dead letters: every record, or message of one, that could not be decoded, in a Delta table of the pipeline's own.

A letter is written once, by its position, before the step that follows it: a step that is repeated finds it there. What
happens then is the policy's: `stop` ends the run, and the records stay unread; `continue` and `quarantine` go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changefeed.errors import ProtocolError
from changefeed.pipeline.failpoint import failpoint
from changefeed.pipeline.pending import ChunkInfo, PendingStore
from changefeed.sinks.delta.log import snapshot

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
            first = letters.orderBy("topic", "partition", "offset", "index").first()
            said = first["error"] if first is not None else ""
            raise ProtocolError(
                f"{found} record{'s' if found > 1 else ''} could not be decoded, the first: {said}. They are kept: changefeed "
                "dlq list. Correct the protocol or its options and run again, or set pipeline.dead-letters to `continue`",
                reason="dead-letters",
            )

    def count(self) -> int:
        """How many letters there are that have not been replayed."""
        return 0 if not self.exists() else self.read().where("replayed IS NULL").count()

    def exists(self) -> bool:
        """Whether a letter was ever written."""
        return snapshot(self.spark, self.path, self.pipeline) is not None

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
        session = letters.sparkSession
        letters.createOrReplaceTempView("changefeed_letters")
        try:
            session.sql(
                f"MERGE INTO delta.`{self.path}` t USING changefeed_letters s ON t.topic = s.topic AND t.partition = s.partition "
                "AND t.offset = s.offset AND t.index <=> s.index WHEN NOT MATCHED THEN INSERT *"
            )
        finally:
            session.catalog.dropTempView("changefeed_letters")
