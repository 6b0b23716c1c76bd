"""Orders as Debezium writes them from MySQL (JSON without schemas, as 3.x does), with the rows that they come to.

A log has a schema-change topic `<prefix>` with a CREATE TABLE for each table, and a topic `<prefix>.shop.t<n>` for each
table. Half of the updates and deletes go to the newest 5 % of the keys, half to any. One seed makes one log. Rows that are
`loaded` are in the tables before the log, and not in it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SCHEMA = pa.schema(
    {
        "id": pa.int64(), "customer_id": pa.int32(), "status": pa.string(), "total": pa.decimal128(12, 2), "qty": pa.int32(),
        "note": pa.string(), "created": pa.timestamp("us"), "updated": pa.timestamp("us"),
    }
)  # fmt: skip
_TYPES = {
    "id": "BIGINT", "customer_id": "INT", "status": "VARCHAR(20)", "total": "DECIMAL(12,2)", "qty": "INT",
    "note": "VARCHAR(200)", "created": "DATETIME", "updated": "DATETIME(6)",
}  # fmt: skip
_STATUS = ("paid", "new", "shipped", "cancelled", "refunded", "packed", "lost")
_NAMES = (
    "Ada Lovelace",
    "Łukasz Nowak",
    "O'Hara and Sons",
    "Anna Berg",
    "北京 Trading",
    "a customer",
    "Müller & Söhne",
)
_TRANSACTION = 20  # rows
_FIRST_MS = 1_767_225_600_000

# id, customer_id, status, total in cents, qty, note, created in ms, updated in µs
Order = tuple[int, int, str, int, int | None, str | None, int, int | None]
# topic, partition, key, value
Message = tuple[str, int, bytes, bytes]


@dataclass
class Orders:
    """Tables of orders, and the records of their changes.

    Attributes:
        prefix: the connector's `topic.prefix`.
        tables: the rows of each table by id, as they are after all records made so far, without loaded rows that have none;
            None for a loaded row that is deleted.
        partitions: of a table's topic; a row's is chosen by its key.
        loaded: number of rows of each table before the log.
    """

    prefix: str
    count: int
    partitions: int
    seed: int
    loaded: int = 0
    tables: list[dict[int, Order | None]] = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self.tables = [{} for _ in range(self.count)]
        self._ids = [list(range(1, self.loaded + 1)) for _ in range(self.count)]
        self._next = [self.loaded + 1] * self.count
        self._made, self._gtid, self._position, self._clock = 0, 0, 1000, _FIRST_MS

    @property
    def topics(self) -> dict[str, int]:
        """The topics, with their numbers of partitions."""
        return {self.prefix: 1} | {f"{self.prefix}.shop.t{n}": self.partitions for n in range(self.count)}

    def rows(self, table: int) -> pa.Table:
        """The rows of a table, by id."""
        rows = sorted(row for row in self.tables[table].values() if row is not None)
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
        columns[3] = [Decimal(cents).scaleb(-2) for cents in columns[3]]
        columns[6] = [1000 * ms for ms in columns[6]]
        made = pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)
        if not self.loaded:
            return made
        before = self.rows_before()
        changed = pc.is_in(before.column("id"), pa.array(self.tables[table], pa.int64()))
        return pa.concat_tables([before.filter(pc.invert(changed)), made]).sort_by("id")

    def rows_before(self, first: int = 1, last: int | None = None) -> pa.Table:
        """The loaded rows of any table, by id; of all of them, or from `first` to `last`. `_loaded` has one of them."""
        ids = np.arange(first, (self.loaded if last is None else last) + 1)
        columns = {
            "id": ids, "customer_id": ids % 199_999 + 1, "status": pa.array(_STATUS).take(ids % len(_STATUS)),
            "total": _decimals(100 + ids * 7919 % 9_999_000), "qty": ids % 99 + 1, "note": pa.nulls(len(ids), pa.string()),
            "created": np.full(len(ids), _FIRST_MS * 1000), "updated": pa.nulls(len(ids), pa.timestamp("us")),
        }  # fmt: skip
        return pa.table({name: pa.array(column).cast(SCHEMA.field(name).type) for name, column in columns.items()})

    def create(self) -> Iterator[Message]:
        """The schema changes that create the tables."""
        for number in range(self.count):
            yield self.prefix, 0, b'{"databaseName":"shop"}', self._create_table(f"t{number}").encode()
            self._position += 300

    def insert(self, count: int) -> Iterator[Message]:
        """New rows of all tables in turn."""
        for number in range(count):
            self._next_row()
            yield self._insert(number % self.count)

    def change(self, count: int, *, live: int | None = None) -> Iterator[Message]:
        """Updates, inserts and deletes, seven, two and one in ten, of random tables.

        Args:
            live: the `updated` of what is written, in µs; None for the log's own clock.
        """
        for _ in range(count):
            self._next_row()
            table, which = self._random.randrange(self.count), self._random.random()
            ids = self._ids[table]
            if which < 0.2 or not ids:
                yield self._insert(table, live)
                continue
            recent = self._random.random() < 0.5
            at = (
                len(ids) - 1 - self._random.randrange(max(1, len(ids) // 20))
                if recent
                else self._random.randrange(len(ids))
            )
            old = self.tables[table].get(ids[at]) or _loaded(ids[at])
            if which < 0.9:
                new = self.tables[table][old[0]] = self._changed(old, live)
                yield self._message(table, "u", old, new)
            else:
                ids[at] = ids[-1]
                ids.pop()
                self.tables[table].pop(old[0], None)
                if old[0] <= self.loaded:
                    self.tables[table][old[0]] = None
                yield self._message(table, "d", old, None)

    def _next_row(self) -> None:
        if self._made % _TRANSACTION == 0:
            self._gtid, self._position, self._clock = self._gtid + 1, self._position + 250, self._clock + 2
        self._made += 1

    def _insert(self, table: int, live: int | None = None) -> Message:
        chance, number = self._random, self._next[table]
        note = f"{chance.choice(_NAMES)} order {chance.randrange(10**9)} ship to dock {chance.randrange(1000)}"
        updated = live or self._clock * 1000 + chance.randrange(1000)
        row: Order = (
            number, chance.randrange(1, 200_000), chance.choice(_STATUS), chance.randrange(100, 9_999_999),
            None if chance.random() < 0.05 else chance.randrange(1, 100), None if chance.random() < 0.1 else note,
            self._clock // 1000 * 1000, None if live is None and chance.random() < 0.3 else updated,
        )  # fmt: skip
        self._next[table] += 1
        self.tables[table][number] = row
        self._ids[table].append(number)
        return self._message(table, "c", None, row)

    def _changed(self, row: Order, live: int | None) -> Order:
        chance = self._random
        total = row[3] if chance.random() < 0.6 else chance.randrange(100, 9_999_999)
        updated = live or self._clock * 1000 + chance.randrange(1000)
        return (*row[:2], chance.choice(_STATUS), total, chance.randrange(1, 100), *row[5:7], updated)

    def _message(self, table: int, op: str, before: Order | None, after: Order | None) -> Message:
        row = after or before
        assert row is not None
        value = (
            f'{{"before":{_image(before)},"after":{_image(after)},{self._source(f"t{table}")},"transaction":null,"op":"{op}",'
            f'"ts_ms":{self._clock + 40},"ts_us":{self._clock + 40}777,"ts_ns":{self._clock + 40}777123}}'
        )
        self._position += 107
        partition = (row[0] * 2654435761 >> 7) % self.partitions
        return f"{self.prefix}.shop.t{table}", partition, b'{"id":%d}' % row[0], value.encode()

    def _source(self, table: str) -> str:
        return (
            f'"source":{{"version":"3.6.1.Final","connector":"mysql","name":"{self.prefix}","ts_ms":{self._clock},'
            f'"snapshot":"false","db":"shop","sequence":null,"ts_us":{self._clock}123,"ts_ns":{self._clock}123000,'
            f'"table":"{table}","server_id":1,"gtid":"00008033-0000-4000-8000-000000000001:{self._gtid}",'
            f'"file":"mysql-bin.000001","pos":{self._position},"row":{self._made % _TRANSACTION},"thread":19,"query":null}}'
        )

    def _create_table(self, table: str) -> str:
        keyed = {
            name: f"{text}{'' if name in ('qty', 'note', 'updated') else ' NOT NULL'}" for name, text in _TYPES.items()
        }
        ddl = f"CREATE TABLE `{table}` ({', '.join(f'`{n}` {t}' for n, t in keyed.items())}, PRIMARY KEY (`id`))"
        columns = []
        for position, (name, text) in enumerate(_TYPES.items(), 1):
            kind, _, size = text.rstrip(")").partition("(")
            length, scale = [*(int(part) for part in size.split(",") if part), None, None][:2]
            columns.append(
                {
                    "name": name, "jdbcType": 12, "nativeType": None, "typeName": kind, "typeExpression": kind,
                    "charsetName": "utf8mb4" if kind == "VARCHAR" else None, "length": length, "scale": scale,
                    "position": position, "optional": "NOT NULL" not in keyed[name], "autoIncremented": False,
                    "generated": False, "comment": None, "hasDefaultValue": False, "enumValues": [],
                }
            )  # fmt: skip
        shape = {"defaultCharsetName": "utf8mb4", "primaryKeyColumnNames": ["id"], "columns": columns, "comment": None}
        change = {"type": "CREATE", "id": f'"shop"."{table}"', "table": shape}
        return (
            f'{{{self._source(table)},"ts_ms":{self._clock},"databaseName":"shop","schemaName":null,'
            f'"ddl":{json.dumps(ddl)},"tableChanges":[{json.dumps(change)}]}}'
        )


def _loaded(number: int) -> Order:
    """The loaded row with this id."""
    cents, status = 100 + number * 7919 % 9_999_000, _STATUS[number % len(_STATUS)]
    return (number, number % 199_999 + 1, status, cents, number % 99 + 1, None, _FIRST_MS, None)


def _decimals(cents: np.ndarray) -> pa.Array:
    """Cents as `decimal128(12, 2)`."""
    whole = pa.array(cents).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    return pc.multiply(whole, pa.scalar(Decimal("0.01"), pa.decimal128(2, 2))).cast(pa.decimal128(12, 2))


def _image(row: Order | None) -> str:
    if row is None:
        return "null"
    number, customer, status, cents, qty, note, created, updated = row
    return (
        f'{{"id":{number},"customer_id":{customer},"status":"{status}","total":"{cents // 100}.{cents % 100:02d}",'
        f'"qty":{"null" if qty is None else qty},"note":{"null" if note is None else f"{chr(34)}{note}{chr(34)}"},'
        f'"created":{created},"updated":{"null" if updated is None else updated}}}'
    )
