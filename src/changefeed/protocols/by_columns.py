"""The contract of encoders for which the kernel writes the keys and values of rows, whole columns at a time.

    table batch ─ heads ─▶ kernel, by the shape's template ─▶ keys, values ─ lines ─▶ Lines ┐
        └ rows that the kernel does not support ───────────────────────────▶ Row ──────────┴ encode_events ─▶ records

Rule 1. The encoder decides the content of records, their topics and partitions, and how many rows they have; the kernel only
        writes text.
Rule 2. Events are encoded in order, because an encoder may remember earlier events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol as Interface
from typing import runtime_checkable

import pyarrow as pa

from changefeed.columnar.events import Lines, Row
from changefeed.model.batch import TableBatch
from changefeed.model.event import Control
from changefeed.model.table import TableShape
from changefeed.protocols.base import Encoder


@runtime_checkable
class ColumnEncoder(Encoder, Interface):
    """An encoder that accepts rows whose keys and values the kernel has written."""

    def template(self, shape: TableShape) -> str | None:
        """Returns the template of a shape's rows (see `columnar.templates`); None if only the encoder can write them.

        Raises:
            UnsupportedError: the protocol cannot represent the shape.
        """
        ...

    def heads(self, table: TableBatch) -> dict[str, pa.Array]:
        """Returns the columns that templates use; NULL in rows that only the encoder can write."""
        ...

    def lines(self, shape: TableShape, rows: pa.RecordBatch, keys: pa.Array | None, values: pa.Array) -> pa.RecordBatch:
        """Returns written rows in the form for `encode_events`: the column `ordinal`, and others of the encoder's choice.

        Args:
            shape: the shape of the rows.
            rows: the rows of a table batch, with a column `ordinal`: their order among all events.
            keys, values: the rows' keys and values; `keys` is None if the template has none.
        """
        ...

    def passes_over(self, event: Control) -> bool:
        """Whether nothing is written for an event: it need not be put in its place among the rows."""
        ...

    def encode_events(self, events: Iterable[Row | Control | Lines]) -> pa.RecordBatch:
        """Encodes events, which are in order, into records."""
        ...
