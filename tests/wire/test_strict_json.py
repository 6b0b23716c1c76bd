"""JSON from outside: exact and bounded; every error is a `ProtocolError`."""

from __future__ import annotations

import pytest

from changefeed.errors import ProtocolError
from changefeed.wire.strict_json import REPLACED, Number, read


def test_numbers_keep_their_text() -> None:
    assert read(b"[18446744073709551615,-0,1.50,1e400]", "x") == [
        Number("18446744073709551615"),
        Number("-0"),
        Number("1.50"),
        Number("1e400"),
    ]


def test_a_number_differs_from_a_string() -> None:
    assert [type(value) for value in read(b'[1,"1"]', "x")] == [Number, str]


def test_the_last_of_duplicate_members_wins() -> None:
    assert read(b'{"ohk":true,"ohk":false}', "x") == {"ohk": False}
    assert read(b'{"a":{"t":1,"t":2}}', "x", pairs=True) == (("a", (("t", Number("1")), ("t", Number("2")))),)


def test_duplicate_members_can_be_refused() -> None:
    assert read(b'{"a":{"b":1},"b":2}', "x", unique=True) == {"a": {"b": Number("1")}, "b": Number("2")}
    with pytest.raises(ProtocolError) as caught:
        read(b'{"a":{"b":1,"c":1,"b":2}}', "row", unique=True)
    assert (str(caught.value), caught.value.reason) == ("row has the member 'b' twice", "bad-json")


def test_bytes_that_are_not_utf8_survive() -> None:
    assert read(b'"a\xff\xc3"', "x").encode("utf-8", "surrogateescape") == b"a\xff\xc3"


def test_surrogate_pairs_are_characters() -> None:
    assert read(rb'"\ud83d\udc1f \\ud800"', "x") == "🐟 \\ud800"


def test_the_escaped_replacement_character_is_marked() -> None:
    assert read(rb'"\ufffd \\ufffd "' + b"", "x") == f"{REPLACED} \\ufffd "
    assert read('"\ufffd"'.encode(), "x") == "\ufffd"


@pytest.mark.parametrize(
    "data, message, byte",
    [
        (b"", "row is not JSON: expecting value", 0),
        (b"{} {}", "row is not JSON: extra data", 3),
        (b'{"v":NaN}', "row is not JSON: NaN is not allowed", 0),
        (b"[-Infinity]", "row is not JSON: -Infinity is not allowed", 0),
        (b'["\xc3\xa9" 1]', "row is not JSON: expecting ',' delimiter", 6),
        (b'["\xff" 1]', "row is not JSON: expecting ',' delimiter", 5),
        (rb'["\ufffd" 1]', "row is not JSON: expecting ',' delimiter", 10),
        (rb'["\ud800"]', r"row has half of a surrogate pair: \ud800", 2),
        (rb'["\udc80"]', r"row has half of a surrogate pair: \udc80", 2),
        (b"\xef\xbb\xbf{}", "row is not JSON: expecting value", 0),
        (b"[" * 100_000 + b"]" * 100_000, "row is nested too deeply", 0),
        (b'"a\nb"', "row is not JSON: invalid control character", 2),
    ],
)
def test_the_error_of_malformed_json_names_the_fault(data: bytes, message: str, byte: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        read(data, "row")
    assert (str(caught.value), caught.value.reason, caught.value.byte) == (message, "bad-json", byte)


def test_a_number_of_a_million_digits_is_text() -> None:
    assert len(read(b"9" * 1_000_000, "x")) == 1_000_000
