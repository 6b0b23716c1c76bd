"""Columns converted from the types of records to the types of tables, and back to canonical values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.errors import SchemaError
from changefeed.frames.convert import convert, to_canonical, to_sink
from changefeed.frames.types import sink_type, widen
from changefeed.model.types import ColumnType
from changefeed.model.values import reader
from changefeed.protocols import protocol
from tests.examples import examples
from tests.frames.strategies import canonical_values, types


def decoded(values: list[Any], t: ColumnType) -> pa.Array:
    """The column as a decoder builds it."""
    read = reader(t)
    return pa.array([None if v is None else read(v) for v in values], t.arrow)


def converted(values: list[Any], source: str, target: str) -> tuple[list[Any], dict[int, str]]:
    wanted = ColumnType.parse(target)
    result = convert(decoded(values, ColumnType.parse(source)), ColumnType.parse(source), wanted)
    assert result.array.type == sink_type(wanted).arrow
    return to_canonical(result.array, wanted), result.irregular


@examples(100)
@given(st.data())
def test_a_column_of_its_own_type_comes_through_whole(data: st.DataObject) -> None:
    t = data.draw(types())
    values = data.draw(st.lists(canonical_values(t), max_size=5))
    result = convert(decoded(values, t), t, t)
    assert result.irregular == {}
    assert result.array.type == sink_type(t).arrow
    assert to_canonical(result.array, t) == values


@examples(100)
@given(st.data())
def test_a_wider_type_holds_every_value_of_both(data: st.DataObject) -> None:
    first, second = data.draw(types()), data.draw(types())
    wide = widen(first, second)
    assert widen(second, first) == wide
    assert widen(wide, wide) == wide
    for t in (first, second):
        if t.members is None and wide.members is not None:
            continue  # an index after the last known member stays irregular
        values = data.draw(st.lists(canonical_values(t), max_size=3))
        result = convert(decoded(values, t), t, wide)
        if not (t.arrow == pa.binary() and wide.arrow == pa.string()):
            assert result.irregular == {}
        assert [v is None for v in result.array.to_pylist()] == [v is None for v in values] or result.irregular


CASES = [
    # source, target, values, canonical values, irregular
    ("decimal", "decimal(12,2)", ["1.5", "-3", None, "1.500"], ["1.50", "-3.00", None, "1.50"], {}),
    ("decimal", "decimal(5,2)", ["999.99", "1000.00", "0.005"], ["999.99", None, None], {1: "1000.00", 2: "0.005"}),
    ("decimal", "decimal(65,30)", ["1", "0.0000001"], ["1." + "0" * 30, "0.0000001" + "0" * 23], {}),
    ("decimal(10,2)", "decimal(12,4)", ["1.50"], ["1.5000"], {}),
    ("decimal(10,2)", "decimal(10,1)", ["1.50", "1.55"], ["1.5", None], {1: "1.55"}),
    ("decimal(10,2)", "int", ["7.00", "7.50"], [7, None], {1: "7.50"}),
    ("decimal(10,8)", "text", ["0.00000001"], ["0.00000001"], {}),
    ("bigint unsigned", "bigint unsigned", [2**64 - 1], [2**64 - 1], {}),
    ("bigint unsigned", "bigint", [5, 2**63], [5, None], {1: "9223372036854775808"}),
    ("bigint", "int unsigned", [-1, 2**32 - 1, 2**32], [None, 2**32 - 1, None], {0: "-1", 2: "4294967296"}),
    ("int", "mediumint", [2**23 - 1, 2**23], [2**23 - 1, None], {1: "8388608"}),
    ("int", "decimal(5,2)", [999, 1000], ["999.00", None], {1: "1000"}),
    ("bigint", "double", [2**53, 2**53 + 1], [2.0**53, None], {1: "9007199254740993"}),
    ("bit", "bit(3)", [7, 8], [7, None], {1: "8"}),
    ("boolean", "tinyint(1)", [True, None, False], [1, None, 0], {}),
    ("varchar", "int", ["12", "x", "1.0", ""], [12, None, 1, None], {1: "x", 3: ""}),
    ("double", "float", [3.14, 1e300, 0.1 + 0.2], [3.14, None, None], {1: "1e+300", 2: "0.30000000000000004"}),
    ("double", "decimal(30,10)", [1e-10, 1e20], ["0.0000000001", None], {1: "100000000000000000000"}),
    ("date", "datetime(3)", ["2026-01-02"], ["2026-01-02 00:00:00.000"], {}),
    ("datetime(3)", "datetime(6)", ["2026-01-02 03:04:05.100"], ["2026-01-02 03:04:05.100000"], {}),
    (
        "datetime(6)",
        "datetime(3)",
        ["1969-12-31 23:59:59.999000", "1969-12-31 23:59:59.999999"],
        ["1969-12-31 23:59:59.999", None],
        {1: "1969-12-31 23:59:59.999999"},
    ),
    ("enum", "enum('a','b')", [{"index": 2}, {"index": 0}, None, {"index": 3}], ["b", "", None, None], {3: "3"}),
    ("set", "set('a','b','c')", [{"bits": 5}, {"bits": 0}, None, {"bits": 8}], ["a,c", "", None, None], {3: "8"}),
    ("enum('a','b')", "enum('a')", ["a", "b"], ["a", None], {1: "b"}),
    ("set('a','b')", "set('b','c')", ["b", "a,b", ""], ["b", None, ""], {1: "a,b"}),
    ("varchar", "enum('a')", ["a", "b"], ["a", None], {1: "b"}),
    ("enum", "text", [{"index": 2}], ['{"index":2}'], {}),
    ("text", "blob", ["é"], [{"base64": "w6k="}], {}),
    ("blob", "text", [{"base64": "w6k="}, {"base64": "/w=="}], ["é", None], {1: "\\xff"}),
    ("int", "varchar(3)", [5], ["5"], {}),
    ("timestamp", "text", ["2026-01-02T03:04:05Z"], ["2026-01-02T03:04:05Z"], {}),
    ("text", "datetime(1)", ["2026-01-02 03:04:05.1", "soon"], ["2026-01-02 03:04:05.1", None], {1: "soon"}),
    ("point", "geometry", [{"srid": 2**32 - 1, "wkb": "AAE="}, None], [{"srid": 2**32 - 1, "wkb": "AAE="}, None], {}),
    ("vector", "vector(2)", [[1.5, 2.0], None], [[1.5, 2.0], None], {}),
]


@pytest.mark.parametrize("source, target, values, expected, irregular", CASES, ids=[f"{c[0]} to {c[1]}" for c in CASES])
def test_conversion(
    source: str, target: str, values: list[Any], expected: list[Any], irregular: dict[int, str]
) -> None:
    assert converted(values, source, target) == (expected, irregular)


@pytest.mark.parametrize(
    "source, target, values, expected, irregular",
    [
        ("bigint", "bigint unsigned", [-1, None, 7], [2**64 - 1, None, 7], {}),
        ("bigint", "datetime(3)", [1500, None], ["1970-01-01 00:00:01.500", None], {}),
        ("bigint", "datetime", [1500, 2000, 1500], [None, "1970-01-01 00:00:02", None], {0: "1500", 2: "1500"}),
        ("bigint", "date", [0, 10**7], ["1970-01-01", None], {1: "10000000"}),
        ("bigint", "int", [5, 2**40], [5, None], {1: "1099511627776"}),
        ("varchar", "timestamp", ["2026-01-02T03:04:05Z", None], ["2026-01-02T03:04:05Z", None], {}),
        ("varchar", "timestamp", ["2026-01-02T03:04:05.5Z"], [None], {0: "2026-01-02T03:04:05.5Z"}),
        ("time(6)", "time(3)", ["00:00:01.500000", "00:00:01.500500"], ["00:00:01.500", None], {1: "00:00:01.500500"}),
        ("varbinary", "binary(3)", [{"base64": "AQ=="}, None], [{"base64": "AQAA"}, None], {}),
        ("varbinary", "varbinary(3)", [{"base64": "AQ=="}], [{"base64": "AQ=="}], {}),
        ("enum('a','b')", "enum('a')", ["a", "b"], ["a", None], {1: "b"}),
        ("vector", "vector(2)", [[1.5, 2.0], None], [[1.5, 2.0], None], {}),
    ],
)
def test_a_column_converted_by_its_protocol(
    source: str, target: str, values: list[Any], expected: list[Any], irregular: dict[int, str]
) -> None:
    inferred, wanted = ColumnType.parse(source), ColumnType.parse(target)
    debezium = protocol("debezium-mysql")
    assert debezium.redefine is not None
    redefine = debezium.redefine(debezium.read_options({}))
    result = convert(
        pa.concat_arrays([decoded(values[:1], inferred), decoded(values, inferred)])[1:], inferred, wanted, redefine
    )
    assert (to_canonical(result.array, wanted), result.irregular) == (expected, irregular)


@pytest.mark.parametrize("target", ["int", "varchar(9)", "geometry", "enum('a')", "decimal(40,2)"])
def test_a_column_without_a_single_value_fits_every_type(target: str) -> None:
    t = ColumnType.parse(target)
    result = convert(pa.nulls(2), ColumnType("null"), t)
    assert (result.array.type, result.array.null_count, result.irregular) == (sink_type(t).arrow, 2, {})


@pytest.mark.parametrize(
    "source, target", [("int", "geometry"), ("timestamp", "datetime"), ("text", "timestamp"), ("enum", "set('a')")]
)
def test_types_with_nothing_in_common_are_refused(source: str, target: str) -> None:
    kind = ColumnType.parse(source)
    with pytest.raises(SchemaError) as caught:
        convert(pa.nulls(1, kind.arrow), kind, ColumnType.parse(target))
    assert str(caught.value) == f"a column of type {target} cannot take values of type {source}"


def test_a_column_that_does_not_change_is_not_copied() -> None:
    array = pa.array(["a", None])
    assert convert(array, ColumnType("varchar"), ColumnType("varchar", length=9)).array is array


def test_a_slice_is_converted_by_its_own_rows() -> None:
    whole = pa.array(["9", "1000.00", "1.005", "2"])
    result = convert(whole.slice(1), ColumnType("decimal"), ColumnType("decimal", length=5, scale=2))
    assert result.irregular == {0: "1000.00", 1: "1.005"}
    assert result.array.to_pylist() == [None, None, Decimal("2.00")]


@examples(100)
@given(st.data())
def test_columns_as_other_readers_return_them_have_the_same_values(data: st.DataObject) -> None:
    t = data.draw(types())
    values = data.draw(st.lists(canonical_values(t), max_size=3))
    array = to_sink(decoded(values, t), t)
    other = {
        pa.string(): pa.large_string(),
        pa.binary(): pa.large_binary(),
        pa.timestamp("us", "UTC"): pa.timestamp("us", "Asia/Shanghai"),
        pa.list_(pa.float32()): pa.large_list(pa.float32()),
    }.get(array.type, array.type)
    assert to_canonical(pa.chunked_array([array.cast(other)]), t) == values
