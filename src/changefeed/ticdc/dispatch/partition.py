"""The partition of a change, as both TiCDC producers compute it.

    rule          written into the hash
    default       as table
    table         (schema, table)
    index-value   (schema, table), then (column, value text) of each handle-key column
    columns       (schema, table), then (column, value text) of each column named
    ts            nothing: partition = commit_ts mod n

Each write XORs the CRC-32 (IEEE) of its concatenated texts into the hash, which starts at 0; the partition is the hash
mod n. So the order of writes does not matter, and two equal writes cancel each other.

Classic writes NULL as `null`, newarch omits it: the only reason for different partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any
from zlib import crc32

import pyarrow as pa

from changefeed.columnar.events import ready
from changefeed.errors import ConfigError, UnsupportedError, unknown_name
from changefeed.model import values
from changefeed.model.table import TableShape
from changefeed.model.types import BINARIES, ColumnType
from changefeed.mysql.zone import to_local
from changefeed.wire.floats import fixed

RULES = ("default", "table", "ts", "index-value", "columns")
_ALIASES = {"rowid": "index-value", "default": "table"}


def known_rule(name: str) -> bool:
    """Whether a partition rule of this name exists."""
    return name in RULES or name in _ALIASES


def hash_of(writes: Iterable[Sequence[bytes]]) -> int:
    """Returns the hash of the writes, an unsigned 32-bit integer."""
    total = 0
    for texts in writes:
        total ^= crc32(b"".join(texts))
    return total


def value_text(value: Any, t: ColumnType, zone: tzinfo) -> bytes:
    """Returns the bytes of a ready value that are hashed."""
    if t.name in ("float", "double"):
        return fixed(value, 32 if t.name == "float" else 64).encode()
    if t.name in BINARIES:
        return bytes(value)
    if t.name == "timestamp":
        return values.write_datetime(to_local(value, zone), t.length or 0).encode()
    if t.name == "boolean":
        return b"1" if value else b"0"
    if t.name == "vector":
        return ("[" + ",".join(fixed(item, 32) for item in value) + "]").encode()
    if t.name in ("enum", "set") and t.members is not None:
        return str(_number(value, t, t.members)).encode()
    text = values.writer(t)(value) if t.name in ("date", "datetime", "decimal") else value
    return str(text).encode("utf-8", "surrogateescape")


def _columns(image: pa.StructArray, names: Sequence[str], count: int) -> Iterable[tuple[Any, ...]]:
    """Yields the values of these columns row by row; a column that the image does not carry is NULL."""
    carried = {image.type.field(at).name: at for at in range(image.type.num_fields)}
    columns = ([None] * count if n not in carried else ready(image.field(carried[n])) for n in names)
    return zip(*columns, strict=True)


def _number(value: str, t: ColumnType, members: tuple[str, ...]) -> int:
    if t.name == "enum":
        return members.index(value) + 1 if value in members else 0
    return sum(1 << members.index(member) for member in value.split(",") if member in members)


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """The rule that chooses the partition of a table's rows.

    Attributes:
        rule: one of `RULES` or `rowid`.
        partitions: number of partitions of the topic.
        columns: columns of the rule `columns`.
        null: the bytes hashed for NULL; None omits the column.
        zone: time zone of TIMESTAMP text.
    """

    rule: str
    partitions: int
    columns: tuple[str, ...]
    null: bytes | None
    zone: tzinfo

    def __post_init__(self) -> None:
        if not known_rule(self.rule):
            raise unknown_name("partition dispatcher", self.rule, RULES)
        if (self.rule == "columns") != bool(self.columns):
            raise ConfigError('partition dispatcher "columns" and option "columns" must be used together')

    def partition(
        self, shape: TableShape, image: Mapping[str, Any], irregular: Mapping[str, bytes], commit_ts: int
    ) -> int:
        """Returns the partition of a row; `image` is the after image, for a delete the before image.

        Raises:
            UnsupportedError: the table lacks a column that the rule names.
        """
        if self.rule == "ts":
            return commit_ts % self.partitions
        writes: list[Sequence[bytes]] = [(shape.database.encode(), shape.table.encode())]
        for name in self.names(shape):
            text = self._text(shape, name, image.get(name), irregular.get(name))
            if text is not None:
                writes.append((name.encode(), text))
        return hash_of(writes) % self.partitions

    def by_columns(self, shape: TableShape, rows: pa.RecordBatch, commit_ts: pa.Array) -> list[int]:
        """The same as `partition` for rows of a table batch, none of which has an irregular value."""
        if self.rule == "ts":
            return [ts % self.partitions for ts in commit_ts.to_pylist()]
        names = self.names(shape)
        if not names:
            return [self.partition(shape, {}, {}, 0)] * len(rows)
        after, before = rows.column("after"), rows.column("before")
        images = (_columns(image, names, len(rows)) for image in (after, before))
        chosen = zip(after.is_valid().to_pylist(), *images, strict=True)
        return [
            self.partition(shape, dict(zip(names, new if there else old, strict=True)), {}, 0)
            for there, new, old in chosen
        ]

    def names(self, shape: TableShape) -> Sequence[str]:
        """Returns the columns whose values are hashed.

        Raises:
            UnsupportedError: the table lacks a column that the rule names.
        """
        rule = _ALIASES.get(self.rule, self.rule)
        return shape.keys if rule == "index-value" else self._named(shape) if rule == "columns" else ()

    def _text(self, shape: TableShape, name: str, value: Any, irregular: bytes | None) -> bytes | None:
        if irregular is not None:
            return irregular
        return self.null if value is None else value_text(value, shape.by_name[name].type, self.zone)

    def _named(self, shape: TableShape) -> list[str]:
        by_lower = {column.name.lower(): column.name for column in shape.columns}
        missing = [name for name in self.columns if name.lower() not in by_lower]
        if missing:
            raise UnsupportedError(
                f"columns not found when dispatching {shape.database}.{shape.table}: {', '.join(missing)}; "
                f"it has {', '.join(by_lower.values())}"
            )
        return [by_lower[name.lower()] for name in self.columns]
