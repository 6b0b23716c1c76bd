"""Single values: decoded, irregular or refused; all of them are written as they came."""

from __future__ import annotations

from typing import Any

import pytest

from changefeed.errors import UnsupportedError
from changefeed.model import text
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.model.values import writer
from tests.protocols.conformance.cases import bytes_of
from tests.protocols.tencent_dts.records import (
    ID,
    NA,
    NIL,
    data_of,
    decode,
    dml,
    encode,
    envelope,
    errors,
    inserted,
    number,
    record,
    rows,
    string,
)


def read(original: str, data: dict[str, Any]) -> Any:
    """The canonical value, or the irregular bytes; asserts that it is written as the same record."""
    one = record(envelope(data_of(inserted(original, data))))
    decoded = decode(one)
    assert errors(decoded) == []
    for changes in (decoded, *text.parse(text.lines(decoded))):
        assert encode(changes).to_pylist()[0]["value"] == one["value"]
    (row,) = rows(decoded)
    assert row.after is not None
    if "v" in row.irregular:
        assert row.after["v"] is None
        return row.irregular["v"]
    value = row.after["v"]
    return None if value is None else writer(row.shape.by_name["v"].type)(value)


@pytest.mark.parametrize(
    "original, data, value",
    [
        ("int", number(3, "-5"), -5),
        ("int", number(3, "+05"), 5),
        ("int", number(4, "2147483648"), b"2147483648"),
        ("int unsigned", number(7, "-1"), b"-1"),
        ("bit(64)", number(4, "-1"), 2**64 - 1),
        ("bit(64)", number(8, "18446744073709551615"), 2**64 - 1),
        ("bit(8)", number(4, "256"), b"256"),
        ("bit(8)", number(4, "-1"), b"-1"),
        ("year", number(4, "0000"), 0),
        ("year", number(4, "3000"), b"3000"),
        ("float", number(9, "0.1"), 0.1),
        ("float", number(9, "1.0E-7"), 1e-07),
        ("float", number(9, "1e39"), b"1e39"),
        ("double", number(10, "-inf"), "-Infinity"),
        ("double", number(10, "1e400"), b"1e400"),
        ("decimal(5,2)", number(12, "1.5e1"), "15.00"),
        ("decimal(5,2)", number(12, ".5"), "0.50"),
        ("decimal(5,2)", number(12, "1234"), b"1234"),
        ("decimal(5,2)", number(12, "1.234"), b"1.234"),
        ("decimal(5,2)", number(12, "1e999999999"), b"1e999999999"),
        ("date", string(b"2026-01-02"), "2026-01-02"),
        ("date", string(b"0000-00-00"), b"0000-00-00"),
        ("date", string(b"tomorrow"), b"tomorrow"),
        ("time(3)", string(b"-838:59:59.000"), "-838:59:59.000"),
        ("time", string(b"839:00:00"), b"839:00:00"),
        ("datetime(3)", string(b"2026-01-02T03:04:05.1"), "2026-01-02 03:04:05.100"),
        ("datetime", string(b"2026-01-02 03:04:05.1"), b"2026-01-02 03:04:05.1"),
        ("timestamp", string(b"2021-05-17 07:22:42 +00:00"), "2021-05-17T07:22:42Z"),
        ("timestamp", string(b"2021-05-17 07:22:42 -03:30"), "2021-05-17T10:52:42Z"),
        ("timestamp", string(b"2021-05-17 07:22:42"), "2021-05-17T07:22:42Z"),
        ("timestamp(6)", string(b"2021-05-17 07:22:42.123456 +08:00"), "2021-05-16T23:22:42.123456Z"),
        ("timestamp", string(b"0001-01-01 00:00:00 +08:00"), b"0001-01-01 00:00:00 +08:00"),
        ("timestamp", string(b"0000-00-00 00:00:00 +00:00"), b"0000-00-00 00:00:00 +00:00"),
        ("varchar(9)", string(b""), ""),
        ("varchar(9)", string("中".encode("gbk"), "gbk"), "中"),
        ("varchar(9)", string(b"\xff", "utf8mb4"), b"\xff"),
        ("varchar(9)", string(b"\xff", "klingon"), b"\xff"),
        ("text", {"dataType": 11, "bv": b"as bytes"}, "as bytes"),
        ("binary(2)", string(b"\0\xff", "binary"), {"base64": "AP8="}),
        ("blob", string(b"\0\xff", "gbk"), {"base64": "AP8="}),
        ("json", {"dataType": 11, "bv": b'{"a": 1}'}, '{"a": 1}'),
        ("enum('a','b')", string(b"b"), "b"),
        ("enum('a','b')", string(b"2"), "b"),
        ("enum('a','b')", string(b"3"), "3"),
        ("enum('a','2')", string(b"2"), "2"),
        ("enum", string(b"2"), {"index": 2}),
        ("enum", string(b"red"), b"red"),
        ("set('a','b')", string(b"a,b"), "a,b"),
        ("set('a','b')", string(b"3"), "a,b"),
        ("set('a','b')", string(b"0"), ""),
        ("point", {"dataType": 11, "bv": b"\x01\0\0\0wkb"}, {"srid": 1, "wkb": "d2ti"}),
        ("point", {"dataType": 11, "bv": b"wkb"}, b"wkb"),
        ("point", string(b"\x01\0\0\0\xff", "binary"), {"srid": 1, "wkb": "/w=="}),
        ("date", {"dataType": 11, "bv": b"2026-01-02"}, "2026-01-02"),
        ("set('a','b')", {"dataType": 11, "bv": b"a,b"}, "a,b"),
        ("INT(11) UNSIGNED", number(7, "5"), 5),
        ("ENUM('A','b')", string(b"A"), "A"),
        ("float", number(10, "0.1"), 0.1),
        ("int", {"dataType": 99, "sv": "1"}, b"1"),
        ("int", {"dataType": -1, "bv": b"1"}, b"1"),
        ("int", NIL, None),
        ("int", {"charset": "utf8"}, None),
        ("unknown", string(b"x"), "x"),
        ("unknown", string(b"\xff", "binary"), {"base64": "/w=="}),
        ("varchar(9)", string(b"x", "binary"), "x"),
        ("unknown", number(8, "18446744073709551615"), 2**64 - 1),
        ("decimal(99,2)", number(12, "1.5"), "1.5"),
        ("datetime(9)", string(b"x"), "x"),
        ("vector(3)", {"dataType": 11, "bv": b"x"}, {"base64": "eA=="}),
    ],
)
def test_a_value_is_read_and_written_as_it_came(original: str, data: dict[str, Any], value: Any) -> None:
    assert read(original, data) == value


@pytest.mark.parametrize(
    "original, data, error",
    [
        ("int", number(3, "one"), "'one' is not an integer"),
        ("int", number(3, ""), "'' is not an integer"),
        ("int", number(3, "9" * 41), f"'{'9' * 41}' is not an integer"),
        ("int", number(3, "9" * 5000), "a number has 5000 characters, expected at most 1100"),
        ("float", number(9, "1,5"), "'1,5' is not a number"),
        ("decimal(5,2)", number(12, "NaN"), "'NaN' is not a decimal"),
        ("int", {"dataType": 3, "bv": b"5"}, "a value of data type 3 is in the wrong field, bv"),
        ("varchar(9)", {"dataType": 13, "sv": "5"}, "a value of data type 13 is in the wrong field, sv"),
    ],
)
def test_a_wrong_value_is_refused(original: str, data: dict[str, Any], error: str) -> None:
    changes = decode(record(envelope(data_of(inserted(original, data)))))
    assert errors(changes) == [f"tencent-dts: {error} - at `v` in entry 1 (t:0:0)"]
    assert (changes.dead[0].reason, changes.dead[0].database, changes.dead[0].table) == ("schema", "shop", "t")


@pytest.mark.parametrize(
    "entry, error",
    [
        (dml([ID], {"newColumns": [number(3, "1")] * 2}), "newColumns has 2 values for 1 columns"),
        (dml([ID], {"oldColumns": [number(3, "1")]}), "row has no newColumns"),
        (
            dml([ID], {"newColumns": [number(3, "1")], "oldColumns": [NIL]}),
            "a row of this operation must not have oldColumns",
        ),
        (dml([ID], {"newColumns": [number(3, "1")]}, op=1), "row has no oldColumns"),
        (dml([ID], {"newColumns": [number(3, "1")]}, op=7), "DML type 7 is unknown"),
        (dml([ID, ID], {"newColumns": [NIL, NIL]}), "column 'id' occurs twice"),
        (
            dml([("v", "?", False)], {"oldColumns": [number(3, "1")], "newColumns": [string(b"1")]}, op=1),
            "data type 3 in one image, (13, 'utf8') in the other: they contradict each other - at `old.v`",
        ),
    ],
)
def test_a_row_that_contradicts_itself_is_dead(entry: Any, error: str) -> None:
    (message_text,) = errors(decode(record(envelope(data_of(entry)))))
    assert message_text.removeprefix("tencent-dts: ").split(" in entry 1")[0] == error


def test_images_with_other_charsets_are_written_as_they_came() -> None:
    images = {"oldColumns": [string("中".encode("gbk"), "gbk")], "newColumns": [string("ü".encode("latin1"), "latin1")]}
    one = record(envelope(data_of(dml([("v", "text", False)], images, op=1))))
    (row,) = rows(changes := decode(one))
    assert (row.before, row.after) == ({"v": "中"}, {"v": "ü"})
    assert encode(changes).to_pylist()[0]["value"] == one["value"]


def test_an_image_that_is_all_absent_is_an_empty_image() -> None:
    one = record(envelope(data_of(dml([ID], {"oldColumns": [NA], "newColumns": [number(3, "1")]}, op=1))))
    (row,) = rows(decoded := decode(one))
    assert (row.before, row.after) == ({}, {"id": 1})
    for changes in (decoded, *text.parse(text.lines(decoded))):
        assert bytes_of(encode(changes))[0]["value"] == one["value"]


def new_row(t: str, value: Any) -> Decoded:
    """A row of another protocol."""
    shape = TableShape("shop", "t", (Column("v", ColumnType.parse(t)),))
    built = BatchBuilder()
    built.add(shape, Place("t", 0, 0), "insert", before=None, after={"v": value}, commit_time=1767312000000)
    return Decoded(built.build())


def sent(t: str, value: Any, **options: Any) -> tuple[int, str, str, bytes]:
    """The `Data` of a value of another protocol."""
    from tests.protocols.tencent_dts.records import message

    parsed = message("Envelope")
    parsed.ParseFromString(encode(new_row(t, value), **options).to_pylist()[0]["value"])
    entries = message("Entries")
    entries.ParseFromString(parsed.data)
    data = entries.items[0].event.dmlEvent.rows[0].newColumns[0]
    return data.dataType, data.charset, data.sv, data.bv


@pytest.mark.parametrize(
    "t, value, options, data",
    [
        ("tinyint unsigned", 255, {}, (5, "", "255", b"")),
        ("mediumint", -1, {}, (3, "", "-1", b"")),
        ("boolean", True, {}, (1, "", "1", b"")),
        ("bit(64)", 2**63, {}, (4, "", "-9223372036854775808", b"")),
        ("bit(64)", 2**63, {"bit64_signed": "false"}, (4, "", "9223372036854775808", b"")),
        ("bit(8)", 255, {}, (4, "", "255", b"")),
        ("double", 1.0, {}, (10, "", "1", b"")),
        ("double", 1e21, {}, (10, "", "1e+21", b"")),
        ("double", 1e-7, {}, (10, "", "1e-07", b"")),
        ("varchar(9)", "é", {}, (13, "utf8", "", "é".encode())),
        ("varchar(9)", "é", {"charset": "latin1"}, (13, "latin1", "", b"\xe9")),
        ("binary(2)", b"\0\0", {}, (11, "", "", b"\0\0")),
        ("binary(2)", b"\0\0", {"binary_as": "string"}, (13, "binary", "", b"\0\0")),
        ("blob", b"\0", {"binary_as": "string"}, (11, "", "", b"\0")),
        ("timestamp(3)", 0, {}, (13, "utf8", "", b"1970-01-01 00:00:00.000 +00:00")),
        ("datetime", 0, {"charset": "gbk"}, (13, "utf8", "", b"1970-01-01 00:00:00")),
        ("json", "{}", {}, (11, "", "", b"{}")),
        ("point", {"srid": 4326, "wkb": b"x"}, {}, (11, "", "", b"\xe6\x10\0\0x")),
        ("enum", 3, {}, (13, "utf8", "", b"3")),
    ],
)
def test_a_foreign_value_is_written_in_the_usual_form(
    t: str, value: Any, options: dict[str, Any], data: tuple[int, str, str, bytes]
) -> None:
    assert sent(t, value, **options) == data


@pytest.mark.parametrize(
    "t, value, options, error",
    [
        ("vector", [1.0], {}, "tencent-dts cannot carry shop.t.v of type vector (insert of shop.t at t:0:0)"),
        (
            "text",
            "🐟",
            {"charset": "gbk"},
            "tencent-dts: insert of shop.t at t:0:0: '🐟' is not in the character set gbk",
        ),
    ],
)
def test_a_value_that_cannot_be_sent_is_refused(t: str, value: Any, options: dict[str, Any], error: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        encode(new_row(t, value), **options)
    assert str(caught.value) == error
