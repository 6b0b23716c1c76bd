"""gh-ost and pt-online-schema-change: the tools themselves, which change a table while it is written."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from changefeed.spark_runtime import ivy
from tests.services.database import Database

_GH_OST = "1.1.6"
_SECONDS = 120
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


def change_by_gh_ost(server: Database, database: str, table: str, alteration: str) -> None:
    """Changes a table by gh-ost, which reads the server's log and swaps the tables in one statement."""
    with tempfile.TemporaryDirectory() as folder:
        _run(
            _gh_ost(), "--host=127.0.0.1", f"--port={server.port}", "--user=dbz", "--password=dbz", f"--database={database}",
            f"--table={table}", f"--alter={alteration}", "--execute", "--allow-on-master", "--assume-rbr", "--ok-to-drop-table",
            f"--serve-socket-file={folder}/s", "--chunk-size=50", "--default-retries=30",
        )  # fmt: skip


def change_by_pt_osc(server: Database, database: str, table: str, alteration: str) -> None:
    """Changes a table by pt-online-schema-change, whose triggers write the new table."""
    program = shutil.which("pt-online-schema-change")
    if program is None:
        pytest.skip("pt-online-schema-change is in Debian's package percona-toolkit, which is not installed")
    _run(
        program, f"--alter={alteration}", "--execute", "--recursion-method=none", "--no-version-check", "--chunk-size=50",
        "--no-check-replication-filters", f"D={database},t={table},h=127.0.0.1,P={server.port},u=dbz,p=dbz",
    )  # fmt: skip


def _run(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    if ran.returncode != 0:
        raise RuntimeError(f"{command[0]}: {ran.stdout[-2000:]}\n{ran.stderr[-2000:]}")


def _gh_ost() -> str:
    """The program, built with Go if it is not in the cache of the Spark jars."""
    program = ivy.cache_folder() / "tools" / f"gh-ost-{_GH_OST}"
    if not program.is_file():
        if shutil.which("go") is None:
            pytest.skip("gh-ost is built with Go, which is not installed")
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            # as a requirement of another module: `go install` asks for a list of all versions
            (Path(folder) / "go.mod").write_text(_MODULE)
            (Path(folder) / "tools.go").write_text(_IMPORT)
            built = Path(folder) / "built"
            subprocess.run(
                ["go", "build", "-o", str(built), "github.com/github/gh-ost/go/cmd/gh-ost"],
                cwd=folder, env=os.environ | {"GOFLAGS": "-mod=mod"}, check=True, capture_output=True,
            )  # fmt: skip
            shutil.copy(built, program.with_suffix(f".{os.getpid()}"))
            program.with_suffix(f".{os.getpid()}").rename(program)
    return str(program)
