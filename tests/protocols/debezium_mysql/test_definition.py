"""Values whose type was inferred from their JSON alone, converted to the type that DDL declares."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from changefeed.columnar.conversions import ByColumn
from changefeed.columnar.events import Row, in_order
from changefeed.errors import SchemaError
from changefeed.model.types import NAMES, ColumnType
from changefeed.model.values import IrregularError, writer
from changefeed.protocols import protocol
from changefeed.protocols.base import Redefine
from tests.model.strategies import column_types
from tests.model.strategies import values as values_of
from tests.protocols.conformance.cases import stores
from tests.protocols.conformance.typed import MORE, fits, one_update, redefined, written_or_refusal
from tests.protocols.debezium_mysql.arriving import arriving

ADAPTIVE = {"time.precision.mode": "adaptive_time_microseconds"}
NOON_MS, NOON_US, HEX = 1_764_000_000_123, 1_764_000_000_123_456, "00112233445566778899aabbccddeeff"
KEEP_TEXT = "; to keep such texts as they are, leave the topic of schema changes out of the source"


def redefining(options: dict[str, Any]) -> Redefine:
    connector = protocol("debezium-mysql")
    assert connector.redefine is not None
    return connector.redefine(connector.read_options(options))


@pytest.mark.parametrize("mode", ["bytes", "base64", "hex"])
@pytest.mark.parametrize(
    "defined, value, wanted",
    [
        ("varbinary(20)", "\x00ÿab", "AP9hYg=="),
        ("blob", "Ã¼", "w7w="),
        ("binary(4)", "abcd", "YWJjZA=="),
        ("binary(3)", "a", "YQAA"),
    ],
)
def test_text_of_a_column_with_the_character_set_binary_is_bytes(
    defined: str, value: str, wanted: str, mode: str
) -> None:
    t = ColumnType.parse(defined)
    change = redefining({"binary.handling.mode": mode})(ColumnType("varchar"), t, "binary")
    assert writer(t)(change(value)) == {"base64": wanted}
    with pytest.raises(IrregularError):
        change("€")


@pytest.mark.parametrize(
    "defined, value, why",
    [
        ("datetime(6)", NOON_MS,
         "1764000000123 is ambiguous: 1970-01-21 10:00:00.000123 in µs, or 2025-11-24 16:00:00.123 in ms"),
        ("datetime(6)", NOON_US * 1000, "1764000000123456000 does not fit datetime(6)"),
        ("datetime(3)", NOON_US, "1764000000123456 does not fit datetime(3)"),
        ("datetime", NOON_US * 1000, "1764000000123456000 does not fit datetime"),
        ("time", 36_000_001, "36000001 does not fit time"),
        ("time(3)", 36_000_001, "36000001 does not fit time(3)"),
        ("time(6)", 36_000_000_000_000, "36000000000000 does not fit time(6)"),
    ],
)  # fmt: skip
def test_a_number_of_another_mode_asks_for_the_mode(defined: str, value: int, why: str) -> None:
    """Connectors in other modes, read without schemas and without the option: rows were NULL, or in January of 1970."""
    t = ColumnType.parse(defined)
    change = redefining({})(ColumnType("bigint"), t)
    with pytest.raises(SchemaError) as error:
        change(value)
    assert str(error.value) == f'{why}; is "time.precision.mode" right?'
    if isinstance(change, ByColumn):
        assert change.column(pa.array([NOON_US, value])) is None


@pytest.mark.parametrize(
    "defined, value, expected",
    [
        ("datetime(6)", 0, "1970-01-01 00:00:00.000000"),
        ("datetime(6)", 86_399_999_999, "1970-01-01 23:59:59.999999"),
        ("datetime(6)", NOON_US, "2025-11-24 16:00:00.123456"),
        ("datetime", 1_764_000_000_000, "2025-11-24 16:00:00"),
        ("time", -36_000_000, "-00:00:36"),
    ],
)
def test_other_numbers_are_of_the_default_mode(defined: str, value: int, expected: str) -> None:
    t = ColumnType.parse(defined)
    assert writer(t)(redefining({})(ColumnType("bigint"), t)(value)) == expected


def test_once_the_mode_is_set_it_is_believed() -> None:
    t = ColumnType.parse("datetime(6)")
    assert writer(t)(redefining(ADAPTIVE)(ColumnType("bigint"), t)(NOON_MS)) == "1970-01-21 10:00:00.000123"
    blob = ColumnType.parse("blob")
    assert len(redefining({"binary.handling.mode": "bytes"})(ColumnType("varchar"), blob)(HEX)) == 24
    assert len(redefining({"binary.handling.mode": "hex"})(ColumnType("varchar"), blob)(HEX)) == 16


@pytest.mark.parametrize("defined", ["binary(16)", "varbinary(16)", "varbinary(255)", "blob"])
def test_text_that_may_be_hex_asks_for_the_mode(defined: str) -> None:
    """UUIDs in `binary.handling.mode=hex` are valid base64 of 24 other bytes."""
    change = redefining({})(ColumnType("varchar"), ColumnType.parse(defined))
    with pytest.raises(SchemaError) as error:
        change(HEX)
    assert str(error.value) == f"'{HEX}' is ambiguous: hex, or base64 of 24 bytes; is \"binary.handling.mode\" right?"


@pytest.mark.parametrize(
    "defined, text", [("binary(6)", "deadbeef"), ("blob", "dead"), ("blob", "deadbeeF"), ("blob", "")]
)
def test_text_that_is_base64_is_bytes(defined: str, text: str) -> None:
    t = ColumnType.parse(defined)
    assert redefining({})(ColumnType("varchar"), t)(text) == base64.b64decode(text)


@pytest.mark.parametrize(
    "inferred, defined, value, options, expected",
    [
        ("bigint", "bigint unsigned", -1, {}, 18446744073709551615),
        ("int", "int unsigned", -1, {}, 4294967295),
        ("bigint", "int unsigned", -2147483648, {"bigint.unsigned.handling.mode": "precise"}, 2147483648),
        ("bigint", "bigint unsigned", 7, {"bigint.unsigned.handling.mode": "precise"}, 7),
        ("varchar", "bigint unsigned", "AP//////////", {"bigint.unsigned.handling.mode": "precise"}, 2**64 - 1),
        ("decimal(20,0)", "bigint unsigned", "18446744073709551615", {}, 2**64 - 1),
        ("boolean", "tinyint(1)", True, {}, 1),
        ("boolean", "bit(1)", True, {}, 1),
        ("smallint", "tinyint unsigned", 255, {}, 255),
        ("bigint", "year", 2155, {}, 2155),
        ("bigint", "date", -1, {}, "1969-12-31"),
        ("varchar", "date", "2018-06-20Z", {"time.precision.mode": "isostring"}, "2018-06-20"),
        ("varchar", "date", "2018-06-20Z", {}, "2018-06-20"),
        ("varchar", "date", "2018-06-20", {"time.precision.mode": "isostring"}, "2018-06-20"),
        ("varchar", "date", "2018-06-20+05:30", {}, "2018-06-20"),
        ("varchar", "time(3)", "-01:02:03.5", {}, "-01:02:03.500"),
        ("varchar", "time", "07:08:09+05:30", {}, "01:38:09"),
        ("varchar", "time", "07:08:09Z", {}, "07:08:09"),
        ("varchar", "datetime(3)", "2024-05-06 07:08:09.123", {}, "2024-05-06 07:08:09.123"),
        ("varchar", "datetime", "2024-05-06T07:08:09+05:30", {}, "2024-05-06 01:38:09"),
        ("varchar", "timestamp", "2024-05-06 07:08:09+0530", {}, "2024-05-06T01:38:09Z"),
        ("varchar", "timestamp", "2024-05-06 07:08:09", {"time-zone": "Asia/Shanghai"}, "2024-05-05T23:08:09Z"),
        ("varchar", "int", "-42", {}, -42),
        ("varchar", "year", "2024", {}, 2024),
        ("varchar", "double", "1e10", {}, 1e10),
        ("varchar", "float", "0.5", {}, 0.5),
        ("varchar", "decimal(10,2)", "12.5", {}, "12.50"),
        ("varchar", "decimal(10,2)", "-3", {}, "-3.00"),
        ("int", "date", 20001, {}, "2024-10-05"),
        ("smallint", "datetime(3)", 20, {}, "1970-01-01 00:00:00.020"),
        ("varbinary", "decimal(10,2)", b"\x04\xd2", {"decimal.handling.mode": "double"}, "12.34"),
        ("varbinary", "bit(10)", b"\x01\x01", {}, 257),
        ("datetime(3)", "timestamp(3)", 20_000, {}, "1970-01-01T00:00:00.020Z"),
        ("bigint", "datetime(1)", 1529456523900, {}, "2018-06-20 01:02:03.9"),
        ("bigint", "datetime(4)", -100, {}, "1969-12-31 23:59:59.9999"),
        ("bigint", "datetime(4)", -1, {"time.precision.mode": "connect"}, "1969-12-31 23:59:59.9990"),
        ("bigint", "datetime", 10**6, {"time.precision.mode": "microseconds"}, "1970-01-01 00:00:01"),
        ("bigint", "datetime(6)", 1_001_000, {"time.precision.mode": "nanoseconds"}, "1970-01-01 00:00:00.001001"),
        ("varchar", "datetime", "2018-06-20T01:02:03Z", {"time.precision.mode": "isostring"}, "2018-06-20 01:02:03"),
        ("varchar", "timestamp(3)", "2018-06-20T01:02:03.5Z", {}, "2018-06-20T01:02:03.500Z"),
        ("timestamp", "timestamp(6)", 10**6, {}, "1970-01-01T00:00:01.000000Z"),
        ("bigint", "time(4)", -1_000_100, {}, "-00:00:01.0001"),
        ("bigint", "time(6)", 86_400_000, {"time.precision.mode": "connect"}, "24:00:00.000000"),
        ("bigint", "time", 10**9, {"time.precision.mode": "nanoseconds"}, "00:00:01"),
        ("varchar", "time(6)", "10:20:30.123Z", {"time.precision.mode": "isostring"}, "10:20:30.123000"),
        ("time(6)", "time(3)", "-00:00:01.500000", {}, "-00:00:01.500"),
        ("varchar", "decimal(10,2)", "SZYC0g==", {}, "12345678.90"),
        ("varchar", "decimal(10,2)", "12345678.90", {"decimal.handling.mode": "string"}, "12345678.90"),
        ("varchar", "decimal(5,0)", "1234", {"decimal.handling.mode": "string"}, "1234"),
        ("varchar", "decimal(10,0)", "1234", {"decimal.handling.mode": "precise"}, "-2658824"),
        ("double", "decimal(10,2)", 1.23456789e7, {"decimal.handling.mode": "double"}, "12345678.90"),
        ("decimal", "decimal(65,30)", "0", {"decimal.format": "NUMERIC"}, "0." + "0" * 30),
        ("bigint", "decimal(12,4)", 3, {"decimal.format": "NUMERIC"}, "3.0000"),
        ("double", "float", 0.1, {}, 0.1),
        ("double", "float(7,3)", 1234.5679931640625, {}, 1234.568),
        ("bigint", "double", 3, {}, 3.0),
        ("varchar", "varbinary(5)", "AP8Q", {}, {"base64": "AP8Q"}),
        ("varchar", "blob", "-_8=", {"binary.handling.mode": "base64-url-safe"}, {"base64": "+/8="}),
        ("varchar", "blob", "00fF10", {"binary.handling.mode": "hex"}, {"base64": "AP8Q"}),
        ("varchar", "binary(5)", "YWI=", {}, {"base64": "YWIAAAA="}),
        ("varbinary", "binary(5)", b"ab", {}, {"base64": "YWIAAAA="}),
        ("varchar", "bit(33)", "AQAAAAE=", {}, 2**32 + 1),
        ("varchar", "enum('a','e,f')", "e\\,f", {}, "e,f"),
        ("varchar", "set('a','b')", "a,b", {}, "a,b"),
        ("varchar", "json", '{"a":1}', {"connector": "mariadb"}, '{"a":1}'),
        ("varchar", "longtext", '{"a":1}', {"connector": "mariadb"}, '{"a":1}'),
        ("varchar", "char(36)", "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee", {}, "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"),
        ("json", "vector(2)", "[]", {}, []),
        ("json", "polygon", '{"wkb":"AQI=","srid":null}', {}, {"srid": 0, "wkb": "AQI="}),
    ],
)
def test_a_value_is_converted_to_its_declared_type(
    inferred: str, defined: str, value: Any, options: dict[str, Any], expected: Any
) -> None:
    t = ColumnType.parse(defined)
    assert writer(t)(redefining(options)(ColumnType.parse(inferred), t)(value)) == expected


@pytest.mark.parametrize(
    "inferred, defined, value, options, error, message",
    [
        ("varchar", "decimal(10,0)", "1234", {}, SchemaError,
         "'1234' is ambiguous: a number, or base64 of -2658824; is \"decimal.handling.mode\" right?"),
        ("varchar", "decimal(10,2)", "SZYC0g==", {"decimal.handling.mode": "string"}, SchemaError,
         "'SZYC0g==' is not a decimal; is \"decimal.handling.mode\" right?"),
        ("varchar", "bigint unsigned", "AA==", {}, SchemaError,
         '"AA==" is not an int64; is "bigint.unsigned.handling.mode" right?'),
        ("bigint", "datetime(3)", 0, {"time.precision.mode": "isostring"}, SchemaError,
         '0 is not a string; is "time.precision.mode" right?'),
        ("varchar", "date", "06/20/2018", {}, SchemaError, f"'06/20/2018' is not a date{KEEP_TEXT}"),
        ("varchar", "datetime", "today", {"time.precision.mode": "isostring"}, SchemaError,
         f"'today' is not a date and time{KEEP_TEXT}"),
        ("varchar", "timestamp", "2018-06-20 01:02:03", {}, SchemaError,
         "'2018-06-20 01:02:03' has no offset from UTC; set the option \"time-zone\""),
        ("varchar", "timestamp", "2026-03-29 02:30:00", {"time-zone": "Europe/Berlin"}, IrregularError,
         "'2026-03-29 02:30:00' does not exist in Europe/Berlin"),
        ("varchar", "datetime(1)", "2018-06-20 01:02:03.25", {}, IrregularError,
         "'2018-06-20 01:02:03.250000' has more than 1 fraction digits"),
        ("varchar", "int unsigned", "-5", {}, IrregularError, "-5 does not fit int unsigned"),
        ("varbinary", "date", b"x", {}, SchemaError, "a column of type date cannot take values of type varbinary"),
        ("varchar", "blob", "0g", {"binary.handling.mode": "hex"}, SchemaError,
         "'0g' is not hex; is \"binary.handling.mode\" right?"),
        ("varchar", "blob", "+/8=", {"binary.handling.mode": "base64-url-safe"}, SchemaError,
         "'+/8=' is not URL-safe base64; is \"binary.handling.mode\" right?"),
        ("varchar", "int", "x", {}, SchemaError, f"'x' is not an integer{KEEP_TEXT}"),
        ("varchar", "timestamp", "yesterday", {}, SchemaError, f"'yesterday' is not a date and time{KEEP_TEXT}"),
        ("bigint", "text", 5, {}, SchemaError, "5 is not a string"),
        ("date", "int", 5, {}, SchemaError, "a column of type int cannot take values of type date"),
        ("int", "mediumint unsigned", -1, {}, IrregularError, "-1 does not fit mediumint unsigned"),
        ("bigint", "int unsigned", -2147483649, {}, IrregularError, "-2147483649 does not fit int unsigned"),
        ("bigint", "bigint unsigned", -1, {"bigint.unsigned.handling.mode": "precise"}, IrregularError,
         "-1 does not fit bigint unsigned"),
        ("bigint", "tinyint", 128, {}, IrregularError, "128 does not fit tinyint"),
        ("bigint", "date", 10**7, {}, IrregularError, "10000000 does not fit date"),
        ("bigint", "datetime(3)", 10**15, ADAPTIVE, IrregularError, "1000000000000000 does not fit datetime(3)"),
        ("bigint", "datetime", 1500, {}, IrregularError,
         "'1970-01-01 00:00:01.500000' has more than 0 fraction digits"),
        ("bigint", "datetime(6)", 1, {"time.precision.mode": "nanoseconds"}, IrregularError, "1 does not fit datetime(6)"),
        ("bigint", "time", 10**13, ADAPTIVE, IrregularError, "10000000000000 does not fit time"),
        ("time(6)", "time(1)", "00:00:01.550000", {}, IrregularError, "'00:00:01.550000' has more than 1 fraction digits"),
        ("varchar", "timestamp", "10000-01-01T00:00:00Z", {}, IrregularError, "'10000-01-01T00:00:00Z' does not fit timestamp"),
        ("double", "decimal(3,2)", 123.5, {}, IrregularError, "123.5 does not fit decimal(3,2)"),
        ("double", "decimal(3,2)", 123.5, {"decimal.handling.mode": "double"}, IrregularError,
         "'123.50' does not fit decimal(3,2)"),
        ("double", "float", 0.12345678901, {}, IrregularError, "0.12345678901 does not fit float"),
        ("bigint", "double", 2**53 + 1, {}, IrregularError, "9007199254740993 does not fit double"),
        ("double", "decimal(3,2)", float("inf"), {}, IrregularError, "inf does not fit decimal(3,2)"),
        ("varchar", "enum('a')", "b", {}, IrregularError, "'b' does not fit enum('a')"),
        ("varchar", "set('a','b')", "a,c", {}, IrregularError, "'a,c' does not fit set('a','b')"),
        ("varchar", "bit(9)", "/w8=", {}, IrregularError, "4095 does not fit bit(9)"),
    ],
)  # fmt: skip
def test_a_value_that_is_wrong_or_too_large_for_its_declared_type_is_an_error(
    inferred: str, defined: str, value: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        redefining(options)(ColumnType.parse(inferred), ColumnType.parse(defined))(value)
    assert str(caught.value) == message


# Each option of the types at least once.
MODES: list[dict[str, str]] = [
    {},
    {"decimal.format": "NUMERIC", "bigint.unsigned.handling.mode": "precise", "binary.handling.mode": "base64"},
    {"decimal.handling.mode": "string", "bigint.unsigned.handling.mode": "precise", "time.precision.mode": "isostring"},
    {"decimal.handling.mode": "double", "time.precision.mode": "connect", "binary.handling.mode": "hex"},
    {"time.precision.mode": "microseconds", "binary.handling.mode": "base64-url-safe", "connector": "mariadb"},
    {"time.precision.mode": "nanoseconds"},
]


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("modes", MODES, ids=lambda modes: "-".join(modes.values()) or "defaults")
@pytest.mark.parametrize("name", sorted(NAMES - {"null"}))
@settings(MORE, max_examples=8)
@given(data=st.data())
def test_values_without_schema_come_back_under_their_type(
    modes: dict[str, str], name: str, data: st.DataObject
) -> None:
    full = data.draw(column_types(name))
    sent = [data.draw(st.none() | values_of(full)) for _ in range(2)]
    assume(full.members is None or fits(full, tuple(sent)))
    assume(modes.get("time.precision.mode") != "nanoseconds" or name != "datetime" or in_nanoseconds(sent))
    connector = protocol("debezium-mysql")
    options = connector.read_options(modes | {"schemas.enable": "false"})
    written = written_or_refusal(connector, options, one_update(full, *sent))
    if isinstance(written, str):
        return
    (row,) = in_order(connector.decoder(options, stores(options)).decode(written))
    assert isinstance(row, Row)
    believed = ADAPTIVE | {"binary.handling.mode": "bytes"} | modes  # random values may look like those of another mode
    change = redefining(believed)(row.shape.by_name["v"].type, full)
    for image, value in zip((row.before, row.after), sent, strict=True):
        assert image is not None
        kept = None if image["v"] is None else redefined(change, image["v"])
        assert (None if kept is None else writer(full)(kept)) == arriving(full, value, modes)


def in_nanoseconds(values: list[Any]) -> bool:
    return all(value is None or abs(value) < 2**63 // 1000 for value in values)
