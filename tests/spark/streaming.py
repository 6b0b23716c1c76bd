"""Streaming queries that read logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark.shop import Row, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def follow(frame: DataFrame, checkpoint: Path, *, fails: bool = False) -> list[Row]:
    """The rows of all batches up to the current end of the logs; a batch that fails has none."""
    rows_read: list[Row] = []

    def on_batch(batch: DataFrame, number: int) -> None:
        rows = shown(batch)
        if fails:
            raise Stopped
        rows_read.extend(rows)

    query = frame.writeStream.foreachBatch(on_batch).option("checkpointLocation", str(checkpoint))
    running = query.trigger(availableNow=True).start()
    try:
        running.awaitTermination(240)
    except Exception:
        if not fails:
            raise
    running.stop()
    return rows_read


class Stopped(Exception):
    """Raised before the batch is done."""
