"""The work of one task on one table: reads changes, writes data files, and returns the actions for a commit.

The key columns of every file that may contain a changed key, according to the bounds in the log, are read. `merge.py` handles
files that do contain one; the rows of keys that no file contains are written last.

A table's files may be distributed over several items. Then no item can decide which keys are new: each returns the keys that its
files contain (`TaskResult.matched`), and one more item writes the rows of the other keys (`unmatched`).

The number of changes is not limited by memory: above `Limits.held_bytes` they are on disk (`Spill`), in parts with all changes
of a key in one part. Parts are merged one after the other, and a file is rewritten once, after the last part.

Items use neither Spark nor the table's log: they are pickled, and the driver commits their results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.sinks.apply.files import Added, DataFileReader, DataFileWriter, Limits, Mask
from changefeed.sinks.apply.latest import READING, latest, of_last_reading
from changefeed.sinks.apply.merge import Marked, Merge
from changefeed.sinks.apply.spill import Spill
from changefeed.sinks.apply.target import Target, upserts


class ChangeReader(Protocol):
    """Converts the chunks of a table to typed changes, as `stages.changes.ChunkReader` does."""

    read: int

    def batches(self, payloads: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """Yields typed changes, with the columns of `stages.changes`."""
        ...


@dataclass(slots=True)
class Typed:
    """Passes changes that are typed already to an item, which otherwise types them from chunks."""

    rows: list[pa.RecordBatch]
    read: int = 0

    def batches(self, payloads: Any) -> Iterator[pa.RecordBatch]:
        """Yields the changes; ignores the payloads."""
        yield from self.rows


@dataclass(frozen=True, slots=True)
class Item:
    """The work of one task: files of a table to merge with changes, append to, replace or compact.

    Attributes:
        files: the table's files for this item: `path`, `size`, bounds of the key's columns, `low_0`, `high_0`, …, and
            `vector`, see `Layout.deleted`, if some files have deletion vectors.
        way: `merge` by key; `append` rows; `replace` the rows of the files; `compact` the files, without changes.
        marks: whether a `merge` marks old rows in deletion vectors of large files instead of rewriting the files.
        partial: whether changes may carry only some of the columns.
        last_reading: for a table without a key, whether rows of a snapshot that was taken twice count once.
        alone: whether the item writes the rows of keys that its files do not contain.
        matched: a bit for each key that files of other items contain: this item writes the other keys and reads no file.
        final_states: see `stages.latest`.
    """

    target: Target
    changes: ChangeReader
    files: pa.Table
    way: Literal["merge", "append", "replace", "compact"]
    marks: bool = False
    partial: bool = False
    last_reading: bool = False
    alone: bool = True
    matched: bytes | None = None
    limits: Limits = field(default_factory=Limits)
    final_states: bool = False


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The files that one task has written, and those that the commit removes.

    Attributes:
        removed: path -> size of the files to remove.
        marked: files that get a new deletion vector.
        read: number of changes that were read.
        matched: a bit for each changed key: whether a file contains it. Only for an item that is not `alone`.
    """

    added: tuple[Added, ...]
    removed: tuple[tuple[str, int], ...]
    read: int
    matched: bytes | None = None
    marked: tuple[Marked, ...] = ()


def write_item(item: Item, payloads: Iterable[bytes]) -> TaskResult:
    """Does the item's work with the payloads of its table's chunks.

    Raises:
        SinkError: a data file cannot be read or written.
        UnsupportedError, SchemaError: as `stages.changes`.
    """
    changes, target = copy(item.changes), item.target  # its count of rows is this task's
    out = DataFileWriter(target.layout, target.schema, item.limits)
    try:
        removed, marked, matched = _WAYS[item.way](item, changes.batches(payloads), out)
        return TaskResult(tuple(out.close()), tuple(removed), changes.read, matched, tuple(marked))
    except BaseException:
        out.discard()
        raise


_Done = tuple[list[tuple[str, int]], list[Marked], bytes | None]
_Merged = tuple[list[tuple[str, int]], list[Marked], Mask]


def _append(item: Item, batches: Iterator[pa.RecordBatch], out: DataFileWriter) -> _Done:
    """Appends the rows of the changes; for a table without a key, every row."""
    if item.last_reading:
        _append_last_reading(item, batches, out)
    else:
        for batch in batches:
            _write_upserts(item, pa.Table.from_batches([batch]), out)
    return [], [], None


def _append_last_reading(item: Item, batches: Iterator[pa.RecordBatch], out: DataFileWriter) -> None:
    with Spill((), item.limits.held_bytes) as spill:
        order = []
        for batch in batches:
            spill.add(batch)
            order.append(batch.select(READING))
        if not order:
            return
        start, counts = 0, of_last_reading(pa.Table.from_batches(order))
        for part in spill.parts():
            _write_upserts(item, part.filter(counts.slice(start, len(part))), out)
            start += len(part)


def _write_upserts(item: Item, changes: pa.Table, out: DataFileWriter) -> None:
    out.write_table(upserts(changes.filter(pc.invert(changes.column("_deleted"))), item.target))


def _replace(item: Item, batches: Iterator[pa.RecordBatch], out: DataFileWriter) -> _Done:
    """Writes the rows after the changes, which replace all rows of the files."""
    if not item.target.keys:
        _append(item, batches, out)
    else:
        with _spilled(item, batches) as spill:
            for part in spill.parts():
                _write_upserts(item, _latest(item, part), out)
    return _removed(item.files), [], None


def _compact(item: Item, batches: Iterator[pa.RecordBatch], out: DataFileWriter) -> _Done:
    """Writes the remaining rows of the files to new files, in order."""
    target = item.target
    for file in item.files.to_pylist():
        reader = DataFileReader(target.layout, file, target.schema)
        try:
            for start, batch in reader.pieces(item.limits.batch_rows):
                out.write(reader.live(batch, start))
        finally:
            reader.close()
    return _removed(item.files), [], None


def _merge(item: Item, batches: Iterator[pa.RecordBatch], out: DataFileWriter) -> _Done:
    with _spilled(item, batches) as spill:
        merge = _merge_at_once if spill.in_memory else _merge_in_parts
        removed, marked, matched = merge(item, spill.parts(), out)
    return removed, marked, None if item.alone else np.packbits(matched).tobytes()


def _merge_at_once(item: Item, parts: Iterator[pa.Table], out: DataFileWriter) -> _Merged:
    """Merges the changes, which are all in memory, into one file after the other."""
    removed, marked = list[tuple[str, int]](), list[Marked]()
    for merge in _merges(item, parts):
        for file in merge.candidates(item.files) if item.matched is None else ():
            done = merge.into(file, out, marks=_is_marked(item, file))
            if isinstance(done, Marked):
                marked.append(done)
            elif done:
                removed.append((file["path"], file["size"]))
        if item.alone:
            merge.write_new(out)
        return removed, marked, merge.matched
    return removed, marked, np.zeros(0, np.bool_)


def _merge_in_parts(item: Item, parts: Iterator[pa.Table], out: DataFileWriter) -> _Merged:
    """Writes the new values of all parts to new files, then the remaining rows of the old files that were changed."""
    gone = dict[str, Mask]()
    matched = []
    for merge in _merges(item, parts):
        for file in merge.candidates(item.files) if item.matched is None else ():
            rows = merge.changed(file, out)
            if rows is not None:
                gone[file["path"]] = gone[file["path"]] | rows if file["path"] in gone else rows
        if item.alone:
            merge.write_new(out)
        matched.append(merge.matched)
    removed, marked = [], []
    for file in item.files.to_pylist():
        rows = gone.get(file["path"])
        if rows is None:
            continue
        if _is_marked(item, file) and not rows.all():
            marked.append(Marked.of(file["path"], rows))
            continue
        _write_rest(item, file, rows, out)
        removed.append((file["path"], file["size"]))
    return removed, marked, np.concatenate(matched)


def _write_rest(item: Item, file: Mapping[str, Any], gone: Mask, out: DataFileWriter) -> None:
    """Writes the rows of a file except those in `gone`."""
    reader = DataFileReader(item.target.layout, {**file, "vector": None}, item.target.schema)
    try:
        for start, batch in reader.pieces(item.limits.batch_rows, ~gone):
            out.write(batch.filter(pa.array(~gone[start : start + batch.num_rows])))
    finally:
        reader.close()
    out.end_of_input()


def _merges(item: Item, parts: Iterator[pa.Table]) -> Iterator[Merge]:
    """Yields the merge of each part; for an item with `matched`, with the keys that files of other items contain."""
    start = 0
    known = None if item.matched is None else np.unpackbits(np.frombuffer(item.matched, np.uint8)).astype(np.bool_)
    for part in parts:
        last = _latest(item, part)
        merge = Merge.of(last, item.target, item.limits.batch_rows, partial=item.partial)
        if known is not None:
            merge.matched[:] = known[start : start + len(last)]
        start += len(last)
        yield merge


def _is_marked(item: Item, file: Mapping[str, Any]) -> bool:
    """Whether removed rows of the file are marked in a deletion vector."""
    return item.marks and bool(file["size"] >= item.limits.least_marked)


def _spilled(item: Item, batches: Iterator[pa.RecordBatch]) -> Spill:
    spill = Spill([f"c{item.target.names.index(k)}" for k in item.target.keys], item.limits.held_bytes)
    try:
        for batch in batches:
            spill.add(batch)
    except BaseException:
        spill.close()
        raise
    return spill


_WAYS = {"append": _append, "replace": _replace, "merge": _merge, "compact": _compact}


def _latest(item: Item, changes: pa.Table) -> pa.Table:
    keys = [item.target.names.index(k) for k in item.target.keys]
    return latest(changes, item.target.names, keys, partial=item.partial, final_states=item.final_states)


def _removed(files: pa.Table) -> list[tuple[str, int]]:
    return list(zip(files.column("path").to_pylist(), files.column("size").to_pylist(), strict=True))


def unmatched(item: Item, matched: Sequence[bytes]) -> Item:
    """Creates the item that writes the keys that no other item of the table has matched."""
    bits = np.zeros(max((len(f) for f in matched), default=0), np.uint8)
    for one in matched:
        if one:
            bits |= np.frombuffer(one, np.uint8)
    return replace(item, files=item.files.slice(0, 0), alone=True, matched=bits.tobytes())
