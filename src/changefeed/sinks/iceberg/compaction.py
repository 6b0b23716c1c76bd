"""Compacts the files of an Iceberg table: those with many deleted rows, and many small ones of a partition."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from changefeed.sinks.apply.compaction import CompactionRules, StoredFile, groups
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.apply.step import compact_files
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
    chosen = [group for stored in stored_files(opened) for group in groups(stored, rules)]
    if not chosen:
        return None
    layout = opened.layout
    done = compact_files(spark, Target(layout, layout.schema, (), ()), opened.stored(), chosen, limits)
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
