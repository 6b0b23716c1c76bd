"""Tables as records describe them: columns, and shapes, which many rows have in common."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from changefeed.model.types import ColumnType


class Declared(NamedTuple):
    """The part of a column's declaration that has no effect on rows.

    Attributes:
        type: the type as it is written, such as `int(11)`.
        counted: AUTO_INCREMENT.
        comment: None without one.
        updated: ON UPDATE: each update of the row writes the time.
    """

    type: str
    counted: bool = False
    comment: str | None = None
    updated: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an upstream table, as far as it is known.

    Attributes:
        name: the column's name.
        type: its MySQL type.
        nullable: whether it allows NULL; None if unknown.
        key: whether it belongs to the handle key; None if unknown.
        default: the SQL text of its default; None without a default, and always in rows: only schema changes have it.
        expression: the SQL text from which a generated column is computed; None for another column, and always in rows.
        zerofill: the number of characters to which numbers are padded with zeros as text; 0 without ZEROFILL, and in rows.
        charset: the character set of its texts or members; None if unknown, and in rows. `binary`: a column of bytes that is
            declared as text, by the producer's definition.
        declared: what its statement declares besides; None if unknown, and in rows. It makes no difference between columns.
    """

    name: str
    type: ColumnType
    nullable: bool | None = None
    key: bool | None = None
    default: str | None = None
    expression: str | None = None
    zerofill: int = 0
    charset: str | None = None
    declared: Declared | None = field(default=None, compare=False)


@dataclass(frozen=True)
class TableShape:
    """A table's columns and types as rows show them, and which of the columns the images before and after carry.

    Absent is not NULL: rows whose images carry different columns have different shapes. A row without a before image
    (an insert) or without an after image (a delete) fits any shape that agrees in the image that it has.

    Attributes:
        columns: all columns that occur, in upstream order.
        before, after: names of the columns that this image carries, if a row has it; None means all columns.
        wire: JSON text of details that only this protocol has, and needs to write the same bytes again; may be "".
        key_order: names of the handle key's columns in the order of the key; empty if that is unknown, or that of the columns.
    """

    database: str
    table: str
    columns: tuple[Column, ...]
    before: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    wire: str = ""
    key_order: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        """Pickles all but the cached hash, which differs in another process."""
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @cached_property
    def _hash(self) -> int:
        """The hash, computed once: shapes with many columns are looked up for each batch."""
        return hash((self.database, self.table, self.columns, self.before, self.after, self.wire))

    @cached_property
    def id(self) -> str:
        """12 hex digits: a hash of database, table, columns and wire. `before` and `after` have no influence on it."""
        text = canonical([self.database, self.table, self.described, self.wire])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    @cached_property
    def described(self) -> list[dict[str, Any]]:
        """The columns as plain values, in the form of `decode --json`."""
        return [{"name": c.name, "type": str(c.type), "nullable": c.nullable, "key": c.key} for c in self.columns]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Names of the handle key's columns; empty if there is no handle key, or it is unknown."""
        return self.key_order or tuple(c.name for c in self.columns if c.key)

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """The columns by their names."""
        return {c.name: c for c in self.columns}

    @cached_property
    def before_columns(self) -> tuple[Column, ...]:
        """The columns of the before image."""
        return self.columns if self.before is None else tuple(self.by_name[n] for n in self.before)

    @cached_property
    def after_columns(self) -> tuple[Column, ...]:
        """The columns of the after image."""
        return self.columns if self.after is None else tuple(self.by_name[n] for n in self.after)

    @cached_property
    def before_type(self) -> pa.StructType:
        """Arrow type of the before image: a struct with one field per column."""
        return image_type(self.before_columns)

    @cached_property
    def after_type(self) -> pa.StructType:
        """Arrow type of the after image."""
        return self.before_type if self.before == self.after else image_type(self.after_columns)


def image_type(columns: tuple[Column, ...]) -> pa.StructType:
    """Returns the Arrow struct type of an image with these columns; the metadata of a field contains its MySQL type."""
    return pa.struct([pa.field(c.name, c.type.arrow, metadata={"mysql": str(c.type)}) for c in columns])


def canonical(value: Any) -> str:
    """Formats JSON without spaces and with unescaped UTF-8; lone surrogates are escaped, so that any text is preserved."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(c if not "\ud800" <= c <= "\udfff" else f"\\u{ord(c):04x}" for c in text)
    return text
