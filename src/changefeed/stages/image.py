"""One image (before or after) of rows of a table: columns in the sink's types, and irregular values as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from changefeed.errors import SchemaError, UnsupportedError
from changefeed.frames.convert import ConvertedColumn, convert, defined
from changefeed.frames.types import sink_type
from changefeed.model.definition import Table
from changefeed.model.position import Place
from changefeed.model.table import Column
from changefeed.model.types import ColumnType
from changefeed.protocols.base import Redefine

BEFORE = "before."  # prefix of the names of irregular columns of a before image
# Column -> the declared type of its values, where it is not the column's own; None if no type is declared for them.
SentTypes: TypeAlias = Mapping[str, ColumnType | None]
NO_EXCEPTIONS: SentTypes = {}


@dataclass(frozen=True, slots=True)
class DeclaredTypes:
    """The types that are declared for values of rows.

    Attributes:
        redefine: converts values to declared types; None if they have them already.
        sent: the columns whose values are not declared to be of the column's type.
    """

    redefine: Redefine | None = None
    sent: SentTypes = field(default_factory=dict)

    def convert(self, array: pa.Array, source: ColumnType, column: Column) -> ConvertedColumn:
        """Returns values of type `source` as values of the column.

        Raises:
            SchemaError: a value is invalid for the column.
        """
        if column.name not in self.sent:
            return convert(array, source, column.type, self.redefine, column.charset)
        declared = self.sent[column.name]
        if declared is None:
            return convert(array, source, column.type)
        values, irregular = defined(array, source, declared, self.redefine, column.charset)
        converted = convert(values, declared, column.type)
        return ConvertedColumn(converted.array, irregular | converted.irregular)


@dataclass(slots=True)
class Image:
    """The before or after images of a batch of rows, by column.

    Attributes:
        rows: the rows as decoded.
        arrays, columns: the columns of the image, by lower-case name.
        types: the declared types of the values.
        irregular: row number -> column -> text that the column's type cannot represent.
    """

    rows: pa.RecordBatch
    arrays: dict[str, pa.Array]
    columns: dict[str, Column]
    types: DeclaredTypes
    irregular: dict[int, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: pa.RecordBatch, name: str, columns: Iterable[Column], types: DeclaredTypes) -> Image:
        """The image `before` or `after` of the rows."""
        column = rows.column(name)
        names = [f.name.lower() for f in column.type]
        arrays = dict(zip(names, column.flatten(), strict=True))
        return cls(rows, arrays, {c.name.lower(): c for c in columns}, types)

    def column(self, column: Column, table: Table) -> pa.Array:
        """Returns a column of the table in the sink's type; all NULL if the image does not carry it.

        Raises:
            SchemaError: a value is invalid for the column.
        """
        name = column.name.lower()
        if name not in self.columns:
            return pa.nulls(self.rows.num_rows, sink_type(column.type).arrow)
        try:
            converted = self.types.convert(self.arrays[name], self.columns[name].type, column)
        except SchemaError as error:
            raise SchemaError(f"{named(table, column.name)}: {error} (from {place(self.rows, 0)})") from error
        for row, text in converted.irregular.items():
            self.irregular.setdefault(row, {})[column.name] = text
        return converted.array

    def key(self, column: Column, table: Table) -> pa.Array:
        """Returns a column of the key in the sink's type.

        Raises:
            SchemaError: a value is invalid for the column.
            UnsupportedError: a row has no value in it.
        """
        if column.name.lower() not in self.columns:
            raise UnsupportedError(
                f"{table.database}.{table.name}: the change at {place(self.rows, 0)} does not carry its key column "
                f"{column.name}"
            )
        array = self.column(column, table)
        if array.null_count:
            self._fail_key(column, table, pc.indices_nonzero(pc.is_null(array))[0].as_py())
        return array

    def _fail_key(self, column: Column, table: Table, row: int) -> NoReturn:
        decoded = dict(self.rows.column("irregular")[row].as_py() or ())
        data = decoded.get(BEFORE + column.name, decoded.get(column.name))
        text = self.irregular.get(row, {}).get(column.name) if data is None else data.decode(errors="replace")
        raise UnsupportedError(
            f"{named(table, column.name)} is in the key and holds {'NULL' if text is None else repr(text)} at "
            f"{place(self.rows, row)}, which {sink_type(column.type).sql} cannot hold: the row cannot be found again. "
            "Name the table in pipeline.exclude to skip it, and run again"
        )


def place(rows: pa.RecordBatch, row: int) -> Place:
    """Returns the position of a row's record."""
    return Place(*(rows.column(name)[row].as_py() for name in ("topic", "partition", "offset", "index")))


def named(table: Table, column: str) -> str:
    """Returns `database.table.column`, as error messages name a column."""
    return f"{table.database}.{table.name}.{column}"
