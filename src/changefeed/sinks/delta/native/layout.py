"""The data files of Delta tables: names, statistics, deletion vectors, partitions.

A file has the rows of one partition, without the columns by which the table is partitioned. Their values are texts in the log:

    NULL      null        text      as it is; the empty text is read as NULL, and refused
    number    -12         boolean   true, false
    date      2026-11-29
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import SinkError
from changefeed.sinks.apply.layout import Floats, KeyFilter, RowNumbers, WholeFiles
from changefeed.sinks.apply.partitioning import by_values
from changefeed.sinks.delta.native import vectors
from changefeed.sinks.delta.native.statistics import INDEXED, statistics
from changefeed.sinks.ways_out import TABLE_DAMAGED
from changefeed.storage import Folder

PARTITION_TYPES = frozenset({"string", "byte", "short", "integer", "long", "boolean", "date"})
"""The types of columns, as Delta names them, by which a table that is written natively may be partitioned."""
_NULL = "__HIVE_DEFAULT_PARTITION__"
_LONGEST = 255  # bytes of a name in a file system
# Readers of Spark 3 ask this before they take old dates as what they are. Files without it have the calendar of a setting.
_SPARK_VERSION = {"org.apache.spark.version": "4.1.0"}


@dataclass(frozen=True, slots=True)
class DeltaLayout(WholeFiles):
    """See `Layout`.

    Attributes:
        indexed: number of columns that get statistics; all if it is negative.
        partition: the columns by which the table is partitioned.
    """

    folder: Folder
    indexed: int = INDEXED
    partition: tuple[pa.Field, ...] = ()

    @property
    def footer(self) -> Mapping[str, str]:
        """See `Layout`."""
        return _SPARK_VERSION

    def stored(self, schema: pa.Schema) -> pa.Schema:
        """See `Layout`."""
        if not self.partition:
            return schema
        outside = {column.name for column in self.partition}
        return pa.schema([field for field in schema if field.name not in outside])

    def file_name(self, path: str) -> str:
        """See `Layout`: in the log, paths are encoded as in URLs."""
        return unquote(path)

    def divided(self, rows: pa.RecordBatch) -> Iterable[tuple[str, pa.RecordBatch]]:
        """See `Layout`: the text is the JSON of `partitionValues` in an `add` action."""
        if not self.partition:
            yield "", rows
            return
        stored = rows.select(self.stored(rows.schema).names)
        for values, its_rows in by_values(stored, [rows.column(column.name) for column in self.partition]):
            texts = {c.name: self._text(c.name, value) for c, value in zip(self.partition, values, strict=True)}
            yield json.dumps(texts), its_rows

    def key_filter(self, names: Sequence[str], keys: Sequence[pa.ChunkedArray]) -> KeyFilter:
        """See `Layout`: a partition by a column of the key holds the keys with its value."""
        columns = {name: key for name, key in zip(names, keys, strict=True) if name in self._types}
        masks = dict[str, npt.NDArray[np.bool_]]()

        def inside(file: Mapping[str, Any]) -> npt.NDArray[np.bool_] | None:
            if not columns:
                return None
            if file["partition"] not in masks:
                constants = self.constants(file)
                mine = [pc.fill_null(pc.equal(column, constants[name]), False) for name, column in columns.items()]
                masks[file["partition"]] = reduce(np.logical_and, (mask.to_numpy() for mask in mine))
            return masks[file["partition"]]

        return inside

    def constants(self, file: Mapping[str, Any]) -> Mapping[str, pa.Scalar]:
        """See `Layout`."""
        if not self.partition:
            return {}
        try:
            return partition_values(self.partition, json.loads(file["partition"]))
        except (KeyError, pa.ArrowInvalid) as error:
            raise SinkError(
                f"{self.folder.path}/{file['path']}: its partition cannot be read: {error!r}. {TABLE_DAMAGED}"
            ) from error

    def new_path(self, number: int, partition: str) -> str:
        """See `Layout`: in a folder for each column of the partition, as some readers expect."""
        name = f"part-{number:05d}-{uuid.uuid4()}-c000.zstd.parquet"
        texts = json.loads(partition) if partition else {}
        folders = [f"{quote(c, safe='')}={_NULL if t is None else quote(t, safe='')}" for c, t in texts.items()]
        if any(len(folder) > _LONGEST for folder in folders):
            return name
        return quote("/".join([*folders, name]), safe="/=")

    @property
    def _types(self) -> Mapping[str, pa.DataType]:
        return {column.name: column.type for column in self.partition}

    def _text(self, name: str, value: pa.Scalar) -> str | None:
        text: str | None = value.cast(pa.string()).as_py()
        if text == "":
            raise SinkError(
                f"{self.folder.path}: column {name}, by which the table is partitioned, has the empty text, which Delta reads as "
                "NULL: make the table without partitions, or with others"
            )
        return text

    def statistics(self, footer: Any, schema: pa.Schema, floats: Mapping[str, Floats], partition: str) -> str:
        """See `Layout`: the JSON of `stats` in an `add` action."""
        return statistics(footer, schema, floats, self.indexed)

    def deleted(self, vector: str) -> RowNumbers:
        """See `Layout`: `vector` is the descriptor as JSON."""
        return vectors.read(self.folder, json.loads(vector))


def partition_values(columns: Iterable[pa.Field], texts: Mapping[str, str | None]) -> dict[str, pa.Scalar]:
    """Returns the values of a file's partition: column -> value.

    Args:
        columns: the columns by which the table is partitioned.
        texts: `partitionValues` of the file.

    Raises:
        KeyError, ArrowInvalid: a value is missing, or not one of the column's type.
    """
    return {column.name: pa.scalar(texts[column.name] or None, pa.string()).cast(column.type) for column in columns}
