"""Small Delta tables by Spark, for commands that read them without it where that has no way to the sink.

Spark knows every file system that its jars know, with the credentials that the definition gives it; see `read.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from changefeed.sinks.delta.log import snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SESSION: ContextVar[SparkSession | None] = ContextVar("session", default=None)


@contextmanager
def by_spark(spark: SparkSession) -> Iterator[None]:
    """While in here, `read.py` reads through this session."""
    before = _SESSION.set(spark)
    try:
        yield
    finally:
        _SESSION.reset(before)


def session() -> SparkSession | None:
    """The session to read through, if there is one."""
    return _SESSION.get()


def wrote(spark: SparkSession, path: str, application: str) -> bool | None:
    """See `read.wrote`."""
    found = snapshot(spark, path)
    return None if found is None else application in found.applications


def properties(spark: SparkSession, path: str) -> dict[str, str] | None:
    """See `read.properties`."""
    found = snapshot(spark, path)
    return None if found is None else dict(found.properties)


def query(spark: SparkSession, path: str, sql: str) -> list[dict[str, Any]]:
    """See `read.query`."""
    if snapshot(spark, path) is None:
        return []
    spark.read.format("delta").load(path).createOrReplaceTempView("t")
    try:
        rows: list[dict[str, Any]] = spark.sql(sql).toArrow().to_pylist()
        return rows
    finally:
        spark.catalog.dropTempView("t")
