"""Detects where a producer began to send changes again.

After a restart TiCDC sends everything above its checkpoint again. Changes at or below the barrier have been applied by then, and
are recognized by their commit_ts. Of pending changes, tables with a key take the last image of each key; a table without a key
would get its rows twice:

    offset        1     2     3     4     5     6     7
    partition 0   r 5   r 7   r 7   | r 5   r 7   r 7   resolved 9          one sending ends before 4, another begins there

Rule 1. Within one sending, resolved events of a partition go forward, rows of a table are in the order of commit_ts, and no row
follows a resolved event at or above it. Where this does not hold, another sending begins.
Rule 2. A change counts as often as in the sending that contains it most often: equal rows of one transaction are kept, and a
sending that stopped within a transaction does no harm.
Rule 3. A sending that begins exactly at the commit_ts where the last one stopped, without a resolved event that goes back,
cannot be distinguished from equal rows of one transaction: its rows of that transaction are applied twice.
Rule 4. Changes may be sent again in another partition. While one of the partitions with equal rows of a transaction is sent
again, these rows count as in the partition that has most of them. TiCDC's dispatchers use the table, the commit_ts or the row's
values, and put equal rows into one partition; Debezium leaves rows without a key to the producer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from changefeed.frames.payloads import read_shape
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import Positions, Sendings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Partition = tuple[str, int]


def sendings(
    begun: Sendings, marks: Positions, pending: Iterable[ChunkInfo], fresh: Iterable[ChunkInfo]
) -> tuple[Sendings, Positions]:
    """The offsets at which sendings begin, after a batch.

    Args:
        begun: topic -> partition -> offsets at which a sending begins, as known before.
        marks: the last resolved commit_ts of each partition's sending, as known before.
        pending: the chunks that were pending before the batch.
        fresh: the chunks of the batch.

    Returns:
        Both, updated with the batch.
    """
    rows: defaultdict[_Partition, dict[str, int]] = defaultdict(dict)  # last commit_ts of each shape without a key
    for chunk in sorted(pending, key=_order):
        if _is_keyless(chunk):
            rows[chunk.topic, chunk.partition][str(chunk.shape)] = chunk.max_ts or 0
    offsets_of = {topic: dict(offsets) for topic, offsets in begun.items()}
    last = {topic: dict(known) for topic, known in marks.items()}
    for chunk in sorted(fresh, key=_order):
        at, mark = (chunk.topic, chunk.partition), last.get(chunk.topic, {}).get(chunk.partition)
        keyless = _is_keyless(chunk)
        if chunk.min_ts is None or chunk.max_ts is None or not (keyless or chunk.kind == "resolved"):
            continue
        again = mark is not None and chunk.min_ts <= mark
        if again or (keyless and chunk.min_ts < rows[at].get(str(chunk.shape), chunk.min_ts)):
            offsets = offsets_of.setdefault(chunk.topic, {})
            offsets[chunk.partition] = (*offsets.get(chunk.partition, ()), chunk.first)
            rows[at].clear()
            last.get(chunk.topic, {}).pop(chunk.partition, None)
        if keyless:
            rows[at][str(chunk.shape)] = chunk.max_ts
        else:
            last.setdefault(chunk.topic, {})[chunk.partition] = chunk.max_ts
    return offsets_of, last


def still_needed(begun: Sendings, pending: Iterable[ChunkInfo]) -> Sendings:
    """The sendings that begin after a pending row; the others are not needed any more."""
    first: dict[_Partition, int] = {}
    for chunk in pending:
        if chunk.kind == "rows":
            at = (chunk.topic, chunk.partition)
            first[at] = min(chunk.first, first.get(at, chunk.first))
    needed: Sendings = {}
    for topic, offsets in begun.items():
        for partition, begins in offsets.items():
            kept = tuple(b for b in begins if (topic, partition) in first and b > first[topic, partition])
            if kept:
                needed.setdefault(topic, {})[partition] = kept
    return needed


def once(changes: DataFrame, begun: Mapping[str, Mapping[int, tuple[int, ...]]]) -> DataFrame:
    """The typed changes of a table without a key, each as often as in Rule 2."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    sending = F.lit(0)
    for topic, offsets in begun.items():
        for partition, begins in offsets.items():
            partition_rows = (F.col("_topic") == topic) & (F.col("_partition") == partition)
            for begin in begins:
                sending = sending + F.when(partition_rows & (F.col("_offset") >= begin), 1).otherwise(0)
    values = [F.col(c) for c in changes.columns if c.startswith("c")]
    same = [F.col("_ts"), *values, F.to_json("_irregular")]
    place = ["_topic", "_partition", "_offset", "_index"]
    numbered = changes.withColumn("_sending", sending)
    within = Window.partitionBy("_topic", "_partition", "_sending", *same).orderBy("_offset", "_index")
    numbered = numbered.withColumn("_nth", F.row_number().over(within))
    across = Window.partitionBy(*same, "_nth").orderBy(*place)
    return numbered.withColumn("_copy", F.row_number().over(across)).where("_copy = 1").select(*changes.columns)


def _order(chunk: ChunkInfo) -> tuple[str, int, int, int]:
    return chunk.topic, chunk.partition, chunk.first, chunk.last


def _is_keyless(chunk: ChunkInfo) -> bool:
    return chunk.kind == "rows" and not any(column.key for column in read_shape(str(chunk.shape)).columns)
