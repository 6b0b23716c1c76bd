"""Decoding speed on Spark: elapsed seconds, all cores.

    from_json, from_avro   values to typed columns by Spark itself, with a declared schema; without checks
    decode                 records to chunks, as in a pipeline
    identity, one way      records into Python and back, and into Python with only a count back: the upper limits

Measured with records in Spark's memory (`spark`), as they come from Kafka; and with a record log, a folder of Parquet
(`files`): Spark's functions with Spark's own reader, `decode` in the workers that read the log, as the source `files` does.

Each way runs several times, in turn with the others, so that other load on the machine affects all alike; the best run
counts.
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

from changefeed.frames.slices import Slice, Slices

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RUNS = 5

Usual = Callable[["Column"], "Column"]


@contextmanager
def session() -> Iterator[SparkSession]:
    """A session with enough heap for the records, and with `from_avro`; plans are compiled, as in a pipeline."""
    from changefeed.spark_runtime import jars
    from changefeed.spark_runtime.properties import COMPILED
    from changefeed.spark_runtime.session import session as start

    files = ",".join(map(str, jars.paths("avro")))
    spark = start("changefeed-bench", config=COMPILED | {"spark.driver.memory": "3g", "spark.jars": files})
    try:
        yield spark
    finally:
        spark.stop()


def measure(
    spark: SparkSession,
    records: pa.Table,
    copies: Mapping[str, int],
    protocol: str,
    options: Mapping[str, Any],
    usual: tuple[str, Usual] | None,
) -> dict[str, dict[str, float]]:
    """Returns place -> way -> seconds for all copies of the records.

    Args:
        records: records of one partition, in order.
        copies: place -> number of copies to decode there, each as a separate partition.
        protocol, options: the protocol of the records, and its options.
        usual: name of Spark's own function, and the function from the column of values to the typed one; None if none.
    """
    from changefeed.frames.chunks import CHUNKS_DDL
    from changefeed.stages.decode import decode

    def ways(read: DataFrame, ours: DataFrame | Slices) -> dict[str, DataFrame]:
        theirs = {} if usual is None else {usual[0]: read.select(usual[1](read["value"]).alias("row"))}
        made = theirs | {"decode": decode(ours, protocol, options, whole=True).frame(CHUNKS_DDL)}
        assert not made["decode"].filter("kind = 'dead'").count(), "all rows of the workload are valid"
        return made

    with tempfile.TemporaryDirectory() as folder:
        logs = {where: _written(records, times, Path(folder) / where) for where, times in copies.items()}
        read = {where: spark.read.parquet(*(one.path for one in pieces)) for where, pieces in logs.items()}
        cached = read["spark"].coalesce(len(logs["spark"])).cache()
        _timed(cached)
        trips = {
            "identity": cached.mapInArrow(_identity, cached.schema),
            "one way": cached.mapInArrow(_count, "rows bigint"),
        }
        seconds = {"spark": _best(ways(cached, cached) | trips)}
        cached.unpersist()
        return seconds | {"files": _best(ways(read["files"], Slices(spark, logs["files"])))}


def _best(frames: Mapping[str, DataFrame]) -> dict[str, float]:
    runs: dict[str, list[float]] = {what: [] for what in frames}
    for _ in range(1 + RUNS):
        for what, frame in frames.items():
            runs[what].append(_timed(frame))
    return {what: min(took) for what, took in runs.items()}


def _timed(frame: DataFrame) -> float:
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def _written(records: pa.Table, times: int, folder: Path) -> list[Slice]:
    """Writes copies of the records as a log, with one file per core; returns its slices."""
    folder.mkdir()
    number, cores = records.schema.get_field_index("partition"), os.cpu_count() or 1
    files = [folder / f"{core}.parquet" for core in range(cores)]
    for core, file in enumerate(files):
        with pq.ParquetWriter(file, records.schema, compression="none") as log:
            for copy in range(core, times, cores):
                copied = pa.repeat(pa.scalar(copy, pa.int32()), len(records))
                log.write_table(
                    records.set_column(number, records.schema.field(number), copied), row_group_size=1 << 16
                )
    return [Slice(str(file)) for file in files]


def _identity(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    yield from batches


def _count(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})
