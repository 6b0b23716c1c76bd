"""Values after a change of type, as servers made them: compared with recordings of MariaDB and MySQL.

`tests/data/retype/*.jsonl.gz` has a line for each pair of types: old type, new type, and the values before and after
`ALTER TABLE … MODIFY` without strict mode. `retype_server.py` records them.
"""

from __future__ import annotations

from base64 import b64encode

import pyarrow as pa
import pytest
from msgspec.structs import replace

from changefeed.frames.retype import Details, Server, conversion
from changefeed.frames.types import sink_type
from changefeed.model.types import ColumnType
from tests.frames.retype_server import RECORDED_AT
from tests.frames.retyping import column, recorded, shown, values

# Without strict mode only: the server's own arithmetic of DOUBLE(m,d) leaves other digits in the double than it prints.
_PRINTED = {("double(10,2)", "double"), ("double(10,2)", "decimal(65,30)")}

REFUSED = [
    ("varchar(9)", "int"),
    ("varchar(9)", "enum('a')"),
    ("varchar(9)", "date"),
    ("enum", "enum('a')"),
    ("enum('a')", "enum('A')"),
    ("enum('é')", "enum('e')"),
    ("enum('a,b')", "set('a','b')"),
    ("set('a','b')", "enum('a,b')"),
    ("enum('1','2','3')", "set('a')"),
    ("set('a')", "enum('A')"),
    ("datetime", "timestamp"),
    ("timestamp", "datetime"),
    ("timestamp", "varchar(30)"),
    ("time", "datetime"),
    ("int", "date"),
    ("bit(8)", "text"),
    ("geometry", "point"),
    ("vector(2)", "vector(3)"),
    ("json", "varchar(9)"),
    ("varchar(9)", "json"),
    ("varchar(9)", "varbinary(9)"),
    ("blob", "text"),
    ("datetime(6)", "datetime(3)"),
    ("time(3)", "time"),
]


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_values_are_those_of_the_server(server: Server) -> None:
    compared = 0
    for pair in recorded(server):
        made = conversion(pair.old, pair.new, Details(server, charset="utf8mb4"))
        if made is None or (str(pair.old), str(pair.new)) in _PRINTED:
            continue
        got = made.values(column(pair.old, pair.before))
        assert got.type == sink_type(pair.new).arrow, pair
        for before, after, value in zip(pair.before, pair.after, values(pair.new, got), strict=True):
            assert value == shown(pair.new, after), f"{server}: {pair.old} {before!r} as {pair.new}"
            compared += 1
        if made.is_copy:
            assert got.equals(column(pair.old, pair.before)), pair
    assert compared > 18_000


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_no_value_makes_a_conversion_fail(server: Server) -> None:
    """For types of all sizes that are not in the recordings."""
    for pair in {pair.old: pair for pair in recorded(server)}.values():
        for new in _SMALL:
            made = conversion(pair.old, new, Details(server, charset="latin1"))
            if made is not None:
                assert made.values(column(pair.old, pair.before)).type == sink_type(new).arrow


_SMALL = [
    ColumnType.parse(text)
    for text in (
        "decimal(1,0)", "decimal(1,1)", "decimal(65,0)", "decimal(30,30)", "decimal(39,0)", "decimal(38,38)", "float(1,0)",
        "bit(1)", "tinyint", "varchar(0)", "char(1)", "tinytext", "binary(1)", "varbinary(0)", "tinyblob", "time(5)",
        "datetime(5)", "enum('z')", "set('z')", "year", "double",
    )
]  # fmt: skip


@pytest.mark.parametrize("old, new", REFUSED)
def test_values_that_only_the_server_has_have_no_conversion(old: str, new: str) -> None:
    assert conversion(ColumnType.parse(old), ColumnType.parse(new)) is None


def one(old: str, value: object, new: str, **details: object) -> object:
    before, after = ColumnType.parse(old), ColumnType.parse(new)
    made = conversion(before, after, Details(**details))  # type: ignore[arg-type]
    assert made is not None
    [result] = values(after, made.values(column(before, [value])))
    return result


def test_zerofill_pads_the_texts_of_numbers() -> None:
    assert one("smallint unsigned", 25, "varchar(10)", width=5) == "00025"
    assert one("int unsigned", 123_456, "char(9)", width=5) == "123456"


@pytest.mark.parametrize(
    "old, value, text",
    [("int", -7, "-7"), ("decimal(5,2)", "1.50", "1.50"), ("double", 1e20, "1e20")],
)
def test_a_number_becomes_json_in_mariadb(old: str, value: object, text: str) -> None:
    assert one(old, value, "json", server="mariadb") == text
    assert conversion(ColumnType.parse(old), ColumnType("json"), Details(server="mysql")) is None


def test_texts_are_encoded_in_their_character_set() -> None:
    assert one("varchar(9)", "é€", "varbinary(9)", charset="latin1") == {"base64": "6YA="}
    assert one("varchar(9)", "é", "blob", charset="utf8mb4") == {"base64": "w6k="}
    assert one("varbinary(9)", {"base64": "6YA="}, "varchar(9)", charset="latin1") == "é€"


@pytest.mark.parametrize(
    "server, charset, new, data",
    [
        ("mysql", "latin1", "binary(2)", b"0 "), ("mysql", "latin1", "binary(3)", b"0\0\0"),
        ("mysql", "utf8mb4", "binary(2)", b"0\0"), ("mysql", "ucs2", "binary(2)", b"\x000"),
        ("mariadb", "latin1", "binary(2)", b"0\0"), ("tidb", "latin1", "binary(2)", b"0\0"),
    ],
)  # fmt: skip
def test_mysql_keeps_the_spaces_of_a_char_in_a_binary_of_its_size(
    server: Server, charset: str, new: str, data: bytes
) -> None:
    assert one("char(2)", "0", new, charset=charset, server=server) == {"base64": b64encode(data).decode()}
    assert conversion(ColumnType.parse("char(2)"), ColumnType.parse("binary(2)"), Details(charset="latin1")) is None


@pytest.mark.parametrize("server, text", [("mariadb", "A?B"), ("mysql", "A")])
def test_a_byte_that_is_not_ascii_is_marked_or_ends_the_text(server: str, text: str) -> None:
    assert one("varbinary(3)", {"base64": "QelC"}, "varchar(9)", charset="ascii", server=server) == text


@pytest.mark.parametrize("server, largest", [("mysql", 2**63 - 1), ("mariadb", 2**64 - 1), ("tidb", 2**64 - 1)])
@pytest.mark.parametrize(
    "decimal, number",
    [
        ("9223372036854775807.3", 2**63 - 1), ("9223372036854775807.5", 2**63), ("9469641307854399488.3", 9469641307854399488),
        ("18446744073709551615.5", 2**64), ("-1.5", 0),
    ],
)  # fmt: skip
def test_mysql_takes_a_decimal_for_a_signed_number_first(
    server: Server, largest: int, decimal: str, number: int
) -> None:
    assert one("decimal(38,10)", decimal, "bigint unsigned", server=server) == min(number, largest)


def test_a_member_that_is_gone_is_looked_up_as_a_number() -> None:
    assert one("enum('1','2','3')", "2", "enum('1','3')") == "3"
    assert one("set('1','x')", "1", "set('y','x')") == "y"


def test_a_text_is_cut_by_bytes_where_its_character_set_is_known() -> None:
    assert one("longtext", "é" * 200, "tinytext", charset="utf8mb4") == "é" * 127
    assert one("longtext", "é" * 200, "tinytext") == "é" * 200, "255 characters of latin1 are 255 bytes"
    assert one("longtext", "a" * 300, "tinytext") == "a" * 255


def test_rounding_ends_at_the_last_moment_of_the_type() -> None:
    assert one("datetime(1)", "9999-12-31 23:59:59.9", "datetime", server="mysql") is None
    assert one("datetime(1)", "9999-12-31 23:59:59.9", "datetime", server="mariadb") == "9999-12-31 23:59:59"
    assert one("timestamp(1)", "2038-01-19T03:14:07.9Z", "timestamp", server="mysql") is None


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
@pytest.mark.parametrize(
    "value, text",
    [
        (953078824548156.0, "953078824548156"),
        (953078824548156.9, "953078824548156.9"),
        (3165967001143225.5, "3165967001143225.5"),
        (-3319695277598443.5, "-3319695277598443.5"),
        (4763549362336835.0, "4.763549362336835e15"),
        (1e15, "1e15"),
    ],
)
def test_a_whole_number_of_sixteen_digits_has_an_exponent_and_a_fraction_has_none(
    server: Server, value: float, text: str
) -> None:
    """The texts are those of MySQL 8.0 and MariaDB 10.11."""
    old, new = ColumnType.parse("double"), ColumnType.parse("varchar(30)")
    made = conversion(old, new, Details(server, charset="utf8mb4"))
    assert made is not None
    assert made.values(pa.array([value])).to_pylist() == [text]


@pytest.mark.parametrize(
    "zone, new, wanted",
    [
        ("+05:30", "datetime(3)", "2026-07-02 02:39:59.500"),
        ("Europe/Berlin", "datetime(3)", "2026-07-01 23:09:59.500"),
        ("Europe/Berlin", "date", "2026-07-01"),
        ("Europe/Berlin", "time", "23:10:00"),
        ("+05:30", "varchar(30)", "2026-07-02 02:39:59.500"),
    ],
)
def test_a_timestamp_is_converted_by_its_local_time(zone: str, new: str, wanted: str) -> None:
    old, t = ColumnType.parse("timestamp(3)"), ColumnType.parse(new)
    made = conversion(old, t, Details("mysql", charset="utf8mb4", zone=zone))
    assert made is not None
    assert values(t, made.values(column(old, ["2026-07-01T21:09:59.500Z", None]))) == [wanted, None]
    assert conversion(old, t, Details("mysql", charset="utf8mb4")) is None


@pytest.mark.parametrize(
    "zone, server, old, value, wanted",
    [
        ("+05:30", "mysql", "datetime(3)", "2026-07-02 02:39:59.500", "2026-07-01T21:10:00Z"),  # rounded
        ("+05:30", "mariadb", "datetime(3)", "2026-07-02 02:39:59.500", "2026-07-01T21:09:59Z"),
        ("-01:00", "mysql", "date", "2026-07-02", "2026-07-02T01:00:00Z"),
        ("+00:00", "mysql", "datetime", "2038-01-19 03:14:08", None),
        ("+01:00", "mariadb", "date", "1970-01-01", None),
    ],
)
def test_a_local_time_becomes_an_instant(zone: str, server: Server, old: str, value: str, wanted: str | None) -> None:
    before, after = ColumnType.parse(old), ColumnType.parse("timestamp")
    made = conversion(before, after, Details(server, zone=zone))
    assert made is not None
    assert values(after, made.values(column(before, [value, None]))) == [wanted, None]
    assert conversion(before, after, Details(server)) is None
    assert conversion(before, after, Details(server, zone="Europe/Berlin")) is None


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_a_time_is_one_of_the_day_of_the_statement(server: Server) -> None:
    pairs = [p for p in recorded(server) if p.old.name == "time" and p.new.name in ("date", "datetime", "timestamp")]
    assert len(pairs) > 20
    for pair in pairs:
        details = Details(server, zone="UTC", time=RECORDED_AT * 1_000_000)
        made = conversion(pair.old, pair.new, details)
        assert made is not None
        results = values(pair.new, made.values(column(pair.old, pair.before)))
        assert results == [shown(pair.new, after) for after in pair.after], (pair.old, pair.new)
        for unknown in ({"zone": ""}, {"time": None}, {"server": "tidb"}):
            assert conversion(pair.old, pair.new, replace(details, **unknown)) is None


def test_a_time_of_the_day_that_it_is_in_the_session() -> None:
    """2026-01-01 at midnight in UTC is the day before in New York."""
    old, new = ColumnType.parse("time(3)"), ColumnType.parse("datetime(3)")
    made = conversion(old, new, Details("mysql", zone="America/New_York", time=RECORDED_AT * 1_000_000))
    assert made is not None
    texts = ["10:00:00.250", "-00:00:00.001", "25:00:00.000", None]
    wanted = ["2025-12-31 10:00:00.250", "2025-12-30 23:59:59.999", "2026-01-01 01:00:00.000", None]
    assert values(new, made.values(column(old, texts))) == wanted
