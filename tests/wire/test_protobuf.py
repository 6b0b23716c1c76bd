"""This project's Protocol Buffers, compared with the protobuf package, and with bytes that are not messages."""

from __future__ import annotations

import pytest

from changefeed.errors import ProtocolError
from changefeed.wire.protobuf import UNKNOWN, Field, MessageDescriptor, read, varint, write, write_varint

INNER = MessageDescriptor("Inner", (Field(1, "text", "string"),))
OUTER = MessageDescriptor(
    "Outer",
    (
        Field(1, "small", "int32"),
        Field(2, "large", "uint64"),
        Field(3, "flag", "bool"),
        Field(4, "inner", INNER),
        Field(5, "several", INNER, most=3),
        Field(6, "data", "bytes"),
        Field(7, "place", "span"),
    ),
)


@pytest.mark.parametrize(
    "value, data",
    [(0, b"\0"), (127, b"\x7f"), (300, b"\xac\x02"), (2**64 - 1, b"\xff" * 9 + b"\x01"), (-1, b"\xff" * 9 + b"\x01")],
)
def test_numbers_both_ways(value: int, data: bytes) -> None:
    assert write_varint(value) == data
    assert varint(data, 0, len(data)) == (value % 2**64, len(data))


def test_messages_both_ways() -> None:
    members = {
        "small": -5,
        "large": 2**64 - 1,
        "flag": 1,
        "inner": {},
        "several": [{"text": "é"}, {}],
        "data": b"\0",
    }
    data = write(OUTER, members)
    assert data.hex() == "08fbffffffffffffffff0110ffffffffffffffffff01180122002a040a02c3a92a00320100"
    assert read(OUTER, data) == members


def test_zero_values_are_left_out_but_for_messages() -> None:
    assert write(OUTER, {"small": 0, "flag": False, "data": b"", "several": [], "inner": {}}) == b"\x22\0"


def test_a_span_is_a_place_in_the_whole() -> None:
    assert read(OUTER, b"..\x3a\x01x..", 2, 5) == {"place": (4, 5)}
    assert write(OUTER, {"place": b""}) == b"\x3a\0"


def test_unknown_fields_are_kept_verbatim() -> None:
    unknown = b"\xa0\x01\x80\x00" + b"\xa2\x01\x01x" + b"\xa5\x01abcd" + b"\xa1\x01abcdefgh"
    members = read(OUTER, unknown + b"\x18\x01")
    assert members == {"flag": 1, UNKNOWN: unknown}
    assert write(OUTER, members) == b"\x18\x01" + unknown


def test_unknown_fields_have_a_limit() -> None:
    assert len(read(OUTER, b"\xf8\x7f\x01" * 4096)[UNKNOWN]) == 3 * 4096
    with pytest.raises(ProtocolError) as caught:
        read(OUTER, b"\xf8\x7f\x01" * 4097)
    assert str(caught.value) == "Outer has more than 4096 unknown fields"


@pytest.mark.parametrize(
    "data, message, byte",
    [
        (b"\x08", "a number ends early", 1),
        (b"\x08\x80", "a number ends early", 1),
        (b"\x08" + b"\xff" * 10, "a number has more than 64 bits", 1),
        (b"\x10" + b"\xff" * 9 + b"\x02", "a number has more than 64 bits", 1),
        (b"\x08\x80\x80\x80\x80\x08", "Outer.small is 2147483648", 0),
        (b"\x18\x02", "Outer.flag is 2", 0),
        (b"\0\0", "field number 0 is not allowed", 0),
        (b"\xf8\xff\xff\xff\xff\x01\0", "field number 8589934591 is not allowed", 0),
        (b"\x0b", "field 1 has wire type 3", 0),
        (b"\x0c", "field 1 has wire type 4", 0),
        (b"\x0e", "field 1 has wire type 6", 0),
        (b"\x0a\0", "Outer.small has wire type 2", 0),
        (b"\x08\x01\x08\x01", "Outer.small occurs twice", 2),
        (b"\x22\x05abc", "field has 5 bytes, but only 3 are left", 2),
        (b"\x22" + b"\xff" * 9 + b"\x01", "field has 18446744073709551615 bytes, but only 0 are left", 11),
        (b"\x0d\0\0", "field has 4 bytes, but only 2 are left", 1),
        (b"\x22\x03\x0a\x01\xff", "Inner.text is not UTF-8", 4),
        (b"\x2a\0" * 4, "Outer has more than 3 several", 6),
    ],
)
def test_malformed_messages_are_refused_with_the_place(data: bytes, message: str, byte: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        read(OUTER, data)
    assert (str(caught.value), caught.value.byte) == (message, byte)


@pytest.mark.parametrize("members", [{"small": 2**31}, {"large": -1}, {"flag": "x"}, {"inner": {"text": "\ud800"}}])
def test_values_that_do_not_fit_are_not_written(members: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        write(OUTER, members)
