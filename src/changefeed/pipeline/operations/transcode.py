"""Record logs of one protocol to a record log of another, on Spark.

The log is a folder of Parquet. It gets its name when it is complete: what dies half way leaves nothing that could be
taken for a log, and is begun again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from changefeed.errors import ConfigError
from changefeed.frames import slices
from changefeed.frames.chunks import RECORDS_DDL
from changefeed.pipeline.edge import as_ours
from changefeed.spark_runtime.session import compiled
from changefeed.stages.transcode import SHOWN, Language
from changefeed.stages.transcode import transcode as transcoded

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

Dead = tuple[int, list[str]]


def require_new(out: Path) -> None:
    """Refuses a target that is there.

    Raises:
        ConfigError: it is, or its name is that of a file.
    """
    if out.exists():
        raise ConfigError(f"{out} exists already; remove it or name another folder")
    if "." in out.name:
        raise ConfigError(f"{out}: Spark writes a folder of Parquet files; its name has no ending")


def transcode(spark: SparkSession, logs: Sequence[Path], source: Language, target: Language, out: Path) -> Dead:
    """Writes the log `out`; returns how many records or messages could not be decoded, and lines for the first of them.

    Raises:
        ConfigError: `out` exists, or an option cannot work on Spark.
        ChangefeedError: whatever reading, decoding or encoding raised in a worker.
    """
    require_new(out)
    letters: Accumulator[Dead] = spark.sparkContext.accumulator((0, []), cast(Any, _Letters()))

    def dead(lines: list[str]) -> None:
        if lines:
            letters.add((len(lines), lines[:SHOWN]))

    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with as_ours(), compiled(spark):
            frame = transcoded(_records(spark, logs), source, target, dead)
            frame.write.option("parquet.outputTimestampType", "TIMESTAMP_MICROS").parquet(str(unfinished))
        unfinished.replace(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    total: Dead = letters.value
    return total


def _records(spark: SparkSession, logs: Sequence[Path]) -> DataFrame:
    """All records of the logs, a file in a task."""
    files = [str(file) for log in logs for file in (sorted(log.glob("[!._]*.parquet")) if log.is_dir() else [log])]
    whole = pa.Table.from_batches([slices.pack(slices.Slice(file) for file in files)])
    return spark.createDataFrame(whole).repartition(len(files)).mapInArrow(slices.read, RECORDS_DDL)


class _Letters:
    """Adds up how many there were, and the first lines; what Spark asks of an `AccumulatorParam`."""

    def zero(self, value: Dead) -> Dead:
        return (0, [])

    def addInPlace(self, a: Any, b: Any) -> Dead:  # Spark's name
        return a[0] + b[0], (a[1] + b[1])[:SHOWN]
