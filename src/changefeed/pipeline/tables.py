"""Opens the sink of a pipeline, and its folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.paths import tables_folder
from changefeed.sinks import sink
from changefeed.sinks.base import TableSink
from changefeed.spark_runtime.files import storage_properties
from changefeed.storage import Folder
from changefeed.storage.folders import folder_at

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
    return sink(definition.sink, session, folder_of(definition, tables_folder(definition), session))


def folder_of(definition: Definition, path: str, session: SparkSession | None = None) -> Folder | None:
    """Opens a folder of a pipeline; None if only Spark can reach it. Arguments and errors are those of `open_tables`."""
    properties = definition.spark if session is None else storage_properties(session)
    return folder_at(path, definition.storage, properties)
