"""Merges changes by key into the data files of a table.

    a file ──▶ its key columns ──▶ rows with a changed key ──▶ none: the file stays as it is
                                                           ├──▶ copy on write: a new file gets all rows of the file, changed
                                                           └──▶ merge on read: the old rows are marked in the file's deletion
                                                                vector, and a new file gets only the new rows

Rows that a deletion vector marks already are not part of the table: their keys are ignored, and they are not copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.sinks.apply import bitmaps
from changefeed.sinks.apply.files import DataFileReader, DataFileWriter, Mask
from changefeed.sinks.apply.keys import Keys
from changefeed.sinks.apply.latest import carried, maps, texts
from changefeed.sinks.apply.target import Target, upserts
from changefeed.sinks.writes import IRREGULAR

_Numbers = npt.NDArray[np.int64]
_KEYS_AT_ONCE = 1 << 16  # rows, so that what is computed of them stays in the processor's cache


@dataclass(frozen=True, slots=True)
class Marked:
    """A data file that gets a new deletion vector.

    Attributes:
        rows: number of rows in the file.
        deleted: number of rows that the vector marks.
        vector: the deletion vector, see `bitmaps`.
    """

    path: str
    rows: int
    deleted: int
    vector: bytes

    @classmethod
    def of(cls, path: str, gone: Mask) -> Marked:
        """Returns the file with a deletion vector of the rows that are true in `gone`."""
        rows = np.flatnonzero(gone)
        return cls(path, len(gone), len(rows), bitmaps.encoded(rows))


@dataclass(frozen=True, slots=True)
class Hits:
    """The rows of a file whose keys are changed.

    Attributes:
        of: number of rows in the file.
        rows: the numbers of the changed rows in the file, ascending.
        places: the places of their keys among the changed keys.
    """

    of: int
    rows: _Numbers
    places: _Numbers

    def piece(self, start: int, count: int) -> _Numbers:
        """Returns the place of each row's key in a piece of the file; -1 for rows that are not changed."""
        first, last = np.searchsorted(self.rows, (start, start + count))
        places = np.full(count, -1, np.int64)
        places[self.rows[first:last] - start] = self.places[first:last]
        return places


@dataclass(slots=True)
class Merge:
    """The last changes of some keys, to be merged into files.

    Attributes:
        rows: the new rows, with the columns of the table; NULL in columns that a change does not carry.
        row: key -> its place in `rows`; -1 if the key is deleted.
        has: matrix, row by upstream column: whether the change carries the column; None if all changes carry all.
        matched: key -> whether a file contains it.
    """

    target: Target
    batch_rows: int
    columns: list[pa.ChunkedArray]
    keys: Keys
    rows: pa.Table
    row: _Numbers
    has: npt.NDArray[np.bool_] | None
    irregular: dict[int, dict[str, str]]
    matched: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, last: pa.Table, target: Target, batch_rows: int, *, partial: bool) -> Merge:
        """Creates the merge of the last changes of keys."""
        kept = pc.invert(last.column("_deleted"))
        staying = last.filter(kept)
        stays = kept.to_numpy().astype(np.bool_)
        row = np.where(stays, np.cumsum(stays) - 1, -1)
        columns = [last.column(f"c{target.names.index(k)}").cast(target.schema.field(k).type) for k in target.keys]
        rows, has = upserts(staying, target).combine_chunks(), None
        if partial:
            has = carried(staying, len(target.names))
            has = None if has.all() else has
        irregular = texts(rows, IRREGULAR) if has is not None and IRREGULAR in target.schema.names else {}
        return cls(target, batch_rows, columns, Keys(columns), rows, row, has, irregular, np.zeros(len(last), np.bool_))

    def candidates(self, files: pa.Table) -> Iterator[Mapping[str, Any]]:
        """Returns the files that may contain one of the keys, by their partitions and the bounds of their key columns."""
        in_partition = self.target.layout.key_filter(self.target.keys, self.columns)
        for file in files.to_pylist():
            inside = in_partition(file)
            if inside is not None and not inside.any():
                continue
            inside = None if inside is None else pa.array(inside)
            for i, column in enumerate(self.columns):
                low, high = file.get(f"low_{i}"), file.get(f"high_{i}")
                if low is None or high is None:
                    continue
                floor, roof = pa.scalar(low, column.type), pa.scalar(high, column.type)
                mine = pc.and_(pc.greater_equal(column, floor), pc.less_equal(column, roof))
                inside = mine if inside is None else pc.and_(inside, mine)
            if inside is None or pc.any(inside).as_py():
                yield file

    def into(self, file: Mapping[str, Any], out: DataFileWriter, *, marks: bool) -> Marked | bool:
        """Merges the changes into one file; returns its new deletion vector, or whether the file must be removed.

        Args:
            file: the file's `path`, and its `vector` if it has one.
            out: writes rows to new files.
            marks: whether old rows may be marked in a deletion vector.
        """
        with self._reader(file) as reader:
            hits = self._find(reader)
            if hits is None:
                return False
            if not marks:
                self._rewrite(reader, hits, out)
                return True
            gone = self._write_changed(reader, hits, out)
            return True if gone.all() else Marked.of(file["path"], gone)

    def changed(self, file: Mapping[str, Any], out: DataFileWriter) -> Mask | None:
        """Writes the new values of a file's rows; returns which rows of the file are no longer part of the table.

        None if the file contains none of the keys. The arguments are those of `into`.
        """
        with self._reader(file) as reader:
            hits = self._find(reader)
            return None if hits is None else self._write_changed(reader, hits, out)

    @contextmanager
    def _reader(self, file: Mapping[str, Any]) -> Iterator[DataFileReader]:
        reader = DataFileReader(self.target.layout, file, self.target.schema)
        try:
            yield reader
        finally:
            reader.close()

    def _find(self, reader: DataFileReader) -> Hits | None:
        """Returns the rows of a file whose keys are changed; None if there are none."""
        start, numbers, keys = 0, list[_Numbers](), list[pa.RecordBatch]()
        for batch in reader.batches(_KEYS_AT_ONCE, self.target.keys):
            near = self.keys.near(batch.columns)
            numbers.append((np.arange(batch.num_rows) if near is None else near) + start)
            keys.append(batch if near is None else batch.take(pa.array(near)))
            start += batch.num_rows
        if not keys:
            return None
        rows, places = np.concatenate(numbers), self.keys.find(pa.Table.from_batches(keys).columns)
        hit = places >= 0
        if reader.deleted is not None:
            hit &= ~reader.deleted[rows]
        if not hit.any():
            return None
        self.matched[places[hit]] = True
        return Hits(start, rows[hit], places[hit])

    def _rewrite(self, reader: DataFileReader, hits: Hits, out: DataFileWriter) -> None:
        """Writes all rows of a file with the changes applied."""
        for start, batch in reader.pieces(self.batch_rows):
            mine = reader.live(hits.piece(start, batch.num_rows), start)
            batch = reader.live(batch, start)
            if (mine >= 0).any():
                out.write(batch.filter(pa.array(mine < 0)))
                self._write_new_values(batch, mine, out)
            else:
                out.write(batch)
        out.end_of_input()

    def _write_changed(self, reader: DataFileReader, hits: Hits, out: DataFileWriter) -> Mask:
        """Writes only the changed rows of a file; reads their old values only if a change lacks columns, or a row keeps some.

        Returns which rows of the file are no longer part of the table.
        """
        gone, kept = np.zeros(hits.of, np.bool_), self.target.layout.kept
        gone[hits.rows] = True
        if self.has is None and not kept:
            row = self.row[hits.places]
            out.write_table(self.rows.take(pa.array(row[row >= 0])))
        else:
            names = kept if self.has is None else None
            for start, batch in reader.pieces(self.batch_rows, gone, names):
                self._write_new_values(batch, hits.piece(start, batch.num_rows), out)
        return gone if reader.deleted is None else gone | reader.deleted

    def write_new(self, out: DataFileWriter) -> None:
        """Writes the rows of the keys that no file contains."""
        new = self.row[~self.matched & (self.row >= 0)]
        out.write_table(self.rows.take(pa.array(new)) if len(new) < len(self.rows) else self.rows)

    def _write_new_values(self, batch: pa.RecordBatch, places: _Numbers, out: DataFileWriter) -> None:
        """Writes the new values of the rows of a batch."""
        row = np.where(places >= 0, self.row[places], -1)
        changed = row >= 0
        if not changed.any():
            return
        new, old = self.rows.take(pa.array(row[changed])), batch.filter(pa.array(changed))
        if self.has is not None:
            new = self._completed(new, old, row[changed])
        for name in self.target.layout.kept:
            new = new.set_column(new.schema.get_field_index(name), new.schema.field(name), old.column(name))
        out.write_table(new)

    def _completed(self, new: pa.Table, old: pa.RecordBatch, row: _Numbers) -> pa.Table:
        """Fills columns that the changes do not carry with the old values."""
        assert self.has is not None
        has, columns = self.has[row], []
        for column in self.target.schema:
            values = new.column(column.name)
            if column.name == IRREGULAR and column.name not in self.target.names:
                values = self._irregular_texts(old, row, has, values)
            elif column.name in self.target.names:
                carries = has[:, self.target.names.index(column.name)]
                if not carries.all():
                    values = _chosen(carries, values, old.column(column.name))
            columns.append(values)
        return pa.table(columns, schema=self.target.schema)

    def _irregular_texts(self, old: pa.RecordBatch, row: _Numbers, has: npt.NDArray[np.bool_], new: Any) -> Any:
        """Combines the irregular texts of a change with the old ones, for columns that the change does not carry."""
        before = texts(pa.Table.from_batches([old]))
        if not before:
            return new
        places = {name: i for i, name in enumerate(self.target.names)}
        merged = {}
        for i, change in enumerate(row.tolist()):
            kept = {k: v for k, v in before.get(i, {}).items() if k in places and not has[i, places[k]]}
            if texts_now := kept | self.irregular.get(change, {}):
                merged[i] = texts_now
        return maps(merged, len(row))


def _chosen(new: npt.NDArray[np.bool_], values: pa.ChunkedArray, old: pa.Array) -> pa.Array:
    """Chooses the new or the old value for each row; for columns of any type."""
    both = pa.concat_arrays([*values.chunks, old])
    count = len(new)
    return both.take(pa.array(np.where(new, np.arange(count), count + np.arange(count))))
