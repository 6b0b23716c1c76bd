"""The README lists every type."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from changefeed.mysql.type_codes import column_type
from changefeed.protocols import ticdc_open

FOLDER = Path(ticdc_open.__file__).parent
TEXT = (FOLDER / "README.md").read_text()


@pytest.mark.parametrize("code", [*range(1, 17), 225, *range(245, 255)])
def test_every_type_is_listed(code: int) -> None:
    lines = [line for line in TEXT.splitlines() if re.match(rf"\| [^|]*\b{code}\b", line)]
    for flags in (0, 1):
        assert any(column_type(code, flags).name in line for line in lines)
