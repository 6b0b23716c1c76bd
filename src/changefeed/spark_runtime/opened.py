"""Opens a Spark session for one operation, and closes it afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from changefeed.errors import MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark_named(name: str, config: Mapping[str, str]) -> Iterator[SparkSession]:
    """Opens a Spark session. A session that was already running is not stopped.

    Raises:
        MissingExtraError: pyspark is not installed.
    """
    if find_spec("pyspark") is None:
        raise MissingExtraError("Spark", "spark")
    from changefeed.spark_runtime.session import session

    ours = not _runs()
    spark = session(name, config=config)
    from py4j.protocol import Py4JNetworkError  # after the session, whose errors name what is missing

    try:
        yield spark
    finally:
        if ours:
            with suppress(ConnectionError, Py4JNetworkError):  # the JVM may have ended already
                spark.stop()


def _runs() -> bool:
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None
