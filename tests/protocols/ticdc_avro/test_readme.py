"""The README tells every option with its default, every type, every reason and every file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from changefeed import wire
from changefeed.protocols import ticdc_avro
from changefeed.protocols.ticdc_avro.schemas import _TYPES

FOLDER = Path(ticdc_avro.__file__).parent
TEXT = (FOLDER / "README.md").read_text()
SOURCES = [*sorted(FOLDER.glob("*.py")), *sorted((Path(str(wire.__file__)).parent / "avro").glob("*.py"))]


def shown(default: Any) -> str:
    if default in (None, ()):
        return "–"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


@pytest.mark.parametrize("field", msgspec.structs.fields(ticdc_avro.Options), ids=lambda f: f.encode_name)
def test_every_option_stands_there_with_its_default(field: Any) -> None:
    assert f"| `{field.encode_name}` | {shown(field.default)} |" in TEXT


@pytest.mark.parametrize("name, kind", [*_TYPES, ("DECIMAL", "bytes"), ("BIT", "bytes")])
def test_every_type_stands_there(name: str, kind: str) -> None:
    assert any(f"`{name}`" in line.split("|")[1] and kind in line for line in TEXT.splitlines() if line[:3] == "| `")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_every_reason_stands_there(path: Path) -> None:
    for reason in re.findall(r'reason="([a-z-]+)"', path.read_text()):
        assert f"`{reason}`" in TEXT, reason


@pytest.mark.parametrize("path", sorted(FOLDER.glob("[a-z]*.py")), ids=lambda p: p.stem)
def test_every_file_stands_there(path: Path) -> None:
    assert f"`{path.stem}`" in TEXT or path.stem == "options"
