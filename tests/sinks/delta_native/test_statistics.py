"""Statistics never hide a row: every value lies within the bounds of its file, as Spark orders values."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changefeed.frames.types import sink_type
from changefeed.model.types import ColumnType
from changefeed.sinks.apply.files import DataFileWriter, Limits
from changefeed.sinks.delta.native.layout import DeltaLayout
from changefeed.storage.local import LocalFolder
from tests.frames.strategies import types
from tests.sinks.delta_native.histories import VALUES

MOMENTS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
ARROW: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.decimal128(9, 2): st.decimals(-9_999_999, 9_999_999, places=2),
    pa.decimal128(20, 0): st.integers(0, 2**64 - 1).map(Decimal),
    pa.string(): st.text(max_size=5) | st.text("a\U0010ffff\U0010fffeé", min_size=30, max_size=40),
    pa.binary(): st.binary(max_size=5),
    pa.bool_(): st.booleans(),
    pa.date32(): st.integers(-719_162, 2_932_896),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("us", "UTC"): MOMENTS,
}


def written(folder: str, column: pa.Array, **limits: Any) -> tuple[dict[str, Any], pa.Table]:
    schema = pa.schema([("nested", pa.struct([("v", column.type), ("n", pa.int8())])), ("v", column.type)])
    writer = DataFileWriter(DeltaLayout(LocalFolder(folder)), schema, Limits(**limits))
    writer.write(pa.RecordBatch.from_arrays([pa.nulls(len(column), schema.field(0).type), column], schema=schema))
    [file] = writer.close()
    read = pq.read_table(f"{folder}/{file.path}", partitioning=None)
    return json.loads(file.stats, parse_float=Decimal), read


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("kind", ARROW, ids=str)
def test_every_value_lies_within_the_bounds(kind: pa.DataType, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = str(tmp_path_factory.mktemp("files"))

    @settings(deadline=None)
    @given(st.lists(st.none() | ARROW[kind], min_size=1, max_size=8))
    def holds(values: list[Any]) -> None:
        column = pa.array(values, kind)
        stats, read = written(folder, column)
        assert read.column("v").equals(pa.chunked_array([column])) or pa.types.is_floating(kind)
        assert stats["numRecords"] == len(values)
        assert stats["nullCount"]["v"] == column.null_count
        assert list(stats["nullCount"]) == ["v"], "nested columns have none"
        if "v" in stats["minValues"]:
            low, high = stats["minValues"]["v"], stats["maxValues"]["v"]
            for value in (v for v in values if v is not None):
                assert ordered(low, kind) <= comparable(value, kind) <= ordered(high, kind)
        if any(isinstance(v, float) and not math.isfinite(v) for v in values):
            assert "v" not in stats["minValues"]

    holds()


def comparable(value: Any, kind: pa.DataType) -> Any:
    if pa.types.is_floating(kind):
        return float(np.float32(value)) if pa.types.is_float32(kind) else value
    return value.encode() if isinstance(value, str) else value


def ordered(bound: Any, kind: pa.DataType) -> Any:
    """A bound as a number like the values; a text as its bytes, as Spark compares texts."""
    if pa.types.is_timestamp(kind):
        assert bound.endswith("Z") is bool(kind.tz)
        return int(np.datetime64(bound.removesuffix("Z"), "us").astype(int))
    if pa.types.is_date32(kind):
        return int(np.datetime64(bound, "D").astype(int))
    return bound.encode() if isinstance(bound, str) else float(bound) if pa.types.is_floating(kind) else bound


def test_zeros_have_the_sign_that_is_farther_out(tmp_path: Any) -> None:
    for values in ([0.0], [-0.0]):
        stats, _ = written(str(tmp_path), pa.array(values))
        assert [str(stats[end]["v"]) for end in ("minValues", "maxValues")] == ["-0.0", "0.0"]


def test_footers_have_no_bounds_of_columns_that_may_hold_nan(tmp_path: Any) -> None:
    """Parquet's bounds leave NaN out, and Spark skips row groups by them."""
    writer = DataFileWriter(DeltaLayout(LocalFolder(str(tmp_path))), pa.schema([("v", pa.float64())]), Limits())
    writer.write(pa.record_batch([pa.array([1.0, math.nan])], names=["v"]))
    [file] = writer.close()
    column = pq.read_metadata(tmp_path / file.path).row_group(0).column(0)
    assert column.statistics is None or not column.statistics.has_min_max


def test_bounds_cover_all_row_groups(tmp_path: Any) -> None:
    schema = pa.schema([("v", pa.int64()), ("f", pa.float64())])
    writer = DataFileWriter(DeltaLayout(LocalFolder(str(tmp_path))), schema, Limits(group_bytes=1))
    for value in (5, None, -3):
        writer.write(pa.record_batch([pa.array([value], pa.int64()), pa.array([value], pa.float64())], schema=schema))
    [file] = writer.close()
    assert pq.read_metadata(tmp_path / file.path).num_row_groups == 3
    stats = json.loads(file.stats)
    assert (stats["minValues"], stats["maxValues"]) == ({"v": -3, "f": -3.0}, {"v": 5, "f": 5.0})
    assert stats["nullCount"] == {"v": 1, "f": 1}


def test_only_the_first_columns_have_statistics(tmp_path: Any) -> None:
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(40)])
    for indexed, wanted in ((32, 32), (3, 3), (-1, 40), (0, 0)):
        writer = DataFileWriter(DeltaLayout(LocalFolder(str(tmp_path)), indexed), schema, Limits())
        writer.write(pa.record_batch([pa.array([1], pa.int64())] * 40, schema=schema))
        [file] = writer.close()
        assert len(json.loads(file.stats)["nullCount"]) == wanted


@settings(deadline=None)
@given(types())
def test_every_type_of_the_sink_can_be_written(kind: ColumnType) -> None:
    """Tests types, not values: Spark reads the values of `histories.VALUES` in other tests."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        column = pa.nulls(2, sink_type(kind).arrow)
        stats, read = written(folder, column)
        assert read.column("v").null_count == 2
        assert stats["numRecords"] == 2


def test_histories_have_every_type_of_the_sink() -> None:
    from changefeed.frames.types import _ARROW

    there = {sink_type(ColumnType.parse(text)).sql for text, _ in VALUES.values()} | {"bigint"}
    assert there >= {*_ARROW}
