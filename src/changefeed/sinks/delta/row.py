"""Reads the rows with a key from versions of a Delta table, without Spark.

A data file never changes, so the rows of one are kept for the other versions that have it. Only row groups whose statistics do
not exclude the key are read, and of these first the columns of the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from changefeed.errors import ConfigError, SinkError
from changefeed.sinks.delta.actions import LogAction
from changefeed.sinks.delta.native import vectors
from changefeed.sinks.delta.native.layout import PARTITION_TYPES, partition_values
from changefeed.sinks.delta.native.opened import arrow_type
from changefeed.sinks.delta.native.replay import LogState, state, vector
from changefeed.sinks.rows_by_key import Row, value_of
from changefeed.storage import Folder
from changefeed.storage.local import LocalFolder


class KeyReader:
    """See `sinks.rows_by_key.KeyReader`.

    Args:
        folder: the table's folder.
        key: column -> its value as text: `137`, `2026-01-31`; bytes in hex, `0x00ff`.
    """

    def __init__(self, folder: Folder, key: Mapping[str, str]) -> None:
        self._folder, self._key = folder, key
        self._files: dict[tuple[str, tuple[Any, ...]], list[Row]] = {}  # path and deletion vector -> rows

    def at(self, version: int) -> list[Row]:
        """Returns the rows with the key at a version of the table: column -> value."""
        rows = []
        known = state(self._folder, version)
        columns = _partition_columns(known)
        for name, file in known.files.items():
            place = name, vector(file)
            if place not in self._files:
                self._files[place] = list(self._in_file(name, file, columns))
            rows += self._files[place]
        return rows

    def _in_file(self, name: str, file: LogAction, columns: Sequence[pa.Field]) -> Iterator[Row]:
        partition = partition_values(columns, file.get("partitionValues") or {})
        descriptor = file.get("deletionVector")
        inside = {column: text for column, text in self._key.items() if column not in partition}
        others = self._key.keys() - inside
        if any(value_of(partition[column].type, column, self._key[column]) != partition[column] for column in others):
            return
        values = {column: value.as_py() for column, value in partition.items()}
        deleted = set(vectors.read(self._folder, descriptor).tolist()) if descriptor else set()
        try:
            with pq.ParquetFile(self._source(unquote(name))) as parquet:
                first = 0
                for group in range(parquet.num_row_groups):
                    numbers = _numbers(parquet, group, inside)
                    chosen = [number for number in numbers if first + number not in deleted]
                    if chosen:
                        rows = parquet.read_row_group(group).take(chosen).to_pylist()
                        yield from (row | values for row in rows)
                    first += parquet.metadata.row_group(group).num_rows
        except (OSError, pa.ArrowException) as error:
            raise SinkError(f"{self._folder.path}/{name} cannot be read: {error}") from error

    def _source(self, path: str) -> Any:
        if isinstance(self._folder, LocalFolder):
            return f"{self._folder.path}/{path}"
        return pa.PythonFile(self._folder.open(path), mode="r")


def _partition_columns(known: LogState) -> list[pa.Field]:
    """The columns by which a table is partitioned; of other types than those written natively, as texts."""
    if not (columns := known.metadata.get("partitionColumns")):
        return []
    types = {field["name"]: arrow_type(field["type"]) for field in known.fields if field["type"] in PARTITION_TYPES}
    return [pa.field(name, types.get(name, pa.string())) for name in columns]


def _numbers(parquet: pq.ParquetFile, group: int, key: Mapping[str, str]) -> list[int]:
    """The row numbers within a row group of the rows with these values."""
    values = {column: _in_column(parquet.schema_arrow, column, text) for column, text in key.items()}
    if not all(_may_contain(parquet, group, column, value) for column, value in values.items()):
        return []
    mask = pa.repeat(True, parquet.metadata.row_group(group).num_rows)
    if values:
        keys = parquet.read_row_group(group, columns=list(values))
        for column, value in values.items():
            mask = pc.and_kleene(mask, pc.equal(keys.column(column), value))
    numbers: list[int] = pc.indices_nonzero(mask).to_pylist()
    return numbers


def _in_column(schema: pa.Schema, column: str, text: str) -> pa.Scalar:
    if column not in schema.names:
        raise ConfigError(f"the table's files have no column {column}")
    return value_of(schema.field(column).type, column, text)


def _may_contain(parquet: pq.ParquetFile, group: int, column: str, value: pa.Scalar) -> bool:
    """Whether the statistics of a row group do not exclude a value."""
    metadata = parquet.metadata.row_group(group)
    for number in range(metadata.num_columns):
        if metadata.column(number).path_in_schema == column:
            statistics = metadata.column(number).statistics
            if statistics is None or not statistics.has_min_max:
                return True
            try:
                return bool(statistics.min <= value.as_py() <= statistics.max)
            except TypeError:  # of another type than the values, such as a decimal's integer
                return True
    return True
