"""The README tells every option with its default, every type and every reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from changefeed.protocols import ticdc_open
from changefeed.wire.mysql import column_type

FOLDER = Path(ticdc_open.__file__).parent
TEXT = (FOLDER / "README.md").read_text()


def shown(default: Any) -> str:
    if default in (None, ()):
        return "–"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


@pytest.mark.parametrize("field", msgspec.structs.fields(ticdc_open.Options), ids=lambda f: f.encode_name)
def test_every_option_stands_there_with_its_default(field: Any) -> None:
    assert f"| `{field.encode_name}` | {shown(field.default)} |" in TEXT


@pytest.mark.parametrize("code", [*range(1, 17), 225, *range(245, 255)])
def test_every_type_stands_there(code: int) -> None:
    lines = [line for line in TEXT.splitlines() if re.match(rf"\| [^|]*\b{code}\b", line)]
    for flags in (0, 1):
        assert any(column_type(code, flags).name in line for line in lines)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.name)
def test_every_reason_stands_there(path: Path) -> None:
    for reason in re.findall(r'reason="([a-z-]+)"', path.read_text()):
        assert f"`{reason}`" in TEXT, reason


@pytest.mark.parametrize("path", sorted(FOLDER.glob("[a-z]*.py")), ids=lambda p: p.stem)
def test_every_file_stands_there(path: Path) -> None:
    assert f"`{path.stem}`" in TEXT or path.stem == "options"
