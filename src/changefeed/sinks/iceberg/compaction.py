"""Compacts the files of an Iceberg table: those with many deleted rows, and many small ones of a partition."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.sinks.apply.compaction import CompactionRules, StoredFile, groups
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.apply.item import Item, Typed, write_item
from changefeed.sinks.apply.job import compact_all
from changefeed.sinks.apply.step import HERE_BYTES
from changefeed.sinks.apply.target import Target
from changefeed.sinks.iceberg.deletes import partition_of
from changefeed.sinks.iceberg.manifests import Change
from changefeed.sinks.iceberg.opened import Opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compacted(spark: SparkSession | None, opened: Opened, rules: CompactionRules, limits: Limits) -> Change | None:
    """Writes the files of a table that are worth it again, without deleted rows; returns the change, or None if there are none.

    Args:
        spark: the session for large files; None to write all of them here.
        opened: the table.
        rules: which files are worth it.
        limits: sizes for the files to write.

    Raises:
        SinkError: a data file cannot be read or written.
    """
    layout, files = opened.layout, opened.stored()
    target = Target(layout, layout.schema, (), ())
    chosen = [group for stored in stored_files(opened) for group in groups(stored, rules)]
    items = [
        Item(target, Typed([]), files.filter(pc.is_in(files.column("path"), pa.array(group))), "compact", limits=limits)
        for group in chosen
    ]
    if not items:
        return None
    if spark is None or sum(pc.sum(item.files.column("size")).as_py() for item in items) <= HERE_BYTES:
        done = [write_item(item, ()) for item in items]
    else:
        done = compact_all(spark, items, spark.sparkContext.defaultParallelism)
    added = tuple(file for result in done for file in result.added)
    removed = frozenset(name for result in done for name, _ in result.removed)
    return Change(added=added, removed=removed, compacts=True)


def stored_files(opened: Opened) -> list[list[StoredFile]]:
    """Returns the data files, those of each partition together; a file is as old as its sequence number."""
    partitions = defaultdict[tuple[Any, ...], list[StoredFile]](list)
    for entry in opened.entries():
        file = entry.data_file
        deleted = opened.deletes.count_of(entry)
        stored = StoredFile(
            opened.name_of(file), entry.sequence_number or 0, file.file_size_in_bytes, file.record_count, deleted
        )
        partitions[partition_of(file)].append(stored)
    return list(partitions.values())
