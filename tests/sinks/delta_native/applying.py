"""Helpers that write tables natively in tests, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from changefeed.frames.types import sink_type
from changefeed.model.definition import Table
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.apply.item import Item, TaskResult, write_item
from changefeed.sinks.apply.merge import Marked
from changefeed.sinks.delta.native import vectors
from changefeed.sinks.delta.native.commit import commit
from changefeed.sinks.delta.native.opened import Opened, open_table
from changefeed.sinks.writes import METADATA, WriteId
from changefeed.stages.changes import ChunkReader, Window
from changefeed.storage.local import LocalFolder

SMALL = Limits(file_bytes=2_500, group_bytes=2_000, batch_rows=7, least_marked=1_500)


def create(path: Path | str, table: Table, extra: Iterable[str] = METADATA) -> None:
    """Creates an empty Delta table with the columns of `table` and these metadata columns."""
    fields = [pa.field(c.name, sink_type(c.type).arrow) for c in table.columns]
    fields += [pa.field(name, METADATA[name].arrow) for name in extra]
    DeltaTable.create(str(path), schema=pa.schema(fields))


def opened(path: Path | str, application: str = "test") -> Opened:
    """Opens the newest version of the table."""
    table = open_table(LocalFolder(str(path)), application)
    assert table is not None
    assert table.refused() is None
    return table


def item(
    at: Opened, table: Table, way: Any = "merge", *, irregular: str = "keep", limits: Limits = SMALL, **options: Any
) -> Item:
    """Makes an item for all of a table's files."""
    reading = ChunkReader(table, Window(), irregular)
    target = at.target([c.name for c in table.columns], table.keys)
    return Item(target, reading, at.files(table.keys), way, limits=limits, **options)


def payloads(chunks: pa.RecordBatch) -> list[bytes]:
    """The chunks' payloads."""
    chunk_payloads: list[bytes] = chunks.column("payload").to_pylist()
    return chunk_payloads


def apply(
    path: Path | str, table: Table, chunks: pa.RecordBatch, step: int, way: Any = "merge", **options: Any
) -> TaskResult:
    """Does one write with one item, committed as a step of epoch 1."""
    at, marks = opened(path), options.get("marks", False)
    written = write_item(item(at, table, way, **options), payloads(chunks))
    write_id, note = WriteId(1, step, 1), f'{{"step":{step}}}'
    assert commit(at, [written], write_id, note, merges_on_read=marks) == opened(path).version
    return written


def commit_text(path: str, version: int) -> bytes | None:
    """Reads a commit, for `log.commits`."""
    return LocalFolder(path).read(f"_delta_log/{version:020d}.json")


def inline(folder: LocalFolder, marks: Sequence[Marked]) -> list[dict[str, Any]]:
    """Replaces `log_file._in_a_file`: returns descriptors that contain their vectors."""
    return [
        {
            "storageType": "i",
            "pathOrInlineDv": vectors.z85(m.vector),
            "sizeInBytes": len(m.vector),
            "cardinality": m.deleted,
        }
        for m in marks
    ]


def read(path: Path | str, columns: Sequence[str] = ("*",), version: int | None = None) -> pa.Table:
    """The table's rows, read by another implementation; by default of the newest version."""
    selected = ", ".join(c if c == "*" else f'"{c}"' for c in columns)
    return pa.table(
        QueryBuilder().register("t", DeltaTable(str(path), version)).execute(f"select {selected} from t").read_all()
    )
