"""Tables as records describe them: columns, and the shape that many rows have in common."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from changefeed.model.types import ColumnType


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an upstream table, as far as its description goes.

    Attributes:
        nullable, key: True, False, or None if unknown.
        default: the SQL text of the default, or None for none; only schema changes know it.
    """

    name: str
    type: ColumnType
    nullable: bool | None = None
    key: bool | None = None
    default: str | None = None


@dataclass(frozen=True)
class TableShape:
    """A table with columns and types, and which of the columns each image carries.

    Absent is not NULL: rows whose images carry different columns are of different shapes. A row without a before image
    (an insert) or without an after image (a delete) fits any shape that agrees in the image it has.

    Attributes:
        columns: all columns that occur, in upstream order.
        before, after: names of the columns that the image carries where there is one; None means all of them.
        wire: JSON text of details that only this protocol has and needs to write the same bytes again, or "".
    """

    database: str
    table: str
    columns: tuple[Column, ...]
    before: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    wire: str = ""

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        """Without the hash, which is another one in another process."""
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    @cached_property
    def _hash(self) -> int:
        """Worked out once: shapes with many columns are looked up for each batch."""
        return hash((self.database, self.table, self.columns, self.before, self.after, self.wire))

    @cached_property
    def id(self) -> str:
        """12 hex digits that stand for database, table, columns and wire. Which images carry what is not in it."""
        text = canonical([self.database, self.table, self.described, self.wire])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    @cached_property
    def described(self) -> list[dict[str, Any]]:
        """The columns as the canonical text shows them."""
        return [{"name": c.name, "type": str(c.type), "nullable": c.nullable, "key": c.key} for c in self.columns]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Names of the handle key's columns; empty if there is none or it is unknown."""
        return tuple(c.name for c in self.columns if c.key)

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
        """Arrow type of the before image: a struct with one field a column."""
        return image_type(self.before_columns)

    @cached_property
    def after_type(self) -> pa.StructType:
        """Arrow type of the after image."""
        return image_type(self.after_columns)


def image_type(columns: tuple[Column, ...]) -> pa.StructType:
    """The Arrow struct that carries an image of these columns; a field's metadata holds its MySQL type."""
    return pa.struct([pa.field(c.name, c.type.arrow, metadata={"mysql": str(c.type)}) for c in columns])


def canonical(value: Any) -> str:
    """JSON without spaces, UTF-8 unescaped (lone surrogates escaped, so that any text survives)."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(c if not "\ud800" <= c <= "\udfff" else f"\\u{ord(c):04x}" for c in text)
    return text
