"""Encoders whose rows the kernel may write, by whole columns.

    table batch ─ heads ─▶ kernel, by the shape's template ─▶ keys, values ─ lines ─▶ Lines ┐
        └ rows that the kernel has no words for ───────────────────────────▶ Row ──────────┴ encode_events ─▶ records

Rule 1. What a record holds, where it goes and how many rows it has stays the encoder's; the kernel only writes text.
Rule 2. Events come in their order: whatever an encoder remembers of one decides about the next.
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
    """An encoder that takes rows whose keys and values are written already."""

    def template(self, shape: TableShape) -> str | None:
        """The template of a shape's rows (see `columnar.templates`); None where only the encoder can write them.

        Raises:
            UnsupportedError: the protocol has no words for the shape.
        """
        ...

    def heads(self, table: TableBatch) -> dict[str, pa.Array]:
        """The columns that templates name; NULL in rows that only the encoder can write."""
        ...

    def lines(self, shape: TableShape, rows: pa.RecordBatch, keys: pa.Array | None, values: pa.Array) -> pa.RecordBatch:
        """The columns of written rows for `encode_events`: `ordinal`, and others that the encoder chooses.

        Args:
            shape: of the rows.
            rows: a table batch's, with a column `ordinal`, their order among all events.
            keys, values: of the rows; no keys where the template has none.
        """
        ...

    def encode_events(self, events: Iterable[Row | Control | Lines]) -> pa.RecordBatch:
        """Encodes events, which are in order, into records."""
        ...
