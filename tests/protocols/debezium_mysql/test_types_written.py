"""Foreign values of every type, written as the connector writes its own."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from changefeed.errors import UnsupportedError
from tests.protocols.debezium_mysql.records import C, D, change


@pytest.mark.parametrize(
    "t, value, options, schema, shown",
    [
        ("tinyint unsigned", 255, {}, '"int16","optional":true', "255"),
        ("smallint unsigned", 65535, {}, '"int32","optional":true', "65535"),
        ("mediumint unsigned", 1, {}, '"int32","optional":true', "1"),
        ("int unsigned", 2**32 - 1, {}, '"int64","optional":true', "4294967295"),
        ("bigint unsigned", 2**64 - 1, {}, '"int64","optional":true', "-1"),
        (
            "bigint unsigned",
            2**63,
            {"bigint.unsigned.handling.mode": "precise"},
            f'"bytes","optional":true,"name":"{C}Decimal","version":1,'
            '"parameters":{"scale":"0","connect.decimal.precision":"20"}',
            '"AIAAAAAAAAAA"',
        ),
        ("bit(1)", 1, {}, '"boolean","optional":true', "true"),
        (
            "bit(9)",
            0x1FF,
            {},
            f'"bytes","optional":true,"name":"{D}data.Bits","version":1,"parameters":{{"length":"9"}}',
            '"/wE="',
        ),
        ("float", 1.5, {}, '"float","optional":true', "1.5"),
        ("float(7,3)", 1234.5679931640625, {}, '"double","optional":true', "1234.5679931640625"),
        ("double", 1e100, {}, '"double","optional":true', "1.0E100"),
        ("decimal", "1.50", {}, '"string","optional":true', '"1.50"'),
        ("binary(3)", b"\xff\0\x10", {}, '"bytes","optional":true', '"/wAQ"'),
        ("binary(3)", b"\xff\0\x10", {"binary.handling.mode": "base64-url-safe"}, '"string","optional":true', '"_wAQ"'),
        ("binary(3)", b"\xff\0\x10", {"binary.handling.mode": "hex"}, '"string","optional":true', '"ff0010"'),
        (
            "varchar(9)",
            'a"\\\b\t\n\f\r\x01\x7f/<é🐟',
            {},
            '"string","optional":true',
            '"a\\"\\\\\\b\\t\\n\\f\\r\\u0001\x7f/<é\\uD83D\\uDC1F"',
        ),
        ("json", '{"a":1}', {}, f'"string","optional":true,"name":"{D}data.Json","version":1', '"{\\"a\\":1}"'),
        ("json", '{"a": 1}', {"connector": "mariadb"}, '"string","optional":true', '"{\\"a\\": 1}"'),
        ("year", 2018, {}, f'"int32","optional":true,"name":"{D}time.Year","version":1', "2018"),
        (
            "enum('a','e,f','\\')",
            "e,f",
            {},
            f'"string","optional":true,"name":"{D}data.Enum","version":1,"parameters":{{"allowed":"a,e\\\\,f,\\\\\\\\"}}',
            '"e,f"',
        ),
        ("date", 17702, {}, f'"int32","optional":true,"name":"{D}time.Date","version":1', "17702"),
        (
            "date",
            17702,
            {"time.precision.mode": "connect"},
            f'"int32","optional":true,"name":"{C}Date","version":1',
            "17702",
        ),
        (
            "date",
            17702,
            {"time.precision.mode": "isostring"},
            f'"string","optional":true,"name":"{D}time.IsoDate","version":1',
            '"2018-06-20Z"',
        ),
        (
            "time(4)",
            "-00:00:01.0001",
            {},
            f'"int64","optional":true,"name":"{D}time.MicroTime","version":1',
            "-1000100",
        ),
        (
            "time(3)",
            "10:20:30.123",
            {"time.precision.mode": "nanoseconds"},
            f'"int64","optional":true,"name":"{D}time.NanoTime","version":1',
            "37230123000000",
        ),
        (
            "time(3)",
            "10:20:30.123",
            {"time.precision.mode": "connect"},
            f'"int32","optional":true,"name":"{C}Time","version":1',
            "37230123",
        ),
        (
            "datetime(1)",
            1529456523900000,
            {},
            f'"int64","optional":true,"name":"{D}time.Timestamp","version":1',
            "1529456523900",
        ),
        ("datetime(4)", -100, {}, f'"int64","optional":true,"name":"{D}time.MicroTimestamp","version":1', "-100"),
        (
            "datetime(4)",
            -100,
            {"time.precision.mode": "connect"},
            f'"int64","optional":true,"name":"{C}Timestamp","version":1',
            "-1",
        ),
        (
            "datetime(1)",
            1529456523900000,
            {"time.precision.mode": "isostring"},
            f'"string","optional":true,"name":"{D}time.IsoTimestamp","version":1',
            '"2018-06-20T01:02:03.9Z"',
        ),
        (
            "timestamp(3)",
            1529456523500000,
            {},
            f'"string","optional":true,"name":"{D}time.ZonedTimestamp","version":1',
            '"2018-06-20T01:02:03.500Z"',
        ),
        (
            "vector(2)",
            [1.0, -2.5],
            {},
            f'"array","items":{{"type":"float","optional":false}},"optional":true,"name":"{D}data.FloatVector","version":1',
            "[1.0,-2.5]",
        ),
    ],
    ids=str,
)
def test_types_are_written_as_specified(t: str, value: Any, options: dict[str, str], schema: str, shown: str) -> None:
    assert change(t, value, **options) == (f'{{"type":{schema},"field":"v"}}', shown)


@pytest.mark.parametrize(
    "precision, value, shown",
    [
        ("(10,2)", "12345678.90", '"SZYC0g=="'),
        ("(10,2)", "0.00", '"AA=="'),
        ("(10,0)", "-1", '"/w=="'),
        ("(10,0)", "128", '"AIA="'),
        ("(10,2)", "99999999.99", '"AlQL4/8="'),
    ],
)
def test_decimals_are_written_as_specified(precision: str, value: str, shown: str) -> None:
    assert change("decimal" + precision, Decimal(value))[1] == shown
    assert change("decimal" + precision, Decimal(value), **{"decimal.format": "NUMERIC"})[1] == value
    assert change("decimal" + precision, Decimal(value), **{"decimal.handling.mode": "string"})[1] == f'"{value}"'


def test_a_geometry_that_is_not_null_is_not_optional() -> None:
    schema_text, _ = change("polygon", {"srid": 0, "wkb": b""}, nullable=False)
    assert '"optional":false,"name":"io.debezium.data.geometry.Geometry"' in schema_text


def test_decimals_as_doubles() -> None:
    assert change("decimal(10,2)", Decimal("12345678.90"), **{"decimal.handling.mode": "double"})[1] == "1.23456789E7"


def test_labels_leak_their_escapes_with_bug_compat() -> None:
    assert change("enum('a','e,f')", "e,f", **{"bug-compat": "true"})[1] == '"e\\\\,f"'
    assert change("set('a','b')", "a,b", **{"bug-compat": "true"})[1] == '"a,b"'


@pytest.mark.parametrize(
    "t, value, message",
    [
        ("enum", 1, "debezium-mysql cannot carry a column of type enum: its members are not known"),
        ("time", "-00:00:00", "debezium-mysql cannot carry a TIME of -00:00:00"),
        ("point", {"srid": 0, "wkb": b"x"}, "debezium-mysql cannot carry a point whose WKB is not that of a point"),
        ("bit(3)", 256, "debezium-mysql cannot carry 256 as bit(3)"),
    ],
)
def test_values_that_the_protocol_cannot_carry_are_refused(t: str, value: Any, message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        change(t, value)
    assert str(caught.value) == f"{message} (insert of d.t at e:0:7)"
