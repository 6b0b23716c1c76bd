"""The options of the section `sink` about tables, as the sink uses them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyiceberg.schema import Schema

from changefeed.model.definition import Table
from changefeed.sinks.apply.compaction import CompactionRules
from changefeed.sinks.iceberg.commit import NewTable
from changefeed.sinks.iceberg.manifest_files import FormatVersion
from changefeed.sinks.iceberg.partition_fields import PartitionField
from changefeed.sinks.iceberg.partitions import spec_of
from changefeed.sinks.iceberg.schema import arrow_schema
from changefeed.sinks.iceberg.sort_fields import SortField
from changefeed.sinks.iceberg.sort_orders import order_of, sortable


def _no_fields(table: str) -> tuple[PartitionField, ...]:
    return ()


def _no_order(table: str) -> tuple[SortField, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of the section about tables.

    Attributes:
        partition_fields: `database.table` -> the partition fields of a new table.
        format_version: of new tables.
        merges_on_read: whether rows of tables with a key are marked as deleted, instead of writing their files again.
        sort_fields: `database.table` -> the sort fields of a new table.
        compaction: when to compact such tables; None for never.
    """

    partition_fields: Callable[[str], tuple[PartitionField, ...]] = _no_fields
    format_version: FormatVersion = 2
    merges_on_read: bool = False
    compaction: CompactionRules | None = None
    sort_fields: Callable[[str], tuple[SortField, ...]] = _no_order

    def new_table(self, location: str, schema: Schema, of: Table) -> NewTable:
        """Describes a table that does not exist yet."""
        order = order_of(sortable(self.sort_fields_of(of), arrow_schema(schema)), schema)
        return NewTable(location, schema, spec_of(self.fields_of(of), schema), order, self.format_version)

    def fields_of(self, table: Table) -> tuple[PartitionField, ...]:
        """Returns the partition fields of a new table."""
        return self.partition_fields(f"{table.database}.{table.name}")

    def sort_fields_of(self, table: Table) -> tuple[SortField, ...]:
        """Returns the sort fields of a new table, whether it has their columns or not."""
        return self.sort_fields(f"{table.database}.{table.name}")
