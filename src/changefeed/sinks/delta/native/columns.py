"""Changes a table's columns without Spark: commits new metadata, and rewrites the rows of a small table.

    AddColumns   metadata
    Rewrite      metadata, and new files that replace all: columns dropped, renamed, moved, converted, or filled with one value
    Create       metadata, and removal of all files
    Copy         metadata, and new files with the rows of another table that replace all

Spark makes the write if the table is large enough for a Spark job, or if Arrow lacks a conversion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from changefeed.frames.types import sink_type
from changefeed.sinks.apply.files import Added, Limits
from changefeed.sinks.apply.layout import Layout
from changefeed.sinks.apply.rewriting import column_values, values_of, written
from changefeed.sinks.delta.native.commit import change_columns
from changefeed.sinks.delta.native.log_file import NTZ_TYPE
from changefeed.sinks.delta.native.opened import Opened, delta_fields
from changefeed.sinks.writes import AddColumns, Create, Rewrite, WriteId

_Field = Mapping[str, Any]


def changed(
    opened: Opened,
    write: AddColumns | Rewrite | Create,
    columns: pa.Schema,
    limits: Limits,
    write_id: WriteId,
    note: str,
) -> bool:
    """Changes the columns of a table; returns False, and does nothing, if Spark must make the write.

    Args:
        opened: the table; `Opened.refused` must be None.
        write: the write, which may have values for the columns.
        columns: the table's columns after the write, including metadata columns.
        limits: sizes for the files to write.
        write_id: the write id of the commit.
        note: the note of the commit, for people.

    Raises:
        FencedError: a newer run writes this table.
        SinkError: a data file cannot be read or written, or the commit cannot be made (transient).
    """
    fields: Sequence[_Field] = delta_fields(columns)
    if not has_place_for(opened, columns):
        return False
    added: list[Added] | None = None
    if isinstance(write, AddColumns):
        fields = with_missing(opened.state.fields, fields)
    elif isinstance(write, Rewrite):
        old = opened.schema()
        values = values_of(write, old, columns, lambda kind: sink_type(kind).arrow)
        if values is None:
            return False
        added = written(opened.layout, opened.files().to_pylist(), old, opened.layout, columns, values, limits)
    else:
        added = []
    change_columns(opened, fields, added, write_id, note)
    return True


def replaced(opened: Opened, source: Opened, limits: Limits, write_id: WriteId, note: str) -> bool:
    """Replaces columns and rows of a table by those of another; returns False if Spark must make the write.

    Arguments and errors are those of `changed`.
    """
    if not has_place_for(opened, source.schema()):
        return False
    change_columns(opened, delta_fields(source.schema()), copied(source, opened.layout, limits), write_id, note)
    return True


def copied(source: Opened, layout: Layout, limits: Limits) -> list[Added]:
    """Copies all rows of a table to new files of another table.

    Raises:
        SinkError: a data file cannot be read or written.
    """
    columns, files = source.schema(), source.files().to_pylist()
    return written(source.layout, files, columns, layout, columns, [*map(column_values, columns.names)], limits)


def has_place_for(opened: Opened, columns: pa.Schema) -> bool:
    """Whether a commit can give a table these columns in place of its own."""
    fields = delta_fields(columns)
    return not _repartitions(opened, fields) and (not _has_ntz(fields) or opened.takes_ntz())


def _repartitions(opened: Opened, fields: Iterable[_Field]) -> bool:
    """Whether columns of these fields lack one by which the table is partitioned, or have it with another type."""
    has, wanted = ({field["name"]: field["type"] for field in of} for of in (opened.state.fields, fields))
    return any(wanted.get(name) != has[name] for name in opened.partition_columns)


def _has_ntz(fields: Iterable[_Field]) -> bool:
    return any(field["type"] == NTZ_TYPE for field in fields)


def with_missing(has: Iterable[_Field], wanted: Iterable[_Field]) -> list[_Field]:
    """Returns the fields of a table, with the missing ones of `wanted` added at their places."""
    there = {field["name"]: field for field in has}
    fields = {field["name"]: there.get(field["name"], field) for field in wanted}
    return list((fields | there).values())


def size(opened: Opened) -> int:
    """Returns the total size of the table's data files, in bytes."""
    return sum(file["size"] for file in opened.state.files.values())
