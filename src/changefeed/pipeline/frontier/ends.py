"""Ends of transactions among pending chunks."""

from __future__ import annotations

import pyarrow.compute as pc

from changefeed.pipeline.pending.store import ChunkInfo


def is_waiting(chunk: ChunkInfo, ended: int) -> bool:
    """Whether the chunk has an end of a transaction that the barrier has not passed."""
    if chunk.transactions is None:
        return False
    last = pc.max(chunk.transactions.column("mark")).as_py()
    return last is not None and last > ended
