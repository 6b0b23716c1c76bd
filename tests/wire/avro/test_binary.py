"""Avro's binary form: read and written, and compared with fastavro, an independent implementation."""

from __future__ import annotations

import io
import json
import math
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.errors import ProtocolError, SchemaError, UnsupportedError
from changefeed.wire.avro import parse, read_decimal, reader, write_decimal, writer
from changefeed.wire.cursor import Cursor

EVERY = {
    "type": "record",
    "name": "Every",
    "fields": [
        {"name": "n", "type": "null"},
        {"name": "b", "type": "boolean"},
        {"name": "i", "type": "int"},
        {"name": "l", "type": "long"},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "y", "type": "bytes"},
        {"name": "s", "type": "string"},
        {"name": "x", "type": {"type": "fixed", "name": "X", "size": 3}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "u", "type": ["null", "string"]},
        {"name": "w", "type": ["long", "null"]},
        {"name": "a", "type": {"type": "array", "items": "int"}},
        {"name": "m", "type": {"type": "map", "values": "long"}},
        {"name": "r", "type": {"type": "record", "name": "R", "fields": [{"name": "i", "type": "X"}]}},
    ],
}
LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
DATA = st.fixed_dictionaries(
    {
        "n": st.none(),
        "b": st.booleans(),
        "i": INTS,
        "l": LONGS,
        "f": st.floats(width=32, allow_nan=False),
        "d": st.floats(allow_nan=False),
        "y": st.binary(),
        "s": st.text(),
        "x": st.binary(min_size=3, max_size=3),
        "e": st.sampled_from(["A", "B"]),
        "u": st.none() | st.text(),
        "w": st.none() | LONGS,
        "a": st.lists(INTS),
        "m": st.dictionaries(st.text(), LONGS),
        "r": st.fixed_dictionaries({"i": st.binary(min_size=3, max_size=3)}),
    }
)


def written(schema: Any, value: Any) -> bytes:
    out = bytearray()
    writer(parse(json.dumps(schema)))(value, out)
    return bytes(out)


def read(schema: Any, data: bytes) -> Any:
    cursor = Cursor(data, "value")
    value = reader(parse(json.dumps(schema)))(cursor)
    cursor.finish()
    return value


@given(DATA)
def test_every_type_is_read_and_written_as_fastavro_does(value: dict[str, Any]) -> None:
    peer = io.BytesIO()
    fastavro.schemaless_writer(peer, fastavro.parse_schema(EVERY), value)
    assert written(EVERY, value) == peer.getvalue()
    assert read(EVERY, peer.getvalue()) == value


@given(DATA, st.data())
def test_truncated_values_are_refused(value: dict[str, Any], data: st.DataObject) -> None:
    whole = written(EVERY, value)
    at = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ProtocolError):
        read(EVERY, whole[:at])


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = read(EVERY, data)
    except ProtocolError:
        return
    if not any(math.isnan(value[name]) for name in "fd"):
        assert read(EVERY, written(EVERY, value)) == value


@pytest.mark.parametrize(
    "schema, data, error, reason, byte",
    [
        ("long", "", "value ends 1 byte early", "truncated", 0),
        ("long", "8080", "value ends 1 byte early", "truncated", 2),
        ("long", "8000", "value has no integer of 64 bits in its shortest form", "bad-varint", 0),
        ("long", "ff" * 9 + "02", "value has no integer of 64 bits in its shortest form", "bad-varint", 0),
        ("long", "ff" * 10, "value has no integer of 64 bits in its shortest form", "bad-varint", 0),
        ("int", "ffffffff1f", "value has no integer of 32 bits in its shortest form", "bad-varint", 0),
        ("boolean", "02", "02 is not a boolean", "schema", 0),
        ("string", "01", "value has a length of -1", "bad-length", 0),
        ("string", "0861", "value ends 3 bytes early", "truncated", 1),
        ("bytes", "feffffffffffffffff01", "value ends 9223372036854775807 bytes early", "truncated", 10),
        (["null", "int"], "04", "union has 2 branches, but the value has number 2", "schema", 0),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "02", "E has 1 symbols, but the value has number 1", "schema", 0),
        ({"type": "array", "items": "int"}, "fe0f00", "value ends before all of its 1023 items", "truncated", 2),
        ({"type": "array", "items": "int"}, "01040200", "value has a block with a wrong size", "bad-length", 1),
        ({"type": "map", "values": "int"}, "0402610202610400", "map has 'a' twice", "schema", 4),
        ("int", "0200", "value continues after its end for 1 byte", "trailing-bytes", 1),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "record", "name": "S", "fields": [
                {"name": "b", "type": "boolean"}]}}]},
            "07",
            "07 is not a boolean - at `a.b`",
            "schema",
            0,
        ),
    ],
    ids=str,
)  # fmt: skip
def test_the_error_names_the_place(schema: Any, data: str, error: str, reason: str, byte: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        read(schema, bytes.fromhex(data))
    assert (str(caught.value), caught.value.reason, caught.value.byte) == (error, reason, byte)


def test_a_negative_count_carries_the_size_of_its_block() -> None:
    assert read({"type": "array", "items": "int"}, bytes.fromhex("0304020400")) == [1, 2]


def test_a_string_keeps_bytes_that_are_not_utf8() -> None:
    assert read("string", b"\x06a\xffb") == "a\udcffb"
    assert written("string", "a\udcffb") == b"\x06a\xffb"


@pytest.mark.parametrize(
    "schema, value, error",
    [
        ("int", 2**31, "2147483648 is not an integer of 32 bits"),
        ("long", True, "True is not an integer of 64 bits"),
        ("float", 1e300, "1e+300 is not a float"),
        ("string", b"a", "b'a' is not a string"),
        ("string", "\ud800", "'\\ud800' is not a string that UTF-8 can encode"),
        ("boolean", None, "None is not a boolean"),
        ({"type": "fixed", "name": "F", "size": 2}, b"a", "b'a' is not 2 bytes"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "'B' is not a symbol of E"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]},
            {"a": "x"},
            "'x' is not an integer of 32 bits - at `a`",
        ),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]},
            {"b": 1},
            "{'b': 1} is not a record with the fields of R",
        ),
    ],
)
def test_a_value_of_another_type_is_refused(schema: Any, value: Any, error: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        written(schema, value)
    assert str(caught.value) == error


@given(st.integers(-(10**76) + 1, 10**76 - 1), st.integers(0, 30))
def test_a_decimal_comes_back(number: int, scale: int) -> None:
    value = Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
    data = write_decimal(value, scale)
    assert (read_decimal(data, scale), len(data)) == (
        value,
        max(1, ((abs(number) - (number < 0)).bit_length() // 8 + 1)),
    )


@pytest.mark.parametrize(
    "text, data", [("0", "00"), ("-0.01", "ff"), ("1.28", "0080"), ("-1.28", "80"), ("-1.29", "ff7f")]
)
def test_a_decimal_has_the_fewest_bytes(text: str, data: str) -> None:
    assert write_decimal(Decimal(text), 2).hex() == data
    assert read_decimal(bytes.fromhex(data), 2) == Decimal(text)


@pytest.mark.parametrize(
    "data, error",
    [
        ("", "decimal has 0 bytes, expected 1 to 34"),
        ("00" * 35, "decimal has 35 bytes, expected 1 to 34"),
        ("007f", "007f is not a decimal in its shortest form"),
        ("ff80", "ff80 is not a decimal in its shortest form"),
    ],
)
def test_a_decimal_of_another_form_is_refused(data: str, error: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read_decimal(bytes.fromhex(data), 2)
    assert str(caught.value) == error


def test_a_decimal_with_more_digits_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        write_decimal(Decimal("1.234"), 2)
    assert str(caught.value) == "1.234 has more than 2 digits after the point"
