"""Source offsets as texts: in the checkpoint of Spark, and in the form in which the ledger compares them."""

from __future__ import annotations

import json


def batch_offset(checkpoint: str, number: int) -> str:
    """The source offset at the end of a batch, from the offset log that Spark writes before it runs the batch.

    The checkpoint is on the driver's own disk, whatever the cluster's file system is. The log has one file per batch: a version,
    metadata, then a line for each source; the pipeline has one source.
    """
    with open(f"{checkpoint}/offsets/{number}") as file:
        lines = file.read().splitlines()
    return json.dumps(json.loads(lines[2]))


def offset_text(source_offset: str) -> str:
    """A source offset in canonical form, so that equal ones compare equal."""
    return json.dumps(json.loads(source_offset), sort_keys=True, separators=(",", ":"))
