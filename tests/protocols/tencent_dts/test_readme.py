"""The README tells every option with its default, every type, every character set, every reason and every file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from changefeed.model.types import NAMES
from changefeed.protocols import tencent_dts
from changefeed.wire import charsets, protobuf

FOLDER = Path(tencent_dts.__file__).parent
TEXT = (FOLDER / "README.md").read_text()
CODE = [*sorted(FOLDER.glob("*.py")), Path(protobuf.__file__)]


def shown(default: Any) -> str:
    if default in (None, ()):
        return "–"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


@pytest.mark.parametrize("field", msgspec.structs.fields(tencent_dts.Options), ids=lambda f: f.encode_name)
def test_every_option_stands_there_with_its_default(field: Any) -> None:
    assert f"| `{field.encode_name}` | {shown(field.default)} |" in TEXT


@pytest.mark.parametrize("name", sorted(NAMES - {"boolean", "null", "vector"}))
def test_every_type_stands_there(name: str) -> None:
    kinds = {"point", "linestring", "polygon", "geometrycollection"}
    name = "geometry" if name in kinds or name.startswith("multi") else name
    assert re.search(rf"^\| [^|]*\b{name}\b", TEXT, re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in charsets.NAMES if name != charsets.BINARY])
def test_every_character_set_stands_there(name: str) -> None:
    assert re.search(rf"\b{name}\b", TEXT)


@pytest.mark.parametrize("path", CODE, ids=lambda p: p.name)
def test_every_reason_stands_there(path: Path) -> None:
    for reason in re.findall(r'reason="([a-z-]+)"', path.read_text()):
        assert f"`{reason}`" in TEXT, reason


@pytest.mark.parametrize("path", sorted(FOLDER.glob("[a-z]*.py")), ids=lambda p: p.stem)
def test_every_file_stands_there(path: Path) -> None:
    assert f"`{path.stem}`" in TEXT or path.stem == "options"
