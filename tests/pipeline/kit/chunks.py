"""The facts that the pending store keeps of a chunk."""

from __future__ import annotations

from changefeed.pipeline.pending.chunk_info import ChunkInfo


def chunk(kind: str, low: int | None = None, high: int | None = None, **values: object) -> ChunkInfo:
    fields = {
        "folder": "1", "kind": kind, "database": "app", "table": "a", "shape": None, "rows": 1, "min_ts": low,
        "max_ts": low if high is None else high, "topic": "t", "partition": 0, "first": 0, "last": 0,
    }  # fmt: skip
    return ChunkInfo(**{**fields, **values})  # type: ignore[arg-type]
