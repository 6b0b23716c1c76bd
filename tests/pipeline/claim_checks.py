"""Record logs whose large rows lie in claim-check files, so that they are dead letters until the store is configured."""

from __future__ import annotations

from pathlib import Path

from changefeed import record_log
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores
from changefeed.stores import stores


def checked_in(plain: Path, store: Path) -> Path:
    """The log `plain` with every row above 600 bytes in a file of `store`."""
    spoken = protocol("ticdc-open")
    options = {
        "max-batch-size": 1,
        "max-message-bytes": 600,
        "large-message-handle-option": "claim-check",
        "claim-check-storage-uri": str(store),
    }
    encoder = spoken.encoder(spoken.read_options(options), stores(str(store)))
    decoder = spoken.decoder(spoken.read_options({}), Stores())
    log = plain.with_name("app.jsonl")
    record_log.write(log, [encoder.encode(decoder.decode(records)) for records in record_log.read(plain)])
    return log
