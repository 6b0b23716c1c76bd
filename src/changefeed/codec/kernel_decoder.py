"""The Rust kernel and the reference as one decoder: the kernel is fast, and the reference decodes unmatched records.

    records ─▶ kernel ─▶ rows of the registered shapes
                  └─ unmatched records ─▶ reference ─▶ changes, control, dead letters
                        ▲                     └─ new shapes ─▶ registered with the kernel
                        └── the records that are left are tried again

Rule 1. The result equals that of the reference: same events, same shapes, one batch per shape, in order.
Rule 2. The kernel decodes a record completely or not at all. It never rejects a record and never reports an error.
Rule 3. Only the reference makes shapes, and they are registered in that order: a row that matches several shapes joins the
        first, in the kernel as in the reference. So unmatched records go to the reference in order, few at first, and few
        again where their neighbours have the new shapes, and where another topic begins. Those behind them are tried again in
        windows. The registration of a table ends with the first shape that the kernel does not support, because a later one
        would get rows that match both. The reference keeps the same shapes with and without the kernel: see
        `columnar.families`.
Rule 4. The kernel reads a record before it rejects it, and a call of it costs as much as hundreds of records. So the first
        record of a new topic goes to the reference before the kernel, and the first unmatched records of all topics go to
        it together. Each topic stays in order. If several topics of a batch bring the first rows of one table, its
        shapes may get another order than rule 3 gives them: then a row with NULLs may join another shape that it matches.
Rule 5. The kernel skips records without value. If they may be deletes, the reference decodes them at the end, see
        `protocols.base.TombstoneDecoder`.
Rule 6. Tables that take turns are decoded one after the other: see `codec.topics`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Protocol as Interface

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.codec.defects import GuardedDecoder
from changefeed.codec.placement import (
    Places,
    RegisteredShape,
    by_first_row,
    completed,
    description,
    events_of,
    headers_of,
    joined,
    renumbered,
    shapes_by_topic,
)
from changefeed.codec.topics import TopicBatch
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import Control, DeadLetter
from changefeed.model.table import TableShape
from changefeed.protocols.base import Decoder, KernelTwin, TombstoneDecoder

_ROUNDS = 3  # in which the first unmatched records of all topics are decoded
_FIRST_TO_REFERENCE = 1
_FIRST_WINDOW, _MORE = 64, 4  # unmatched records that are tried again after each new shape; how many times more next
_LONG_RUN = 1024  # records of one topic; fewer are one window
_NOTHING = Decoded([], [], [])


class Kernel(Interface):
    """The compiled twin of one protocol's decoder; see `changefeed_kernel.pyi`."""

    def register(self, shape: str) -> int | None:
        """Registers a shape. Returns its number, from 0; None if the kernel does not support it."""
        ...

    def tables(self, values: pa.Array) -> pa.Int32Array:
        """Returns the number of the table that each value probably belongs to.

        Only some kernels have it. Then `decode` gets numbers of topics, or of tables.
        """
        ...

    def decode(
        self, keys: pa.Array, values: pa.Array, rows: pa.Int32Array | None = None, **more: pa.Array
    ) -> tuple[list[tuple[int, pa.RecordBatch]], pa.Int32Array]:
        """Returns rows, and the row numbers of unmatched records.

        Rows of shapes with the same columns are one batch, whose column `shape` has the number of each row's shape; the
        number beside the batch is that of the first row's.

        Args:
            keys, values, rows: as in `changefeed_kernel.pyi`.
            more: the columns that the twin declares.
        """
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
        self._decode_values = reference.decode_values if isinstance(reference, TombstoneDecoder) else reference.decode
        self._start_over()

    def forget(self) -> None:
        """Forgets the shapes, in the reference and in the kernel; see `protocols.base.Decoder`."""
        super().forget()
        self._start_over()

    def _start_over(self) -> None:
        self._kernel = self._make()
        self._tells_tables = hasattr(self._kernel, "tables")
        self._seen: set[tuple[TableShape, str | None]] = set()
        self._shapes: list[RegisteredShape] = []
        self._unsupported: set[tuple[str, str, str]] = set()
        self._topics: dict[str | None, int] = {}
        self._table_of: dict[str | None, str] = {}
        self._is_shared = False  # some topic contains several tables

    def _decode(self, records: pa.RecordBatch) -> Decoded:
        decoded = self._decoded(records)
        if not isinstance(self._reference, TombstoneDecoder):
            return decoded
        complete = self._reference.settle(records, decoded)
        if complete is not decoded:
            self._count(complete.tables)
        return complete

    def _decoded(self, records: pa.RecordBatch) -> Decoded:
        batch, result, before = TopicBatch(records, self._topics), Decoded([], [], []), self.unmatched
        if self._is_shared:
            batch.numbers = self._kernel.tables(records.column("value"))
        left = self._decode_first(batch.first_rows_of_new(), None, batch, result)
        if not len(left) and self.unmatched == before and not self._twin.topics:
            return result  # of one call of the kernel, in which each shape has one number
        for _ in range(_ROUNDS):
            first, known = batch.first_rows(left), len(self._shapes)
            if len(first) > 1:
                left = self._decode_first(first, left, batch, result)
            if len(self._shapes) == known:
                break
        self._decode_rest(left, batch, result)
        return Decoded(
            joined(result.tables), sorted(result.control, key=_record_of), sorted(result.dead, key=_record_of)
        )

    def _decode_rest(self, left: pa.Int32Array, batch: TopicBatch, result: Decoded) -> None:
        """Decodes unmatched rows by the reference, and by the kernel where they have the new shapes: see rule 3."""
        count, window, is_new = _FIRST_TO_REFERENCE, _FIRST_WINDOW, False
        ends, end = batch.ends_of_runs() if len(left) else [], 0
        while len(left):
            if left[0].as_py() >= end:  # other topics, so other shapes
                end = ends[bisect_right(ends, left[0].as_py())]
                count, window = _FIRST_TO_REFERENCE, _FIRST_WINDOW
            in_run = bisect_left(range(len(left)), end, key=lambda place: left[place].as_py())
            size = in_run if in_run < _LONG_RUN else window
            unmatched, left = left[:size], left[size:]
            window *= _MORE
            if is_new:  # a shape, since the kernel has seen these records
                unmatched = self._run_kernel(batch, unmatched, result)
            while len(unmatched):
                before = len(self._shapes)
                still_unmatched = self._decode_first(unmatched[:count], unmatched, batch, result)
                has_shape = len(self._shapes) > before
                is_new = is_new or has_shape
                if has_shape and len(unmatched) - len(still_unmatched) >= 2 * count:  # neighbours have the new shapes
                    count, window = _FIRST_TO_REFERENCE, _FIRST_WINDOW
                else:
                    count *= 2
                unmatched = still_unmatched

    def _decode_first(
        self, first: pa.Int32Array, rows: pa.Int32Array | None, batch: TopicBatch, result: Decoded
    ) -> pa.Int32Array:
        """Decodes some rows by the reference. If there are new shapes, the kernel tries all rows, these among them.

        So the rows of a table are one batch.

        Args:
            first: the rows for the reference.
            rows: the rows that the kernel has left, `first` among them; None for all rows, which it has not seen.
            result: gets the events.

        Returns:
            The rows that are still unmatched.
        """
        answer, has_shape = _NOTHING, False
        if len(first):
            self.unmatched += len(first)
            answer = renumbered(self._decode_values(_rows_of(batch.records, first)), first)
            has_shape = self._register(answer.tables)
        if rows is None or (has_shape and len(rows) > len(first)):
            rows = self._run_kernel(batch, rows, result)
            answer = events_of(answer, rows)
        result.tables.extend(answer.tables)
        result.control.extend(answer.control)
        result.dead.extend(answer.dead)
        return rows.filter(pc.invert(pc.is_in(rows, first)))

    def _run_kernel(self, batch: TopicBatch, rows: pa.Int32Array | None, result: Decoded) -> pa.Int32Array:
        """Adds the rows that the kernel decodes to `result`; returns the row numbers of the unmatched records, in order."""
        records, rows = batch.records, batch.ordered(rows)
        more = {"topics": records.column("topic").cast(pa.binary())} if self._twin.topics else {}
        if self._twin.headers:
            more["headers"] = headers_of(records)
        if self._tells_tables:
            more["numbers"] = batch.numbers
        decoded, unmatched = self._kernel.decode(records.column("key"), records.column("value"), rows, **more)
        result.tables.extend(completed(self._shapes, decoded, Places(records)))
        return unmatched.take(pc.array_sort_indices(unmatched)) if rows is not None else unmatched

    def _register(self, tables: list[TableBatch]) -> bool:
        """Registers new shapes of a result of the reference with the kernel; whether it accepted any."""
        self._count(tables)
        if self._tells_tables:
            self._note_topics(tables)
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

    def _note_topics(self, tables: list[TableBatch]) -> None:
        for table in tables:
            topic = table.shared.column("topic")[table.start].as_py()
            self._is_shared |= self._table_of.setdefault(topic, table.name) != table.name


def _record_of(event: Control | DeadLetter) -> int:
    return event.place.record


def _rows_of(records: pa.RecordBatch, rows: pa.Int32Array) -> pa.RecordBatch:
    first, count = rows[0].as_py(), len(rows)
    return records.slice(first, count) if rows[-1].as_py() == first + count - 1 else records.take(rows)
