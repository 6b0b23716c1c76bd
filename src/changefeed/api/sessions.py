"""Opens a Spark session for one operation, and closes it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from changefeed.errors import MissingExtraError, NeedsSparkError, SinkError
from changefeed.pipeline.config.definition import Definition
from changefeed.spark_runtime.opened import spark_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_T = TypeVar("_T")


@contextmanager
def spark_for(definition: Definition) -> Iterator[SparkSession]:
    """Opens a session with the pipeline's Spark configuration."""
    with spark_named(f"changefeed {definition.pipeline.name}", definition.spark) as spark:
        yield spark


@contextmanager
def session_for(definition: Definition, spark: SparkSession | None) -> Iterator[SparkSession]:
    """Yields the caller's session and leaves it running; without one, opens a session for the pipeline."""
    if spark is not None:
        yield spark
        return
    with spark_for(definition) as started:
        yield started


def asked(definition: Definition, ask: Callable[[], _T]) -> _T:
    """Calls `ask`, which reads a sink, without Spark; calls it again with Spark if the sink cannot be reached otherwise."""
    from changefeed.pipeline.edge import as_ours
    from changefeed.storage.failures import NoCredentialsError

    try:
        return ask()
    except (NeedsSparkError, NoCredentialsError, SinkError, MissingExtraError):
        if not _is_remote(definition):
            raise
    with spark_for(definition) as spark, through(definition, spark), as_ours(definition.sink.path):
        return ask()


def through(definition: Definition, spark: SparkSession) -> AbstractContextManager[None]:
    """Makes reads of the sink go through the session, unless the sink is a folder of this machine."""
    from changefeed.spark_runtime.files import read_by

    return read_by(spark) if _is_remote(definition) else nullcontext()


def _is_remote(definition: Definition) -> bool:
    return urlsplit(definition.sink.path).scheme not in ("", "file")
