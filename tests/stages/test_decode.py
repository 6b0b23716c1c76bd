"""decode on Spark: the columns sent to Python, and the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from changefeed.frames.chunks import CHUNKS_DDL, RECORDS_DDL
from changefeed.model.batch import RECORDS
from changefeed.stages.decode import arrived, decode

HEADERS = [
    None,
    [],
    [("trace", b"\xff\x00"), ("trace", b"again"), ("empty", b""), ("none", None)],
]


def test_dead_letters_keep_the_headers_of_their_record(spark: SparkSession) -> None:
    rows = [(b"k", b"bad", "t", 0, i, datetime(2026, 1, 1, tzinfo=UTC), 0, h) for i, h in enumerate(HEADERS)]
    chunks = decode(spark.createDataFrame(rows, RECORDS_DDL), "ticdc-open", {}).frame(CHUNKS_DDL).collect()
    letters = {c.first_offset: json.loads(c.payload) for c in chunks if c.kind == "dead"}
    assert [letters[i]["headers"] for i in range(3)] == [
        [],
        [],
        [["trace", "/wA="], ["trace", "YWdhaW4="], ["empty", ""], ["none", None]],
    ]


@pytest.mark.parametrize("headers", [{}, {"headers": pa.array([[]], RECORDS.field("headers").type)}])
def test_workers_get_the_columns_of_records(headers: dict[str, pa.Array]) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k"]),
            "value": pa.array([b"v"]),
            "topic": ["t"],
            "partition": pa.array([3], pa.int32()),
            "offset": [7],
        }
        | headers
    )
    records = arrived(batch)
    assert records.schema == RECORDS
    assert records.to_pylist() == [
        {"key": b"k", "value": b"v", "topic": "t", "partition": 3, "offset": 7}
        | {"timestamp": None, "timestampType": None, "headers": []}
    ]
