"""A piece of work on one table, carried out by one task: changes in, data files and the actions of a commit out.

Copy on write. Of each file that may hold one of the changed keys, by the bounds in the log, the key columns are read; the
files that do hold one are read whole, in pieces, and written anew without the rows that are deleted and with those that
changed; the rows of keys that no file holds come last.

A table's files may be dealt to several items. Then no item knows which keys are new: each returns which keys it has found
(`Written.found`), and one more item writes the rest (`left`).

Nothing here asks for Spark or the table's log: items are pickled, and what they return is committed by the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.sinks.delta.native.files import Added, Folder, Limits, Reader, Writer
from changefeed.sinks.delta.native.keys import Keys
from changefeed.sinks.delta.native.latest import carried, last_reading, latest, maps, texts
from changefeed.sinks.delta.native.spill import Spill
from changefeed.sinks.delta.native.statistics import INDEXED

_Numbers = npt.NDArray[np.int64]
_IRREGULAR = "_irregular"
_MILLISECOND = 1000  # by which a timestamp may lie above the bound that another writer gave


class Changes(Protocol):
    """Reads the chunks of a table, as `stages.changes.Reading` does."""

    read: int

    def batches(self, payloads: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        """Typed changes, with the columns of `stages.changes`."""
        ...


@dataclass(frozen=True, slots=True)
class Target:
    """A table as the items that write it see it.

    Attributes:
        schema: its columns, as the log has them.
        names: those that come from the upstream, in order; the others are of ours.
        keys: names of the key's columns; empty for a table without a key.
        indexed: how many columns get statistics.
    """

    folder: Folder
    schema: pa.Schema
    names: tuple[str, ...]
    keys: tuple[str, ...]
    indexed: int = INDEXED


@dataclass(frozen=True, slots=True)
class Item:
    """What one task has to do.

    Attributes:
        files: those of the table that this item looks at: `path`, `size`, and bounds of the key's columns, `low_0`, `high_0`, ….
        way: `merge` by key; `append` the rows; `replace` what lies in the files.
        partial: whether changes may carry some of the columns only.
        last_reading: of a table without a key, whether rows of a snapshot that was taken twice count once.
        alone: whether it writes the rows of keys that it does not find.
        left: the keys that other items have found, by place: this item writes the others and looks at no file.
    """

    target: Target
    changes: Changes
    files: pa.Table
    way: Literal["merge", "append", "replace"]
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
        read: changes that were read.
        found: a bit for each changed key, by place, of an item that is not alone.
    """

    added: tuple[Added, ...]
    removed: tuple[tuple[str, int], ...]
    read: int
    found: bytes | None = None


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
        removed, found = _WAYS[item.way](item, changes.batches(payloads), out)
        return Written(tuple(out.close()), tuple(removed), changes.read, found)
    except BaseException:
        out.discard()
        raise


_Done = tuple[list[tuple[str, int]], bytes | None]


def _append(item: Item, batches: Iterator[pa.RecordBatch], out: Writer) -> _Done:
    """Adds rows; of a table without a key, all of them."""
    target = item.target
    if item.last_reading:
        batches = iter(last_reading(_table(batches, target)).to_batches())
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        out.write_table(upserts(rows.filter(pc.invert(rows.column("_deleted"))), target))
    return [], None


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
    return _removed(item.files), None


def _merge(item: Item, batches: Iterator[pa.RecordBatch], out: Writer) -> _Done:
    last = _latest(item, _table(batches, item.target))
    if not len(last):
        return [], b"" if not item.alone else None
    merge = Merge.of(last, item)
    if item.left is not None:
        merge.found[:] = np.unpackbits(np.frombuffer(item.left, np.uint8), count=len(last)).astype(np.bool_)
    removed = [] if item.left is not None else [
        (path, size) for path, size in merge.candidates(item.files) if merge.rewrite(path, out)
    ]  # fmt: skip
    if item.alone:
        merge.write_new(out)
    return removed, None if item.alone else np.packbits(merge.found).tobytes()


_WAYS = {"append": _append, "replace": _replace, "merge": _merge}


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


def upserts(changes: pa.Table, target: Target) -> pa.Table:
    """Changes that are no deletes, in the columns of the table: see `sinks.sql.METADATA`."""
    columns = []
    for column in target.schema:
        if column.name in target.names:
            values = changes.column(f"c{target.names.index(column.name)}")
        elif column.name in _OURS:
            values = _OURS[column.name](changes)
        else:
            values = pa.chunked_array([pa.nulls(len(changes), column.type)])
        columns.append(values if values.type == column.type else values.cast(column.type))
    return pa.table(columns, schema=target.schema)


def _position(changes: pa.Table) -> Any:
    """`concat_ws`, which leaves out NULLs."""
    parts = [changes.column(name).cast(pa.string()) for name in ("_topic", "_partition", "_offset", "_index")]
    return pc.binary_join_element_wise(*parts, pa.scalar(":"), null_handling="skip")


_OURS: dict[str, Callable[[pa.Table], Any]] = {
    "_commit_ts": lambda changes: changes.column("_ts"),
    "_commit_time": lambda changes: changes.column("_time"),
    "_op": lambda changes: changes.column("_op"),
    "_position": _position,
    _IRREGULAR: lambda changes: changes.column(_IRREGULAR),
}


@dataclass(slots=True)
class Merge:
    """The last changes of some keys, to be merged into files.

    Attributes:
        rows: of the keys that stay, in the columns of the table, with NULL in what a change does not carry.
        row: key -> its place in `rows`, -1 where it is deleted.
        has: row by column of the upstream's, whether the change carries it; None when all do.
        found: key -> whether a file holds it.
    """

    target: Target
    batch_rows: int
    columns: list[pa.ChunkedArray]
    keys: Keys
    rows: pa.Table
    row: _Numbers
    has: npt.NDArray[np.bool_] | None
    told: dict[int, dict[str, str]]
    found: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, last: pa.Table, item: Item) -> Merge:
        """The merge of the last changes."""
        target = item.target
        kept = pc.invert(last.column("_deleted"))
        staying = last.filter(kept)
        stays = kept.to_numpy().astype(np.bool_)
        row = np.where(stays, np.cumsum(stays) - 1, -1)
        columns = [last.column(f"c{target.names.index(k)}").cast(target.schema.field(k).type) for k in target.keys]
        rows, has = upserts(staying, target).combine_chunks(), None
        if item.partial:
            has = carried(staying, len(target.names))
            has = None if has.all() else has
        told = texts(rows, _IRREGULAR) if has is not None and _IRREGULAR in target.schema.names else {}
        return cls(
            target, item.limits.batch_rows, columns, Keys(columns), rows, row, has, told, np.zeros(len(last), np.bool_)
        )

    def candidates(self, files: pa.Table) -> Iterator[tuple[str, int]]:
        """The files that may hold one of the keys, by the bounds of their key columns."""
        for file in files.to_pylist():
            inside: Any = None
            for i, column in enumerate(self.columns):
                low, high = file.get(f"low_{i}"), file.get(f"high_{i}")
                if low is None or high is None:
                    continue
                kind = column.type
                floor, roof = pa.scalar(low, kind), pa.scalar(high, kind)
                if pa.types.is_timestamp(kind):
                    roof = pc.add(roof, pa.scalar(_MILLISECOND, pa.duration("us")))
                mine = pc.and_(pc.greater_equal(column, floor), pc.less_equal(column, roof))
                inside = mine if inside is None else pc.and_(inside, mine)
            if inside is None or pc.any(inside).as_py():
                yield file["path"], file["size"]

    def rewrite(self, path: str, out: Writer) -> bool:
        """Writes the rows of a file as they are after the changes; False where the file holds none of the keys."""
        reader = Reader(self.target.folder, path, self.target.schema)
        try:
            found = self.keys.find(reader.columns(self.target.keys).columns)
            if not (found >= 0).any():
                return False
            self.found[found[found >= 0]] = True
            start = 0
            for batch in reader.batches(self.batch_rows):
                self._apply(batch, found[start : start + batch.num_rows], out)
                start += batch.num_rows
            out.end_of_input()
            return True
        finally:
            reader.close()

    def write_new(self, out: Writer) -> None:
        """Writes the rows of the keys that no file holds."""
        new = self.row[~self.found & (self.row >= 0)]
        out.write_table(self.rows.take(pa.array(new)) if len(new) < len(self.rows) else self.rows)

    def _apply(self, batch: pa.RecordBatch, found: _Numbers, out: Writer) -> None:
        hit = found >= 0
        if not hit.any():
            out.write(batch)
            return
        out.write(batch.filter(pa.array(~hit)))
        row = np.where(hit, self.row[found], -1)
        changed = row >= 0
        if not changed.any():
            return
        new = self.rows.take(pa.array(row[changed]))
        if self.has is not None:
            new = self._completed(new, batch.filter(pa.array(changed)), row[changed])
        out.write_table(new)

    def _completed(self, new: pa.Table, old: pa.RecordBatch, row: _Numbers) -> pa.Table:
        """New rows with the old values of the columns that the changes do not carry."""
        assert self.has is not None
        has, columns = self.has[row], []
        for column in self.target.schema:
            values = new.column(column.name)
            if column.name == _IRREGULAR and column.name not in self.target.names:
                values = self._told(old, row, has, values)
            elif column.name in self.target.names:
                carries = has[:, self.target.names.index(column.name)]
                if not carries.all():
                    values = _chosen(carries, values, old.column(column.name))
            columns.append(values)
        return pa.table(columns, schema=self.target.schema)

    def _told(self, old: pa.RecordBatch, row: _Numbers, has: npt.NDArray[np.bool_], new: Any) -> Any:
        """The irregular texts of the columns that a change does not carry, with those that it carries."""
        before = texts(pa.Table.from_batches([old]))
        if not before:
            return new
        places = {name: i for i, name in enumerate(self.target.names)}
        merged = {}
        for i, change in enumerate(row.tolist()):
            kept = {k: v for k, v in before.get(i, {}).items() if k in places and not has[i, places[k]]}
            if texts_now := kept | self.told.get(change, {}):
                merged[i] = texts_now
        return maps(merged, len(row))


def _chosen(new: npt.NDArray[np.bool_], values: pa.ChunkedArray, old: pa.Array) -> pa.Array:
    """Row by row the new value or the old one, of any type."""
    both = pa.concat_arrays([*values.chunks, old])
    count = len(new)
    return both.take(pa.array(np.where(new, np.arange(count), count + np.arange(count))))


def left(item: Item, found: Sequence[bytes]) -> Item:
    """The item that writes the keys which none of a table's other items has found."""
    bits = np.zeros(max((len(f) for f in found), default=0), np.uint8)
    for one in found:
        if one:
            bits |= np.frombuffer(one, np.uint8)
    return replace(item, files=item.files.slice(0, 0), alone=True, left=bits.tobytes())
