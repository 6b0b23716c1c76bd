"""The metrics of data files: those that PyIceberg computes from the same file, and bounds that hide no row."""

from __future__ import annotations

import base64
import io
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)

from changefeed.sinks.apply.layout import Floats
from changefeed.sinks.iceberg.layout import Metrics, metrics
from changefeed.sinks.iceberg.schema import arrow_schema, new_schema

COLUMNS = pa.schema(
    [
        ("id", pa.int32()), ("big", pa.int64()), ("flag", pa.bool_()), ("text", pa.string()), ("bytes", pa.binary()),
        ("day", pa.date32()), ("wall", pa.timestamp("us")), ("moment", pa.timestamp("us", "UTC")),
        ("short", pa.decimal128(9, 2)), ("long", pa.decimal128(38, 10)), ("list", pa.list_(pa.float32())),
        ("map", pa.map_(pa.string(), pa.string())), ("nothing", pa.int32()), ("real", pa.float64()),
    ]
)  # fmt: skip
ROWS = [
    {
        "id": -1, "big": 2**40, "flag": True, "text": "a" * 40, "bytes": b"\x00" * 20, "day": date(1000, 1, 1),
        "wall": datetime(9999, 12, 31, 23, 59, 59, 999999), "moment": datetime(1970, 1, 1, tzinfo=UTC),
        "short": Decimal("-1234567.89"), "long": Decimal("-1"), "list": [1.0, 2.0], "map": [("a", "b")], "nothing": None,
        "real": -0.0,
    },
    {
        "id": 7, "big": -5, "flag": False, "text": "é" * 40, "bytes": b"\xff" * 15 + b"\x01\x02", "day": None,
        "wall": datetime(1000, 1, 1), "moment": datetime(2038, 1, 19, tzinfo=UTC), "short": Decimal("0.01"),
        "long": Decimal("1234567890123456789012345678.0123456789"), "list": None, "map": None, "nothing": None, "real": 1.5,
    },
]  # fmt: skip


def of(rows: list[dict[str, object]], columns: pa.Schema = COLUMNS) -> tuple[Metrics, pq.FileMetaData]:
    """The metrics of a file with these rows, and its footer."""
    schema = arrow_schema(new_schema(columns))
    table, file = pa.Table.from_pylist(rows, columns).cast(schema), io.BytesIO()
    counted = [f.name for f in schema if not pa.types.is_nested(f.type) and not pa.types.is_floating(f.type)]
    with pq.ParquetWriter(file, schema, store_decimal_as_integer=True, write_statistics=counted) as writer:
        for start in range(len(rows)):
            writer.write_table(table.slice(start, 1))
    footer = pq.ParquetFile(io.BytesIO(file.getvalue())).metadata
    floats = {f.name: Floats() for f in schema if pa.types.is_floating(f.type)}
    for name, floating in floats.items():
        floating.add(table.column(name))
    return metrics(footer, schema, floats), footer


@pytest.mark.filterwarnings("ignore")
def test_metrics_are_those_of_pyiceberg() -> None:
    made, footer = of(ROWS)
    schema = new_schema(COLUMNS)
    known = data_file_statistics_from_parquet_metadata(
        footer, compute_statistics_plan(schema, {}), parquet_path_to_id_mapping(schema)
    ).to_serialized_dict()
    real = schema.find_field("real").field_id  # has no bounds in the footer
    nested = {schema.find_field(name).field_id for name in ("list.element", "map.key", "map.value")}
    assert (made.sizes, made.counts) == (known["column_sizes"], known["value_counts"])
    assert made.offsets == known["split_offsets"]
    assert {n: c for n, c in made.nulls.items() if n not in {real, *nested}} == known["null_value_counts"]
    for mine, theirs in ((made.lower, "lower_bounds"), (made.upper, "upper_bounds")):
        assert {n: base64.b64decode(bound) for n, bound in mine.items() if n != real} == known[theirs]
    assert made.nulls[real] == 0


def test_bounds_hide_no_row() -> None:
    columns = pa.schema([("text", pa.string()), ("bytes", pa.binary()), ("real", pa.float32())])
    last = "\U0010ffff"
    cases = [
        ("a" * 15 + "\ud7ff" + "b", b"\x01" * 17, 1.0, "a" * 15 + "\ue000", b"\x01" * 15 + b"\x02", 1.0),
        ("a" + last * 16, b"a" + b"\xff" * 16, 1.0, "b", b"b", 1.0),
        (last * 17, b"\xff" * 17, float("nan"), None, None, None),
        ("a" * 16, b"b" * 16, float("inf"), "a" * 16, b"b" * 16, None),
    ]
    for text, data, real, *wanted in cases:
        made, _ = of([{"text": text, "bytes": data, "real": real}], columns)
        upper = {n: base64.b64decode(bound) for n, bound in made.upper.items()}
        assert (1 in upper, 2 in upper, 3 in upper) == tuple(bound is not None for bound in wanted)
        if 1 in upper:
            assert (upper[1].decode(), upper[2]) == tuple(wanted[:2])
            assert upper[1] >= text.encode()
            assert upper[2] >= data
