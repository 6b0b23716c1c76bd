"""The Rust kernel and the reference as one decoder: the kernel is fast, and the reference decodes unmatched records.

    records ─▶ kernel ─▶ rows of the registered shapes
                  └─ unmatched records ─▶ reference ─▶ changes, control, dead letters
                        ▲                     └─ new shapes ─▶ registered with the kernel
                        └── the records that are left are tried again

Rule 1. The result equals that of the reference: same events, same shapes, one batch per shape, in order.
Rule 2. The kernel decodes a record completely or not at all. It never rejects a record and never reports an error.
Rule 3. Only the reference makes shapes, and they are registered in that order: a row that matches several shapes joins the
        first, in the kernel as in the reference. So unmatched records go to the reference in order, few at first, and few
        again where their neighbours have the new shapes. Those behind them are tried again in windows. The
        registration of a table ends with the first shape that the kernel does not support, because a later one would get
        rows that match both. The reference keeps the same shapes with and without the kernel: see `columnar.families`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol as Interface

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.codec.defects import GuardedDecoder
from changefeed.codec.placement import (
    Places,
    RegisteredShape,
    by_first_row,
    completed,
    description,
    headers_of,
    joined,
    placed,
    shapes_by_topic,
)
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import Control, DeadLetter
from changefeed.model.table import TableShape
from changefeed.protocols.base import Decoder, KernelTwin

_FIRST_TO_REFERENCE = 2
_FIRST_WINDOW = 64  # unmatched records that are tried again after each new shape
_LONG_RUN = 1024  # a window ends with a topic whose records are fewer


class Kernel(Interface):
    """The compiled twin of one protocol's decoder; see `changefeed_kernel.pyi`."""

    def register(self, shape: str) -> int | None:
        """Registers a shape. Returns its number, from 0; None if the kernel does not support it."""
        ...

    def decode(
        self, keys: pa.Array, values: pa.Array, rows: pa.Int32Array | None = None, **more: pa.Array
    ) -> tuple[list[tuple[int, pa.RecordBatch]], pa.Int32Array]:
        """Returns rows by shape number, and the row numbers of unmatched records. `more`: the columns that the twin declares."""
        ...


class KernelDecoder(GuardedDecoder):
    """A kernel, and the reference that decodes unmatched records and makes their shapes.

    Attributes:
        unmatched: number of records that the reference has decoded so far.
    """

    def __init__(self, name: str, reference: Decoder, twin: KernelTwin, kernel: Callable[[], Kernel]) -> None:
        super().__init__(name, reference)
        self.unmatched = 0
        self._twin, self._make = twin, kernel
        self._start_over()

    def forget(self) -> None:
        """Forgets the shapes, in the reference and in the kernel; see `protocols.base.Decoder`."""
        super().forget()
        self._start_over()

    def _start_over(self) -> None:
        self._kernel = self._make()
        self._seen: set[tuple[TableShape, str | None]] = set()
        self._shapes: list[RegisteredShape] = []
        self._unsupported: set[tuple[str, str, str]] = set()

    def _decode(self, records: pa.RecordBatch) -> Decoded:
        tables: list[TableBatch] = []
        control: list[Control] = []
        dead: list[DeadLetter] = []
        left = self._run_kernel(records, None, tables)
        count, window, is_new = _FIRST_TO_REFERENCE, _FIRST_WINDOW, False
        ends = _ends_of_runs(records.column("topic")) if len(left) else np.zeros(0, np.int64)
        while len(left):
            size = _window(left, window, ends)
            unmatched, left = left[:size], left[size:]
            window *= 2
            if is_new:  # a shape, since the kernel has seen these records
                unmatched = self._run_kernel(records, unmatched, tables)
            while len(unmatched):
                first, unmatched = unmatched[:count], unmatched[count:]
                self.unmatched += len(first)
                answer = placed(self._reference.decode(records.take(first)), first)
                tables += answer.tables
                control += answer.control
                dead += answer.dead
                count *= 2
                if self._register(answer.tables):
                    is_new, tried = True, len(unmatched)
                    unmatched = self._run_kernel(records, unmatched, tables) if tried else unmatched
                    if tried - len(unmatched) >= len(first):  # neighbours have the new shapes
                        count, window = _FIRST_TO_REFERENCE, _FIRST_WINDOW
        return Decoded(joined(tables), control, dead)

    def _run_kernel(self, records: pa.RecordBatch, rows: pa.Array | None, tables: list[TableBatch]) -> pa.Array:
        """Appends the rows that the kernel decodes to `tables`; returns the row numbers of the unmatched records."""
        more = {"topics": records.column("topic").cast(pa.binary())} if self._twin.topics else {}
        if self._twin.headers:
            more["headers"] = headers_of(records)
        decoded, unmatched = self._kernel.decode(records.column("key"), records.column("value"), rows, **more)
        places = Places(records)
        tables += completed([(self._shapes[number], batch) for number, batch in decoded], places)
        return unmatched

    def _register(self, tables: list[TableBatch]) -> bool:
        """Registers new shapes with the kernel; whether it accepted any."""
        before = len(self._shapes)
        for shape, topic in (
            shapes_by_topic(tables) if self._twin.topics else ((t.shape, None) for t in by_first_row(tables))
        ):
            if (shape, topic) in self._seen:
                continue
            self._seen.add((shape, topic))
            family = (shape.database, shape.table, shape.wire)
            if shape.before is not None or shape.after is not None or family in self._unsupported:
                continue
            if any("\0" in name for name in shape.by_name):  # Arrow's C interface ends names at NUL
                self._unsupported.add(family)
            elif self._kernel.register(description(shape, topic)) is not None:
                self._shapes.append(RegisteredShape(shape))
            else:
                self._unsupported.add(family)
        return len(self._shapes) > before


def _ends_of_runs(topics: pa.Array) -> npt.NDArray[np.int64]:
    """Returns the row numbers at which the topic is another one than that of the row before, and the number of rows."""
    last_of_run = pc.indices_nonzero(pc.not_equal(topics[1:], topics[:-1])).to_numpy().astype(np.int64)
    return np.append(last_of_run + 1, len(topics))


def _window(left: pa.Int32Array, size: int, ends: npt.NDArray[np.int64]) -> int:
    """Returns how many records are tried next: `size`, and those that follow in the same topic if they are few.

    A batch with many topics has few records of each: a topic begins with a new shape, and the others match it.
    """
    if size >= len(left):
        return size
    rows = left.to_numpy()
    end = int(np.searchsorted(rows, ends[np.searchsorted(ends, rows[size - 1], side="right")]))
    return end if end < _LONG_RUN else size
