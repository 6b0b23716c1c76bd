"""The commit_ts that each partition has passed, where partitions are in order; ends of transactions among pending chunks.

A partition has passed the last commit_ts that it has sent: nothing at or below it can follow. A partition of which nothing is
left to read has also passed what the others had sent one batch before: the producer sent that before the next record here.
So a topic of few schema changes, once it has been read to its end, holds back no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow.compute as pc

from changefeed.pipeline.frontier.base import Partition
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.pipeline.state import NOTHING, Positions, State

END = 2**63 - 1  # above every commit_ts


def passed_by(partition: Partition, state: State, ended: Mapping[Partition, int]) -> int:
    """The commit_ts that a partition has passed; `ended` as in `Reading`."""
    topic, number = partition
    if topic in state.positions and topic not in state.latest:
        return END  # transaction metadata or heartbeats: no row data
    return max(state.latest.get(topic, {}).get(number, NOTHING), ended.get(partition, NOTHING))


def passed_by_all(state: State, partitions: Iterable[Partition], ended: Mapping[Partition, int]) -> int | None:
    """The commit_ts that every partition has passed; None if there is no partition."""
    return min((passed_by(at, state, ended) for at in partitions), default=None)


@dataclass(frozen=True, slots=True)
class End:
    """The end of a transaction.

    Attributes:
        id: the transaction's name.
        events: number of its events.
        place: topic, partition and offset of the record.
        tables: the tables of its events, as text for people; None if the producer does not send them.
    """

    id: str
    events: int
    place: tuple[str, int, int]
    tables: str | None = None


def ends_after(chunks: Iterable[ChunkInfo], passed: Positions) -> list[End]:
    """The ends of transactions behind those that the barrier has passed, in the order of their offsets in each partition."""
    ends = []
    for chunk in chunks:
        if chunk.transactions is not None:
            after = passed.get(chunk.topic, {}).get(chunk.partition, NOTHING)
            lines = chunk.transactions.filter(pc.greater(chunk.transactions.column("mark"), after))
            ends += [
                End(line["id"], line["events"], (chunk.topic, chunk.partition, line["mark"]), line.get("tables"))
                for line in lines.to_pylist()
            ]
    return sorted(ends, key=lambda end: end.place)


def is_waiting(chunk: ChunkInfo, passed: Positions) -> bool:
    """Whether the chunk has an end of a transaction that the barrier has not passed."""
    return bool(ends_after([chunk], passed))
