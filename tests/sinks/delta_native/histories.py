"""Random changes of a table that has a column of every type, with the values at the ends of each, as chunks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from changefeed.frames.chunks import pack
from changefeed.frames.convert import to_sink
from changefeed.model.batch import BatchBuilder, Decoded, record_batch
from changefeed.model.definition import Table
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType

_DAY = 86_400_000_000
_DAYS = [-719_162, -719_161, -141_428, -141_427, -25_568, -1, 0, 1, 20_000, 2_932_896]  # 1, 1582, 1900, 1970, …, 9999
_MOMENTS = [day * _DAY + more for day in _DAYS for more in (0, 1, 999, 123_456, _DAY - 1)]
_TEXTS = [
    "", "a", "A", "é", "e\u0301", "\x00", "\x01", '"\\', "\n", "日本語", "😀", "\U0010ffff", "\uffff", "x" * 31, "x" * 32,
    "x" * 33, "x" * 32 + "\U0010ffff", "é" * 40, "😀" * 33, "\u2028", "null", "NaN", " ", "a ",
]  # fmt: skip
_BYTES = [b"", b"\x00", b"\xff", b"\x00\xff" * 20, b"abc", b"\x80"]
_DOUBLES = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1.5, 5e-324, 1.7976931348623157e308, 0.1, 1e22]
_FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -0.5, 16777216.0, 1.401298464324817e-45]


def _decimals(precision: int, scale: int) -> list[Any]:
    units = [10**precision - 1, 1 - 10**precision, 0, 1, -1, 7 * 10**scale]
    return [Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)) for n in units]


# column -> its type, and values of it
VALUES: dict[str, tuple[str, list[Any]]] = {
    "tiny": ("tinyint", [-128, 0, 127]),
    "short": ("smallint", [-(2**15), 2**15 - 1]),
    "small": ("smallint unsigned", [0, 65_535]),
    "medium": ("mediumint", [-(2**23), 2**23 - 1]),
    "big": ("bigint", [-(2**63), 2**63 - 1, 0, 2**53 + 1]),
    "unsigned": ("bigint unsigned", [0, 2**64 - 1, 2**63]),
    "bits": ("bit(8)", [0, 255]),
    "bits64": ("bit(64)", [0, 2**64 - 1]),
    "year": ("year", [0, 1901, 2155]),
    "single": ("float", _FLOATS),
    "double": ("double", _DOUBLES),
    "dec9": ("decimal(9,2)", _decimals(9, 2)),
    "dec18": ("decimal(18,4)", _decimals(18, 4)),
    "dec38": ("decimal(38,10)", _decimals(38, 10)),
    "dec65": ("decimal(65,30)", _decimals(65, 30)),
    "day": ("date", _DAYS),
    "clock": ("datetime(6)", _MOMENTS),
    "moment": ("timestamp(6)", _MOMENTS),
    "time": ("time(3)", ["-838:59:59.000", "00:00:00.000", "838:59:59.000"]),
    "name": ("varchar(64)", _TEXTS),
    "doc": ("json", ['{"a": 1}', "[]"]),
    "raw": ("varbinary(64)", _BYTES),
    "kind": ("enum('new','it''s','ü')", ["new", "it's", "ü", ""]),
    "flags": ("set('a','b')", ["", "a", "a,b"]),
    "index": ("enum", [0, 65_535]),
    "place": ("point", [{"srid": 0, "wkb": b""}, {"srid": 2**32 - 1, "wkb": b"\x01\xff"}]),
    "vec": ("vector", [[], [1.5, -0.0], [3.4028234663852886e38]]),
    "yes": ("boolean", [True, False]),
}  # fmt: skip
IRREGULAR = {"day": b"2026-02-30", "clock": b"0000-00-00 00:00:00.000000", "name": b"\xff"}


def all_types(*keys: str) -> Table:
    """The table; its keys are `id` and others of its columns."""
    kinds = {"id": "bigint"} | {name: kind for name, (kind, _) in VALUES.items()}
    names = ("id", *keys)
    return Table("app", "t", tuple(Column(n, ColumnType.parse(t), key=n in names) for n, t in kinds.items()), names)


@dataclass
class History:
    """A table's changes, drawn one step after the other, and the keys that it has."""

    table: Table
    seed: int
    partial: bool = False
    irregular: bool = False
    keys: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    irregular_texts: dict[tuple[Any, ...], dict[str, str]] = field(default_factory=dict)
    ts: int = 0
    offset: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def value(self, column: Column) -> Any:
        """A value of the column, or None."""
        if column.name == "id":
            return self.random.randint(-50, 250)
        nothing = not column.key and self.random.random() < 0.2
        values = [v for v in VALUES[column.name][1] if not column.key or v == v]  # MySQL has no NaN
        return None if nothing else self.random.choice(values)

    def row(self) -> dict[str, Any]:
        """A whole row."""
        return {column.name: self.value(column) for column in self.table.columns}

    def step(self, count: int) -> pa.RecordBatch:
        """The chunks of the next `count` changes, from two partitions."""
        builder = BatchBuilder()
        records = list[dict[str, Any]]()
        for _ in range(count):
            self.ts += 1
            op, before, after, carried = self._change()
            irregular = self._spoil(after) if after else {}
            if before:
                texts = self.irregular_texts.pop(self._key(before))
                del self.keys[self._key(before)]
            if after:
                kept = {n: v for n, v in texts.items() if n not in after} if before else {}
                self.keys[self._key(after)] = (before or {}) | after
                self.irregular_texts[self._key(after)] = kept | {
                    n: text.decode(errors="replace") for n, text in irregular.items()
                }
            place = Place("t", self.random.randint(0, 1), self.offset, None, len(records))
            builder.add(
                TableShape("app", "t", self.table.columns, None, carried), place, op, before=before, after=after,
                commit_ts=self.ts, commit_time=1_767_225_600_000 + self.ts, irregular=irregular or None,
            )  # fmt: skip
            records.append({"topic": "t", "partition": place.partition, "offset": self.offset})
            self.offset += 1
        packed: pa.RecordBatch = pack(Decoded(builder.build(), [], []), record_batch(records))
        return packed.filter(pa.compute.equal(packed.column("kind"), "rows"))

    def _change(self) -> tuple[str, dict[str, Any] | None, dict[str, Any] | None, tuple[str, ...] | None]:
        known, random = list(self.keys), self.random
        choice = random.random() if known and self.table.keys else 0.0
        if choice < 0.3:
            return "upsert", None, self.row(), None
        old = dict(self.keys[random.choice(known)])
        if choice < 0.45:
            return "delete", old, None, None
        if choice < 0.55:  # another key
            return "update", old, self.row(), None
        new = self.row() | {name: old[name] for name in self.table.keys}
        if not self.partial or random.random() < 0.3:
            return "update", old, new, None
        others = [c.name for c in self.table.columns if not c.key]
        some = {*self.table.keys, *random.sample(others, random.randint(1, len(others) - 1))}
        carried = tuple(c.name for c in self.table.columns if c.name in some)
        return "update", old, {name: new[name] for name in carried}, carried

    def _key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.table.keys or ("id",))

    def _spoil(self, after: dict[str, Any]) -> dict[str, bytes]:
        """Sets values of an image to None as irregular ones; returns their texts."""
        if not self.irregular or self.random.random() < 0.7:
            return {}
        free = [name for name in IRREGULAR if name in after and name not in self.table.keys]
        spoiled = {name: IRREGULAR[name] for name in free if self.random.random() < 0.5}
        after.update(dict.fromkeys(spoiled))
        return spoiled

    def expected(self) -> pa.Table:
        """The table's rows, with the texts of irregular values."""
        rows, columns = list(self.keys.values()), {}
        for c in self.table.columns:
            columns[c.name] = to_sink(pa.array([row[c.name] for row in rows], c.type.arrow), c.type)
        texts = [list(self.irregular_texts[self._key(row)].items()) for row in rows]
        return pa.table(columns | {"_irregular": pa.array(texts, pa.map_(pa.string(), pa.string()))})


def same(value: Any) -> Any:
    """A value in a form in which NaN equals itself and -0.0 is not 0.0."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {k: same(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return tuple(sorted(map(repr, value))) if value and isinstance(value[0], tuple) else tuple(map(same, value))
    return value


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows in an order of their own, with values that can be compared."""
    columns = [column.cast(pa.int64()).to_pylist() if pa.types.is_temporal(column.type) and not pa.types.is_date(column.type)
               else column.cast(pa.int32()).to_pylist() if pa.types.is_date(column.type) else column.to_pylist()
               for column in table.columns]  # fmt: skip
    return sorted((tuple(map(same, row)) for row in zip(*columns, strict=True)), key=repr)
