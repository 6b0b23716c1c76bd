"""The README beside the protocol is true."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from changefeed.protocols import debezium_mysql
from changefeed.protocols.base import RegistryOptions
from changefeed.protocols.debezium_mysql.options import Options

FOLDER = Path(debezium_mysql.__file__).parent
README = (FOLDER / "README.md").read_text()


def test_every_option_is_there_with_its_default() -> None:
    inherited = {f.name for f in msgspec.structs.fields(RegistryOptions)}
    for f in msgspec.structs.fields(Options):
        if f.name not in inherited:
            assert f"`{f.encode_name}`" in README, f.encode_name
            shown = {True: "true", False: "false"}.get(f.default, f.default) if f.default is not None else None
            row = next(line for line in README.splitlines() if line.startswith("| `") and f"`{f.encode_name}`" in line)
            assert shown is None or f"`{shown}`" in row, f.encode_name


def test_every_file_is_named() -> None:
    named = set(re.findall(r"`(\w+)`", README.split("## Files", 1)[1].split("## Types", 1)[0]))
    assert {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "options"} <= named
