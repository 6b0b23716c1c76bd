"""Spark for the length of a command."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from changefeed.pipeline.config.definition import Definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_for(definition: Definition) -> Iterator[SparkSession]:
    """A session with the pipeline's Spark configuration."""
    with spark_named(f"changefeed {definition.pipeline.name}", definition.spark) as spark:
        yield spark


@contextmanager
def spark_named(name: str, config: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session; one that ran before goes on running."""
    from changefeed.spark.session import session

    ours = not _runs()
    spark = session(name, config=config)
    from py4j.protocol import Py4JNetworkError  # after the session, which says what is missing

    try:
        yield spark
    finally:
        if ours:
            with suppress(ConnectionError, Py4JNetworkError):  # the JVM may be gone, and with it what there is to stop
                spark.stop()


def _runs() -> bool:
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None
