"""Dead letters: every record, or message of one, that could not be decoded, in a table of the pipeline's own.

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
from changefeed.sinks import letter_table
from changefeed.sinks.letters import LetterTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SAID = (
    "reason string, error string, protocol string, `index` int, byte bigint, schema_id string, key string, value string, "
    "headers array<array<string>>"
)


def letters(definition: Definition, *, replayed: bool = False) -> list[dict[str, Any]]:
    """The letters that wait, see `LetterTable.rows`; with `replayed`, the others too.

    Needs no Spark.

    Raises:
        ConfigError: the ledger beside them is another pipeline's.
        SinkError: they cannot be read.
    """
    owner(definition)
    return table_of(definition).rows(replayed=replayed)


def table_of(definition: Definition, session: SparkSession | None = None) -> LetterTable:
    """Where the pipeline keeps its dead letters."""
    return letter_table(definition.sink, f"{own_folder(definition)}/dead_letters", session)


def position(letter: dict[str, Any]) -> str:
    """Where the message of a letter lies, as text."""
    return str(Place(letter["topic"], letter["partition"], letter["offset"], letter["index"]))


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one pipeline.

    Attributes:
        table: where they are kept.
        policy: what happens after one: `stop`, `quarantine` or `continue`.
        pipeline: its name.
    """

    spark: SparkSession
    table: LetterTable
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
        self.table.write(letters)
        failpoint("letters.after")
        nameless = [c for c in fresh if c.kind == "dead" and c.table is None]
        if self.policy == "stop" or (self.policy == "quarantine" and nameless):
            chosen = letters if self.policy == "stop" else letters.where("table IS NULL")
            first = chosen.orderBy("topic", "partition", "offset", "index").first()
            said = first["error"] if first is not None else ""
            which = "" if self.policy == "stop" else " and names no table that could be quarantined"
            raise ProtocolError(
                f"{found:,} record{'s' if found > 1 else ''} could not be decoded, the first{which}: "
                f"{said}{'' if said.endswith('?') else '.'} They are kept: changefeed dlq list. Correct the protocol or its "
                "options and run again, or set pipeline.dead-letters to `continue`",
                reason="dead-letters",
            )

    def mark(self, places: Iterable[str]) -> None:
        """Notes that the letters at these positions have been replayed."""
        parsed = [Place.parse(text) for text in places]
        rows = [(place.topic, place.partition, place.offset, place.index) for place in parsed]
        failpoint("letters.before")
        self.table.mark(self.spark.createDataFrame(rows, "topic string, `partition` int, `offset` bigint, `index` int"))
        failpoint("letters.after")

    def settle(self, positions: Positions) -> None:
        """Marks the letters of records that have not been passed yet, for a run that reads them again.

        Policy `stop` leaves such letters. Those that cannot be decoded again are written again.
        """
        if not self.table.exists():
            return
        passed = [(topic, p, offset) for topic, offsets in positions.items() for p, offset in offsets.items()]
        self.table.mark_from(self.spark.createDataFrame(passed, "topic string, `partition` int, next bigint"))

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
