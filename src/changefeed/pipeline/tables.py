"""Opens the sink of a pipeline, with the folder of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.paths import tables_folder
from changefeed.sinks import sink
from changefeed.sinks.base import TableSink
from changefeed.storage import folder_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_tables(definition: Definition, session: SparkSession | None = None) -> TableSink:
    """Opens the sink of a pipeline.

    Args:
        definition: the pipeline's definition.
        session: the Spark session, whose properties may have the credentials for object stores; None to use only methods that
            need no Spark.

    Raises:
        ConfigError: the sink type is unknown, or the storage's credentials cannot be used.
    """
    properties = definition.spark if session is None else dict(session.sparkContext.getConf().getAll())
    return sink(definition.sink, session, folder_at(tables_folder(definition), definition.storage, properties))
