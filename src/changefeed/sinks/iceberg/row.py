"""Reads the rows with a key from snapshots of an Iceberg table, without Spark.

PyIceberg plans the files by the bounds of their columns, and reads them with the columns that the snapshot had.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.table import Table

from changefeed.errors import ConfigError, SinkError
from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.schema import arrow_schema
from changefeed.sinks.rows_by_key import Row, value_of


class KeyReader:
    """See `sinks.rows_by_key.KeyReader`.

    Args:
        catalog: the catalog.
        path: the table.
        key: column -> its value as text.
        named: whether the catalog has the table; otherwise the metadata that was written last is read.

    Raises:
        SinkError: there is no table.
    """

    def __init__(self, catalog: TableCatalog, path: str, key: Mapping[str, str], *, named: bool = True) -> None:
        table = catalog.load(path) if named else catalog.load_unnamed(path)
        if table is None:
            raise SinkError(f"{catalog.location}/{path}: there is no table")
        self._table: Table = table
        self._key = key

    def at(self, version: int) -> list[Row]:
        """Returns the rows with the key at a snapshot: column -> value."""
        snapshot = self._table.metadata.snapshot_by_id(version)
        if snapshot is None:
            raise SinkError(f"{self._table.location()}: snapshot {version} was expired")
        columns = arrow_schema(self._table.schemas().get(snapshot.schema_id or 0, self._table.schema()))
        wanted: BooleanExpression = AlwaysTrue()
        for column, text in self._key.items():
            if column not in columns.names:
                raise ConfigError(f"the table's files have no column {column}")
            value = _literal(value_of(columns.field(column).type, column, text))
            wanted = And(wanted, EqualTo(Reference(column), literal(value)))  # type: ignore[call-arg,arg-type]
        try:
            rows: list[Row] = self._table.scan(wanted, snapshot_id=version).to_arrow().to_pylist()
        except (OSError, SinkError, pa.ArrowException) as error:
            raise SinkError(f"{self._table.location()}: snapshot {version} cannot be read: {error}") from error
        return rows


def _literal(value: pa.Scalar) -> Any:
    """Returns a value as PyIceberg takes it: times as text."""
    own = value.as_py()
    return own.isoformat() if pa.types.is_temporal(value.type) else own
