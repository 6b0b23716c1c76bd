"""Columns of values to Arrow.

    canonical values of `model/values.py`, bytes as bytes ─▶ `array` ─▶ Arrow, and what its type cannot hold

Rule 1. Arrow casts the texts of a whole column. Where it refuses one, each value is read alone (`model.values.reader`), and
        those that the type cannot hold become NULL beside their text: zero dates, text that is invalid in its character set.
Rule 2. Text that Arrow would read in another way is never cast: a DECIMAL with a negative zero, days of the year 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import UnsupportedError
from changefeed.model.batch import IRREGULAR, no_irregular
from changefeed.model.table import Column, TableShape
from changefeed.model.types import BINARIES, GEOMETRIES, TEXTS, ColumnType
from changefeed.model.values import Irregular, IrregularError, reader
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.table_map import MappedColumn, TableMap
from changefeed.sources.mysql.tables import VECTOR_SIZE

_CAST = frozenset({"decimal", "date", "datetime", "timestamp"})
_MEMBERED = (codes.ENUM, codes.SET)
_YEAR_0 = "0000-"
_NEGATIVE_ZERO = r"^-0(\.0*)?$"
_HASH = re.compile(r"DB_ROW_HASH_\d+")
_MARIADB_TYPES = {"uuid": "char(36)", "inet4": "varchar(15)", "inet6": "varchar(39)"}
Irregulars = dict[int, bytes]  # row -> what the server has there


def type_of(column: MappedColumn) -> ColumnType | None:
    """The MySQL type of a column; None if the server did not send enough of it."""
    if column.mariadb_type == "vector":
        return ColumnType("vector", length=column.metadata // VECTOR_SIZE)
    if column.mariadb_type is not None:
        return ColumnType.parse(_MARIADB_TYPES[column.mariadb_type])
    return column.type


def hidden_columns(table: TableMap) -> frozenset[int]:
    """The indexes of columns that no statement can name: MariaDB keeps the hash of a long unique key in one."""
    return frozenset(
        index
        for index, column in enumerate(table.columns)
        if column.code == codes.LONGLONG and _HASH.fullmatch(column.name or "") is not None
    )


def columns_of(table: TableMap) -> tuple[Column, ...]:
    """The columns of a table, as its rows show them; without those that are hidden.

    Raises:
        UnsupportedError: the server did not send names or types.
    """
    keys = None if table.primary_key is None else {index for index, prefix in table.primary_key if not prefix}
    if table.primary_key is not None and len(keys or ()) < len(table.primary_key):
        keys = None  # a key of parts of values does not identify rows by their columns
    columns, hidden = [], hidden_columns(table)
    for index, column in enumerate(table.columns):
        if index in hidden:
            continue
        kind = type_of(column)
        if column.name is None or kind is None or (column.code in _MEMBERED and column.members is None):
            raise UnsupportedError(
                f"the log does not describe the columns of {table.database}.{table.table}, and no statement that was read "
                f"explains them: copy the table again (`changefeed snapshot … {table.database}.{table.table}`; in an event "
                "pipeline, set `snapshot.mode: recovery` for one run), and SET GLOBAL binlog_row_metadata = FULL for the "
                "future"
            )
        columns.append(Column(column.name, kind, column.nullable, None if keys is None else index in keys))
    return tuple(columns)


def array(values: Sequence[Any], kind: ColumnType) -> tuple[pa.Array, Irregulars]:
    """Builds the Arrow column of canonical values, and returns what its type cannot hold.

    Raises:
        SchemaError: a value does not have the form of the type.
    """
    try:
        if is_cast(kind):
            return cast(pa.array(values, pa.string()), kind), {}
        return pa.array(values, kind.arrow), {}
    except (pa.ArrowException, TypeError, ValueError, OverflowError, UnicodeError):
        return _each(values, kind)


def is_cast(kind: ColumnType) -> bool:
    """Whether Arrow casts the canonical texts of a type."""
    return kind.name in _CAST and kind.arrow != pa.string()


def cast(texts: pa.StringArray, kind: ColumnType) -> pa.Array:
    """Casts canonical texts to a type.

    Raises:
        ValueError: one must be read alone: Rules 1 and 2.
    """
    if kind.name != "decimal" and pc.any(pc.starts_with(texts, _YEAR_0)).as_py():
        raise ValueError
    if kind.name == "decimal" and pc.any(pc.match_substring_regex(texts, _NEGATIVE_ZERO)).as_py():
        raise ValueError
    return texts.cast(kind.arrow)


def _each(values: Sequence[Any], kind: ColumnType) -> tuple[pa.Array, Irregulars]:
    """Rule 1: each value alone."""
    read, irregular, ready = _reader(kind), Irregulars(), list[Any]()
    for row, value in enumerate(values):
        if value is None:
            ready.append(None)
        elif isinstance(value, Irregular):
            irregular[row] = value.data
            ready.append(None)
        else:
            try:
                ready.append(read(value))
            except IrregularError:
                irregular[row] = str(value).encode()
                ready.append(None)
    return pa.array(ready, kind.arrow), irregular


def _reader(kind: ColumnType) -> Callable[[Any], Any]:
    if kind.name in BINARIES or kind.name in GEOMETRIES:
        return lambda value: value
    if kind.name in TEXTS or kind.name in ("enum", "set"):
        return _text
    return reader(kind)


def _text(value: Any) -> str:
    """Text; bytes of a character set that Python does not have, and lone surrogates, are irregular."""
    if isinstance(value, bytes):
        raise IrregularError(value.decode("latin-1"))
    value.encode()
    return str(value)


def irregular_column(values: list[tuple[int, int, bytes]], shape: TableShape, count: int) -> pa.MapArray:
    """Returns the column `irregular` of so many rows, for values of images after: row, index of the column, bytes; in order."""
    if not values:
        return no_irregular(count)
    rows: list[list[tuple[str, bytes]]] = [[] for _ in range(count)]
    for row, column, value in values:
        rows[row].append((shape.after_columns[column].name, value))
    return pa.array(rows, IRREGULAR)
