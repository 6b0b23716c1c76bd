"""Dead letters: records, or messages in a record, that could not be decoded, in a table of the pipeline.

A dead letter is written once, by its position, before the step that follows it; a repeated step finds it there. Then the policy
decides: `stop` ends the run, and the records stay unread; `continue` and `quarantine` go on. `replayed` is NULL until the dead
letter has been replayed (`replay.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from changefeed.errors import ProtocolError
from changefeed.model.position import Place
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.failpoint import failpoint
from changefeed.pipeline.ledger import owner
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.pending.store import PendingStore
from changefeed.pipeline.state import Positions
from changefeed.pipeline.tables import folder_of
from changefeed.sinks import letter_table
from changefeed.sinks.letters import LetterTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SAID = (
    "reason string, error string, protocol string, `index` int, byte bigint, schema_id string, key string, value string, "
    "headers array<array<string>>"
)


def letters(definition: Definition, *, replayed: bool = False) -> list[dict[str, Any]]:
    """The dead letters that have not been replayed, see `LetterTable.rows`; with `replayed`, all of them.

    Needs no Spark.

    Raises:
        ConfigError: the ledger belongs to another pipeline.
        SinkError: the table cannot be read.
    """
    owner(definition)
    return table_of(definition).rows(replayed=replayed)


def table_of(definition: Definition, session: SparkSession | None = None) -> LetterTable:
    """The table of the pipeline's dead letters."""
    path = f"{own_folder(definition)}/dead_letters"
    return letter_table(definition.sink, path, session, folder_of(definition, path, session))


def stops_at(policy: str, fresh: Iterable[ChunkInfo]) -> Literal["any", "nameless"] | None:
    """The dead letters of a batch that stop a run by the policy: any of them, or those that name no table."""
    dead = [chunk for chunk in fresh if chunk.kind == "dead"]
    if policy == "stop" and dead:
        return "any"
    return "nameless" if policy == "quarantine" and any(chunk.table is None for chunk in dead) else None


def stop(count: int, first: str, which: Literal["any", "nameless"], *, kept: bool = True) -> ProtocolError:
    """The error of a run that stops at dead letters.

    Args:
        count: number of the batch's dead letters.
        first: the error of the first one that stops the run.
        which: what `stops_at` returned.
        kept: whether they are in the table of dead letters.
    """
    nameless = " and names no table that could be quarantined" if which == "nameless" else ""
    return ProtocolError(
        f"{count:,} record{'s' if count > 1 else ''} could not be decoded, the first{nameless}: "
        f"{first}{'' if first.endswith('?') else '.'} {'They are kept: changefeed dlq list. ' if kept else ''}Correct the "
        "protocol or its options and run again, or set pipeline.dead-letters to `continue`",
        reason="dead-letters",
    )


def position(letter: dict[str, Any]) -> str:
    """The position of a dead letter, as text."""
    return str(Place(letter["topic"], letter["partition"], letter["offset"], letter["index"]))


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one pipeline.

    Attributes:
        table: the table that stores them.
        policy: what to do after a dead letter: `stop`, `quarantine` or `continue`.
        pipeline: name of the pipeline.
    """

    spark: SparkSession
    table: LetterTable
    policy: str
    pipeline: str

    def take(self, pending: PendingStore, folder: str, fresh: list[ChunkInfo]) -> None:
        """Stores the dead letters of a batch.

        Raises:
            ProtocolError: there are dead letters, and the policy is to stop.
        """
        count = sum(c.rows for c in fresh if c.kind == "dead")
        if not count:
            return
        failpoint("letters.before")
        letters = self._letters(pending.read([folder]))
        self.table.write(letters)
        failpoint("letters.after")
        if only_nameless := stops_at(self.policy, fresh):
            chosen = letters.where("table IS NULL") if only_nameless == "nameless" else letters
            first = chosen.orderBy("topic", "partition", "offset", "index").first()
            raise stop(count, first["error"] if first is not None else "", only_nameless)

    def mark(self, places: Iterable[str]) -> None:
        """Marks the dead letters at these positions as replayed."""
        parsed = [Place.parse(text) for text in places]
        rows = [(place.topic, place.partition, place.offset, place.index) for place in parsed]
        failpoint("letters.before")
        self.table.mark(self.spark.createDataFrame(rows, "topic string, `partition` int, `offset` bigint, `index` int"))
        failpoint("letters.after")

    def settle(self, positions: Positions) -> None:
        """Marks the dead letters of records that have not been passed yet as replayed, for a run that reads them again.

        Policy `stop` leaves such dead letters. Those that still cannot be decoded are written again.
        """
        if not self.table.exists():
            return
        passed = [(topic, p, offset) for topic, offsets in positions.items() for p, offset in offsets.items()]
        self.table.mark_from(self.spark.createDataFrame(passed, "topic string, `partition` int, next bigint"))

    def _letters(self, chunks: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        dead = chunks.where("kind = 'dead'").withColumn(
            "dead_letter", F.from_json(F.col("payload").cast("string"), _SAID)
        )
        headers = F.transform(
            "dead_letter.headers", lambda h: F.struct(h[0].alias("key"), F.unbase64(h[1]).alias("value"))
        )
        columns: list[Any] = [
            F.current_timestamp().alias("at"),
            F.lit(self.pipeline).alias("pipeline"),
            "dead_letter.reason", "dead_letter.error", "dead_letter.protocol", "topic", "partition",
            F.col("first_offset").alias("offset"),
            "dead_letter.index", "dead_letter.byte", "dead_letter.schema_id",
            F.sha2(F.concat(*(F.coalesce(F.unbase64(f"dead_letter.{c}"), F.lit(b"")) for c in ("key", "value"))),
            256).alias("sha256"),
            "database", "table",
            F.unbase64("dead_letter.key").alias("key"),
            F.unbase64("dead_letter.value").alias("value"),
            headers.alias("headers"),
            F.lit(None).cast("timestamp").alias("replayed"),
        ]  # fmt: skip
        return dead.select(*columns)
