"""How fast Open Protocol records become columns: reference, kernel, and what one would use instead.

In process, one core: CPU seconds of this process. On Spark, all cores: seconds by the clock, over cached records. The
best of several runs counts. All of it is measured on the same rows, in one go.

    json.loads, msgspec   the values' JSON alone, to Python objects: nothing typed, nothing checked
    reference, kernel     records to typed columns, every check made
    from_json             the values' JSON to typed columns by Spark, with the schema told; nothing checked
    decode                records to chunks, as a pipeline does it
    identity, one way     records into Python and back, and into Python with only a count back: the limits
"""

from __future__ import annotations

import json as json_module
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from changefeed.bench import workload
from changefeed.bench.peers import messages
from changefeed.kernel import decoder
from changefeed.model.batch import Decoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROTOCOL = "ticdc-open"
_BATCH = 4_000
_RUNS = 5


@dataclass(frozen=True, slots=True)
class Measured:
    """One way to decode, and how fast it was.

    Attributes:
        where: `core`, one core of one process, or `spark`, all cores.
        what: as in the module's table.
        rows_in_record: how many messages a record held.
        seconds: for all rows.
        rows_per_second, mb_per_second: MB are 10^6 bytes of record values.
    """

    where: str
    what: str
    rows_in_record: int
    seconds: float
    rows_per_second: float
    mb_per_second: float


def run(records: int = 500_000, *, spark: bool = True, json: bool = False, seed: int = 1) -> list[str]:
    """Measures, and returns the lines to print.

    Args:
        records: how many rows.
        spark: whether to measure on Spark too.
        json: one JSON object a measurement, instead of a table.
        seed: of the rows.
    """
    found = measure(records, spark=spark, seed=seed)
    if json:
        return [json_module.dumps(asdict(m)) for m in found]
    return [*_table(found), "", *_ratios(found)]


def measure(records: int, *, spark: bool, seed: int = 1) -> list[Measured]:
    """All measurements, in the order of the module's table."""
    single, batched = (workload.records(records, seed=seed, rows_in_record=n) for n in (1, 16))
    found = list(_in_process(single, 1)) + list(_in_process(batched, 16))
    return found + (list(_on_spark(single)) if spark else [])


def _in_process(records: pa.Table, rows_in_record: int) -> Iterator[Measured]:
    batches = records.combine_chunks().to_batches(-(-_BATCH // rows_in_record))
    bodies = [body for value in records.column("value").to_pylist() for body in messages(value)]
    size = sum(map(len, records.column("value").to_pylist()))
    ways: dict[str, Callable[[], Any]] = {
        "json.loads": lambda: all(json_module.loads(body) for body in bodies),
        "msgspec": lambda: all(msgspec.json.decode(body) for body in bodies),
        "reference": lambda: _decode_all("off", batches),
        "kernel": lambda: _decode_all("on", batches),
    }
    for what, way in ways.items():
        runs = 1 if what == "reference" else _RUNS
        seconds = min(_timed(way, time.process_time) for _ in range(runs))
        yield _measured("core", what, rows_in_record, seconds, len(bodies), size)


def _decode_all(kernel: Any, batches: list[pa.RecordBatch]) -> None:
    decodes = decoder(PROTOCOL, kernel=kernel)
    for batch in batches:
        _check(decodes.decode(batch))


def _check(decoded: Decoded) -> None:
    assert decoded.tables and not decoded.dead, "the workload is made of sound rows"  # noqa: PT018  # no test: one sentence for both


def _timed(way: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    way()
    return clock() - start


def _measured(where: str, what: str, rows_in_record: int, seconds: float, rows: int, size: int) -> Measured:
    return Measured(where, what, rows_in_record, seconds, rows / seconds, size / seconds / 1e6)


def _on_spark(records: pa.Table) -> Iterator[Measured]:
    from changefeed.spark.session import session

    size = sum(map(len, records.column("value").to_pylist()))
    spark = session("changefeed-bench", config={"spark.driver.memory": "3g"})
    try:
        with tempfile.TemporaryDirectory() as folder:
            frames = _frames(_cached(spark, records, Path(folder)))
            seconds = {what: [_timed(_forced(frame), time.perf_counter)] for what, frame in frames.items()}
            for _ in range(_RUNS):  # in turn, so that whatever else the machine does hits all alike
                for what, frame in frames.items():
                    seconds[what].append(_timed(_forced(frame), time.perf_counter))
            for what, runs in seconds.items():
                yield _measured("spark", what, 1, min(runs), len(records), size)
    finally:
        spark.stop()


def _forced(frame: DataFrame) -> Callable[[], None]:
    return frame.write.format("noop").mode("overwrite").save


def _cached(spark: SparkSession, records: pa.Table, folder: Path) -> DataFrame:
    """The records in Spark's memory, a part for each core."""
    parts = os.cpu_count() or 1
    step = -(-len(records) // parts)
    for part in range(parts):
        pq.write_table(records.slice(part * step, step), folder / f"{part}.parquet", compression="none")
    frame = spark.read.parquet(str(folder)).coalesce(parts).cache()
    _forced(frame)()
    return frame


def _frames(records: DataFrame) -> dict[str, DataFrame]:
    from pyspark.sql import functions as f

    from changefeed.stages.decode import decode

    image = ", ".join(f"{name}: struct<v: {kind}>" for name, kind in workload.JSON_TYPES.items())
    schema = f"struct<u: struct<{image}>, p: struct<{image}>, d: struct<{image}>>"
    body = f.expr("substring(value, 9)").cast("string")
    return {
        "from_json": records.select(f.from_json(body, schema).alias("row")),
        "decode": decode(records, PROTOCOL, {}),
        "identity": records.mapInArrow(_identity, records.schema),
        "one way": records.mapInArrow(_count, "rows bigint"),
    }


def _identity(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    yield from batches


def _count(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})


def _table(found: list[Measured]) -> list[str]:
    lines = [f"{'where':<6} {'what':<11} {'rows in record':>14} {'rows/s':>12} {'MB/s':>8}"]
    for m in found:
        speed = f"{m.rows_per_second:>12,.0f} {m.mb_per_second:>8,.1f}"
        lines.append(f"{m.where:<6} {m.what:<11} {m.rows_in_record:>14} {speed}")
    return lines


def _ratios(found: list[Measured]) -> list[str]:
    speed = {(m.where, m.what, m.rows_in_record): m.rows_per_second for m in found}
    pairs = [
        (("core", "kernel", 1), ("core", "json.loads", 1)),
        (("core", "kernel", 16), ("core", "json.loads", 16)),
        (("spark", "decode", 1), ("spark", "from_json", 1)),
        (("spark", "decode", 1), ("spark", "one way", 1)),
    ]
    lines = [
        f"{mine[0]}: {mine[1]} is {speed[mine] / speed[other]:.2f} x {other[1]}, {mine[2]} rows in a record"
        for mine, other in pairs
        if mine in speed
    ]
    return [*lines, f"{os.cpu_count()} cores"]
