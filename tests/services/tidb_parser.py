"""TiDB's own parser: statements as TiCDC sends them; see `tidb_parser.go`."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.services.go_program import built

_VERSION = "v0.0.0-20260418072757-ce92298d1124"
_MODULE = f"module tools\ngo 1.25\nrequire github.com/pingcap/tidb/pkg/parser {_VERSION}\n"
_SOURCE = Path(__file__).with_suffix(".go")


class TidbParser:
    """A process of the parser."""

    def __enter__(self) -> TidbParser:
        self._process = subprocess.Popen([_program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def read(self, text: str, database: str) -> list[dict[str, str]] | None:
        """The events that TiCDC sends for a statement, with `database`, `table` and `query`; None if TiDB refuses it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"text": text, "database": database}).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return None if answer["error"] else answer["sent"] or []


def _program() -> str:
    source = _SOURCE.read_text()
    version = hashlib.sha256((source + _MODULE).encode()).hexdigest()[:12]
    return built(f"tidb-parser-{version}", {"go.mod": _MODULE, "main.go": source}, ".")
