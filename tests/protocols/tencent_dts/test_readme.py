"""The README lists every type and every character set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from changefeed.model.types import NAMES
from changefeed.mysql import charsets
from changefeed.protocols import tencent_dts

FOLDER = Path(tencent_dts.__file__).parent
TEXT = (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("name", sorted(NAMES - {"boolean", "null", "vector"}))
def test_every_type_is_listed(name: str) -> None:
    kinds = {"point", "linestring", "polygon", "geometrycollection"}
    name = "geometry" if name in kinds or name.startswith("multi") else name
    assert re.search(rf"^\| [^|]*\b{name}\b", TEXT, re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in charsets.NAMES if name != charsets.BINARY])
def test_every_character_set_is_listed(name: str) -> None:
    assert re.search(rf"\b{name}\b", TEXT)
