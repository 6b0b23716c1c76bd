"""together: chunks of many small tables -> the typed changes of each, converted together where tables have equal columns.

Converting a batch costs as much as hundreds of its rows, and a database of a thousand tenants or shards has a thousand tables
with the same columns. Their rows are put into one batch for each shape, typed at once, and divided again.

Rule. Each table has the changes that `ChunkReader.batches` yields, in the same order. If rows cannot be typed, each table of
them is typed alone, so that the error names the right one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.model.batch import TableBatch
from changefeed.stages.changes import OWNER, ChunkReader, typed

_Part = tuple[int, int, pa.RecordBatch]  # number of a chunk, and of its reader; some of its typed changes


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The rows of one chunk: the number of its reader, and its own among all chunks."""

    reader: int
    number: int
    rows: TableBatch


def together(
    readers: Sequence[ChunkReader], payloads: Sequence[Sequence[bytes]]
) -> list[tuple[int, list[pa.RecordBatch]]]:
    """Returns the number of rows read, and the typed changes, of each reader.

    Args:
        readers: one for each table.
        payloads: the payloads of each table's chunks, in order.

    Raises:
        UnsupportedError, SchemaError: as `ChunkReader.batches`.
    """
    own = [replace(reader, read=0) for reader in readers]
    groups = defaultdict[Hashable, list[_Chunk]](list)
    count = 0
    for number, (reader, mine) in enumerate(zip(own, payloads, strict=True)):
        for rows in reader.rows(mine):
            if len(rows):
                groups[_likeness(reader, rows)].append(_Chunk(number, count, rows))
                count += 1
    parts = list[_Part]()
    for chunks in groups.values():
        parts += _typed_at_once(own, chunks) if len(chunks) > 1 else _typed_alone(own, chunks)
    results = [(reader.read, list[pa.RecordBatch]()) for reader in own]
    for _, number, changes in sorted(parts, key=lambda part: part[0]):
        results[number][1].append(changes)
    return results


def _likeness(reader: ChunkReader, rows: TableBatch) -> Hashable:
    """Returns what tables must have in common to be typed together: all but their names, and what chooses their rows."""
    table, shape = reader.table, rows.shape
    sent = (shape.columns, shape.before, shape.after, rows.rows.schema.field("commit_time").type.unit)
    exceptions = tuple(sorted(reader.sent.items(), key=lambda item: item[0]))
    return table.columns, table.keys, reader.irregular, id(reader.redefinition), exceptions, sent


def _typed_alone(readers: Sequence[ChunkReader], chunks: Sequence[_Chunk]) -> list[_Part]:
    parts = list[_Part]()
    for chunk in chunks:
        reader = readers[chunk.reader]
        changes = typed(chunk.rows, reader.table, reader.irregular, reader.types())
        parts += [(chunk.number, chunk.reader, batch) for batch in changes]
    return parts


def _typed_at_once(readers: Sequence[ChunkReader], chunks: Sequence[_Chunk]) -> list[_Part]:
    """Types the rows of like chunks as one batch, in which each row has the place of its chunk."""
    owners = np.repeat(np.arange(len(chunks), dtype=np.int32), [len(chunk.rows) for chunk in chunks])
    rows = pa.concat_batches([chunk.rows.rows for chunk in chunks]).append_column(OWNER, pa.array(owners))
    reader = readers[chunks[0].reader]
    try:
        batches = list(typed(TableBatch(chunks[0].rows.shape, rows), reader.table, reader.irregular, reader.types()))
    except (SchemaError, UnsupportedError):
        return _typed_alone(readers, chunks)
    parts = list[_Part]()
    for batch in batches:
        places, starts = np.unique(batch.column(OWNER).to_numpy(), return_index=True)
        changes = batch.select(batch.schema.names[:-1])
        for place, start, end in zip(places.tolist(), starts.tolist(), [*starts.tolist()[1:], len(batch)], strict=True):
            chunk = chunks[place]
            parts.append((chunk.number, chunk.reader, changes.slice(start, end - start)))
    return parts
