"""Chunks of rows, as a step reads them."""

from __future__ import annotations

from typing import Any

from changefeed.frames.chunks import pack
from changefeed.model.batch import BatchBuilder, Decoded, record_batch
from changefeed.model.definition import Table
from changefeed.model.event import SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType


def table(*texts: str) -> Table:
    members = columns(*texts)
    return Table("app", "t", members, tuple(c.name for c in members if c.key))


def shape(*texts: str, before: tuple[str, ...] | None = None, after: tuple[str, ...] | None = None) -> TableShape:
    return TableShape("app", "t", columns(*texts), before, after)


def chunks(rows: list[tuple[Any, ...]], control: list[SchemaChange] | None = None) -> list[dict[str, Any]]:
    """The chunks of rows (shape, commit_ts, op, before, after[, irregular]), all in one partition."""
    builder = BatchBuilder()
    for offset, (made, ts, op, before, after, *irregular) in enumerate(rows):
        builder.add(
            made, Place("t", 0, offset, None, offset), op, before=before, after=after, commit_ts=ts, commit_time=ts,
            irregular=irregular[0] if irregular else None,
        )  # fmt: skip
    records = record_batch([{"topic": "t", "partition": 0, "offset": i} for i in range(len(rows))])
    packed = pack(Decoded(builder.build(), list(control or []), []), records)
    return [row for row in packed.to_pylist() if row["kind"] == "rows"]


def columns(*texts: str) -> tuple[Column, ...]:
    pairs = [text.partition(" ") for text in texts]
    return tuple(Column(n.strip("*"), ColumnType.parse(t), key=n.startswith("*")) for n, _, t in pairs)
