"""Type numbers and flags."""

from __future__ import annotations

import pytest

from changefeed.errors import ProtocolError
from changefeed.mysql.type_codes import column_type, type_code, type_flags

CODES = [*range(1, 15), 15, 16, 225, *range(245, 255)]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("flags", [0, 1, 128, 129])
def test_a_type_leads_back_to_its_number(code: int, flags: int) -> None:
    sent = {14: 10, 253: 15}.get(code, code)
    assert type_code(column_type(code, flags)) == sent


@pytest.mark.parametrize(
    "code, flags, text",
    [
        (8, 0x80, "bigint unsigned"),
        (13, 0xC1, "year"),
        (16, 0xC1, "bit"),
        (15, 0x40, "varchar"),
        (15, 0x41, "varbinary"),
        (254, 0x41, "binary"),
        (252, 0x40, "text"),
        (252, 0x41, "blob"),
        (246, 0x80, "decimal unsigned"),
        (245, 0x41, "json"),
    ],
)
def test_flags_decide_the_name(code: int, flags: int, text: str) -> None:
    assert str(column_type(code, flags)) == text
    assert type_flags(column_type(code, flags)) & ~flags in (0, 1)


@pytest.mark.parametrize("code", [0, 17, 224, 244, 255, 256])
def test_an_unknown_number_is_refused(code: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        column_type(code, 0)
    assert (str(caught.value), caught.value.reason) == (f"column type {code} is unknown", "unknown-type")
