"""Confluent's header."""

from __future__ import annotations

import pytest

from changefeed.errors import ProtocolError, UnsupportedError
from changefeed.wire.confluent import header, open_datum


def test_header_has_the_magic_byte_and_the_id() -> None:
    assert header(7) == bytes.fromhex("0000000007")
    schema_id, cursor = open_datum(header(0xFFFFFFFF) + b"x", "value")
    assert (schema_id, cursor.at, cursor.left) == (0xFFFFFFFF, 5, 1)


@pytest.mark.parametrize(
    "data, error, reason, byte",
    [
        ("", "value ends 1 byte early", "truncated", 0),
        ("000000", "value ends 2 bytes early", "truncated", 1),
        ("0100000007", "value begins with the byte 01, expected 00", "bad-magic", 0),
    ],
)
def test_another_header_is_refused(data: str, error: str, reason: str, byte: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        open_datum(bytes.fromhex(data), "value")
    assert (str(caught.value), caught.value.reason, caught.value.byte) == (error, reason, byte)


def test_an_id_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        header(2**32)
    assert str(caught.value) == ("schema id 4294967296 does not fit the four bytes that Confluent's wire format has")
