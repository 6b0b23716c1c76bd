"""How fast records become columns on Spark: seconds by the clock, all cores, over records in Spark's memory.

    from_json, from_avro   the values to typed columns by Spark itself, with the schema told; nothing checked
    decode                 records to chunks, as a pipeline does it
    identity, one way      records into Python and back, and into Python with only a count back: the limits

Each way runs several times, in turn with the others, so that whatever else the machine does hits all alike; the best
run counts.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RUNS = 5

Usual = Callable[["Column"], "Column"]


@contextmanager
def session() -> Iterator[SparkSession]:
    """A session with a heap for the records, and with `from_avro`."""
    from changefeed.spark import jars
    from changefeed.spark.session import session as start

    files = ",".join(map(str, jars.paths("avro")))
    spark = start("changefeed-bench", config={"spark.driver.memory": "3g", "spark.jars": files})
    try:
        yield spark
    finally:
        spark.stop()


def measure(
    spark: SparkSession, records: pa.Table, protocol: str, options: Mapping[str, Any], usual: tuple[str, Usual] | None
) -> dict[str, float]:
    """Way -> seconds for all of the records.

    Args:
        usual: what Spark itself has for such values: its name, and the values' column to the typed one.
    """
    from changefeed.stages.decode import decode

    with tempfile.TemporaryDirectory() as folder:
        cached = _cached(spark, records, Path(folder))
        frames = {} if usual is None else {usual[0]: cached.select(usual[1](cached["value"]).alias("row"))}
        frames |= {
            "decode": decode(cached, protocol, dict(options)),
            "identity": cached.mapInArrow(_identity, cached.schema),
            "one way": cached.mapInArrow(_count, "rows bigint"),
        }
        assert not frames["decode"].filter("kind = 'dead'").count(), "the workload is made of sound rows"
        seconds: dict[str, list[float]] = {what: [] for what in frames}
        for _ in range(1 + RUNS):
            for what, frame in frames.items():
                seconds[what].append(_timed(frame))
        cached.unpersist()
    return {what: min(runs) for what, runs in seconds.items()}


def _timed(frame: DataFrame) -> float:
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def _cached(spark: SparkSession, records: pa.Table, folder: Path) -> DataFrame:
    """The records in Spark's memory, a part for each core."""
    parts = os.cpu_count() or 1
    step = -(-len(records) // parts)
    for part in range(parts):
        pq.write_table(records.slice(part * step, step), folder / f"{part}.parquet", compression="none")
    frame = spark.read.parquet(str(folder)).coalesce(parts).cache()
    _timed(frame)
    return frame


def _identity(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    yield from batches


def _count(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})
