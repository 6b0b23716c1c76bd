"""Tables of orders on a MySQL or MariaDB server, changes of them in its log, and their rows as Arrow tables.

A table has ten columns, as in `bench/capture.py`; a row of the log has about 75 bytes. Half of the changes are in transactions
of 1 000 rows, the others in transactions of 100, of 10 and of one row. One with 10 rows or more has 70 % updates of one table,
20 % inserts and 10 % deletes of another.
"""

from __future__ import annotations

import io
import random
import subprocess
from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
from pyarrow import csv

from tests.services.database import Database

COLUMNS = pa.schema(
    {
        "id": pa.int64(), "customer": pa.int32(), "total": pa.decimal128(12, 2), "state": pa.string(),
        "created": pa.timestamp("us"), "updated": pa.timestamp("us"), "note": pa.string(), "kind": pa.string(),
        "ratio": pa.float64(), "flag": pa.int8(),
    }
)  # fmt: skip
SIZES = {1000: 0.5, 100: 0.3, 10: 0.15, 1: 0.05}  # rows of a transaction -> share of all changes
_TABLE = """CREATE TABLE t{number} (id BIGINT PRIMARY KEY, customer INT, total DECIMAL(12,2), state VARCHAR(20),
created DATETIME(3), updated TIMESTAMP(6) NULL, note VARCHAR(100), kind ENUM('a','b','c'), ratio DOUBLE, flag TINYINT);"""
_NUMBERS = """CREATE DATABASE shop; USE shop; CREATE TABLE numbers (n INT PRIMARY KEY);
CREATE TABLE digits (d INT PRIMARY KEY); INSERT INTO digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
INSERT INTO numbers SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d FROM digits a, digits b, digits c, digits d;"""
_INSERT = """INSERT INTO t{table} SELECT {first} + n, n * 7, n / 7, CONCAT('state ', n % 5), '2026-01-02 03:04:05.123',
'2026-01-02 03:04:05', CONCAT('a note on the order ', {first} + n), ELT(1 + n % 3, 'a', 'b', 'c'), n / 3, n % 100 FROM numbers
WHERE n < {count};"""
_UPDATE = """UPDATE t{table} SET total = total + 1, customer = {first}, note = CONCAT('changed from ', {first})
WHERE id BETWEEN {first} AND {first} + {count} - 1;"""
_DELETE = "DELETE FROM t{table} WHERE id BETWEEN {first} AND {first} + {count} - 1;"
_TOGETHER = 10_000  # rows of an INSERT of the first rows, and transactions that a client sends at once


class ServerOrders:
    """The tables `shop.t0`, `shop.t1`, … of a server."""

    def __init__(self, database: Database, tables: int, seed: int) -> None:
        """Creates the tables, without rows."""
        self.database, self.tables = database, tables
        self._random = random.Random(seed)
        self._next = [0] * tables  # the lowest id that was never used
        database.execute(_NUMBERS + "".join(_TABLE.format(number=number) for number in range(tables)))

    def load(self, rows: int) -> None:
        """Inserts the first rows, as many into each table."""
        for table in range(self.tables):
            for first in range(0, rows // self.tables, _TOGETHER):
                self._insert_now(table, min(_TOGETHER, rows // self.tables - first))

    def change(self, count: int) -> None:
        """Changes about so many rows; those that were deleted before are not counted out."""
        statements = self._transactions(count)
        while some := "".join(islice(statements, _TOGETHER)):
            self.database.execute(some, "shop")

    def rows(self, number: int) -> pa.Table:
        """The rows of a table, in the order of their ids."""
        command = self.database.client("--quick", "--skip-column-names", "shop")
        query = f"SELECT {', '.join(COLUMNS.names)} FROM t{number} ORDER BY id"
        output = subprocess.run([*command, "-e", query], stdout=subprocess.PIPE, check=True).stdout
        return csv.read_csv(
            io.BytesIO(output),
            csv.ReadOptions(column_names=COLUMNS.names),
            csv.ParseOptions(delimiter="\t", quote_char=False),
            csv.ConvertOptions(column_types=COLUMNS, null_values=["NULL"], strings_can_be_null=True),
        )

    def _insert_now(self, table: int, count: int) -> None:
        self.database.execute(self._insert(table, count), "shop")

    def _insert(self, table: int, count: int) -> str:
        first = self._next[table]
        self._next[table] += count
        return _INSERT.format(table=table, first=first, count=count)

    def _transactions(self, count: int) -> Iterator[str]:
        """Transactions of all sizes, in random order."""
        sizes = [size for size, share in SIZES.items() for _ in range(round(count * share / size))]
        self._random.shuffle(sizes)
        for size in sizes:
            table, other = self._random.sample(range(self.tables), 2)
            if size == 1:
                yield self._one(table)
                continue
            some = size // 10
            update = _UPDATE.format(table=table, first=self._id(table), count=7 * some)
            delete = _DELETE.format(table=other, first=self._id(other), count=some)
            yield f"BEGIN;{update}{self._insert(other, 2 * some)}{delete}COMMIT;"

    def _one(self, table: int) -> str:
        way = self._random.random()
        if way < 0.2:
            return self._insert(table, 1)
        statement = _UPDATE if way < 0.9 else _DELETE
        return statement.format(table=table, first=self._id(table), count=1)

    def _id(self, table: int) -> int:
        return self._random.randrange(self._next[table])
