"""Runs of the command line into Delta whose server is stopped, or killed, and comes back: the tables end as the server's."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from changefeed.pipeline.ledger import read_ledger
from changefeed.sources.mysql.source_offset import SourceOffset, read
from tests.services.database import Database, MariaDb, MySql
from tests.sources.mysql.pipelines import load, tables

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("processes")]
_SECONDS = 180


@pytest.mark.parametrize("server", [MariaDb, MySql], ids=["mariadb", "mysql"])
def test_tables_after_the_server_was_away(server: type[Database], tmp_path: Path) -> None:
    with server() as database:
        database.execute(
            "CREATE DATABASE shop; USE shop; CREATE TABLE a (id INT PRIMARY KEY, v INT); CREATE TABLE b LIKE a;"
            f"INSERT INTO a VALUES {_values(0, 1500)}; INSERT INTO b VALUES {_values(0, 1500)}"
        )
        pipeline = load(tmp_path, database, **{"chunk-rows": 20, "max-records-per-batch": 100})
        ledger = read_ledger(pipeline.definition)

        def progress() -> SourceOffset | None:
            latest = ledger.latest()
            return None if latest is None or latest.state.source is None else read(latest.state.source)

        def copies() -> bool:
            at = progress()
            return at is not None and at.copy is not None

        def equal() -> bool:
            if copies():
                return False
            if progress() is None:
                return False
            copied = tables(pipeline, tmp_path)
            return all(
                {(str(row["id"]), str(row["v"])) for row in copied.get(f"shop.{name}", ())} == _selected(database, name)
                for name in ("a", "b")
            )

        with _following(tmp_path) as errors:
            _wait(copies, errors)
            database.kill()
            assert copies(), "the server was killed after the copy"
            _wait(equal, errors)
            with database.stopped():
                _wait(lambda: _retries(errors) >= 3, errors)
            database.execute(
                f"UPDATE a SET v = v + 1; INSERT INTO b VALUES {_values(2000, 2500)}; DELETE FROM b WHERE id < 9",
                "shop",
            )
            _wait(equal, errors)
            writer = Thread(target=_write, args=(database,))
            writer.start()
            time.sleep(3)
            database.kill()
            writer.join()
            database.execute("UPDATE b SET v = 0 WHERE id % 7 = 0", "shop")
            _wait(equal, errors)


def _values(start: int, end: int) -> str:
    return ", ".join(f"({n}, {n % 100})" for n in range(start, end))


def _selected(database: Database, name: str) -> set[tuple[str, ...]]:
    return {tuple(row) for row in database.selected(f"SELECT id, v FROM {name}", "shop")}


def _write(database: Database) -> None:
    """Writes small transactions until the server is killed."""
    statements = "".join(
        f"BEGIN; REPLACE INTO a VALUES ({n % 3000}, {n}); DELETE FROM b WHERE id = {n}; COMMIT;" for n in range(10**5)
    )
    with pytest.raises(RuntimeError, match=r"Lost connection|gone away|Can't connect|TLS/SSL error"):
        database.execute(statements, "shop")


@contextmanager
def _following(folder: Path) -> Iterator[Path]:
    """Runs the command until the end of the `with`; yields the file of its lines, which are JSON."""
    lines = folder / "lines"
    command = [sys.executable, "-m", "changefeed.cli", "run", str(folder / "pipeline.yaml"), "--json"]
    with lines.open("wb") as out:
        run = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield lines
        assert run.poll() is None, lines.read_text()
    finally:
        run.send_signal(signal.SIGINT)
        run.wait(60)


def _retries(lines: Path) -> int:
    written: list[dict[str, Any]] = [
        json.loads(line) for line in lines.read_text().splitlines() if line.startswith("{")
    ]
    return sum(line.get("event") == "retry" for line in written)


def _wait(condition: Callable[[], bool], lines: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline, lines.read_text()[-3000:]
        time.sleep(0.5)
