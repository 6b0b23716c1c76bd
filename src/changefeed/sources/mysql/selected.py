"""Columns of bytes, as a SELECT of `tables.py` returns them, to Arrow, and to the rows of a copy.

    column of bytes ─┬─▶ Arrow casts all values                 numbers, decimals, dates and times, JSON, text in UTF-8 or ASCII
                     └─▶ each distinct value ─▶ `array`         all else, and a column with a value that Arrow refuses

Rule 1. Both ways give the same. What a type cannot hold is NULL beside its text, as in `columns.py`.
Rule 2. Bytes that are not of the column's type are an error: the table was changed after it was described.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import SchemaError
from changefeed.model.batch import TableBatch, table_schema
from changefeed.model.table import TableShape
from changefeed.model.types import ColumnType
from changefeed.model.values import Irregular
from changefeed.mysql import charsets
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.table_map import MappedColumn, TableMap
from changefeed.sources.mysql.changes import PARTITION, TOPIC
from changefeed.sources.mysql.columns import Irregulars, array, cast, irregular_column, is_cast
from changefeed.sources.mysql.transactions import RowDetails, origin_column, time_column, transaction_column

_INTEGERS = (codes.TINY, codes.SHORT, codes.INT24, codes.LONG, codes.LONGLONG, codes.YEAR)
_FLOATS = (codes.FLOAT, codes.DOUBLE)
_MEMBERED = (codes.ENUM, codes.SET)
_CHARACTERS = (codes.STRING, codes.VARCHAR, codes.BLOB)
_UTF8 = ("utf8", "utf8mb3", "utf8mb4")
_ASCII = bytes(range(128))


def copied_rows(
    table: TableMap,
    shape: TableShape,
    columns: Sequence[pa.BinaryArray],
    *,
    commit_ts: int,
    offset: int,
    first: int = 0,
    details: Sequence[RowDetails] = (),
) -> TableBatch:
    """Returns rows of a copy, with the op `read`.

    Args:
        table: their table.
        shape: the same, as rows have it.
        columns: their values, as `select` returned them.
        commit_ts: of all rows.
        offset: of all rows.
        first: the index of the first row.
        details: of all rows, or empty.

    Raises:
        SchemaError, ValueError, IndexError: Rule 2.
    """
    count, arrays, irregular = len(columns[0]), list[pa.Array](), list[tuple[int, int, bytes]]()
    for index, (data, mapped, column) in enumerate(zip(columns, table.columns, shape.after_columns, strict=True)):
        values, kept = selected(data, mapped, column.type)
        arrays.append(values)
        irregular += [(row, index, value) for row, value in kept.items()]
    schema = table_schema(shape, "us" if details else "s")
    known = {
        "record": pa.array(np.arange(count, dtype=np.int32)),
        "topic": pa.repeat(TOPIC, count),
        "partition": pa.repeat(pa.scalar(PARTITION, pa.int32()), count),
        "offset": pa.repeat(pa.scalar(offset, pa.int64()), count),
        "index": pa.array(np.arange(first, first + count, dtype=np.int32)),
        "op": pa.repeat("read", count),
        "commit_ts": pa.repeat(pa.scalar(commit_ts, pa.uint64()), count),
        "after": pa.StructArray.from_arrays(arrays, fields=list(shape.after_type)),
        "irregular": irregular_column(sorted(irregular), shape, count),
    }
    if details:
        known["commit_time"] = time_column(details)
        known["transaction"] = transaction_column(details)
        known["origin"] = origin_column(details)
    filled = [known[field.name] if field.name in known else pa.nulls(count, field.type) for field in schema]
    return TableBatch(shape, pa.RecordBatch.from_arrays(filled, schema=schema))


def selected(data: pa.BinaryArray, column: MappedColumn, kind: ColumnType) -> tuple[pa.Array, Irregulars]:
    """Builds the Arrow column of the bytes of a column, and returns what its type cannot hold.

    Raises:
        SchemaError, ValueError, IndexError: Rule 2.
    """
    try:
        values = _cast(data, column, kind)
    except ValueError:  # which pa.ArrowInvalid is
        values = None
    return _by_value(data, column, kind) if values is None else (values, {})


def _cast(data: pa.BinaryArray, column: MappedColumn, kind: ColumnType) -> pa.Array | None:
    """The column as Arrow casts it; None if it must not.

    Raises:
        ValueError: Arrow refuses a value.
    """
    if kind.arrow == pa.binary():
        return data
    if column.code in (*_MEMBERED, codes.BIT, codes.GEOMETRY, codes.VECTOR) and column.mariadb_type is None:
        return None
    if column.code in _CHARACTERS and column.mariadb_type is None:
        return _cast_characters(data, charsets.known(column.charset or charsets.BINARY))
    texts = data.cast(pa.string())
    if column.code == codes.TIMESTAMP2:
        texts = pc.binary_join_element_wise(texts, "Z", "")
    if is_cast(kind):
        return cast(texts, kind)
    return texts.cast(pa.float64()).cast(kind.arrow) if column.code in _FLOATS else texts.cast(kind.arrow)


def _cast_characters(data: pa.BinaryArray, charset: str | None) -> pa.Array | None:
    """Text that is UTF-8 as it is."""
    if charset is None or charset == charsets.BINARY:
        return None
    if charset in _UTF8:
        return data.cast(pa.string())
    if not _is_like_ascii(charset):
        return None
    texts = data.cast(pa.string())
    return texts if pc.all(pc.string_is_ascii(texts)).as_py() else None


@cache
def _is_like_ascii(charset: str) -> bool:
    """Whether bytes below 80 are the characters of ASCII."""
    try:
        return charsets.decode(_ASCII, charset) == _ASCII.decode()
    except SchemaError:
        return False


def _by_value(data: pa.BinaryArray, column: MappedColumn, kind: ColumnType) -> tuple[pa.Array, Irregulars]:
    """Each distinct value alone."""
    encoded, read = data.dictionary_encode(), reader(column)
    values, kept = array([read(value) for value in encoded.dictionary.to_pylist()], kind)
    irregular = Irregulars()
    if kept:
        numbers = encoded.indices.fill_null(-1).to_numpy()
        for row in np.flatnonzero(np.isin(numbers, list(kept))).tolist():
            irregular[row] = kept[numbers[row]]
    return values.take(encoded.indices), irregular


def reader(column: MappedColumn) -> Callable[[bytes], Any]:
    """Returns a function that makes the canonical value of bytes of a column.

    That function raises SchemaError, ValueError or IndexError for bytes that are not of the type.
    """
    code = column.code
    if column.mariadb_type is not None:
        return bytes.decode
    if code in _INTEGERS:
        return int
    if code in _FLOATS:
        return float
    if code == codes.BIT:
        return lambda data: int.from_bytes(data, "big")
    if code in _MEMBERED:
        return _member(column)
    if code == codes.NEWDECIMAL:
        return _decimal
    if code == codes.TIMESTAMP2:
        return lambda data: _instant(data.decode())
    if code in _CHARACTERS:
        return _characters(column)
    if code == codes.GEOMETRY:
        return lambda data: (
            {"srid": int.from_bytes(data[:4], "little"), "wkb": data[4:]} if len(data) > 4 else Irregular(data)
        )
    if code == codes.VECTOR:
        return lambda data: list(struct.unpack(f"<{len(data) // 4}f", data))
    return bytes.decode  # dates, times and JSON


def _member(column: MappedColumn) -> Callable[[bytes], str]:
    members = column.members or ()
    if column.code == codes.ENUM:
        labels = ("", *members)
        return lambda data: labels[int(data)]
    return lambda data: ",".join(member for i, member in enumerate(members) if int(data) >> i & 1)


def _decimal(data: bytes) -> str:
    """A DECIMAL without the zeros that ZEROFILL prints before it."""
    text = data.decode()
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, point, fraction = digits.partition(".")
    return f"{sign}{whole.lstrip('0') or '0'}{point}{fraction}"


def _instant(text: str) -> str:
    """A TIMESTAMP in a session of UTC, as the log has it; the zero timestamp is not an instant."""
    return text if text.startswith("0000") else f"{text.replace(' ', 'T')}Z"


def _characters(column: MappedColumn) -> Callable[[bytes], Any]:
    charset = charsets.known(column.charset or charsets.BINARY)
    if charset is None or charset == charsets.BINARY:
        return lambda data: data

    def read(data: bytes) -> str | Irregular:
        try:
            return charsets.decode(data, charset)
        except SchemaError:
            return Irregular(data)

    return read
