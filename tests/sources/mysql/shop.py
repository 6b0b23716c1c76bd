"""Tables with keys of several types, which are written while they are copied."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from threading import Event

from changefeed.sources.mysql.connection import Address, connect
from tests.services.database import Database

ROWS = 600
# keys that a collation orders and compares in its own way
TABLES: dict[str, tuple[str, Callable[[Random], str]]] = {
    "numbers": ("id INT PRIMARY KEY", lambda r: str(r.randrange(2 * ROWS))),
    "names": (
        "id VARCHAR(12) COLLATE utf8mb4_general_ci PRIMARY KEY",
        lambda r: f"'{r.choice('aAbBzZéÉ_')}{r.randrange(ROWS)}'",
    ),
    "latin": ("id CHAR(8) CHARACTER SET latin1 PRIMARY KEY", lambda r: f"'{r.choice('aÄß')}{r.randrange(ROWS)}'"),
    "days": (
        "id DATETIME(3) PRIMARY KEY",
        lambda r: f"'2026-01-01 {r.randrange(24):02}:{r.randrange(60):02}:00.{r.randrange(9)}'",
    ),
}
# keys of several columns, the first of which repeat
COMPOSITE: dict[str, tuple[str, str, Callable[[int], str]]] = {
    "pairs": ("a INT, b INT", "a, b", lambda i: f"{i // 150}, {i}"),
    "members": (
        "a ENUM('x', 'y', 'z'), b INT, c VARCHAR(9) COLLATE utf8mb4_general_ci",
        "a, c DESC, b",
        lambda i: f"{1 + i % 2}, {i}, '{'aAéÉ'[i % 4]}{i % 7}'",
    ),
}


def filled(database: Database) -> None:
    """Creates the tables, with rows."""
    created = [f"CREATE TABLE {name} ({key}, v INT)" for name, (key, _) in TABLES.items()]
    created += [
        f"CREATE TABLE {name} ({columns}, v INT, PRIMARY KEY ({key}))" for name, (columns, key, _) in COMPOSITE.items()
    ]
    database.execute("CREATE DATABASE shop CHARACTER SET utf8mb4; USE shop; " + "; ".join(created))
    random = Random(1)
    for name, (_, key) in TABLES.items():
        values = ", ".join(f"({key(random)}, {i})" for i in range(ROWS))
        database.execute(f"REPLACE INTO {name} VALUES {values}", "shop")
    for name, (_, _, row) in COMPOSITE.items():
        values = ", ".join(f"({row(i)}, {i})" for i in range(ROWS))
        database.execute(f"INSERT INTO {name} VALUES {values}", "shop")


def selected(database: Database, name: str) -> set[tuple[str, ...]]:
    """The rows of a table, as the server's client prints them."""
    shown = "CONVERT(id USING utf8mb4), v" if name in ("names", "latin") else "*"
    rows = database.selected(f"SELECT {shown} FROM {name}", "shop")
    assert rows
    return {tuple(row) for row in rows}


def writing(database: Database, stop: Event) -> Callable[[], None]:
    """Writes rows of all tables until it is stopped: new ones, changed ones, moved keys, deletes."""

    def write() -> None:
        random = Random(2)
        connection = connect(Address("127.0.0.1", database.port, "dbz", "dbz"))
        with connection.cursor() as cursor:
            cursor.execute("USE shop")
            while not stop.is_set():
                name = random.choice(list(TABLES))
                old, new = TABLES[name][1](random), TABLES[name][1](random)
                cursor.execute(f"REPLACE INTO {name} VALUES ({new}, {random.randrange(10**6)})")
                cursor.execute(f"UPDATE IGNORE {name} SET id = {old}, v = v + 1 WHERE id = {new}")
                cursor.execute(f"DELETE FROM {name} WHERE id = {old} AND v % 3 = 0")
                a, b = random.randrange(6), random.randrange(ROWS)
                cursor.execute(f"UPDATE IGNORE pairs SET a = {a}, v = v + 1 WHERE b = {b}")
                cursor.execute(f"UPDATE IGNORE members SET a = {1 + a % 3}, c = 'B{a}', v = v + 1 WHERE b = {b}")
                stop.wait(0.005)
        connection.close()

    return write
