"""A session with a server: one client process that is sent statements, one after the other.

A client of its own for each statement would cost more than most statements, and would lose what a session keeps: its
database, its modes, its transaction. The client continues after an error (`--force`), and a marker follows every statement,
so the output between two markers is one statement's.
"""

from __future__ import annotations

import os
import select
import subprocess
from types import TracebackType

from tests.services.database import Database

_MARKER = "@@statement-ended@@"
_SECONDS = 10  # for one statement
_SET = "SET sql_mode='"
_ESCAPES = {"n": "\n", "t": "\t", "0": "\0", "\\": "\\"}


class Session:
    """A session of the user `root`; see the head of this file."""

    def __init__(self, database: Database, modes: str = "") -> None:
        """`modes` are modes of SQL, with commas, that each `SET sql_mode` of the session has besides its own."""
        self._database, self._modes = database, modes
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Session:
        self._process = subprocess.Popen(
            self._database.client("--force", "--unbuffered", "--skip-column-names", "--comments"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, bufsize=0,
        )  # fmt: skip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait(timeout=60)
            self._process.stdout.close()
            self._process = None

    def execute(self, statement: str) -> str | None:
        """Executes one statement; returns the server's error, or None."""
        return next((line for line in self._lines(statement) if line.startswith("ERROR ")), None)

    def query(self, statement: str) -> list[list[str]]:
        """The rows of a SELECT as texts; NULL is `NULL`, as the client prints it.

        Raises:
            RuntimeError: the server has refused it.
        """
        lines = self._lines(statement)
        error = next((line for line in lines if line.startswith("ERROR ")), None)
        if error is not None:
            raise RuntimeError(f"{error} at {statement[:500]}")
        return [[_unescaped(field) for field in line.split("\t")] for line in lines]

    def _lines(self, statement: str) -> list[str]:
        """The output of a statement."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._modes and statement.startswith(_SET):
            statement = f"{_SET}{self._modes},{statement.removeprefix(_SET)}"
        self._process.stdin.write(f"{statement}\n;\nSELECT '{_MARKER}';\n".encode())
        self._process.stdin.flush()
        output = b""
        while not output.endswith(_MARKER.encode() + b"\n"):
            if not select.select([self._process.stdout], [], [], _SECONDS)[0]:
                raise RuntimeError(f"no answer for {_SECONDS} s, {output[-300:]!r} so far, at {statement[:2000]}")
            part = os.read(self._process.stdout.fileno(), 2**20)
            if not part:
                raise RuntimeError(f"the client has ended, {output[-300:]!r} at {statement[:2000]}")
            output += part
        return output.decode(errors="replace").split("\n")[:-2]


def _unescaped(field: str) -> str:
    if "\\" not in field:
        return field
    parts, at = [], 0
    while at < len(field):
        if field[at] == "\\" and at + 1 < len(field):
            parts.append(_ESCAPES.get(field[at + 1], field[at + 1]))
            at += 2
        else:
            parts.append(field[at])
            at += 1
    return "".join(parts)
