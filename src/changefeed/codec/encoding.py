"""Encoders by a protocol's name: the Rust kernel writes the rows that it supports, the encoder all other rows one by one.

    tables ─▶ kernel ─▶ keys and values of the registered shapes ─▶ lines ┐
                 └─ unmatched rows ─▶ rows ───────────────────────────────┴ in order ─▶ encoder ─▶ records

Rule 1. The result equals that of the encoder alone: same bytes, same records, same errors.
Rule 2. The encoder describes once how rows of a shape are written (`columnar.templates`), and makes records of keys and
        values.
Rule 3. The kernel writes a row completely or not at all. The encoder writes unmatched rows, in their order among the others.
Rule 4. Everything works without the kernel, but slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal
from typing import Protocol as Interface

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.codec import decoding
from changefeed.columnar.events import Lines, Row, rows
from changefeed.errors import ChangefeedError, ConfigError
from changefeed.model.batch import Decoded, TableBatch
from changefeed.model.event import Control
from changefeed.model.table import TableShape
from changefeed.protocols import protocol
from changefeed.protocols.base import Encoder, Options, Stores
from changefeed.protocols.by_columns import ColumnEncoder
from changefeed.ticdc.unicode15 import RANGES

_MAX_SHAPES = 4096
_MIN_ROWS = 10
_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
_Single = tuple[int, Row | Control]


class EncoderKernel(Interface):
    """Writes rows by templates; see `changefeed_kernel.pyi`."""

    def register(self, template: str) -> int | None:
        """Registers a template. Returns its number, from 0; None if the kernel does not support it."""
        ...

    def encode(self, number: int, rows: pa.RecordBatch) -> tuple[pa.Int32Array, pa.Array | None, pa.Array] | None:
        """Returns the numbers of the rows that it has written, their keys and their values."""
        ...


def encoder(
    name: str,
    options: Mapping[str, Any] | Options = _NO_OPTIONS,
    stores: Stores | None = None,
    *,
    kernel: Literal["auto", "on", "off"] = "auto",
) -> Encoder:
    """Returns the encoder of a protocol: kernel and encoder if the kernel supports it, else the encoder alone.

    Args:
        name: the protocol's name.
        options: the protocol's `Options`, or a mapping to validate as such.
        stores: access to data outside the records, such as claim-check bodies.
        kernel: `off` uses the encoder alone; `on` fails if the kernel is not available, `auto` falls back.

    Raises:
        ConfigError: protocol or options are unknown, or the kernel is `on` and not installed.
    """
    chosen = protocol(name)
    checked = options if isinstance(options, Options) else chosen.read_options(options)
    reference = chosen.encoder(checked, stores or Stores())
    able, twin = isinstance(reference, ColumnEncoder), getattr(decoding.changefeed_kernel, "Templates", None)
    if kernel == "on" and (not able or twin is None):
        why = f"is not installed, or an old one: {decoding.how_to_install()}" if able else f"does not write {name}"
        raise ConfigError(f"the kernel {why}")
    if kernel == "off" or twin is None or not isinstance(reference, ColumnEncoder):
        return reference
    return KernelEncoder(reference, lambda: twin(printable=RANGES))


class KernelEncoder:
    """An encoder whose rows the kernel writes as far as it supports them.

    Attributes:
        unmatched: number of rows that the encoder itself has written so far.
        min_rows: smaller tables are left to the encoder, which is faster than setting up columns.
    """

    def __init__(self, reference: ColumnEncoder, kernel: Callable[[], EncoderKernel]) -> None:
        self.unmatched, self.min_rows = 0, _MIN_ROWS
        self._reference, self._make = reference, kernel
        self._start_over()

    def _start_over(self) -> None:
        self._kernel = self._make()
        self._numbers: dict[TableShape, int | None] = {}

    def encode(self, changes: Decoded) -> pa.RecordBatch:
        """Encodes the changes; see `protocols.base.Encoder`."""
        if len(self._numbers) > _MAX_SHAPES:
            self._start_over()
        if all(len(table) < self.min_rows for table in changes.tables):
            self.unmatched += sum(map(len, changes.tables))
            return self._reference.encode(changes)
        return self._reference.encode_events(self._events(changes))

    def _events(self, changes: Decoded) -> Iterator[Row | Control | Lines]:
        ordinals = _ordinals(changes)
        control = zip(ordinals[-1].to_pylist(), changes.control, strict=True)
        singles: list[_Single] = [one for one in control if not self._reference.passes_over(one[1])]
        lines: list[pa.RecordBatch] = []
        for table, ordinal in zip(changes.tables, ordinals, strict=False):
            placed = TableBatch(table.shape, table.rows.append_column("ordinal", ordinal))
            left = self._written(placed, lines)
            self.unmatched += len(left)
            singles += zip(left.rows.column("ordinal").to_pylist(), rows(left), strict=True)
        return _merged(lines, sorted(singles, key=lambda single: single[0]))

    def _written(self, table: TableBatch, lines: list[pa.RecordBatch]) -> TableBatch:
        """Appends the rows that the kernel can write to `lines`; returns the other rows."""
        number, batch = None if len(table) < self.min_rows else self._number(table.shape), table.rows
        if number is None:
            return table
        columns = {name: batch.column(name) for name in ("op", "before", "after", "irregular")}
        answer = self._kernel.encode(number, pa.RecordBatch.from_pydict(columns | self._reference.heads(table)))
        if answer is None:
            return table
        done, keys, values = answer
        if len(done):
            written = batch if len(done) == len(batch) else batch.take(done)
            lines.append(self._reference.lines(table.shape, written, keys, values))
        if len(done) == len(batch):
            return TableBatch(table.shape, batch.slice(0, 0))
        left = pc.invert(pc.is_in(pa.array(range(len(batch)), pa.int32()), done))
        return TableBatch(table.shape, batch.filter(left))

    def _number(self, shape: TableShape) -> int | None:
        """Returns the number of the shape's template; None if only the encoder can write it, or report the error."""
        if shape not in self._numbers:
            try:
                template = self._reference.template(shape)
            except ChangefeedError:
                template = None
            if any("\0" in name for name in shape.by_name):  # Arrow's C interface ends names there
                template = None
            self._numbers[shape] = None if template is None else self._kernel.register(template)
        return self._numbers[shape]


def _ordinals(changes: Decoded) -> list[pa.Array]:
    """Returns the rank of each row among all events, one array per table; the last one is for control events."""
    tables = [_key(t.rows.column("record"), t.rows.column("index")) for t in changes.tables]
    places = [event.place for event in changes.control]
    control = _key(*(pa.array(n, pa.int32()) for n in ([p.record for p in places], [p.index for p in places])))
    keys = pa.concat_arrays([*tables, control])
    ranks = pc.sort_indices(pc.sort_indices(keys)).cast(pa.int64())
    starts = [0]
    for part in (*tables, control):
        starts.append(starts[-1] + len(part))
    return [ranks.slice(start, len(part)) for start, part in zip(starts, (*tables, control), strict=False)]


def _key(record: pa.Array, index: pa.Array) -> pa.Array:
    high = pc.shift_left(record.cast(pa.int64()), pa.scalar(32, pa.int64()))
    return pc.add(high, pc.coalesce(index, pa.scalar(0, pa.int32())).cast(pa.int64()))


def _merged(lines: list[pa.RecordBatch], singles: list[_Single]) -> Iterator[Row | Control | Lines]:
    """Yields lines and single events in order; consecutive lines are combined."""
    whole = _in_order(lines)
    ordinals = [] if whole is None else whole.column("ordinal").to_numpy()
    ends, at = np.searchsorted(ordinals, [ordinal for ordinal, _ in singles]).tolist(), 0
    for end, (_, event) in zip(ends, singles, strict=True):
        if whole is not None and end > at:
            yield Lines(whole.slice(at, end - at))
        at = end
        yield event
    if whole is not None and at < len(whole):
        yield Lines(whole.slice(at))


def _in_order(lines: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    if len(lines) < 2:
        return lines[0] if lines else None
    batch = pa.concat_batches(lines)
    return batch.take(pc.sort_indices(batch.column("ordinal")))
