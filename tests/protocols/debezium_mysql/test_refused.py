"""Records that are not events of the connector: every error message, and that errors come quickly."""

from __future__ import annotations

import pytest

from tests import cost
from tests.protocols.debezium_mysql.records import (
    DIGITS,
    HINT,
    SOURCE,
    UNWRAP,
    C,
    D,
    decode,
    errors,
    record,
    schema,
    value,
    with_schema,
)

SCHEMA = '{"schema":{"type":"struct","fields":[{"type":"int8","field":"a"}]},"payload":%s}'


@pytest.mark.parametrize(
    "key, data, message",
    [
        (None, b"", f"value is not JSON: expecting value at byte 0 (srv1.inv.t:0:41){HINT}"),
        (None, b"\xff", f"value is not UTF-8 at byte 0 (srv1.inv.t:0:41){HINT}"),
        (None, b"[]", "value is not an object (srv1.inv.t:0:41)"),
        (None, b'{"a":1}', f"value is not an event: it has a{UNWRAP} (srv1.inv.t:0:41){HINT}"),
        (b"{", value(), "value"),
        (
            None,
            value(source=SOURCE.replace('"mysql"', '"TiCDC"')),
            f'connector "TiCDC" is neither mysql nor mariadb - at `source.connector` (srv1.inv.t:0:41){HINT}',
        ),
        (None, value(op="m"), f'op "m" is unknown, expected c, u, d, r or t (srv1.inv.t:0:41){HINT}'),
        (None, value(op="d"), "delete has an after image (srv1.inv.t:0:41)"),
        (None, value("null"), "insert has no after image (srv1.inv.t:0:41)"),
        (None, value("null", "null", "d"), "delete has no image (srv1.inv.t:0:41)"),
        (None, value(before='{"id":1}'), "insert has a before image (srv1.inv.t:0:41)"),
        (None, value(op="t"), "truncate has an image (srv1.inv.t:0:41)"),
        (None, value("[1]"), "after is not an object (srv1.inv.t:0:41)"),
        (None, value(source="null"), "value has no source block (srv1.inv.t:0:41)"),
        (
            None,
            value(source=SOURCE.replace('"t"', "null")),
            "row has no table - at `source.table` (srv1.inv.t:0:41)",
        ),
        (
            None,
            value(source=SOURCE.replace("13400", '"x"')),
            '"x" is not an integer - at `source.pos` (srv1.inv.t:0:41)',
        ),
        (None, value(source=SOURCE.replace('"inv"', "1")), "1 is not a string - at `source.db` (srv1.inv.t:0:41)"),
        (
            None,
            value(source=SOURCE.replace("1795248239121318,", "9" * 18 + ",")),
            "the time lies outside of the years 1 to 9999 - at `source` (srv1.inv.t:0:41)",
        ),
        (None, (SCHEMA % '{"b":1}').encode(), "value has 'a' only in its schema (srv1.inv.t:0:41)"),
        (None, b'{"schema":{"type":"odd"},"payload":{}}', "schema has no known type - at `schema` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("int16"), "40000"), "40000 is not an int16 - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("int32"), "1.0"), "1.0 is not an int32 - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("int32"), "-0"), "-0 is not an int32 - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("string"), "1"), "1 is not a string - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("boolean"), "1"), "1 is not a boolean - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("float"), "1e39"), "1e39 is not a float - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("double"), "1e400"), "1e400 is not a double - at `after.v` (srv1.inv.t:0:41)"),
        (None, with_schema(schema("bytes"), '"?"'), "'?' is not base64 - at `after.v` (srv1.inv.t:0:41)"),
        (
            None,
            with_schema(schema("string", f"{D}time.ZonedTimestamp"), '"yesterday"'),
            "'yesterday' is not a date and time - at `after.v` (srv1.inv.t:0:41)",
        ),
        (
            None,
            b'{"status":"MAYBE","id":"1","event_count":null,"data_collections":null,"ts_ms":1}',
            '"MAYBE" is not a status - at `status` (srv1.inv.t:0:41)',
        ),
        (
            None,
            b'{"status":"END","id":"1","event_count":null,"ts_ms":1}',
            "transaction mark has status, id, event_count, ts_ms, expected "
            "status, id, event_count, data_collections, ts_ms (srv1.inv.t:0:41)",
        ),
        (None, b'{"ts_ms":"1"}', '"1" is not an integer - at `heartbeat.ts_ms` (srv1.inv.t:0:41)'),
    ],
    ids=lambda part: part[:40] if isinstance(part, str) else "",
)
def test_damage_is_named(key: bytes | None, data: bytes, message: str) -> None:
    changes = decode(record(key, data))
    if key is not None:
        message = (
            f"key is not JSON: expecting property name enclosed in double quotes at byte 1 (srv1.inv.t:0:41){HINT}"
        )
    assert errors(changes) == [f"debezium-mysql: {message}"]
    assert (changes.tables, changes.control) == ([], [])


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
    assert len(decode(record(None, data)).dead) == 1
    assert cost.seconds(lambda: decode(record(None, data))) < 0.1
