"""Record logs with their large rows in claim-check files: dead letters until the claim-check store is configured."""

from __future__ import annotations

from pathlib import Path

from changefeed.stores import stores
from tests.pipeline.kit.history import HistoryBuilder

LARGE = "x" * 2000


def checked_in(history: HistoryBuilder, log: Path, store: Path) -> Path:
    """Writes the history in records of several rows; records that contain `LARGE` go to files in `store`."""
    return history.write(
        log,
        stores(str(store)),
        max_batch_size=16,
        max_message_bytes=1800,
        large_message_handle_option="claim-check",
        claim_check_storage_uri=str(store),
    )
