"""Collects rows that may not fit into memory, and returns them in parts; all rows of a key are in one part.

Up to a size the rows stay in memory, as one part. Above it they are distributed by a hash of the key to files in a temporary
folder, and read back a few files at a time. Rows without a key come back in the order in which they were added.

Rule 1. The distribution of rows to parts does not depend on the order in which batches are added.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.sinks.apply.keys import plain

_FILES = 64
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / the golden ratio: spreads keys that are close to each other


class Spill:
    """Collects record batches of one schema; `parts` returns them.

    Attributes:
        rows: number of rows that were added.
    """

    def __init__(self, keys: Sequence[str], most: int) -> None:
        """Keeps up to `most` bytes in memory. `keys`: names of the key's columns; if empty, rows stay in their order."""
        self._keys, self._most = list(keys), most
        self.rows = 0
        self._bytes = 0  # of all rows
        self._kept: list[pa.RecordBatch] = []
        self._kept_bytes = 0
        self._folder: Path | None = None
        self._writers: list[Any] = []
        self._sizes: npt.NDArray[np.int64] = np.zeros(_FILES if keys else 1, np.int64)  # rows of each file

    def __enter__(self) -> Spill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Deletes the files on disk."""
        for writer in self._writers:
            writer.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""
        self._kept.append(batch)
        self.rows += batch.num_rows
        size = batch.nbytes
        self._bytes += size
        self._kept_bytes += size
        if self._kept_bytes > self._most:
            self._spill()

    @property
    def in_memory(self) -> bool:
        """Whether all rows are in memory, as one part."""
        return not self._writers

    def parts(self) -> Iterator[pa.Table]:
        """Yields the rows in parts of about `most` bytes. All rows of a key are in one part, even if they are larger."""
        if self.in_memory:
            if self._kept:
                yield pa.Table.from_batches(self._kept)
            return
        self._spill()
        for writer in self._writers:
            writer.close()
        if not self._keys:
            for batch in self._read(0):
                yield pa.Table.from_batches([batch])
            return
        together, size = list[pa.RecordBatch](), 0
        for number, rows in enumerate(self._sizes.tolist()):
            bytes_ = rows * self._bytes // self.rows
            if together and size + bytes_ > self._most:
                yield pa.Table.from_batches(together)
                together, size = [], 0
            together.extend(self._read(number))
            size += bytes_
        if together:
            yield pa.Table.from_batches(together)

    def _read(self, number: int) -> Iterator[pa.RecordBatch]:
        assert self._folder is not None
        with pa.OSFile(str(self._folder / str(number))) as source, pa.ipc.open_stream(source) as reader:
            yield from reader

    def _spill(self) -> None:
        if not self._kept:
            return
        rows = pa.Table.from_batches(self._kept)
        self._kept, self._kept_bytes = [], 0
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="changefeed-spill-"))
            self._writers = [
                pa.ipc.new_stream(str(self._folder / str(n)), rows.schema) for n in range(len(self._sizes))
            ]
        if not self._keys:
            self._writers[0].write_table(rows)
            return
        file = (_hashes(rows, self._keys) >> np.uint64(58)).astype(np.int64)
        order = np.argsort(file, kind="stable")
        ends = np.searchsorted(file[order], np.arange(_FILES + 1))
        self._sizes += np.diff(ends)
        ordered = rows.take(pa.array(order))
        for number, writer in enumerate(self._writers):
            if ends[number + 1] > ends[number]:
                writer.write_table(ordered.slice(ends[number], ends[number + 1] - ends[number]).combine_chunks())


def _hashes(rows: pa.Table, keys: Sequence[str]) -> npt.NDArray[np.uint64]:
    """Returns a hash of each row's key, which depends only on the key."""
    hashes = np.zeros(len(rows), np.uint64)
    for key in keys:
        hashes = (hashes ^ _numbers(plain(rows.column(key)))) * _MIX
        hashes ^= hashes >> np.uint64(32)
    return hashes * _MIX


def _numbers(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Returns a number for each value; equal values have equal numbers."""
    kind = column.type
    if pa.types.is_signed_integer(kind) or pa.types.is_temporal(kind):
        small = pa.types.is_date32(kind) or pa.types.is_time32(kind)
        whole = column.cast(pa.int32()).cast(pa.int64()) if small else column.cast(pa.int64())
        signed: npt.NDArray[np.int64] = pc.fill_null(whole, -1).to_numpy()
        return signed.view(np.uint64)
    import pandas as pd

    values = pc.dictionary_encode(column if pa.types.is_binary(kind) else column.cast(pa.string()))
    texts = pd.util.hash_array(np.array(values.dictionary.to_pylist(), dtype=object), categorize=False)
    numbers: npt.NDArray[np.uint64] = np.append(texts, np.uint64(0))[pc.fill_null(values.indices, -1).to_numpy()]
    return numbers
