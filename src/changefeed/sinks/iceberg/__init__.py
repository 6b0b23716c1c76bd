"""Iceberg tables as a sink.

    sink.py        implements the contract
    options.py     the options about tables
    catalog.py     names, newest metadata, the commit
    rest.py        the REST catalog, with limits to the time of an answer
    sql.py         the catalog in a database, which remembers metadata
    failures.py    errors of catalogs
    file_io.py     PyIceberg's files in a folder of `changefeed.storage`
    opened.py      a table at its newest snapshot: write ids, columns, files
    columns.py     changes of columns, by field id where rows may stay
    commit.py      one snapshot: summary, requirements
    manifests.py   its manifests, in the files of manifest_files.py
    version_3.py   metadata of format version 3
    deletes.py     delete files by data file, whose bytes are in delete_files.py
    compaction.py  files that are written again
    partitions.py  specs, of the fields in partition_fields.py
    transforms.py  values of partitions
    tags.py        names of published cuts
    layout.py      data files, their partitions and their metrics
    schema.py      columns to and from Arrow
    types.py       the types of MySQL columns

Only the driver uses PyIceberg: tasks import `layout.py`, and what it imports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed.sinks.iceberg.sink import IcebergTables
    from changefeed.storage import Folder


def open_sink(definition: Any, session: SparkSession | None, folder: Folder | None = None) -> IcebergTables:
    """Opens the sink that a `type: iceberg` section describes."""
    from changefeed.errors import ConfigError, MissingExtraError
    from changefeed.sinks.apply.compaction import CompactionRules
    from changefeed.storage.local import LocalFolder

    try:
        from changefeed.sinks.iceberg.catalog import TableCatalog
        from changefeed.sinks.iceberg.options import TableOptions
        from changefeed.sinks.iceberg.sink import IcebergTables
    except ModuleNotFoundError as error:
        raise MissingExtraError("sink.type: iceberg", "iceberg") from error
    if folder is None:
        raise ConfigError(
            f"sink.path is {definition.path}: Iceberg tables need a local folder, s3://, abfss:// or gs://"
        )
    is_local = isinstance(folder, LocalFolder)
    properties = dict(definition.catalog_properties)
    if definition.catalog is None and not properties:
        if not is_local:
            raise ConfigError("sink.catalog-properties is missing: Iceberg tables in an object store need a catalog")
        properties = {"type": "sql", "uri": f"sqlite:///{folder.path}/catalog.db"}
    names = [*definition.metadata_columns, *(["_irregular"] if definition.irregular == "keep" else [])]
    location = f"file://{folder.path}" if is_local else folder.path
    catalog = TableCatalog(definition.catalog or "changefeed", properties, definition.namespace, folder, location)
    options = TableOptions(
        definition.partition_fields, definition.format_version, definition.write_mode == "merge-on-read",
        CompactionRules() if definition.compaction == "auto" else None,
    )  # fmt: skip
    return IcebergTables(catalog, tuple(names), session, cut_tags=definition.cut_tags, options=options)
