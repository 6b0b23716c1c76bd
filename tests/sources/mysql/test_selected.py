"""Columns of a SELECT: what Arrow casts at once is what each value alone gives, and what is not of the type is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.errors import SchemaError
from changefeed.model.types import ColumnType
from changefeed.mysql.binlog import codes
from changefeed.mysql.binlog.table_map import MappedColumn
from changefeed.sources.mysql.columns import array
from changefeed.sources.mysql.selected import reader, selected

_DAYS = st.sampled_from(["0000-00-00", "2024-00-10", "0000-01-01", "1000-01-01", "9999-12-31", "2024-02-29"])
_CLOCKS = st.times().map(lambda t: t.strftime("%H:%M:%S.%f")[:12])
_DIGITS = st.decimals(-99999, 99999, places=2).map(str)
_TEXTS = st.one_of(st.text(max_size=5), st.sampled_from(["", "é", "abc"]))


def _column(code: int, **details: Any) -> MappedColumn:
    return MappedColumn(code, 0, True, "c", **details)


def _text(charset: str) -> MappedColumn:
    return _column(codes.VARCHAR, charset=charset)


# type, column, texts or bytes that the server sends
KINDS: dict[str, tuple[MappedColumn, st.SearchStrategy[Any]]] = {
    "int": (_column(codes.LONG), st.one_of(st.integers(-(2**31), 2**31 - 1).map(str), st.just("00042"))),
    "bigint unsigned": (_column(codes.LONGLONG, unsigned=True), st.integers(0, 2**64 - 1).map(str)),
    "year": (_column(codes.YEAR), st.sampled_from(["0000", "1901", "2155"])),
    "double": (_column(codes.DOUBLE), st.floats(allow_nan=False, allow_infinity=False).map(repr)),
    "float": (_column(codes.FLOAT), st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)),
    "decimal(7,2)": (_column(codes.NEWDECIMAL), st.one_of(_DIGITS, st.sampled_from(["-0.00", "00012.30", "-0000.50"]))),
    "date": (_column(codes.DATE), _DAYS),
    "datetime(3)": (_column(codes.DATETIME2), st.builds("{} {}".format, _DAYS, _CLOCKS)),
    "timestamp(3)": (_column(codes.TIMESTAMP2), st.builds("{} {}".format, _DAYS, _CLOCKS)),
    "time(3)": (_column(codes.TIME2), st.sampled_from(["-838:59:59.000", "00:00:00.500", "100:00:01.000"])),
    "bit(9)": (_column(codes.BIT), st.binary(min_size=2, max_size=2)),
    "enum('a','é')": (_column(codes.ENUM, members=("a", "é")), st.sampled_from("012")),
    "set('a','é')": (_column(codes.SET, members=("a", "é")), st.sampled_from("0123")),
    "json": (_column(codes.JSON), st.sampled_from(["{}", '{"a": "é"}', "null"])),
    "varchar(9)": (_text("utf8mb4"), st.one_of(_TEXTS, st.just(b"\xff"), st.just(b"\xed\xa0\x80"))),
    "varchar(8)": (_text("latin1"), st.one_of(st.binary(max_size=3), st.just("abc"))),
    "varchar(7)": (_text("ucs2"), st.one_of(st.just("ab".encode("utf-16-be")), st.binary(max_size=4))),
    "varchar(6)": (_text("gbk"), st.one_of(st.just("北京".encode("gbk")), st.binary(max_size=3))),
    "varbinary(9)": (_column(codes.VARCHAR, charset="binary"), st.binary(max_size=3)),
    "char(36)": (_column(codes.STRING, mariadb_type="uuid"), st.uuids().map(str)),
    "point": (_column(codes.GEOMETRY, geometry="point"), st.binary(max_size=30)),
    "vector(2)": (_column(codes.VECTOR), st.binary(min_size=8, max_size=8)),
}  # fmt: skip


def _sent(values: list[Any]) -> pa.BinaryArray:
    return pa.array([value.encode() if isinstance(value, str) else value for value in values], pa.binary())


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_column_is_what_each_of_its_values_is(kind: str, data: st.DataObject) -> None:
    column, values = KINDS[kind]
    sent = _sent(data.draw(st.lists(st.one_of(st.none(), values), max_size=8)))
    its_type, read = ColumnType.parse(kind), reader(column)
    right, right_irregular = array([None if v is None else read(v) for v in sent.to_pylist()], its_type)
    actual, irregular = selected(sent, column, its_type)
    assert actual.type == its_type.arrow
    assert [repr(value) for value in actual.to_pylist()] == [repr(value) for value in right.to_pylist()]
    assert irregular == right_irregular


@pytest.mark.parametrize(
    "kind, sent", [
        ("int", "x"), ("int", ""), ("int", "2147483648"), ("year", "-1"), ("double", "1,5"), ("decimal(7,2)", "abc"),
        ("date", "10:20:30"), ("datetime(3)", "x"), ("enum('a','é')", "3"), ("time(3)", b"\xff"), ("json", b"\xff"),
    ],
)  # fmt: skip
def test_bytes_of_another_type_are_refused(kind: str, sent: Any) -> None:
    column, _ = KINDS[kind]
    with pytest.raises((SchemaError, ValueError, IndexError)):
        selected(_sent([None, sent]), column, ColumnType.parse(kind))
