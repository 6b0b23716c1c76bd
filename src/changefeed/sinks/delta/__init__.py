"""Delta tables as a sink.

`sink.py` implements the contract, `native/` writes rows; `log_store.py` has the commits of Spark on local disks; `log.py` reads a
table's log through Spark, `read.py` reads small tables without Spark; `old_letter_table.py` reads the dead letters of earlier
versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed.sinks.delta.row import KeyReader
    from changefeed.sinks.delta.sink import DeltaTables
    from changefeed.sinks.spark_catalog import SparkCatalog
    from changefeed.storage import Folder

COMMITS_ARE_FILES = True  # see `sinks.commits_are_files`


def open_sink(definition: Any, session: SparkSession | None, folder: Folder | None = None) -> DeltaTables:
    """Opens the sink that a `type: delta` section describes."""
    from changefeed.errors import ConfigError, MissingExtraError
    from changefeed.sinks.apply.bitmaps import is_installed
    from changefeed.sinks.apply.compaction import CompactionRules
    from changefeed.sinks.delta.sink import DeltaTables
    from changefeed.storage.objects import ObjectFolder

    marks = definition.write_mode == "merge-on-read"
    if isinstance(folder, ObjectFolder) and definition.writer != "native":
        raise ConfigError(
            f"sink.writer is `{definition.writer}`, but commits of Spark to {definition.path} would not exclude each other: "
            "leave it out"
        )
    if marks and not is_installed():
        raise MissingExtraError("sink.write-mode: merge-on-read", "spark")
    return DeltaTables(
        definition.path.rstrip("/"),
        definition.added_columns,
        session,
        native=definition.writer == "native",
        merges_on_read=marks,
        compaction=CompactionRules() if marks and definition.compaction == "auto" else None,
        folder=folder if isinstance(folder, ObjectFolder) else None,
    )


def open_catalog(section: Any, session: SparkSession | None, pipeline: str) -> SparkCatalog | None:
    """Opens the catalog that the section names, if it names one; see `sinks.catalog_of`."""
    from changefeed.sinks.spark_catalog import SparkCatalog

    if section.catalog is None:
        return None
    return SparkCatalog(session, pipeline, "delta", section.catalog_names)


def old_letters(path: str, session: SparkSession | None, folder: Folder | None = None) -> list[dict[str, Any]]:
    """Reads the dead letters that an earlier version kept in a Delta table at `path`; see `sinks.old_letters`."""
    from changefeed.sinks.delta.old_letter_table import letters

    return letters(path, session, folder)


def key_reader(section: Any, folder: Folder, path: str, key: Mapping[str, str]) -> KeyReader | None:
    """Reads the rows with a key from versions of a Delta table; see `sinks.key_reader`."""
    from changefeed.sinks.delta.row import KeyReader

    if section is None and not folder.names(f"{path}/_delta_log"):
        return None
    return KeyReader(folder.subfolder(path), key)
