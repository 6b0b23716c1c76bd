"""Partition transforms of columns give what PyIceberg's own give for each value, and what Iceberg's specification lists."""

from __future__ import annotations

from decimal import Context, Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from changefeed.sinks.iceberg.transforms import murmur3, result_type, transformed

TRANSFORMS = ["identity", "bucket[16]", "bucket[7]", "truncate[3]", "truncate[100]", "year", "month", "day", "hour"]
_HOUR = 3_600_000_000


def _decimals(random: Random) -> list[Decimal]:
    exact = Context(prec=60)
    digits = [random.randint(-(10 ** random.randint(1, 37)), 10 ** random.randint(1, 37)) for _ in range(300)]
    return [Decimal(number).scaleb(-5, exact) for number in [*digits, 0, 127, 128, -128, -129, 255, 256, -1, 2**63]]


def _values(name: str, random: Random) -> list[Any]:
    """Values with the ends of their ranges, times before 1970 and on the borders of days."""
    match name:
        case "int":
            return [random.randint(-(2**31), 2**31 - 1) for _ in range(300)] + [0, -1, 34, -3, 2**31 - 1]
        case "long":
            return [random.randint(-(2**62), 2**63 - 1) for _ in range(300)] + [0, -1, 34, -(2**63) + 100]
        case "decimal":
            return _decimals(random)
        case "string":
            return ["".join(random.choice("aé漢😀z") for _ in range(random.randint(0, 20))) for _ in range(300)] + [""]
        case "binary":
            return [random.randbytes(random.randint(0, 20)) for _ in range(300)] + [b"", b"\x00\x01\x02\x03"]
        case "date":
            return [random.randint(-100_000, 100_000) for _ in range(300)] + [0, -1, -365, 31, 59]
    return [random.randint(-(10**15), 10**15) for _ in range(300)] + [0, -1, -_HOUR, -_HOUR - 1, 24 * _HOUR - 1]


TYPES: dict[str, tuple[pa.DataType, PrimitiveType]] = {
    "int": (pa.int32(), IntegerType()),
    "long": (pa.int64(), LongType()),
    "decimal": (pa.decimal128(38, 5), DecimalType(38, 5)),
    "string": (pa.string(), StringType()),
    "binary": (pa.binary(), BinaryType()),
    "date": (pa.date32(), DateType()),
    "timestamp": (pa.timestamp("us"), TimestampType()),
    "timestamptz": (pa.timestamp("us", "UTC"), TimestamptzType()),
}


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)
    return pa.array(values, kind)


def _plain(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    values: list[Any] = column.to_pylist()
    return values


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", TYPES)
def test_columns_are_transformed_as_single_values_are(name: str, transform: str) -> None:
    arrow, iceberg = TYPES[name]
    one_by_one, kind = parse_transform(transform), result_type(transform, arrow)
    assert (kind is not None) == one_by_one.can_transform(iceberg)
    if kind is None:
        return
    values = [*_values(name, Random(1)), None]
    column = _array([*values[:3], *values], arrow).slice(3)  # of an array that does not begin at its first value
    made, function = transformed(column, transform), one_by_one.transform(iceberg)
    assert made.type == kind
    assert _plain(made) == [function(value) for value in values]


@pytest.mark.parametrize(
    "value, kind, wanted",
    [
        (34, pa.int32(), 2017239379),
        (34, pa.int64(), 2017239379),
        (Decimal("14.20"), pa.decimal128(9, 2), -500754589),
        (17486, pa.date32(), -653330422),
        (1510871468000000, pa.timestamp("us"), -2047944441),
        (1510871468000000, pa.timestamp("us", "UTC"), -2047944441),
        (1510871468000001, pa.timestamp("us"), -1207196810),
        ("iceberg", pa.string(), 1210000089),
        (b"\x00\x01\x02\x03", pa.binary(), -188683207),
    ],
)
def test_the_hashes_of_the_specification(value: Any, kind: pa.DataType, wanted: int) -> None:
    assert murmur3(_array([value], kind)).astype("int32").tolist() == [wanted]


def test_floats_have_no_partitions() -> None:
    assert [result_type(name, pa.float64()) for name in TRANSFORMS] == [None] * len(TRANSFORMS)
