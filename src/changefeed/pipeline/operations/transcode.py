"""Translates record logs from one protocol to another, on Spark.

The result is a folder of Parquet files that gets its name when it is complete: an interrupted translation leaves nothing that
looks like a log, and starts again from the beginning.
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


def require_new(output: Path) -> None:
    """Checks that the folder to write does not exist.

    Raises:
        ConfigError: the folder exists, or its name has the ending of a file.
    """
    if output.exists():
        raise ConfigError(f"{output} exists already; remove it or name another folder")
    if "." in output.name:
        raise ConfigError(f"{output}: Spark writes a folder of Parquet files: give a name without an extension")


def transcode(spark: SparkSession, logs: Sequence[Path], source: Language, target: Language, output: Path) -> Dead:
    """Writes the log `output`; returns the number of dead letters, and lines about the first of them.

    Raises:
        ConfigError: `output` exists, or an option cannot work on Spark.
        ChangefeedError: reading, decoding or encoding failed in a worker.
    """
    require_new(output)
    letters: Accumulator[Dead] = spark.sparkContext.accumulator((0, []), cast(Any, _Letters()))

    def dead(lines: list[str]) -> None:
        if lines:
            letters.add((len(lines), lines[:SHOWN]))

    unfinished = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with as_ours(), compiled(spark):
            frame = transcoded(_records(spark, logs), source, target, dead)
            frame.write.option("parquet.outputTimestampType", "TIMESTAMP_MICROS").parquet(str(unfinished))
        unfinished.replace(output)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    total: Dead = letters.value
    return total


def _records(spark: SparkSession, logs: Sequence[Path]) -> DataFrame:
    """Reads all records of the logs, one file per task."""
    files = [str(file) for log in logs for file in (sorted(log.glob("[!._]*.parquet")) if log.is_dir() else [log])]
    whole = pa.Table.from_batches([slices.pack(slices.Slice(file) for file in files)])
    return spark.createDataFrame(whole).repartition(len(files)).mapInArrow(slices.read, RECORDS_DDL)


class _Letters:
    """Sums up the number of dead letters, and the lines about the first ones, as a Spark `AccumulatorParam`."""

    def zero(self, value: Dead) -> Dead:
        return (0, [])

    def addInPlace(self, a: Any, b: Any) -> Dead:  # Spark's name
        return a[0] + b[0], (a[1] + b[1])[:SHOWN]
