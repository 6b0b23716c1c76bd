"""What the connector's records mean: every form that is accepted, every error in its words."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from changefeed.model import text
from changefeed.model.event import SchemaChange
from tests.protocols.debezium_mysql.records import (
    CLOCK,
    SOURCE,
    bytes_of,
    decode,
    encode,
    errors,
    log,
    record,
    rows,
    value,
    with_schema,
)

D, C = "io.debezium.", "org.apache.kafka.connect.data."
HINT = '. Is "protocol" right for this topic?'


def one(field: str, content: str, **options: Any) -> tuple[str, Any, dict[str, str], dict[str, str]]:
    """Type, canonical value, irregular and `sent` of a column; the record comes back as it was."""
    sent = record(None, with_schema(field, content))
    found = decode(sent, **options)
    assert errors(found) == []
    assert bytes_of(encode(found, **options)) == [sent]
    shape, row = (json.loads(line) for line in text.lines(found))
    (again,) = text.parse(text.lines(found))
    assert bytes_of(encode(again, **options)) == [sent]
    return shape["columns"][0]["type"], row["after"]["v"], row["irregular"], row["origin"].get("sent", {})


def schema(base: str, name: str = "", parameters: str = "", optional: str = "true") -> str:
    more = f',"name":"{name}","version":1' if name else ""
    more += f',"parameters":{{{parameters}}}' if parameters else ""
    return f'"type":"{base}","optional":{optional}{more}'


DIGITS = '"scale":"%d","connect.decimal.precision":"%d"'
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


@pytest.mark.parametrize(
    "field, content, t, irregular",
    [
        (schema("int32", f"{D}time.Date"), "-719528", "date", "-719528"),
        (schema("int64", f"{D}time.Timestamp"), "253402300800000", "datetime(3)", "253402300800000"),
        (schema("int64", f"{D}time.MicroTime"), "3020400000000", "time(6)", "3020400000000"),
        (schema("int64", f"{D}time.NanoTimestamp"), "1001", "datetime(6)", "1001"),
        (schema("string", f"{D}time.ZonedTimestamp"), '"2018-06-20T01:02:03+02:00"', "timestamp", "2018-06-20T01:02:03+02:00"),
        (schema("int32", f"{D}time.Year"), "-1", "year", "-1"),
        (schema("bytes", f"{C}Decimal", '"scale":"0","connect.decimal.precision":"2"'), '"AIA="', "decimal(2,0)", "128"),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_type_cannot_hold_is_kept_beside_it(field: str, content: str, t: str, irregular: str) -> None:
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
def test_another_spelling_is_kept_word_for_word(field: str, content: str, shown: Any) -> None:
    _, value_read, _, sent = one(field, content)
    assert value_read == shown
    assert sent in ({"after.v": content}, {})


def test_numeric_decimals_by_option() -> None:
    field = schema("bytes", f"{C}Decimal", '"scale":"30","connect.decimal.precision":"65"')
    numeric = {"decimal.format": "NUMERIC"}
    assert one(field, "0E-30", **numeric) == ("decimal(65,30)", "0." + "0" * 30, {}, {})
    assert one(field, "-1E-30", **numeric)[1] == "-0." + "0" * 29 + "1"


def test_a_column_that_was_not_sent_is_absent() -> None:
    placeholder = '"__debezium_unavailable_value"'
    for field, content in (("string", placeholder), ("bytes", '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="')):
        sent = record(None, with_schema(schema(field), content))
        found = decode(sent)
        (row,) = rows(found)
        assert (row.after, row.shape.after) == ({}, ())
        assert bytes_of(encode(found)) == [sent]


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
def test_without_schema_a_type_says_what_the_value_is(content: str, t: str, shown: Any) -> None:
    sent = record(b'{"id":1}', value(f'{{"id":1,"v":{content}}}'))
    found = decode(sent)
    shape, row = (json.loads(line) for line in text.lines(found))
    assert [(c["name"], c["type"], c["nullable"], c["key"]) for c in shape["columns"]] == [
        ("id", "bigint", None, True),
        ("v", t, None, False),
    ]
    assert row["after"]["v"] == shown
    assert "sent" not in row["origin"]
    assert bytes_of(encode(found)) == [sent]


@pytest.mark.parametrize("content", ["9.999999999999999E22", "1.0E-323", "2.0000000000000001E-200"])
def test_without_schema_what_no_decimal_is_is_a_double_of_an_old_java(content: str) -> None:
    sent = record(b'{"id":1}', value(f'{{"id":1,"v":{content}}}'))
    found = decode(sent)
    (row,) = rows(found)
    assert (str(row.shape.by_name["v"].type), row.after) == ("double", {"id": 1, "v": float(content)})
    assert row.origin["sent"] == {"after.v": content}
    assert bytes_of(encode(found)) == [sent]


def test_without_schema_both_images_tell_the_type() -> None:
    after, before = '{"a":1.5,"b":100,"c":null}', '{"a":null,"b":12.50,"c":"x"}'
    sent = record(None, value(after, before, "u"))
    found = decode(sent, **{"decimal.format": "NUMERIC"})
    (row,) = rows(found)
    assert [str(c.type) for c in row.shape.columns] == ["double", "decimal", "varchar"]
    assert (row.before, row.after) == ({"a": None, "b": "12.50", "c": "x"}, {"a": 1.5, "b": "100", "c": None})
    assert bytes_of(encode(found)) == [sent]


def test_without_schema_a_null_joins_the_rows_around_it() -> None:
    found = decode(*(record(None, value(f'{{"v":{v}}}')) for v in ("1", "null", '"x"', "2")))
    assert [(len(t), str(t.shape.columns[0].type)) for t in found.tables] == [(3, "bigint"), (1, "varchar")]


@pytest.mark.parametrize(
    "mark, origin",
    [('"false"', {}), ("null", {"snapshot": None}), ("false", {"snapshot": False}), ('"last"', {"snapshot": "last"})],
)
def test_snapshot_marks_of_all_kinds(mark: str, origin: dict[str, Any]) -> None:
    sent = record(None, value(source=SOURCE.replace('"snapshot":"false"', f'"snapshot":{mark}')))
    found = decode(sent)
    (row,) = rows(found)
    assert {k: v for k, v in row.origin.items() if k == "snapshot"} == origin
    assert bytes_of(encode(found)) == [sent]


@pytest.mark.parametrize(
    "envelope",
    [
        '"op":"c","ts_ms":5,"transaction":null',
        '"op":"c","ts_ms":5,"ts_us":5001,"ts_ns":5001002,"transaction":null',
        '"transaction":null,"op":"c","ts_ms":5,"ts_us":5001,"ts_ns":5001002',
        '"op":"c"',
        '"transaction":{"id":"g:1","total_order":2,"data_collection_order":1},"op":"c","ts_ms":7,"ts_us":5001,"ts_ns":null',
        '"op":"c","extra":{"a":1.50},"ts_ms":null',
    ],
)
def test_envelopes_of_all_versions_come_back(envelope: str) -> None:
    old = SOURCE.replace('"ts_us":1795248239121318,"ts_ns":1795248239121318000,', "").replace('"sequence":null,', "")
    for source in (SOURCE, old, old.replace('"row":0', '"row":0,"more":[1.0]')):
        sent = record(None, f'{{"before":null,"after":{{"id":1}},"source":{source},{envelope}}}'.encode())
        found = decode(sent)
        assert errors(found) == []
        (again,) = text.parse(text.lines(found))
        assert bytes_of(encode(found)) == bytes_of(encode(again)) == [sent]


@pytest.mark.parametrize(
    "file, pos, sequence",
    [
        ("mysql-bin.000001", 13400, (1 << 40) | 13400),
        ("binlog.000123", 4, (123 << 40) | 4),
        ("", 4, None),
        ("mysql-bin", 4, None),
        ("mysql-bin.000001", -1, None),
        ("mysql-bin.000001", 1 << 40, None),
        ("mysql-bin.99999999", 4, None),
    ],
)
def test_the_order_of_changes_is_the_place_in_the_binlog(file: str, pos: int, sequence: int | None) -> None:
    source = SOURCE.replace("mysql-bin.000001", file).replace('"pos":13400', f'"pos":{pos}')
    (table,) = decode(record(None, value(source=source))).tables
    assert table.rows.column("sequence").to_pylist() == [sequence]


def test_schema_changes_have_their_place_and_columns() -> None:
    changes = [e for e in decode(*log("mariadb-types_stream")).control if isinstance(e, SchemaChange)]
    assert all(e.sequence == (1 << 40) | e.origin["pos"] for e in changes)
    (table,) = [e for e in changes if e.table == "t_str" and e.columns]
    assert table.columns is not None
    assert {c.name: str(c.type) for c in table.columns} == {
        "id": "int",
        "c5": "char(5)",
        "v20": "varchar(20)",
        "tt": "tinytext",
        "tx": "text",
        "mt": "mediumtext",
        "lt": "longtext",
        "nc": "char(4)",
        "nv": "varchar(10)",
        "vl1": "varchar(20)",
        "vgbk": "varchar(20)",
        "vsj": "varchar(20)",
        "vu16": "varchar(20)",
        "vu3": "varchar(20)",
        "vasc": "varchar(20)",
        "vbin": "varbinary(20)",
        "cbin": "char(5)",
        "bi5": "binary(5)",
        "vb20": "varbinary(20)",
        "tb": "tinyblob",
        "bl": "blob",
        "mb": "mediumblob",
        "lb": "longblob",
        "en": "enum('a','b','c d','e,f','it''s','ü','\\')",
        "se": "set('x','y','z z','w')",
        "js": "longtext",
    }


def test_a_delete_without_its_row_has_the_key() -> None:
    sent = record(b'{"id":7}', value("null", "null", "d"))
    found = decode(sent, **{"tombstones.on.delete": "false"})
    (row,) = rows(found)
    assert (row.op, row.before, row.origin["absent"]) == ("delete", {"id": 7}, "before")
    assert bytes_of(encode(found, **{"tombstones.on.delete": "false"})) == [sent]


def test_a_key_of_its_own_is_kept() -> None:
    sent = record(b'{"hidden":"\\uD83D\\uDC1F","id":1}', value())
    found = decode(sent)
    (row,) = rows(found)
    assert (row.shape.keys, row.origin["key"]) == (("id",), '{"hidden":"\\uD83D\\uDC1F","id":1}')
    assert bytes_of(encode(found)) == [sent]


@pytest.mark.parametrize(
    "headers",
    [
        [("x", b"\xff"), ("y", None)],
        [("__debezium.context.runId", b'"1"')],
        [("__debezium.newkey", b"Struct{id=2003}")],
        [
            ("__debezium.context.connectorLogicalName", b'"other"'),
            ("__debezium.context.taskId", b'"0"'),
            ("__debezium.context.connectorName", b'"mysql"'),
            ("__debezium.context.runId", b'"1"'),
        ],
        [
            ("__debezium.context.connectorLogicalName", b"srv1"),
            ("__debezium.context.taskId", b"0"),
            ("__debezium.context.connectorName", b"mysql"),
            ("__debezium.context.runId", b"1"),
        ],
    ],
)
def test_headers_come_back(headers: list[tuple[str, bytes | None]]) -> None:
    given = [{"key": name, "value": data} for name, data in headers]
    sent = record(b'{"id":1}', value(), headers=given)
    assert bytes_of(encode(decode(sent))) == [sent]


def test_tombstones_and_notifications_say_nothing() -> None:
    note = '{"id":"1","type":"STARTED","aggregate_type":"Initial Snapshot","additional_data":{},"timestamp":1}'
    found = decode(record(b'{"id":1}', None), record(None, None), record(None, note.encode()))
    assert (found.tables, found.control, found.dead) == ([], [], [])


SCHEMA = '{"schema":{"type":"struct","fields":[{"type":"int8","field":"a"}]},"payload":%s}'


@pytest.mark.parametrize(
    "key, data, message",
    [
        (None, b"", f"value is not JSON: expecting value at byte 0 (srv1.inv.t:0:41){HINT}"),
        (None, b"\xff", f"value is not UTF-8 at byte 0 (srv1.inv.t:0:41){HINT}"),
        (None, b"[]", "value is no object (srv1.inv.t:0:41)"),
        (None, b'{"a":1}', f"value is no event: it has a (srv1.inv.t:0:41){HINT}"),
        (b"{", value(), "value"),
        (
            None,
            value(source=SOURCE.replace('"mysql"', '"TiCDC"')),
            f'connector "TiCDC" is neither mysql nor mariadb - at `source.connector` (srv1.inv.t:0:41){HINT}',
        ),
        (None, value(op="m"), f'op "m" is unknown, expected c, u, d, r or t (srv1.inv.t:0:41){HINT}'),
        (None, value(op="d"), "delete with an after image (srv1.inv.t:0:41)"),
        (None, value("null"), "insert without an after image (srv1.inv.t:0:41)"),
        (None, value("null", "null", "d"), "delete without an image (srv1.inv.t:0:41)"),
        (None, value(before='{"id":1}'), "insert with a before image (srv1.inv.t:0:41)"),
        (None, value(op="t"), "truncate with an image (srv1.inv.t:0:41)"),
        (None, value("[1]"), "after is no object (srv1.inv.t:0:41)"),
        (None, value(source="null"), "value has no source block (srv1.inv.t:0:41)"),
        (
            None,
            value(source=SOURCE.replace('"t"', "null")),
            "row without a table - at `source.table` (srv1.inv.t:0:41)",
        ),
        (None, value(source=SOURCE.replace("13400", '"x"')), '"x" is no integer - at `source.pos` (srv1.inv.t:0:41)'),
        (None, value(source=SOURCE.replace('"inv"', "1")), "1 is no string - at `source.db` (srv1.inv.t:0:41)"),
        (
            None,
            value(source=SOURCE.replace("1795248239121318,", "9" * 18 + ",")),
            "the time lies outside of the years 1 to 9999 - at `source` (srv1.inv.t:0:41)",
        ),
        (None, (SCHEMA % '{"b":1}').encode(), "value has 'a' in its schema only (srv1.inv.t:0:41)"),
        (None, b'{"schema":{"type":"odd"},"payload":{}}', "schema has no known type - at `schema` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("int16"), "40000"), "40000 is no int16 - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("int32"), "1.0"), "1.0 is no int32 - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("int32"), "-0"), "-0 is no int32 - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("string"), "1"), "1 is no string - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("boolean"), "1"), "1 is no boolean - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("float"), "1e39"), "1e39 is no float - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("double"), "1e400"), "1e400 is no double - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("bytes"), '"?"'), "'?' is not base64 - at `after.v` (srv1.inv.t:0:41)"),
        (
            None,
            with_schema(schema("string", f"{D}time.ZonedTimestamp"), '"yesterday"'),
            "'yesterday' is not a date and time - at `after.v` (srv1.inv.t:0:41)",
        ),
        (
            None,
            b'{"status":"MAYBE","id":"1","event_count":null,"data_collections":null,"ts_ms":1}',
            '"MAYBE" is no status - at `status` (srv1.inv.t:0:41)',
        ),
        (
            None,
            b'{"status":"END","id":"1","event_count":null,"ts_ms":1}',
            "transaction mark has status, id, event_count, ts_ms, expected "
            "status, id, event_count, data_collections, ts_ms (srv1.inv.t:0:41)",
        ),
        (None, b'{"ts_ms":"1"}', '"1" is no integer - at `heartbeat.ts_ms` (srv1.inv.t:0:41)'),
    ],
    ids=lambda part: part[:40] if isinstance(part, str) else "",
)
def test_damage_is_named(key: bytes | None, data: bytes, message: str) -> None:
    found = decode(record(key, data))
    if key is not None:
        message = (
            f"key is not JSON: expecting property name enclosed in double quotes at byte 1 (srv1.inv.t:0:41){HINT}"
        )
    assert errors(found) == [f"debezium-mysql: {message}"]
    assert (found.tables, found.control) == ([], [])


def test_rows_without_envelope_by_option() -> None:
    sent = [r for r in log("mariadb-opt_unwrap") if r["topic"] != "srv1"]
    options = {"unwrap": "true", "tombstones.on.delete": "false"}
    found = decode(*sent, **options)
    assert errors(found) == []
    assert bytes_of(encode(found, **options)) == sent
    first, *_, last = rows(found)
    assert (first.op, first.shape.database, first.shape.table, first.shape.keys) == (
        "read",
        "inv",
        "customers",
        ("id",),
    )
    assert last.op == "insert"
    plain = record(b'{"id":1}', b'{"id":1,"__deleted":"true"}')
    (row,) = rows(decode(plain, **options))
    assert (row.op, row.before, row.shape.table) == ("delete", {"id": 1}, "t")
    assert bytes_of(encode(decode(plain, **options), **options)) == [plain]


def test_a_tombstone_without_envelopes_is_a_delete() -> None:
    """What the transform leaves of a delete unless it is told to rewrite it."""
    sent = [r for r in log("mysql-3.6.1-tombstones") if r["topic"] == "srv1.inv.b1"]
    found = decode(*sent, unwrap="true")
    assert [(row.op, row.before) for row in rows(found)[-3:]] == [("delete", {"id": i}) for i in (1, 2, 3)]
    assert rows(found)[-1].shape.keys == ("id",)
    assert bytes_of(encode(found, unwrap="true")) == sent
    assert len(rows(decode(*sent))) == 0


def test_a_tombstone_behind_the_row_of_its_delete_says_nothing() -> None:
    sent = [record(b'{"id":1}', b'{"id":1,"__deleted":"true"}'), {**record(b'{"id":1}', None), "offset": 42}]
    found = decode(*sent, unwrap="true")
    assert [row.op for row in rows(found)] == ["delete"]
    assert bytes_of(encode(found, unwrap="true")) == sent


def test_a_tombstone_whose_key_is_none_is_dead_without_envelopes() -> None:
    found = decode(record(b"[1]", None), record(None, None), unwrap="true")
    assert errors(found) == ["debezium-mysql: key is no object (srv1.inv.t:0:41)"]


def test_a_row_without_envelope_needs_the_option() -> None:
    (error,) = errors(decode(record(None, b'{"id":1,"__deleted":"false"}')))
    assert error == f"debezium-mysql: value is no event: it has id, __deleted (srv1.inv.t:0:41){HINT}"


def test_clock_is_one_reading() -> None:
    (row,) = rows(decode(record(None, value())))
    assert row.origin["envelope"] == {"ts_ns": 1795248239178174154}
    assert CLOCK.endswith("1795248239178174154")


@pytest.mark.parametrize("name", ["mariadb-opt_notif", "mariadb-signal_incremental"])
def test_logs_with_notifications_come_back_but_for_these(name: str) -> None:
    found = decode(*log(name))
    assert errors(found) == []
    assert bytes_of(encode(found)) == [r for r in log(name) if r["topic"] != "notif"]


def test_null_is_written_as_the_default_by_option() -> None:
    sent = record(None, with_schema('"type":"int32","optional":true,"default":18', "null"))
    found = decode(sent)
    assert bytes_of(encode(found)) == [sent]
    (written,) = bytes_of(encode(found, **{"replace-null-with-default": "true"}))
    assert b'"after":{"v":18}' in written["value"]


@pytest.mark.parametrize(
    "members",
    [
        '"ts_ms":5,"databaseName":"inv","schemaName":null,"ddl":"DROP TABLE t","tableChanges":[]',
        '"databaseName":"inv","ddl":"DROP TABLE t","tableChanges":[]',
        '"ts_ms":5,"databaseName":"other","schemaName":"s","ddl":null,"tableChanges":[{"type":"DROP","id":"x","table":null}],"more":1.50',
    ],
)
def test_schema_changes_of_all_forms_come_back(members: str) -> None:
    for key in (b'{"databaseName":"inv"}', None, b'{"x":1}'):
        sent = record(key, f'{{"source":{SOURCE},{members}}}'.encode())
        found = decode(sent)
        assert errors(found) == []
        (again,) = text.parse(text.lines(found))
        assert bytes_of(encode(found)) == bytes_of(encode(again)) == [sent]


def test_tables_of_another_shape_have_no_columns() -> None:
    tables = (
        '[{"type":"CREATE","id":"x","table":{"columns":[{"name":"a","typeName":"ODD","length":null,"scale":null}]}}]'
    )
    sent = record(
        None,
        f'{{"source":{SOURCE},"databaseName":"inv","ddl":"CREATE TABLE t (a ODD)","tableChanges":{tables}}}'.encode(),
    )
    (change,) = decode(sent).control
    assert isinstance(change, SchemaChange)
    assert (change.type, change.columns) == ("other", None)


def test_a_dead_letter_names_its_table_where_it_can() -> None:
    letters = decode(record(None, value(op="m")), record(None, b"{"), record(None, b'{"source":1,"op":"c"}')).dead
    assert [(letter.database, letter.table) for letter in letters] == [("inv", "t"), (None, None), (None, None)]


@pytest.mark.parametrize("depth", [70, 900, 100_000])
def test_nesting_is_bounded(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    for data in (value(f'{{"v":{deep}}}'), value(source=SOURCE.replace('"row":0', f'"row":0,"x":{deep}'))):
        (letter,) = decode(record(None, data)).dead
        assert letter.reason == "bad-json"
        assert "nested" in letter.error


@pytest.mark.parametrize(
    "data",
    [
        with_schema(schema("bytes", f"{C}Decimal", DIGITS % (2, 10)), '"' + "A" * 4_000_000 + '"'),
        with_schema(schema("bytes", f"{C}Decimal", DIGITS % (2, 10)), "1E999"),
        with_schema(schema("bytes", f"{D}data.Bits", '"length":"64"'), '"' + "A" * 4000 + '"'),
        with_schema('"type":"array","items":{"type":"float"}', "[" + ",".join(["1.5"] * 20_000) + "]"),
    ],
    ids=lambda data: f"{len(data)} bytes",
)
def test_bombs_are_refused_at_once(data: bytes) -> None:
    decode(record(None, value()))
    start = time.process_time()
    assert len(decode(record(None, data)).dead) == 1
    assert time.process_time() - start < 0.5  # it takes less than 0.1 s where nothing else runs


@pytest.mark.parametrize("bare", ["key", "value"])
def test_a_schema_may_be_on_one_side_alone(bare: str) -> None:
    records = []
    for row in log("mysql-crud"):
        if row[bare] is None:
            records.append(row)
        else:
            payload = row[bare].decode().split(',"payload":', 1)[1][:-1]
            records.append({**row, bare: payload.encode()})
    found = decode(*records)
    assert errors(found) == []
    assert bytes_of(encode(found)) == records
