"""Checks that no storage of a pipeline lets two runs overwrite each other's files: of two files of one name, one is refused.

folder                                files that are created once     checked by
the ledger's                          its entries                     the claim of the ledger
the pipeline's own                    dead letters, heartbeats        that claim; here if the ledger is in a module
sink.path, where commits are files    commits of the tables           that claim if the own folder is below it; else here
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.paths import own_folder, tables_folder
from changefeed.pipeline.store.hadoop import application_setting, check_file_system, folder_of_session
from changefeed.sinks import commits_are_files
from changefeed.spark_runtime.files import reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def tables_need_it(definition: Definition) -> bool:
    """Whether files are created once in the folder `sink.path` or below."""
    return definition.pipeline.folder is None or commits_are_files(definition.sink)


def check_storages(definition: Definition, spark: SparkSession) -> None:
    """Checks the storages that the claim of the ledger does not check; called before it.

    In an object store that is two requests for a folder, and one for later runs.

    Raises:
        ConfigError: a storage lets two runs overwrite each other's files, or this user may not write there.
        SinkError: a storage does not answer.
    """
    for folder in _folders(definition):
        if folder != own_folder(definition) or definition.ledger is not None:
            folder_of_session(spark, folder, definition.storage).check_create()


def check_file_systems(definition: Definition) -> None:
    """Checks the same storages as a run, as far as their URLs show it; opens nothing.

    Raises:
        ConfigError: a file system lets two runs overwrite each other's files.
    """
    session = reader()
    setting = definition.spark.get if session is None else application_setting(session)
    for folder in _folders(definition):
        check_file_system(folder, setting)


def _folders(definition: Definition) -> Iterator[str]:
    yield own_folder(definition)
    if definition.pipeline.folder is not None and commits_are_files(definition.sink):
        yield tables_folder(definition)
