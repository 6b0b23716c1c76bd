"""gh-ost and pt-online-schema-change: the tools themselves, which change a table while it is written."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest

from tests.live.session import Session
from tests.services.database import Database
from tests.services.go_program import built

ALTERATION = "ADD COLUMN note VARCHAR(20) DEFAULT 'none' AFTER status, MODIFY n BIGINT UNSIGNED, DROP COLUMN gone"
COLUMNS = ["id", "status", "note", "n"]
"""Of the table `orders`, after `ALTERATION`."""

_GH_OST = "1.1.6"
_SECONDS = 200
_WRITES = 150
_MODULE = f"""\
module tools
go 1.21
require github.com/github/gh-ost v{_GH_OST}
"""
_IMPORT = """\
//go:build tools
package tools
import _ "github.com/github/gh-ost/go/cmd/gh-ost"
"""


def create_orders(server: Database, database: str) -> None:
    """Creates the table `orders`, with 300 rows, in a new database."""
    rows = ", ".join(f"({i}, 'old', {i}, {i})" for i in range(1, 301))
    server.execute(
        f"CREATE DATABASE {database} CHARACTER SET latin1; USE {database}; CREATE TABLE orders (id INT UNSIGNED PRIMARY KEY, "
        f"status VARCHAR(9), n INT, gone INT) CHARACTER SET utf8mb4; INSERT INTO orders VALUES {rows}"
    )


def alter_while_written(server: Database, database: str, tool: str) -> None:
    """Alters the table `orders` by a tool, one of `TOOLS`, while orders are written, and writes some more afterwards."""
    TOOLS[tool](server, database, partial(_write_orders, server, database))
    server.execute(
        f"USE {database}; UPDATE orders SET n = n + 1 WHERE id % 3 = 0; DELETE FROM orders WHERE id % 7 = 0;"
        "INSERT INTO orders (id, status, note, n) VALUES (5000, 'late', 'ж', 9223372036854775807)"
    )


def check_orders(actual: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """Asserts that rows of a pipeline are those of the server after `ALTERATION`, with its columns in their order."""
    assert list(actual[0]) == COLUMNS
    texts = [{name: None if value is None else str(value) for name, value in row.items()} for row in actual]
    assert sorted(texts, key=repr) == sorted(wanted, key=repr)
    assert len(wanted) > 200


def _alter_by_gh_ost(server: Database, database: str, write: Callable[[], None]) -> None:
    """Alters `orders` by gh-ost, which reads the server's log, and swaps the tables in one statement.

    gh-ost makes a file when it has begun to read the log, and swaps no tables while the file is there: orders are written between
    the two. With writes at the moment of the swap, a row of the log was once not in its table.
    """
    if server.connector == "mariadb":
        pytest.skip("gh-ost asks for variables that MariaDB does not have")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        flag, ended = Path(folder) / "postponed", Event()

        def write_before_the_swap() -> None:
            while not (flag.exists() or ended.wait(0.1)):
                pass
            try:
                write()
            finally:
                flag.unlink(missing_ok=True)

        writing = pool.submit(write_before_the_swap)
        try:
            _run(
                _gh_ost(), "--host=127.0.0.1", f"--port={server.port}", "--user=dbz", "--password=dbz",
                f"--database={database}", "--table=orders", f"--alter={ALTERATION}", "--execute", "--allow-on-master",
                "--assume-rbr", "--ok-to-drop-table", f"--serve-socket-file={folder}/s", "--chunk-size=50",
                "--default-retries=30", f"--postpone-cut-over-flag-file={flag}",
            )  # fmt: skip
        finally:
            ended.set()
        writing.result()


def _alter_by_pt_osc(server: Database, database: str, write: Callable[[], None]) -> None:
    """Alters `orders` by pt-online-schema-change, whose triggers write the new table."""
    program = shutil.which("pt-online-schema-change")
    if program is None:
        pytest.skip("pt-online-schema-change is in Debian's package percona-toolkit, which is not installed")
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        _run(
            program, f"--alter={ALTERATION}", "--execute", "--recursion-method=none", "--no-version-check", "--chunk-size=50",
            "--no-check-replication-filters", f"D={database},t=orders,h=127.0.0.1,P={server.port},u=dbz,p=dbz",
        )  # fmt: skip
        writing.result()


TOOLS: dict[str, Callable[[Database, str, Callable[[], None]], None]] = {
    "gh-ost": _alter_by_gh_ost,
    "pt-osc": _alter_by_pt_osc,
}


def _write_orders(server: Database, database: str) -> None:
    """Inserts, updates and deletes orders for a while."""
    random = Random(8)
    with Session(server) as session:
        for key in range(1001, 1001 + _WRITES):
            for statement in (
                f"INSERT INTO {database}.orders (id, status, n) VALUES ({key}, 'new', {random.randrange(10**6)})",
                f"UPDATE {database}.orders SET n = n + 1, status = 'é' WHERE id = {random.randrange(1, key)}",
                f"DELETE FROM {database}.orders WHERE id = {random.randrange(1, key)}",
            ):
                error = session.execute(statement)
                if error is not None and "try restarting" not in error:
                    raise RuntimeError(f"{error} at {statement}")


def _run(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    if ran.returncode != 0:
        raise RuntimeError(f"{command[0]}: {ran.stdout[-2000:]}\n{ran.stderr[-2000:]}")


def _gh_ost() -> str:
    """The program, as a requirement of another module: `go install` asks for a list of all versions."""
    return built(
        f"gh-ost-{_GH_OST}", {"go.mod": _MODULE, "tools.go": _IMPORT}, "github.com/github/gh-ost/go/cmd/gh-ost"
    )
