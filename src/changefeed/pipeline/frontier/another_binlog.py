"""Another binlog: after a failover or RESET MASTER positions begin again, and have no order relative to earlier ones.

A connector that has begun with another binlog takes a new snapshot (`when_needed`), whose position may be lower than that of a
snapshot that it took before. Both may still be pending, where no barrier shows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from changefeed.errors import UnsupportedError
from changefeed.pipeline.pending.chunk_info import ChunkInfo
from changefeed.protocols.origin import snapshot_mark

_FAILOVER = "a failover, RESET MASTER"


def check_snapshots(chunks: Iterable[ChunkInfo]) -> None:
    """Checks that the schema changes of snapshots have rising positions in each partition, unless they are sent again.

    Args:
        chunks: all pending chunks, and those of the batch.

    Raises:
        UnsupportedError: a snapshot has a lower position than one that was sent before it.
    """
    events = [chunk for chunk in chunks if chunk.event is not None and snapshot_mark(chunk.event) is not None]
    sent: dict[tuple[str, int], set[int]] = {}
    for chunk in sorted(events, key=lambda chunk: (chunk.topic, chunk.partition, chunk.first)):
        places = sent.setdefault((chunk.topic, chunk.partition), set())
        if (ts := chunk.min_ts) is None:
            continue
        if places and ts < max(places) and ts not in places:
            stop(f"a snapshot at {place_text(ts)} is before one that was sent earlier, at {place_text(max(places))}")
        places.add(ts)


def stop(
    what: str, reasons: str = _FAILOVER, whose: str = "rows have no order relative to earlier changes"
) -> NoReturn:
    """Raises the error for what shows another binlog.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(
        f"{what}: the upstream has begun another binlog ({reasons}), whose {whose}. Start a new pipeline from a snapshot"
    )


def place_text(sequence: int) -> str:
    """File and position of a commit_ts, for people."""
    return f"binlog {sequence >> 40} position {sequence & (1 << 40) - 1}"
