"""Each protocol's README lists every option with its default, every reason and every file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from changefeed import connect
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import RegistryOptions
from tests.protocols.conformance.cases import folder

INHERITED = {field.name for field in msgspec.structs.fields(RegistryOptions)}

CONNECT = Path(connect.__path__[0])

pytestmark = pytest.mark.parametrize("name", PROTOCOLS)


def readme(name: str) -> str:
    return (folder(name) / "README.md").read_text()


def shown(default: Any) -> str:
    if default in (None, ()):
        return "–"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_every_option_is_listed_with_its_default(name: str) -> None:
    text, options = readme(name), protocol(name).options
    inherited = INHERITED if issubclass(options, RegistryOptions) else set()
    for field in msgspec.structs.fields(options):
        assert field.name in inherited or f"| `{field.encode_name}` | {shown(field.default)} |" in text


def test_every_reason_is_listed(name: str) -> None:
    text, paths = readme(name), [*folder(name).rglob("*.py")]
    if any("changefeed.connect" in path.read_text() for path in paths):
        paths += CONNECT.glob("*.py")
    for path in sorted(paths):
        for reason in re.findall(r'reason="([a-z-]+)"', path.read_text()):
            assert f"`{reason}`" in text, (path.name, reason)


def test_every_file_is_listed(name: str) -> None:
    text = readme(name)
    for path in sorted(folder(name).rglob("[a-z]*.py")):
        assert f"`{path.stem}`" in text or path.stem == "options", path.name
