"""Tables as the kernel reads them: descriptions of their columns, and columns that it leaves to Python.

    table map ─▶ description, JSON ─▶ kernel ─▶ Arrow columns ─▶ `completed`: bytes of columns that are left ─▶ text

Rule 1. Texts in a character set of several bytes other than UTF-8, and MariaDB's INET4, INET6 and VECTOR, are left to Python:
        the kernel reads their bytes, and the reference's reader of the column makes values of them.
Rule 2. All rows of a table are left to the reference if one of its columns is hidden, or of a type that the kernel does not have:
        temporal types from before MySQL 5.6, columns that MariaDB compresses, texts in unknown character sets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pyarrow as pa

from changefeed.errors import SchemaError
from changefeed.model.table import Column
from changefeed.mysql import charsets
from changefeed.mysql.binlog import TableMap, codes, collations
from changefeed.mysql.binlog.cursor import EventCursor
from changefeed.mysql.binlog.table_map import MappedColumn
from changefeed.mysql.binlog.values import reader
from changefeed.sources.mysql.columns import array, hidden_columns

_UTF8 = ("utf8", "utf8mb3", "utf8mb4")
_STRINGS = (codes.STRING, codes.VARCHAR, codes.VAR_STRING)
_BLOBS = {codes.TINY_BLOB: 1, codes.MEDIUM_BLOB: 3, codes.LONG_BLOB: 4}
_Irregular = tuple[int, int, bytes]  # row, index of the column in its image, what the server has there


def description(table: TableMap, columns: tuple[Column, ...]) -> str | None:
    """Returns the JSON that describes a table to the kernel; None if it reads no rows of it: Rule 2."""
    if hidden_columns(table) or any("\0" in column.name for column in columns):  # Arrow's C interface ends names at NUL
        return None
    described = [
        {
            "name": column.name,
            "mysql": str(column.type),
            # the kernel fills up a BINARY with zero bytes, which is not to happen to a CHAR
            "code": codes.VARCHAR if is_left(mapped) and mapped.code == codes.STRING else mapped.code,
            "metadata": mapped.metadata,
            "unsigned": mapped.unsigned,
            "text": "bytes" if is_left(mapped) else _text(mapped),
            "members": mapped.members,
        }
        for mapped, column in zip(table.columns, columns, strict=True)
    ]
    return json.dumps(described)


def is_left(column: MappedColumn) -> bool:
    """Whether the kernel leaves the values of a column to Python: Rule 1."""
    if column.mariadb_type is not None:
        return column.mariadb_type != "uuid"
    charset = _charset(column)
    is_text = column.code in _STRINGS or column.code == codes.BLOB or column.code in _BLOBS
    return is_text and charset not in (None, charsets.BINARY, *_UTF8) and collations.longest(str(charset)) > 1


def completed(
    image: pa.StructArray, kind: pa.StructType, columns: tuple[Column, ...], left: Mapping[str | None, MappedColumn]
) -> tuple[pa.StructArray, list[_Irregular]]:
    """Returns an image with the values of columns that the kernel has left, and those that the columns cannot hold."""
    if not any(column.name in left for column in columns):
        return image, []
    arrays, irregular = [image.field(index) for index in range(len(columns))], list[_Irregular]()
    for index, column in enumerate(columns):
        if (mapped := left.get(column.name)) is not None:
            read, size = reader(mapped), _length_size(mapped)
            cells = [
                None if data is None else read(EventCursor(len(data).to_bytes(size, "little") + data, "value"))
                for data in arrays[index].to_pylist()
            ]
            arrays[index], kept = array(cells, column.type)
            irregular += [(row, index, data) for row, data in kept.items()]
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=image.is_null()), irregular


def _length_size(column: MappedColumn) -> int:
    """Number of bytes of a value's length."""
    if column.code in _STRINGS:
        return 1 if column.metadata < 256 else 2
    return _BLOBS.get(column.code, column.metadata)


def _charset(column: MappedColumn) -> str | None:
    return None if column.charset is None else charsets.known(column.charset)


def _text(column: MappedColumn) -> Any:
    """The meaning of a column's bytes, for the kernel; None if they are not text, or not known to be."""
    charset = _charset(column)
    if column.mariadb_type is not None:
        return column.mariadb_type
    if charset is None:
        return None
    if charset == charsets.BINARY:
        return "bytes"
    return "utf8" if charset in _UTF8 else {"characters": _characters(charset)}


@cache
def _characters(charset: str) -> list[str | None]:
    """The character of each byte, in a character set of one byte a character; None: it has none."""
    characters: list[str | None] = []
    for byte in range(256):
        try:
            characters.append(charsets.decode(bytes((byte,)), charset))
        except SchemaError:
            characters.append(None)
    return characters
