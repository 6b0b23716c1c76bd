"""A piece of work on one table, carried out by one task: changes in, data files and the actions of a commit out.

Of each file that may hold one of the changed keys, by the bounds in the log, the key columns are read. What becomes of the
files that do hold one is in `merge.py`; the rows of keys that no file holds come last.

A table's files may be dealt to several items. Then no item knows which keys are new: each returns which keys it has found
(`Written.found`), and one more item writes the rest (`left`).

Nothing here asks for Spark or the table's log: items are pickled, and what they return is committed by the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.sinks.delta.native.files import Added, Limits, Reader, Writer
from changefeed.sinks.delta.native.latest import last_reading, latest
from changefeed.sinks.delta.native.merge import Marked, Merge
from changefeed.sinks.delta.native.spill import Spill
from changefeed.sinks.delta.native.target import Target, upserts


class Changes(Protocol):
    """Reads the chunks of a table, as `stages.changes.Reading` does."""

    read: int

    def batches(self, payloads: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """Typed changes, with the columns of `stages.changes`."""
        ...


@dataclass(frozen=True, slots=True)
class Item:
    """What one task has to do.

    Attributes:
        files: those of the table that this item looks at: `path`, `size`, bounds of the key's columns, `low_0`, `high_0`, …, and
            `vector`, the deletion vector as JSON, where a table has such.
        way: `merge` by key; `append` the rows; `replace` what lies in the files; `compact` them, without changes.
        marks: whether a `merge` marks the old rows of large files, in place of writing the files anew.
        partial: whether changes may carry some of the columns only.
        last_reading: of a table without a key, whether rows of a snapshot that was taken twice count once.
        alone: whether it writes the rows of keys that it does not find.
        left: the keys that other items have found, by place: this item writes the others and looks at no file.
    """

    target: Target
    changes: Changes
    files: pa.Table
    way: Literal["merge", "append", "replace", "compact"]
    marks: bool = False
    partial: bool = False
    last_reading: bool = False
    alone: bool = True
    left: bytes | None = None
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Written:
    """What a task has done.

    Attributes:
        removed: paths of files, with their sizes.
        marked: files that get a new deletion vector.
        read: changes that were read.
        found: a bit for each changed key, by place, of an item that is not alone.
    """

    added: tuple[Added, ...]
    removed: tuple[tuple[str, int], ...]
    read: int
    found: bytes | None = None
    marked: tuple[Marked, ...] = ()


def write_item(item: Item, payloads: Iterable[bytes]) -> Written:
    """Does the item's work with the payloads of its table's chunks.

    Raises:
        SinkError: a data file cannot be read or written.
        UnsupportedError, SchemaError: as `stages.changes`.
    """
    changes, target = copy(item.changes), item.target  # its count of rows is this task's
    changes.read = 0
    out = Writer(target.folder, target.schema, item.limits, target.indexed)
    try:
        removed, marked, found = _WAYS[item.way](item, changes.batches(payloads), out)
        return Written(tuple(out.close()), tuple(removed), changes.read, found, tuple(marked))
    except BaseException:
        out.discard()
        raise


_Done = tuple[list[tuple[str, int]], list[Marked], bytes | None]


def _append(item: Item, batches: Iterator[pa.RecordBatch], out: Writer) -> _Done:
    """Adds rows; of a table without a key, all of them."""
    target = item.target
    if item.last_reading:
        batches = iter(last_reading(_table(batches, target)).to_batches())
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        out.write_table(upserts(rows.filter(pc.invert(rows.column("_deleted"))), target))
    return [], [], None


def _replace(item: Item, batches: Iterator[pa.RecordBatch], out: Writer) -> _Done:
    """Writes the rows that the changes come to, in place of whatever the files hold."""
    target = item.target
    if not target.keys:
        _append(item, batches, out)
    else:
        with Spill([f"c{target.names.index(k)}" for k in target.keys], item.limits.group_bytes * 2) as spill:
            for batch in batches:
                spill.add(batch)
            for part in spill.parts():
                last = _latest(item, part)
                out.write_table(upserts(last.filter(pc.invert(last.column("_deleted"))), target))
    return _removed(item.files), [], None


def _compact(item: Item, batches: Iterator[pa.RecordBatch], out: Writer) -> _Done:
    """Writes the rows that are left in the files, in the order of files."""
    target = item.target
    for file in item.files.to_pylist():
        reader = Reader(target.folder, file["path"], target.schema, file.get("vector"))
        try:
            for start, batch in reader.pieces(item.limits.batch_rows):
                out.write(reader.left(batch, start))
        finally:
            reader.close()
    return _removed(item.files), [], None


def _merge(item: Item, batches: Iterator[pa.RecordBatch], out: Writer) -> _Done:
    last = _latest(item, _table(batches, item.target))
    if not len(last):
        return [], [], b"" if not item.alone else None
    merge = Merge.of(last, item.target, item.limits.batch_rows, partial=item.partial)
    if item.left is not None:
        merge.found[:] = np.unpackbits(np.frombuffer(item.left, np.uint8), count=len(last)).astype(np.bool_)
    removed, marked = [], []
    for file in merge.candidates(item.files) if item.left is None else ():
        done = merge.into(file, out, marks=item.marks and file["size"] >= item.limits.least_marked)
        if isinstance(done, Marked):
            marked.append(done)
        elif done:
            removed.append((file["path"], file["size"]))
    if item.alone:
        merge.write_new(out)
    return removed, marked, None if item.alone else np.packbits(merge.found).tobytes()


_WAYS = {"append": _append, "replace": _replace, "merge": _merge, "compact": _compact}


def _latest(item: Item, changes: pa.Table) -> pa.Table:
    keys = [item.target.names.index(k) for k in item.target.keys]
    return latest(changes, item.target.names, keys, partial=item.partial)


def _table(batches: Iterator[pa.RecordBatch], target: Target) -> pa.Table:
    """All of the changes; without any, with the columns that are asked for here."""
    whole = list(batches)
    if whole:
        return pa.Table.from_batches(whole)
    columns = {f"c{i}": pa.nulls(0, target.schema.field(name).type) for i, name in enumerate(target.names)}
    return pa.table(columns | {"_deleted": pa.array([], pa.bool_()), "_op": pa.array([], pa.string())})


def _removed(files: pa.Table) -> list[tuple[str, int]]:
    return list(zip(files.column("path").to_pylist(), files.column("size").to_pylist(), strict=True))


def left(item: Item, found: Sequence[bytes]) -> Item:
    """The item that writes the keys which none of a table's other items has found."""
    bits = np.zeros(max((len(f) for f in found), default=0), np.uint8)
    for one in found:
        if one:
            bits |= np.frombuffer(one, np.uint8)
    return replace(item, files=item.files.slice(0, 0), alone=True, left=bits.tobytes())
