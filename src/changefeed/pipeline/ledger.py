"""The ledger of a pipeline, for runs and for commands.

Its contract is in `store/base.py`. It lies in files beside the tables (`store/files.py`), or is kept by the
module that a definition's section `ledger` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from changefeed.modules import function_of
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.paths import ledger_folder
from changefeed.pipeline.planning.table_path import folders_of
from changefeed.pipeline.store.base import StateStore, StoreReader
from changefeed.pipeline.store.files import FileStore
from changefeed.pipeline.store.hadoop import folder_of_session, folder_to_read
from changefeed.pipeline.store.reading import FileReader
from changefeed.pipeline.tables import open_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_ledger(definition: Definition, spark: SparkSession) -> StateStore:
    """The ledger for a run, before the run claims it.

    Raises:
        ConfigError: the section `ledger` names a module that cannot be imported, or that has no `open_store`.
    """
    if definition.ledger is not None:
        store: StateStore = function_of("ledger", definition.ledger.type, {}, "open_store")(
            definition.ledger, definition.pipeline.name, definition.pipeline.retention, spark
        )
        return store
    folder = folder_of_session(spark, ledger_folder(definition), definition.storage)
    return FileStore(folder, definition.pipeline.name, definition.pipeline.retention)


def read_ledger(definition: Definition) -> StoreReader:
    """Opens the ledger for reading: without Spark, except inside `read_by`, whose session then reads the files.

    Raises:
        NeedsSparkError: the sink's path is a URL that only Spark can read.
        ConfigError: as `open_ledger`, or the storage's credentials cannot be used.
    """
    if definition.ledger is not None:
        reader: StoreReader = function_of("ledger", definition.ledger.type, {}, "open_reader")(
            definition.ledger, definition.pipeline.name
        )
        return reader
    folder = folder_to_read(ledger_folder(definition), definition.storage, definition.spark)
    return FileReader(folder, definition.pipeline.name)


def ledger_name(definition: Definition) -> str:
    """The ledger's folder, or the module that keeps it; for messages."""
    return ledger_folder(definition) if definition.ledger is None else f"ledger {definition.ledger.type}"


def owner(definition: Definition) -> str | None:
    """The pipeline's name in the sink's commits; None if it has no ledger yet.

    Raises:
        ConfigError: the ledger belongs to another pipeline, or is too new.
        SinkError: the ledger cannot be read.
    """
    latest = read_ledger(definition).latest()
    return latest.owner if latest else None


def occupied(definition: Definition, tables: Mapping[str, str]) -> list[str]:
    """The places of new tables that hold files and no table.

    The arguments, and what is raised, are those of `strangers`.
    """
    latest, sink = read_ledger(definition).latest(), open_tables(definition)
    last_writes = latest.state.last_writes() if latest else {}
    new = [below for below in sorted(tables.values()) if below not in last_writes and sink.has_files(below)]
    return [sink.location(below) for below in new if sink.has_written(below) is None]


def strangers(definition: Definition, tables: Mapping[str, str]) -> list[str]:
    """The existing tables that this pipeline has neither written nor is to adopt, and those that its tables would lie in.

    Args:
        definition: the pipeline.
        tables: `database.table` -> path below the sink's path, of tables that the pipeline is going to write.

    Raises:
        ConfigError, SinkError: as `owner`.
        MissingExtraError: the package that reads Delta tables without Spark is not installed.
    """
    latest = read_ledger(definition).latest()
    last_writes, owner = (latest.state.last_writes(), latest.owner) if latest else ({}, "")
    sink = open_tables(definition).owned_by(owner)
    around = [
        sink.location(path).rstrip("/") for path in folders_of(tables.values()) if sink.has_written(path) is not None
    ]
    return around + [
        sink.location(below)
        for name, below in sorted(tables.items())
        if below not in last_writes and not definition.sink.adopts(name) and sink.has_written(below) is False
    ]
