"""Chunks of the pending store without their payloads: what the frontier and the planner read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from changefeed.frames.chunks import unpack_records
from changefeed.frames.payloads import schema_from_dict
from changefeed.model.event import SchemaChange
from changefeed.model.names import full_name


@dataclass(frozen=True, slots=True)
class ChunkInfo:
    """A chunk without its payload: what planning needs.

    Attributes:
        event: of a schema change.
        transactions: of a `transactions` chunk: its columns are drawn in `frames.chunks`.
        places, sent: of a chunk of that kind: its lines, see `frames.sent`.
        mark: the upstream's own name for the point of a `resolved` chunk.
        dated: of a `dated` chunk: `database.table` -> offset and commit_ts.
    """

    folder: str
    kind: str
    database: str | None
    table: str | None
    shape: str | None
    rows: int
    min_ts: int | None
    max_ts: int | None
    topic: str
    partition: int
    first: int
    last: int
    event: SchemaChange | None = None
    transactions: pa.RecordBatch | None = None
    places: pa.RecordBatch | None = None
    sent: pa.RecordBatch | None = None
    mark: str | None = None
    dated: Mapping[str, tuple[int, int]] | None = None

    @property
    def name(self) -> str:
        """`database.table`."""
        return full_name(str(self.database), str(self.table))


def chunk_info(folder: str, row: Any) -> ChunkInfo:
    """A chunk's plain columns and what planning needs of its payload; `row` has the columns of `frames.chunks` by name."""
    columns: dict[str, Any] = {}
    match row["kind"]:
        case "schema":
            columns["event"] = schema_from_dict(json.loads(row["payload"]))
        case "resolved":
            columns["mark"] = json.loads(row["payload"])["name"]
        case "transactions":
            columns["transactions"] = unpack_records(row["payload"])
        case "places" | "sent" as kind:
            columns[kind] = unpack_records(row["payload"])
        case "dated":
            records = json.loads(row["payload"])
            columns["dated"] = {name: (offset, ts) for name, (offset, ts) in records.items()}
    return ChunkInfo(
        folder, row["kind"], row["database"], row["table"], row["shape"], row["rows"], row["min_commit_ts"],
        row["max_commit_ts"], row["topic"], row["partition"], row["first_offset"], row["last_offset"], **columns,
    )  # fmt: skip
