"""The pending rows of each table, counted from the files of the pending store without Spark: for people.

Chunks wholly above the point up to which their table is applied are counted by their plain columns. Of a chunk that spans this
point the rows are looked at. Rows that were sent again count, so the sum may be above the number of pending rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import ChangefeedError
from changefeed.frames.chunk_files import StoredChunks, part_sizes
from changefeed.frames.chunks import unpack
from changefeed.model.names import full_name
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.paths import pending_folder
from changefeed.pipeline.state import State
from changefeed.pipeline.store.hadoop import folder_to_read
from changefeed.storage import Folder

_EVERYTHING = 2**64 - 1
_COLUMNS = ("kind", "database", "table", "rows", "min_commit_ts", "max_commit_ts")


def pending_rows_of(definition: Definition, state: State) -> dict[str, int]:
    """Returns `pending_rows` of a pipeline; empty if the store cannot be read at this moment, as while a run cleans it up."""
    if not state.counts.pending or not state.pending:
        return {}
    try:
        folder = folder_to_read(pending_folder(definition), definition.storage, definition.spark)
        return pending_rows(folder, state) if isinstance(folder, Folder) else {}
    except ChangefeedError:
        return {}


def pending_rows(store: Folder, state: State) -> dict[str, int]:
    """Returns `database.table` -> number of its pending rows, for the tables that have some; sorted by number, then name.

    Args:
        store: the folder of the pending store.
        state: the newest state in the ledger.

    Raises:
        SinkError: a file cannot be read.
    """
    counted = Counter[str]()
    chunks = StoredChunks(store)
    for folder in state.pending:
        for file, size in part_sizes(store, folder).items():
            for part in chunks.find(file, _COLUMNS, _of_rows, size):
                for chunk in part.to_pylist():
                    name = full_name(chunk["database"], chunk["table"])
                    counted[name] += _rows_above(chunks, chunk, _applied_up_to(state, folder, name))
    return dict(sorted(((name, rows) for name, rows in counted.items() if rows), key=lambda one: (-one[1], one[0])))


def _of_rows(plain: pa.Table) -> Any:
    return pc.equal(plain.column("kind"), "rows")


def _applied_up_to(state: State, folder: str, name: str) -> int | None:
    """The commit_ts up to which the rows of a table in a folder are applied; None if none is."""
    if (hold := state.held.get(name)) is not None:
        return hold.after
    if folder in state.partly:  # `consistency: key`
        return state.partly[folder].get(name, _EVERYTHING)
    return state.barrier


def _rows_above(chunks: StoredChunks, chunk: Mapping[str, Any], applied: int | None) -> int:
    rows: int = chunk["rows"]
    least, most = chunk["min_commit_ts"], chunk["max_commit_ts"]
    if applied is None or least is None or least > applied:
        return rows
    if most <= applied:
        return 0
    numbers = unpack(chunks.payload(chunk["file"], chunk["group"], chunk["row"])).rows.column("commit_ts")
    above = pc.sum(pc.greater(numbers, pa.scalar(applied, numbers.type))).as_py()
    return int(above or 0)
