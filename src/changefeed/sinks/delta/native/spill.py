"""Rows that are more than memory should hold, in parts that each hold whole keys.

Up to a size they stay in memory, as one part. Beyond it they are dealt by a hash of the key to files in a temporary
folder, which are read one after the other.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.sinks.delta.native.keys import plain

_PARTS = 64


class Spill:
    """Collects record batches of one schema; `parts` gives them back."""

    def __init__(self, keys: Sequence[str], most: int) -> None:
        self._keys, self._most, self._bytes = list(keys), most, 0
        self._kept: list[pa.RecordBatch] = []
        self._folder: Path | None = None
        self._writers: list[Any] = []

    def __enter__(self) -> Spill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers:
            writer.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""
        self._kept.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._most:
            self._spill()

    def parts(self) -> Iterator[pa.Table]:
        """The rows; those of one key are in one part."""
        if not self._writers:
            if self._kept:
                yield pa.Table.from_batches(self._kept)
            return
        self._spill()
        for writer in self._writers:
            writer.close()
        assert self._folder is not None
        for number in range(_PARTS):
            with pa.OSFile(str(self._folder / str(number))) as source, pa.ipc.open_stream(source) as reader:
                part = reader.read_all()
            if len(part):
                yield part

    def _spill(self) -> None:
        if not self._kept:
            return
        rows = pa.Table.from_batches(self._kept)
        self._kept, self._bytes = [], 0
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="changefeed-spill-"))
            self._writers = [pa.ipc.new_stream(str(self._folder / str(n)), rows.schema) for n in range(_PARTS)]
        part = _hashes(rows, self._keys) % np.uint64(_PARTS)
        order = np.argsort(part, kind="stable")
        ends = np.searchsorted(part[order], np.arange(_PARTS + 1))
        for number, writer in enumerate(self._writers):
            mine = order[ends[number] : ends[number + 1]]
            if len(mine):
                writer.write_table(rows.take(pa.array(mine)))


def _hashes(rows: pa.Table, keys: Sequence[str]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """A number for each key that depends on nothing else."""
    import pandas as pd

    found = np.zeros(len(rows), np.uint64)
    for key in keys:
        column = plain(rows.column(key))
        values = pc.dictionary_encode(column if pa.types.is_binary(column.type) else column.cast(pa.string()))
        texts = pd.util.hash_array(np.array(values.dictionary.to_pylist(), dtype=object), categorize=False)
        found = found * np.uint64(31) + texts[values.indices.to_numpy()]
    return found
