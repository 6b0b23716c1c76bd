"""Histories of a database that Debezium has followed: what was done, what the engine sent, and the tables at the end.

    python -m tests.pipeline.kit.debezium_histories mariadb initial …      records them into tests/data/debezium-snapshots

Each takes an empty server and returns what the engine has sent; the tables are then the server's own. Statements are drawn
from a seed, so another seed is another history.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.pipeline.kit.databases import content
from tests.services.database import Database, MariaDb, MySql
from tests.services.debezium import Debezium, Event

DATA = Path(__file__).parents[2] / "data" / "debezium-snapshots"
SHOP = "shop"
SIGNALS = "signals"
SETTINGS = {"database.include.list": SHOP, "skipped.operations": "none"}
_SIGNALLED = SETTINGS | {
    "signal.data.collection": f"{SHOP}.{SIGNALS}",
    "signal.enabled.channels": "source",
    "incremental.snapshot.chunk.size": "3",
}
_TABLES = f"""
CREATE DATABASE {SHOP};
USE {SHOP};
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, email VARCHAR(80), born DATE, balance DECIMAL(12,2),
  kind ENUM('free','paid') NOT NULL DEFAULT 'free', seen DATETIME(3), big BIGINT UNSIGNED);
CREATE TABLE items (order_id INT, line SMALLINT, sku VARCHAR(20) CHARACTER SET latin1, qty INT UNSIGNED,
  PRIMARY KEY (line, order_id));
CREATE TABLE events (at DATETIME, what VARCHAR(40));
CREATE TABLE nothing (id INT PRIMARY KEY, v TEXT);
CREATE TABLE {SIGNALS} (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32), data VARCHAR(2048));
"""


class Writes:
    """Draws statements over the tables above."""

    def __init__(self, database: Database, seed: int = 1) -> None:
        self.database, self.random = database, random.Random(seed)
        self.ids: list[int] = []
        self.number = 0

    def create(self, rows: int = 7) -> None:
        """The tables, with rows."""
        self.database.execute(_TABLES)
        self.insert(rows)
        self.log(4)

    def sql(self, text: str) -> None:
        self.database.execute(text, SHOP)

    def insert(self, rows: int, table: str = "customers") -> None:
        for _ in range(rows):
            self.number += self.random.randint(1, 3)
            self.ids.append(self.number)
            big = self.random.choice(["NULL", "18446744073709551615", "9223372036854775808", "7"])
            self.sql(
                f"INSERT INTO {table} (id, name, email, born, balance, kind, seen, big) VALUES ({self.number}, "
                f"'{self.random.choice(['Ann', '北京 🐟', 'OHara', ''])}', {self.random.choice(['NULL', repr('a@x')])}, "
                f"'19{self.random.randint(10, 99)}-02-28', {self.random.randint(-999, 99999)}.5, "
                f"'{self.random.choice(['free', 'paid'])}', '2026-03-01 10:00:00.{self.random.randint(100, 999)}', {big});"
                f"INSERT INTO items VALUES ({self.number}, 1, 'sku-é', 4294967295), ({self.number}, 2, NULL, 0)"
            )

    def log(self, rows: int) -> None:
        """Rows without a key, some of them the same."""
        values = ", ".join(f"('2026-01-01 00:00:0{self.random.randint(0, 3)}', 'login')" for _ in range(rows))
        self.sql(f"INSERT INTO events VALUES {values}, ('2026-02-02 00:00:00', NULL)")

    def change(self, times: int, table: str = "customers", *, log: bool = True) -> None:
        """Updates, deletes, changes of keys and inserts, some of them in one transaction."""
        for _ in range(times):
            key = self.random.choice(self.ids)
            what = self.random.randint(0, 5)
            if what == 0 and len(self.ids) > 3:
                self.ids.remove(key)
                self.sql(
                    f"BEGIN; DELETE FROM {table} WHERE id = {key}; DELETE FROM items WHERE order_id = {key}; COMMIT"
                )
            elif what == 1:
                self.number += 1
                self.ids[self.ids.index(key)] = self.number
                self.sql(f"UPDATE {table} SET id = {self.number}, name = 'moved' WHERE id = {key}")
            elif what == 2:
                self.sql(f"UPDATE {table} SET balance = balance + 1")
            elif what == 3 and log:
                self.log(1)
            else:
                self.insert(1, table)

    def signal(self, kind: str, *tables: str) -> None:
        """Asks the engine for a snapshot of these tables."""
        names = ", ".join(f'"{SHOP}.{table}"' for table in tables)
        data = f'{{"data-collections": [{names}], "type": "{kind}"}}'
        self.sql(f"INSERT INTO {SIGNALS} VALUES ('{kind}-{self.random.random()}', 'execute-snapshot', '{data}')")


def _marked(mark: str, times: int = 1) -> Callable[[list[Event]], bool]:
    text = f'"snapshot":"{mark}"'
    return lambda events: sum(text in (event["value"] or "") for event in events) >= times


def _has_rows_of(database: Database, *tables: str) -> Callable[[list[Event]], bool]:
    """Whether each row that is in these tables now was read or sent as a change."""
    wanted = {(table, _key(row)) for table in tables for row in database.rows(SHOP, table)}

    def holds(events: list[Event]) -> bool:
        payloads = (json.loads(event["value"])["payload"] for event in events if event["value"] is not None)
        rows = ((p["source"]["table"], p["after"]) for p in payloads if p.get("after"))
        return wanted <= {(table, _key(row)) for table, row in rows}

    return holds


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The values of the columns that a row's key can have."""
    return tuple(str(row[name]) for name in ("id", "order_id", "line") if name in row)


def initial(database: Database, folder: Path, seed: int = 1) -> list[Event]:
    """A snapshot and nothing else."""
    Writes(database, seed).create()
    with Debezium(database, folder, SETTINGS) as engine:
        return engine.wait(_marked("last"), "the end of its snapshot")


def streamed(database: Database, folder: Path, seed: int = 1) -> list[Event]:
    """A snapshot, then changes of rows and of tables."""
    writes = Writes(database, seed)
    writes.create()
    with Debezium(database, folder, SETTINGS) as engine:
        engine.wait(_marked("last"), "the end of its snapshot")
        writes.change(6)
        writes.sql("ALTER TABLE customers ADD COLUMN phone VARCHAR(20) DEFAULT 'none' AFTER name")
        writes.change(4)
        writes.sql(
            "ALTER TABLE customers MODIFY COLUMN balance DECIMAL(16,4), DROP COLUMN seen, ADD COLUMN seen DATETIME(3)"
        )
        writes.sql("ALTER TABLE customers CHANGE COLUMN email mail VARCHAR(90)")
        writes.sql("UPDATE customers SET mail = 'new@x', phone = NULL ORDER BY id LIMIT 2")
        writes.sql("RENAME TABLE items TO positions; TRUNCATE TABLE events; INSERT INTO events VALUES (NULL, 'after')")
        writes.sql(
            "DROP TABLE nothing; CREATE TABLE fresh (a INT PRIMARY KEY, b VARBINARY(8)); INSERT INTO fresh VALUES (1, 'x')"
        )
        writes.sql(
            "DELETE FROM positions WHERE line = 2; CREATE TABLE nothing (other INT PRIMARY KEY); INSERT INTO nothing VALUES (3)"
        )
        return engine.follow(SHOP)


def killed(database: Database, folder: Path, seed: int = 1) -> list[Event]:
    """The engine dies in its snapshot, and again while it streams; each time the next begins where it was."""
    writes = Writes(database, seed)
    writes.create()
    for records in (24, 31):
        with Debezium(database, folder, SETTINGS, records=records) as engine:
            engine.wait_dead()
    writes.change(3)  # so the next snapshot has another place
    with Debezium(database, folder, SETTINGS) as engine:
        engine.wait(_marked("last"), "the end of its snapshot")
        writes.change(5, log=False)
        writes.sql("ALTER TABLE customers ADD COLUMN phone VARCHAR(20)")
        engine.follow(SHOP)
        engine.kill()
    writes.change(5, log=False)
    with Debezium(database, folder, SETTINGS) as engine:
        writes.change(3, log=False)
        return engine.follow(SHOP)


def _wait_for_last_window(database: Database) -> None:
    """Waits until the engine has written nothing to the table of signals for a second: its last windows have no rows."""
    before, now = -1, 0
    while before != now:
        time.sleep(1)
        before, now = now, int(database.selected("SELECT COUNT(*) FROM signals", SHOP)[0][0])


def incremental(database: Database, folder: Path, seed: int = 1) -> list[Event]:
    """Incremental snapshots while rows change, the first of tables of which nothing was read before."""
    writes = Writes(database, seed)
    writes.create(12)
    writes.sql("DELETE FROM events")  # without a key it is in no incremental snapshot
    with Debezium(database, folder, _SIGNALLED | {"snapshot.mode": "no_data"}) as engine:
        engine.wait(_marked("last"), "the end of its snapshot")
        writes.change(3)
        writes.signal("incremental", "customers", "items")
        while not _marked("incremental")(engine.events()):
            writes.change(1)
        writes.change(6)
        engine.wait(_has_rows_of(database, "customers", "items"), "the end of its snapshot")
        _wait_for_last_window(database)
        writes.change(2)
        return engine.follow(SHOP)


def blocking(database: Database, folder: Path, seed: int = 1) -> list[Event]:
    """A blocking snapshot of some tables while rows change, then a schema change."""
    writes = Writes(database, seed)
    writes.create()
    with Debezium(database, folder, _SIGNALLED) as engine:
        engine.wait(_marked("last"), "the end of its snapshot")
        writes.change(4)
        writes.signal("blocking", "customers", "items")
        writes.change(6)
        engine.wait(_marked("last", 2), "the end of its second snapshot")
        writes.sql("ALTER TABLE customers ADD COLUMN phone VARCHAR(20)")
        writes.change(3)
        engine.follow(SHOP)
        writes.signal("blocking", "customers")
        return engine.wait(_marked("last", 3), "the end of its third snapshot") and engine.follow(SHOP)


def again(database: Database, folder: Path, seed: int = 1) -> list[Event]:
    """Snapshots onto tables that are there: rows and columns went in between, and once nothing did."""
    writes = Writes(database, seed)
    writes.create()
    with Debezium(database, folder, SETTINGS | {"snapshot.mode": "always"}) as engine:
        engine.wait(_marked("last"), "the end of its snapshot")
        writes.change(4)
        engine.follow(SHOP)
    writes.sql(
        "DELETE FROM customers ORDER BY id LIMIT 2; ALTER TABLE customers DROP COLUMN email, ADD COLUMN phone INT; "
    )
    writes.sql("DELETE FROM events LIMIT 1; DROP TABLE nothing")
    for times in (2, 3):
        with Debezium(database, folder, SETTINGS | {"snapshot.mode": "always"}) as engine:
            engine.wait(_marked("last", times), "the end of its snapshot")
    with Debezium(database, folder, SETTINGS | {"snapshot.mode": "always"}) as engine:
        engine.wait(_marked("last", 4), "the end of its snapshot")
        writes.sql("UPDATE customers SET phone = 5")
        return engine.follow(SHOP)


def recovered(database: Database, folder: Path, seed: int = 1) -> list[Event]:
    """The schema history is lost and read again, without rows."""
    writes = Writes(database, seed)
    writes.create()
    with Debezium(database, folder, SETTINGS) as engine:
        engine.wait(_marked("last"), "the end of its snapshot")
        writes.change(4)
        engine.follow(SHOP)
    (folder / "history").unlink()
    writes.change(4)
    with Debezium(database, folder, SETTINGS | {"snapshot.mode": "recovery"}) as engine:
        engine.wait(_marked("last", 2), "the end of its snapshot")
        writes.change(4)
        return engine.follow(SHOP)


def silent(database: Database, folder: Path, seed: int = 1) -> list[Event]:
    """No schema changes are sent, and no transactions."""
    settings = _SIGNALLED | {"include.schema.changes": "false", "provide.transaction.metadata": "false"}
    settings |= {"bigint.unsigned.handling.mode": "precise"}  # rows alone do not show that a column is unsigned
    writes = Writes(database, seed)
    writes.create()
    writes.sql("INSERT INTO nothing VALUES (1, 'x')")  # of a table without rows nothing is sent
    with Debezium(database, folder, settings) as engine:
        engine.wait(_marked("last"), "the end of its snapshot")
        writes.change(6)
        writes.signal("incremental", "items")
        engine.wait(_marked("incremental", 6), "an incremental snapshot")
        _wait_for_last_window(database)
        return engine.follow(SHOP)


HISTORIES = {
    history.__name__: history
    for history in (initial, streamed, killed, incremental, blocking, again, recovered, silent)
}
# Without a key, and read by more than one snapshot: with `consistency: key` its rows are there more than once.
TWICE = {"again": {"events"}}
SERVERS: dict[str, Callable[[], Database]] = {
    "mariadb": MariaDb,
    "mysql": MySql,
    "mysql-places": lambda: MySql(gtid=False),
}


def main(server: str, *names: str) -> None:
    """Records histories with what the tables are at their end."""
    DATA.mkdir(exist_ok=True)
    for name in names or HISTORIES:
        with SERVERS[server]() as database, tempfile.TemporaryDirectory() as folder:
            events = HISTORIES[name](database, Path(folder))
            recorded = {"events": events, "tables": content(database, SHOP)}
            with gzip.GzipFile(DATA / f"{server}-{name}.json.gz", "wb", mtime=0) as out:
                out.write(json.dumps(recorded).encode())
            print(f"{server}-{name}: {len(events)} records")


if __name__ == "__main__":
    main(*sys.argv[1:])
