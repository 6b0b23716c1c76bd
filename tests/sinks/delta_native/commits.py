"""Commits of a small table."""

from __future__ import annotations

import pyarrow as pa

from changefeed.sinks.apply.files import DataFileWriter, Limits
from changefeed.sinks.apply.item import TaskResult
from changefeed.sinks.delta.native.opened import Opened

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def replacing(at: Opened, *ids: int) -> TaskResult:
    """Rows in a new file that replaces all others."""
    writer = DataFileWriter(at.layout, SCHEMA, Limits())
    writer.write(pa.record_batch([pa.array(ids, pa.int64()), pa.array(["x"] * len(ids))], schema=SCHEMA))
    files = at.files()
    removed = zip(files.column("path").to_pylist(), files.column("size").to_pylist(), strict=True)
    return TaskResult(tuple(writer.close()), tuple(removed), len(ids))
