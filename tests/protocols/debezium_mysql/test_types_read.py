"""Values of every type, with and without a schema; values that a type cannot hold, and unusual spellings."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from changefeed.model import text
from changefeed.model.types import ColumnType
from changefeed.protocols.debezium_mysql.options import Options
from changefeed.protocols.debezium_mysql.redefine import redefine
from tests.protocols.debezium_mysql.records import (
    DIGITS,
    C,
    D,
    bytes_of,
    decode,
    encode,
    errors,
    record,
    rows,
    schema,
    value,
    with_schema,
)


def one(field: str, content: str, **options: Any) -> tuple[str, Any, dict[str, str], dict[str, str]]:
    """Type, canonical value, irregular and `sent` of a column; asserts that the record comes back as it was."""
    sent = record(None, with_schema(field, content))
    changes = decode(sent, **options)
    assert errors(changes) == []
    assert bytes_of(encode(changes, **options)) == [sent]
    shape, row = (json.loads(line) for line in text.lines(changes))
    (again,) = text.parse(text.lines(changes))
    assert bytes_of(encode(again, **options)) == [sent]
    return shape["columns"][0]["type"], row["after"]["v"], row["irregular"], row["origin"].get("sent", {})


POINT = (
    '"type":"struct","fields":[{"type":"double","field":"x"},{"type":"double","field":"y"},'
    f'{{"type":"bytes","field":"wkb"}},{{"type":"int32","field":"srid"}}],"name":"{D}data.geometry.Point"'
)
WKB = "AQEAAAAAAAAAAADwPwAAAAAAABBA"


@pytest.mark.parametrize(
    "field, content, t, shown",
    [
        (schema("int16"), "-128", "smallint", -128),
        (schema("int32"), "16777215", "int", 16777215),
        (schema("int64"), "-1", "bigint", -1),
        (schema("boolean"), "true", "boolean", True),
        (schema("float"), "3.14159", "float", 3.14159),
        (schema("double"), "1.6777217E7", "double", 16777217.0),
        (schema("double"), "1.0E-38", "double", 1e-38),
        (schema("double"), "4.9E-324", "double", 5e-324),
        (schema("double"), '"NaN"', "double", "NaN"),
        (schema("string"), '"\\uD83D\\uDC1F\\u0001/é"', "varchar", "🐟\x01/é"),
        (schema("bytes"), '"AP8="', "varbinary", {"base64": "AP8="}),
        (schema("bytes", f"{D}data.Bits", '"length":"12"'), '"Awg="', "bit(12)", 0x803),
        (schema("bytes", f"{D}data.Bits", '"length":"33"'), '"AQAAAAE="', "bit(33)", 2**32 + 1),
        (schema("bytes", f"{C}Decimal", DIGITS % (2, 10)), '"SZYC0g=="', "decimal(10,2)", "12345678.90"),
        (schema("bytes", f"{C}Decimal", DIGITS % (0, 20)), '"AP//////////"', "decimal(20,0)", str(2**64 - 1)),
        (schema("bytes", f"{C}Decimal", '"scale":"2"'), '"/w=="', "decimal", "-0.01"),
        (schema("string", f"{D}data.Enum", '"allowed":"a,e\\\\,f,it\'s"'), '"e,f"', "enum('a','e,f','it''s')", "e,f"),
        (schema("string", f"{D}data.EnumSet", '"allowed":"x,y,z"'), '"x,z"', "set('x','y','z')", "x,z"),
        (schema("string", f"{D}data.Json"), '"{\\"a\\":1}"', "json", '{"a":1}'),
        (schema("string", f"{D}data.Uuid"), '"123e4567-e89b-12d3"', "char(36)", "123e4567-e89b-12d3"),
        (schema("int32", f"{D}time.Year"), "2018", "year", 2018),
        (schema("int32", f"{D}time.Date"), "-354285", "date", "1000-01-01"),
        (schema("int32", f"{C}Date"), "2932896", "date", "9999-12-31"),
        (schema("int64", f"{D}time.MicroTime"), "-3020399000000", "time(6)", "-838:59:59.000000"),
        (schema("int64", f"{D}time.NanoTime"), "37230123456000", "time(6)", "10:20:30.123456"),
        (schema("int32", f"{C}Time"), "86400000", "time(3)", "24:00:00.000"),
        (schema("int64", f"{D}time.Timestamp"), "1529456523900", "datetime(3)", "2018-06-20 01:02:03.900"),
        (schema("int64", f"{C}Timestamp"), "-1", "datetime(3)", "1969-12-31 23:59:59.999"),
        (schema("int64", f"{D}time.MicroTimestamp"), "253402300799999999", "datetime(6)", "9999-12-31 23:59:59.999999"),
        (schema("int64", f"{D}time.NanoTimestamp"), "1000", "datetime(6)", "1970-01-01 00:00:00.000001"),
        (schema("string", f"{D}time.ZonedTimestamp"), '"2018-06-20T01:02:03.500Z"', "timestamp(3)", "2018-06-20T01:02:03.500Z"),
        (schema("string", f"{D}time.ZonedTimestamp"), '"2018-06-20T01:02:03.5Z"', "timestamp(1)", "2018-06-20T01:02:03.5Z"),
        (schema("string", f"{D}time.ZonedTimestamp"), '"2018-06-20T01:02:03Z"', "timestamp", "2018-06-20T01:02:03Z"),
        (schema("string", f"{D}time.IsoDate"), '"2018-06-20Z"', "date", "2018-06-20"),
        (schema("string", f"{D}time.IsoTime"), '"10:20:30.123Z"', "time", "10:20:30.123"),
        (schema("string", f"{D}time.IsoTimestamp"), '"2018-06-20T01:02:03.9Z"', "datetime(1)", "2018-06-20 01:02:03.9"),
        (POINT, f'{{"x":1.0,"y":4.0,"wkb":"{WKB}","srid":4326}}', "point", {"srid": 4326, "wkb": WKB}),
        (POINT, f'{{"x":1.0,"y":4.0,"wkb":"{WKB}","srid":null}}', "point", {"srid": 0, "wkb": WKB}),
        ('"type":"array","items":{"type":"float"}', "[1.0,2.5,-3.0]", "vector", [1.0, 2.5, -3.0]),
        (schema("string", "com.example.Money"), '"5 EUR"', "varchar", "5 EUR"),
        ('"type":"struct","fields":[{"type":"int8","field":"a"}],"name":"com.example.Odd"', '{"a":1}', "json", '{"a":1}'),
    ],
    ids=str,
)  # fmt: skip
def test_types_are_read_as_specified(field: str, content: str, t: str, shown: Any) -> None:
    assert one(field, content) == (t, shown, {}, {})


ZONED = schema("string", f"{D}time.ZonedTimestamp")


@pytest.mark.parametrize(
    "field, content, t, irregular",
    [
        (schema("int32", f"{D}time.Date"), "-719528", "date", "-719528"),
        (schema("int64", f"{D}time.Timestamp"), "253402300800000", "datetime(3)", "253402300800000"),
        (schema("int64", f"{D}time.MicroTime"), "3020400000000", "time(6)", "3020400000000"),
        (schema("int64", f"{D}time.NanoTimestamp"), "1001", "datetime(6)", "1001"),
        (schema("string", f"{D}time.ZonedTimestamp"), '"0001-01-01T01:02:03+02:00"', "timestamp", "0001-01-01T01:02:03+02:00"),
        (schema("string", f"{D}time.ZonedTimestamp"), '"2018-06-20T01:02:03+19:00"', "timestamp", "2018-06-20T01:02:03+19:00"),
        (ZONED, '"2018-06-20T01:02:03.1234567Z"', "timestamp", "2018-06-20T01:02:03.1234567Z"),
        (schema("string", f"{D}time.IsoDate"), '"2018-02-30+01:00"', "date", "2018-02-30+01:00"),
        (schema("string", f"{D}time.IsoTime"), '"24:00:00+01:00"', "time", "24:00:00+01:00"),
        (schema("int32", f"{D}time.Year"), "-1", "year", "-1"),
        (schema("bytes", f"{C}Decimal", '"scale":"0","connect.decimal.precision":"2"'), '"AIA="', "decimal(2,0)", "128"),
    ],
    ids=str,
)  # fmt: skip
def test_values_that_a_type_cannot_hold_are_kept_as_irregular(field: str, content: str, t: str, irregular: str) -> None:
    assert one(field, content) == (t, None, {"v": irregular}, {})


@pytest.mark.parametrize(
    "field, content, shown",
    [
        (schema("double"), "2.0E-3", 0.002),  # Java before 19 prints some digits more
        (schema("double"), "1.0E23", 1e23),
        (schema("string", f"{D}data.Enum", '"allowed":"a,e\\\\,f"'), '"e\\\\,f"', "e,f"),
        (schema("string", f"{D}data.EnumSet", '"allowed":"a\\\\\\\\,b"'), '"a\\\\\\\\,b"', "a\\,b"),
        (schema("bytes", f"{C}Decimal", '"scale":"2","connect.decimal.precision":"5"'), "1.50", "1.50"),
        (schema("bytes", f"{C}Decimal", '"scale":"2","connect.decimal.precision":"5"'), '"1.50"', "1.50"),
        (POINT, f'{{"x":1.5,"y":4.0,"wkb":"{WKB}","srid":0}}', {"srid": 0, "wkb": WKB}),
    ],
)
def test_another_spelling_is_kept_verbatim(field: str, content: str, shown: Any) -> None:
    _, value_read, _, sent = one(field, content)
    assert value_read == shown
    assert sent in ({"after.v": content}, {})


@pytest.mark.parametrize(
    "name, content, t, shown",
    [
        ("ZonedTimestamp", "2024-05-06T07:08:09.5+05:30", "timestamp(1)", "2024-05-06T01:38:09.5Z"),
        ("ZonedTimestamp", "2024-05-06T07:08:09.123456-03:00", "timestamp(6)", "2024-05-06T10:08:09.123456Z"),
        ("ZonedTimestamp", "2024-01-01T00:30:00+00:45", "timestamp", "2023-12-31T23:45:00Z"),
        ("ZonedTimestamp", "1890-01-01T00:00:00+00:09:21", "timestamp", "1889-12-31T23:50:39Z"),
        ("ZonedTimestamp", "2024-05-06T07:08Z", "timestamp", "2024-05-06T07:08:00Z"),
        ("ZonedTimestamp", "2024-05-06T07:08:09.123456000Z", "timestamp(6)", "2024-05-06T07:08:09.123456Z"),
        ("IsoTimestamp", "2024-05-06T07:08:09.5+05:30", "datetime(1)", "2024-05-06 01:38:09.5"),
        ("IsoDate", "2024-05-06+05:30", "date", "2024-05-06"),
        ("IsoTime", "07:08:09.25+05:30", "time", "01:38:09.25"),
        ("IsoTime", "03:00:00+05:30", "time", "21:30:00"),
    ],
)
def test_a_moment_with_an_offset_is_that_moment(name: str, content: str, t: str, shown: str) -> None:
    got = one(schema("string", f"{D}time.{name}"), f'"{content}"')
    assert got == (t, shown, {}, {"after.v": f'"{content}"'})


def test_without_schema_a_moment_with_an_offset_is_that_moment() -> None:
    change = redefine(Options())(ColumnType("varchar"), ColumnType("timestamp", length=1))
    assert change("2024-05-06T07:08:09.5+05:30") == change("2024-05-06T01:38:09.5Z")


FIELDS = [
    *(schema(base) for base in ("int8", "int64", "float", "double", "boolean", "string", "bytes")),
    *(schema("string", f"{D}time.{name}") for name in ("ZonedTimestamp", "IsoTimestamp", "IsoDate", "IsoTime")),
    *(schema("string", f"{D}data.{name}", '"allowed":"a,b"') for name in ("Enum", "EnumSet")),
    *(schema("int32", name) for name in (f"{D}time.Date", f"{D}time.Year", f"{C}Date", f"{C}Time", f"{D}time.Time")),
    *(schema("int64", f"{D}time.{name}") for name in ("MicroTime", "NanoTime", "Timestamp", "MicroTimestamp")),
    schema("bytes", f"{C}Decimal", '"scale":"2","connect.decimal.precision":"5"'),
    schema("bytes", f"{D}data.Bits", '"length":"3"'),
]


@pytest.mark.parametrize("field", FIELDS)
def test_no_value_becomes_null_without_its_text(field: str) -> None:
    """Values at random: each is read, kept as irregular, or the record is refused."""
    random = Random(field)
    parts = ("0", "1", "9", "2024", "-", ":", "T", "Z", "+05:30", "2018-06-20", "07:08:09", ".5", "a", ",", "=", "AQ==")
    for _ in range(150):
        text = "".join(random.choices(parts, k=random.randint(0, 6)))
        number = str(random.choice((0, 1, -1, 7, 2**31, 2**63, 10**17)) * random.choice((1, -1, 1000)))
        content = random.choice((json.dumps(text), number, "true", "1.5", "{}", "[]"))
        changes = decode(record(None, with_schema(field, content)))
        if not changes.dead:
            (row,) = rows(changes)
            assert (row.after or {})["v"] is not None or "v" in row.irregular


def test_numeric_decimals_by_option() -> None:
    field = schema("bytes", f"{C}Decimal", '"scale":"30","connect.decimal.precision":"65"')
    numeric = {"decimal.format": "NUMERIC"}
    assert one(field, "0E-30", **numeric) == ("decimal(65,30)", "0." + "0" * 30, {}, {})
    assert one(field, "-1E-30", **numeric)[1] == "-0." + "0" * 29 + "1"


def test_a_column_that_was_not_sent_is_absent() -> None:
    placeholder = '"__debezium_unavailable_value"'
    for field, content in (("string", placeholder), ("bytes", '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="')):
        sent = record(None, with_schema(schema(field), content))
        changes = decode(sent)
        (row,) = rows(changes)
        assert (row.after, row.shape.after) == ({}, ())
        assert bytes_of(encode(changes)) == [sent]


@pytest.mark.parametrize(
    "content, t, shown",
    [
        ('"x"', "varchar", "x"),
        ("7", "bigint", 7),
        ("18446744073709551615", "bigint unsigned", 2**64 - 1),
        ("1.5", "double", 1.5),
        ("1.0E100", "double", 1e100),
        ("12345678.90", "decimal", "12345678.90"),
        ("true", "boolean", True),
        ("[1.0,2.5]", "vector", [1.0, 2.5]),
        (f'{{"wkb":"{WKB}","srid":null}}', "geometry", {"srid": 0, "wkb": WKB}),
        (f'{{"x":1.0,"y":4.0,"wkb":"{WKB}","srid":null}}', "point", {"srid": 0, "wkb": WKB}),
        ('{"a":[1]}', "json", '{"a":[1]}'),
        ("null", "null", None),
    ],
)
def test_without_schema_the_type_is_inferred_from_the_value(content: str, t: str, shown: Any) -> None:
    sent = record(b'{"id":1}', value(f'{{"id":1,"v":{content}}}'))
    changes = decode(sent)
    shape, row = (json.loads(line) for line in text.lines(changes))
    assert [(c["name"], c["type"], c["nullable"], c["key"]) for c in shape["columns"]] == [
        ("id", "bigint", None, True),
        ("v", t, None, False),
    ]
    assert row["after"]["v"] == shown
    assert "sent" not in row["origin"]
    assert bytes_of(encode(changes)) == [sent]


@pytest.mark.parametrize("content", ["9.999999999999999E22", "1.0E-323", "2.0000000000000001E-200"])
def test_without_schema_a_number_that_is_not_a_decimal_is_a_double_of_an_old_java(content: str) -> None:
    sent = record(b'{"id":1}', value(f'{{"id":1,"v":{content}}}'))
    changes = decode(sent)
    (row,) = rows(changes)
    assert (str(row.shape.by_name["v"].type), row.after) == ("double", {"id": 1, "v": float(content)})
    assert row.origin["sent"] == {"after.v": content}
    assert bytes_of(encode(changes)) == [sent]


def test_without_schema_the_type_is_inferred_from_both_images() -> None:
    after, before = '{"a":1.5,"b":100,"c":null}', '{"a":null,"b":12.50,"c":"x"}'
    sent = record(None, value(after, before, "u"))
    changes = decode(sent, **{"decimal.format": "NUMERIC"})
    (row,) = rows(changes)
    assert [str(c.type) for c in row.shape.columns] == ["double", "decimal", "varchar"]
    assert (row.before, row.after) == ({"a": None, "b": "12.50", "c": "x"}, {"a": 1.5, "b": "100", "c": None})
    assert bytes_of(encode(changes)) == [sent]


def test_without_schema_a_null_joins_the_rows_around_it() -> None:
    changes = decode(*(record(None, value(f'{{"v":{v}}}')) for v in ("1", "null", '"x"', "2")))
    assert [(len(t), str(t.shape.columns[0].type)) for t in changes.tables] == [(3, "bigint"), (1, "varchar")]
