"""The description of a table for the tasks that write it, and the conversion of changes to its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.sinks.apply.layout import Layout
from changefeed.sinks.writes import IRREGULAR


@dataclass(frozen=True, slots=True)
class Target:
    """The description of a table for the items that write it.

    Attributes:
        schema: the columns of its data files.
        names: names of the columns from upstream, in order; the others are metadata columns.
        keys: names of the key's columns; empty for a table without a key.
    """

    layout: Layout
    schema: pa.Schema
    names: tuple[str, ...]
    keys: tuple[str, ...]


def upserts(changes: pa.Table, target: Target) -> pa.Table:
    """Converts changes other than deletes to rows of the table; for metadata columns see `sinks.writes.METADATA`."""
    columns = []
    for column in target.schema:
        if column.name in target.names:
            values = changes.column(f"c{target.names.index(column.name)}")
        elif column.name in _METADATA_VALUES:
            values = _METADATA_VALUES[column.name](changes)
        else:
            values = pa.chunked_array([pa.nulls(len(changes), column.type)])
        columns.append(values if values.type == column.type else values.cast(column.type))
    return pa.table(columns, schema=target.schema)


def _position(changes: pa.Table) -> Any:
    """Formats the positions of changes as Spark's `concat_ws` does, which leaves out NULLs."""
    parts = [changes.column(name).cast(pa.string()) for name in ("_topic", "_partition", "_offset", "_index")]
    return pc.binary_join_element_wise(*parts, pa.scalar(":"), null_handling="skip")


_METADATA_VALUES: dict[str, Callable[[pa.Table], Any]] = {
    "_commit_ts": lambda changes: changes.column("_ts"),
    "_commit_time": lambda changes: changes.column("_time"),
    "_op": lambda changes: changes.column("_op"),
    "_position": _position,
    IRREGULAR: lambda changes: changes.column(IRREGULAR),
}
