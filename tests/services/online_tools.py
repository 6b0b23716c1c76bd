"""gh-ost and pt-online-schema-change: the tools themselves, which change a table while it is written."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Event, Thread
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


def write_orders(server: Database, database: str, written: Event, failed: list[BaseException]) -> None:
    """Inserts, updates and deletes orders for a while, then sets `written`; `failed` gets what goes wrong."""
    random = Random(8)
    try:
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
    except BaseException as error:  # raised in the thread that waits
        failed.append(error)
    finally:
        written.set()


def write_altered_orders(server: Database, database: str) -> None:
    """Writes orders after `ALTERATION`."""
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


def change_by_gh_ost(server: Database, database: str, table: str, alteration: str, written: Event) -> None:
    """Changes a table by gh-ost, which reads the server's log, and swaps the tables in one statement.

    It does so when `written` is set: with writes at that moment, a row of the log was once not in its table. Now and then gh-ost
    copies no more rows, and never ends: then the test is skipped.
    """
    if server.connector == "mariadb":
        pytest.skip("gh-ost asks for variables that MariaDB does not have")
    with tempfile.TemporaryDirectory() as folder:
        flag = Path(folder) / "postponed"
        flag.touch()

        def go_on() -> None:
            written.wait(_SECONDS)
            flag.unlink()

        waiting = Thread(target=go_on)
        waiting.start()
        try:
            _run(
                _gh_ost(), "--host=127.0.0.1", f"--port={server.port}", "--user=dbz", "--password=dbz",
                f"--database={database}", f"--table={table}", f"--alter={alteration}", "--execute", "--allow-on-master",
                "--assume-rbr", "--ok-to-drop-table", f"--serve-socket-file={folder}/s", "--chunk-size=50",
                "--default-retries=30", f"--postpone-cut-over-flag-file={flag}",
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            pytest.skip(f"gh-ost did not end in {_SECONDS} seconds: {(error.stdout or b'').decode()[-300:]}")
        finally:
            written.set()
            waiting.join()


def change_by_pt_osc(server: Database, database: str, table: str, alteration: str, written: Event) -> None:
    """Changes a table by pt-online-schema-change, whose triggers write the new table."""
    program = shutil.which("pt-online-schema-change")
    if program is None:
        pytest.skip("pt-online-schema-change is in Debian's package percona-toolkit, which is not installed")
    _run(
        program, f"--alter={alteration}", "--execute", "--recursion-method=none", "--no-version-check", "--chunk-size=50",
        "--no-check-replication-filters", f"D={database},t={table},h=127.0.0.1,P={server.port},u=dbz,p=dbz",
    )  # fmt: skip


TOOLS: dict[str, Callable[[Database, str, str, str, Event], None]] = {
    "gh-ost": change_by_gh_ost,
    "pt-osc": change_by_pt_osc,
}


def _run(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    if ran.returncode != 0:
        raise RuntimeError(f"{command[0]}: {ran.stdout[-2000:]}\n{ran.stderr[-2000:]}")


def _gh_ost() -> str:
    """The program, as a requirement of another module: `go install` asks for a list of all versions."""
    return built(
        f"gh-ost-{_GH_OST}", {"go.mod": _MODULE, "tools.go": _IMPORT}, "github.com/github/gh-ost/go/cmd/gh-ost"
    )
