"""Reads small Delta tables through Spark, if the sink cannot be reached without it; otherwise `read.py` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from changefeed.sinks.delta.log import snapshot
from changefeed.spark_runtime.session import another

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def wrote(spark: SparkSession, path: str, application: str) -> bool | None:
    """See `read.wrote`."""
    opened = snapshot(spark, path)
    return None if opened is None else application in opened.applications


def properties(spark: SparkSession, path: str) -> dict[str, str] | None:
    """See `read.properties`."""
    opened = snapshot(spark, path)
    return None if opened is None else dict(opened.properties)


def query(spark: SparkSession, path: str, sql: str) -> list[dict[str, Any]]:
    """See `read.query`."""
    own = another(spark)
    own.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")  # as the other reader has it
    if snapshot(own, path) is None:
        return []
    own.read.format("delta").load(path).createOrReplaceTempView("t")
    rows: list[dict[str, Any]] = own.sql(sql).toArrow().to_pylist()
    return rows
