"""The README lists every type."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from changefeed.protocols import ticdc_debezium
from changefeed.protocols.ticdc_debezium import types

FOLDER = Path(ticdc_debezium.__file__).parent
TEXT = (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("name", sorted(set(types._DECLARED_TYPES.values()) | types._REFINES.keys()))
def test_every_type_is_listed(name: str) -> None:
    assert re.search(rf"^\|.*\b{name.partition('(')[0]}\b", TEXT, re.MULTILINE)
