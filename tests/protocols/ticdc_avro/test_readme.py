"""The README lists every type."""

from __future__ import annotations

from pathlib import Path

import pytest

from changefeed.protocols import ticdc_avro
from changefeed.protocols.ticdc_avro.schemas import _TYPES

FOLDER = Path(ticdc_avro.__file__).parent
TEXT = (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("name, kind", [*_TYPES, ("DECIMAL", "bytes"), ("BIT", "bytes")])
def test_every_type_is_listed(name: str, kind: str) -> None:
    assert any(f"`{name}`" in line.split("|")[1] and kind in line for line in TEXT.splitlines() if line[:3] == "| `")
