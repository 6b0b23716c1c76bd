"""The changes of a write: read from the pending store, typed, and reduced to the last change of each key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from changefeed.model.definition import Table
from changefeed.pipeline.pending.counting import rows_between
from changefeed.pipeline.planning.actions import Plan, Selection
from changefeed.pipeline.state import Stretches
from changefeed.sinks.base import Chunked
from changefeed.stages.changes import NO_READS, ChunkReader, Redefinition, Window, changes
from changefeed.stages.latest import last_reading, latest
from changefeed.stages.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from changefeed.pipeline.pending.store import PendingStore


@dataclass(frozen=True, slots=True)
class RowOptions:
    """Options for converting changes to rows of the sink's tables.

    Attributes:
        irregular: the sink's policy for values that a column cannot hold: `null`, `fail` or `keep`.
        inserts: apply only the inserts of a table without a key.
        redefinition: conversion of the values to the types that DDL declares.
    """

    irregular: str = "null"
    inserts: bool = False
    redefinition: Redefinition | None = None


@dataclass(frozen=True, slots=True)
class SparkChanges:
    """The changes of one write as a DataFrame; see `sinks.base.Changes`.

    Attributes:
        least, rows: minimum and maximum number of rows for the write, from the plain columns of its chunks.
        tally: counts the rows that are read.
    """

    store: PendingStore
    selection: Selection
    table: Table
    folders: tuple[str, ...]
    repeats: Stretches
    options: RowOptions
    least: int
    rows: int
    tally: Tally = field(repr=False)

    @classmethod
    def of(
        cls, store: PendingStore, plan: Plan, selection: Selection, table: Table, options: RowOptions
    ) -> SparkChanges:
        """The changes of a plan's selection, for a table."""
        folders = selection.folders or plan.folders
        chunks = store.index_of(folders, plan.sums, selection.name)
        least, most = rows_between(chunks, Window(selection.after, selection.through))
        return cls(
            store,
            selection,
            table,
            folders,
            plan.left_out(keyed=bool(table.keys)),
            options,
            least,
            most,
            Tally(store.spark),
        )

    @property
    def partial(self) -> bool:
        """See `Changes`."""
        return self.selection.partial

    @property
    def read(self) -> int:
        """Number of row changes that the write has read."""
        return self.tally.rows

    @property
    def chunked(self) -> Chunked | None:
        """See `Changes`."""
        chosen, options = self.selection, self.options
        reading = ChunkReader(
            self.table, Window(chosen.after, chosen.through), options.irregular,
            options.redefinition if chosen.declared else None, options.inserts, chosen.reads, chosen.sent, self.repeats,
        )  # fmt: skip
        last_reading = not self.table.keys and chosen.reads != NO_READS
        return Chunked(
            self.folders, self._chunks, chosen.source, reading, last_reading, self.store.folder, self.folders,
            chosen.final_states,
        )  # fmt: skip

    def _chunks(self, spark: SparkSession) -> DataFrame:
        return self.store.read(self.folders, spark)

    def frame(self, spark: SparkSession) -> DataFrame:
        """See `Changes`."""
        # chunks -> typed changes of this table -> the last change of every key
        chosen, options = self.selection, self.options
        chunks = self.store.table(spark, self.folders, chosen.source, chosen.after, chosen.through)
        typed = changes(
            chunks, self.table, Window(chosen.after, chosen.through), options.irregular,
            options.redefinition if chosen.declared else None,
            inserts=options.inserts, reads=chosen.reads, sent=chosen.sent, repeats=self.repeats, tally=self.tally,
        )  # fmt: skip
        if self.table.keys:
            return latest(typed, self.table, partial=chosen.partial, final_states=chosen.final_states)
        return last_reading(typed) if chosen.reads != NO_READS else typed

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `Changes`."""
        yield from self.frame(self.store.spark).toArrow().to_batches()
