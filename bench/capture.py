"""Measures what reading a binary log costs: this project's source, and the package `mysql-replication` on the same log.

    python -m bench.capture [--server mariadb] [--rows 100000] [--transaction 1000] [--debezium] [--out FILE]

A table of ten columns gets `--rows` inserts in transactions of `--transaction` rows. CPU seconds are those of this process;
the server's are not counted. `chunks` is everything that a task does: connection, log, rows, Arrow columns, and the payload
that the pipeline keeps; with the kernel if it is installed, and without it. `plan` is the driver's part. `mysql-replication`
ends with a dict of Python values for each row, which is less; it loses its connection to MariaDB again and again, and is
measured on MySQL alone. `records` is an event pipeline on the same log: JSON without schemas, as Debezium's, appended to record
logs on the disk. With `--debezium` the engine reads the log in a JVM, whose CPU seconds include its start, and makes
JSON without schemas, which is thrown away.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from changefeed.api.events import EventPipeline
from changefeed.sources.mysql import open_changes, reader
from changefeed.sources.mysql.reader import read
from changefeed.sources.mysql.section import MySqlSource
from tests.services.database import Database, MariaDb, MySql
from tests.services.debezium import MARKER, Debezium

JAVA_OPTIONS = ["-Xmx1g"]  # of Debezium's engine; the JVM chooses the others
ENGINE_SECONDS = 3600.0  # at most
ENGINE_SETTINGS = {
    "database.include.list": "shop", "table.include.list": rf"shop\\.(t\\d+|orders|{MARKER})",
    "value.converter.schemas.enable": "false", "converter.schemas.enable": "false", "provide.transaction.metadata": "false",
    "include.schema.changes": "false", "tombstones.on.delete": "false", "poll.interval.ms": "500",
    "offset.flush.interval.ms": "60000",
}  # fmt: skip
_SERVERS: dict[str, type[Database]] = {"mariadb": MariaDb, "mysql": MySql}
_TABLE = """CREATE DATABASE shop; USE shop;
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer INT, total DECIMAL(12,2), state VARCHAR(20), created DATETIME(3),
updated TIMESTAMP NULL, note VARCHAR(100), kind ENUM('a','b','c'), ratio DOUBLE, flag TINYINT);
CREATE TABLE digits (d INT PRIMARY KEY); INSERT INTO digits VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9);
CREATE TABLE numbers (n INT PRIMARY KEY);
INSERT INTO numbers SELECT a.d + 10 * b.d + 100 * c.d FROM digits a, digits b, digits c; FLUSH LOGS;
"""
_INSERT = """INSERT INTO orders SELECT {first} + n, n * 7, n / 7, CONCAT('state ', n % 5), '2026-01-02 03:04:05.123',
'2026-01-02 03:04:05', CONCAT('a note on the order ', n), ELT(1 + n % 3, 'a', 'b', 'c'), n / 3, n % 100 FROM numbers
WHERE n < {count};"""


def main() -> None:
    """Prints a line for each reader."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--server", choices=_SERVERS, default="mariadb")
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--transaction", type=int, default=1000, help="rows of a transaction, 1000 at most")
    options.add_argument(
        "--debezium", action="store_true", help="on MariaDB: the connector for MySQL has no such snapshot.mode"
    )
    options.add_argument("--out", type=Path)
    chosen = options.parse_args()
    lines = [f"{chosen.server}, {chosen.rows:,} rows in transactions of {chosen.transaction:,}"]
    with _SERVERS[chosen.server]() as database:
        database.execute(_TABLE)
        file = database.binlogs()[-1].name
        steps = range(0, chosen.rows, chosen.transaction)
        database.execute(
            "USE shop; " + "".join(_INSERT.format(first=first, count=chosen.transaction) for first in steps)
        )
        lines.append(f"log: {database.binlogs()[-1].stat().st_size / chosen.rows:.0f} bytes a row")
        lines += _ours(database, file, chosen.rows)
        lines.append(_line("records", _measured(lambda: _records(database, file)), chosen.rows))
        if chosen.server == "mysql":
            lines.append(_line("mysql-replication", _measured(lambda: _peer(database, file, chosen.rows)), chosen.rows))
        if chosen.debezium:
            lines.append(_line("Debezium's engine", _debezium(database, chosen.rows), chosen.rows))
    print("\n".join(lines))
    if chosen.out:
        chosen.out.write_text("\n".join(lines) + "\n")


def _line(name: str, measured: tuple[float, float, int], rows: int) -> str:
    cpu, seconds, count = measured
    if count != rows:
        sys.exit(f"{name} has read {count:,} rows")
    return f"{name:20} {cpu:7.2f} CPU s {seconds:7.2f} s {cpu / rows * 1e6:6.1f} µs a row"


def _measured(work: Callable[[], int]) -> tuple[float, float, int]:
    cpu, clock = time.process_time(), time.monotonic()
    count = work()
    return time.process_time() - cpu, time.monotonic() - clock, count


def _section(database: Database, file: str) -> dict[str, Any]:
    return {
        "type": "mysql", "host": "127.0.0.1", "port": database.port, "user": "dbz", "password": "dbz", "tables": ["shop.orders"],
        "snapshot.mode": "no_data", "starting-position": f"{file}:4",
    }  # fmt: skip


def _ours(database: Database, file: str, rows: int) -> list[str]:
    section = {**_section(database, file), "max-bytes-per-batch": 2**30}
    source = open_changes(MySqlSource.model_validate(section))
    plans: list[Any] = []

    def plan() -> int:
        plans.append(source.plan(None, None))
        return rows

    def chunks() -> int:
        """Counts the rows of all chunks; they are read by the kernel, if `reader.is_available` finds it."""
        counted = 0
        for part in plans[0].parts:
            for batch in read(plans[0].reading, part):
                kinds = batch.select(["kind", "rows"]).to_pylist()
                counted += sum(chunk["rows"] for chunk in kinds if chunk["kind"] == "rows")
        return counted

    lines = [_line("plan", _measured(plan), rows), _line("chunks", _measured(chunks), rows)]
    with mock.patch.object(reader, "is_available", return_value=False):
        lines.append(_line("chunks, in Python", _measured(chunks), rows))
    source.close()
    return lines


def _records(database: Database, file: str) -> int:
    protocol = {
        "name": "debezium-mysql", "connector": database.connector, "topic.prefix": "srv", "schemas.enable": False,
        "tombstones.on.delete": False,
    }  # fmt: skip
    source = _section(database, file)
    with tempfile.TemporaryDirectory() as folder:
        definition = {
            "source": source,
            "sink": {"type": "files", "path": "events", "protocol": protocol},
            "pipeline": {"name": "capture", "folder": "state"},
        }
        return EventPipeline.from_dict(definition, base=folder).run().rows


def _peer(database: Database, file: str, rows: int) -> int:
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.row_event import WriteRowsEvent

    stream = BinLogStreamReader(
        connection_settings={"host": "127.0.0.1", "port": database.port, "user": "dbz", "passwd": "dbz"},
        server_id=4711, log_file=file, log_pos=4, only_events=[WriteRowsEvent], only_tables=["orders"],
        resume_stream=True,
    )  # fmt: skip
    count = 0
    for event in stream:
        count += len(event.rows)
        if count >= rows:  # at the end of the log it may begin again
            break
    stream.close()
    return count


def _debezium(database: Database, rows: int) -> tuple[float, float, int]:
    with tempfile.TemporaryDirectory() as folder:
        settings = ENGINE_SETTINGS | {"snapshot.mode": "never"}
        clock = time.monotonic()
        with Debezium(database, Path(folder), settings, written=MARKER, java_options=JAVA_OPTIONS) as engine:
            count = engine.follow("shop", ENGINE_SECONDS)[-1].get("skipped", 0)
            spent = psutil.Process(engine.pid).cpu_times()
        return spent.user + spent.system, time.monotonic() - clock, count


if __name__ == "__main__":
    main()
