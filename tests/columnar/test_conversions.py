"""The conversion of a whole column equals the conversion of each value, or is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.columnar.conversions import ByColumn
from changefeed.errors import SchemaError
from changefeed.model.types import ColumnType
from changefeed.model.values import IrregularError
from changefeed.protocols import protocol
from tests.examples import examples

_TEXT = {"decimal.handling.mode": "string"}
_MS, _US = {"time.precision.mode": "connect"}, {"time.precision.mode": "microseconds"}
CHANGES = [
    ("debezium-mysql", inferred, defined, options)
    for inferred, defined, options in [
        ("bigint", "bigint unsigned", {}),
        ("bigint", "date", {}),
        ("bigint", "datetime(2)", {}),
        ("bigint", "datetime(5)", {}),
        ("bigint", "datetime(6)", _MS),
        ("bigint", "datetime", _US),
        ("bigint", "datetime(6)", {"time.precision.mode": "nanoseconds"}),
        ("varchar", "timestamp", {}),
        ("varchar", "timestamp(4)", {}),
        ("varchar", "decimal(5,2)", _TEXT),
        ("varchar", "decimal(3,3)", _TEXT),
        ("varchar", "decimal(4,0)", _TEXT),
        ("varchar", "decimal(65,30)", _TEXT),
    ]
]
CHANGES += [
    ("ticdc-debezium", inferred, defined, {})
    for inferred, defined in [
        ("bigint", "bigint unsigned"),
        ("bigint", "date"),
        ("bigint", "datetime(3)"),
        ("bigint", "datetime(6)"),
        ("text", "timestamp(6)"),
    ]
]
_EDGES = [
    *(0, -1, 1, 999, 1000, 1_000_000, 2**63 - 1, -(2**63)),
    *(-719_163, -719_162, 2_932_896, 2_932_897),
    *(sign * n * unit for n in (62_135_596_800, 253_402_300_799) for unit in (10**3, 10**6) for sign in (1, -1)),
]
NUMBERS = (
    st.sampled_from(_EDGES) | st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**9), 10**9).map(lambda n: n * 10**6)
)
INSTANTS = st.from_regex(
    r"[0-3][09]\d[0-9]-(0[0-9]|1[0-3])-[0-3]\d[T ][0-2]\d:[0-6]\d:[0-6]\d(\.\d{1,7})?(Z|\+01:00|)", fullmatch=True
)
GOOD = st.from_regex(r"[12]\d\d[1-9]-(0[1-9]|1[0-2])-[0-2][1-9]T[01]\d:[0-5]\d:[0-5]\d(\.\d{1,6})?Z", fullmatch=True)


FEW_DIGITS = st.from_regex(r"-?0|-?[1-9]\d{0,1}\.\d{1,2}|-?0\.\d{1,3}|[1-9]\d{0,3}", fullmatch=True)
DIGITS = st.from_regex(r"[+-]?(0|0?[1-9]\d{0,5}|[1-9]\d{33,35})(\.\d{0,4}|\.\d{29,31}|\.|e\d)?", fullmatch=True)


def drawn(inferred: str, defined: str) -> st.SearchStrategy[Any]:
    if inferred == "bigint":
        return NUMBERS
    return FEW_DIGITS | DIGITS if defined.startswith("decimal") else GOOD | INSTANTS


def single(change: ByColumn, value: Any) -> Any:
    """The value converted alone, or the error with which it is refused."""
    try:
        return None if value is None else change(value)
    except (SchemaError, IrregularError) as error:
        return error


@pytest.mark.heavy
@pytest.mark.parametrize("name, inferred, defined, options", CHANGES, ids=lambda part: str(part) if part else "")
@examples(100)
@given(data=st.data())
def test_a_column_is_converted_like_its_single_values(
    name: str, inferred: str, defined: str, options: dict[str, Any], data: st.DataObject
) -> None:
    chosen = protocol(name)
    assert chosen.redefine is not None
    source, target = ColumnType.parse(inferred), ColumnType.parse(defined)
    change = chosen.redefine(chosen.read_options(options))(source, target)
    assert isinstance(change, ByColumn)
    values = data.draw(st.lists(st.none() | drawn(inferred, defined), max_size=3))
    whole = change.column(pa.array([None, *values], source.arrow).slice(1))
    if whole is None:
        return
    assert whole.type == target.arrow
    ready = whole.cast(
        {"date": pa.int32(), "datetime": pa.int64(), "timestamp": pa.int64()}.get(target.name, whole.type)
    )
    assert ready.to_pylist() == [single(change, value) for value in values]


@pytest.mark.parametrize(
    "inferred, defined, options, values",
    [
        ("bigint", "date", {}, [17702, None, -354285, 2932896]),
        ("bigint", "datetime(1)", {}, [1529456523900, -62135596800000, 253402300799900]),
        ("bigint", "datetime(6)", {}, [253402300799999999, -1]),
        ("bigint", "datetime(6)", {"time.precision.mode": "nanoseconds"}, [1_001_000, -1000]),
        ("bigint", "bigint unsigned", {}, [-1, 0, None]),
        (
            "varchar",
            "timestamp(6)",
            {},
            ["2018-06-20T01:02:03.123456Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"],
        ),
        ("varchar", "decimal(5,2)", _TEXT, ["0", "-999.99", None, "1.5", "-0.01", "10"]),
        ("varchar", "decimal(2,2)", _TEXT, ["0.99", "-0.5"]),
        ("varchar", "decimal(65,0)", _TEXT, ["9" * 65, "-" + "9" * 65]),
    ],
)
def test_values_that_fit_are_converted_as_a_whole(
    inferred: str, defined: str, options: dict[str, Any], values: list[Any]
) -> None:
    debezium = protocol("debezium-mysql")
    assert debezium.redefine is not None
    source = ColumnType.parse(inferred)
    change = debezium.redefine(debezium.read_options(options))(source, ColumnType.parse(defined))
    assert isinstance(change, ByColumn)
    assert change.column(pa.array(values, source.arrow)) is not None
