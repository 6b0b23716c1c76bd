"""Iceberg tables as a sink.

    sink.py        implements the contract
    options.py     the options about tables
    catalog.py     names, newest metadata, the commit
    rest.py        the REST catalog, with limits to the time of an answer
    sql.py         the catalog in a database, which remembers metadata
    staging.py     metadata that a catalog makes here, and its place
    failures.py    errors of catalogs
    file_io.py     PyIceberg's files in a folder of `changefeed.storage`
    opened.py      a table at its newest snapshot: write ids, columns, files
    columns.py     changes of columns, by field id where rows may stay
    name_mapping.py  names of columns in files without field ids
    commit.py      one snapshot: summary, requirements
    manifests.py   its manifests, in the files of manifest_files.py
    avro_files.py  the Avro files that these are
    version_3.py   metadata of format version 3
    deletes.py     delete files by data file, whose bytes are in delete_files.py
    compaction.py  files that are written again
    partitions.py  specs, of the fields in partition_fields.py
    transforms.py  values of partitions
    sort_orders.py sort orders, of the fields in sort_fields.py
    sorting.py     rows in such an order
    row.py         the rows with a key in a snapshot
    trial.py       the trial of a catalog, for `changefeed check`
    tags.py        names of published cuts
    layout.py      data files, their partitions and their metrics
    schema.py      columns to and from Arrow
    types.py       the types of MySQL columns

Only the driver uses PyIceberg: tasks import `layout.py`, and what it imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed.sinks.catalog import CatalogTrial
    from changefeed.sinks.iceberg.catalog import TableCatalog
    from changefeed.sinks.iceberg.row import KeyReader
    from changefeed.sinks.iceberg.sink import IcebergTables
    from changefeed.storage import Folder


def open_sink(definition: Any, session: SparkSession | None, folder: Folder | None = None) -> IcebergTables:
    """Opens the sink that a `type: iceberg` section describes."""
    from changefeed.errors import ConfigError, MissingExtraError
    from changefeed.sinks.apply.compaction import CompactionRules

    try:
        from changefeed.sinks.iceberg.options import TableOptions
        from changefeed.sinks.iceberg.sink import IcebergTables
    except ModuleNotFoundError as error:
        raise MissingExtraError("sink.type: iceberg", "iceberg") from error
    if folder is None:
        raise ConfigError(
            f"sink.path is {definition.path}: Iceberg tables need a local folder, s3://, abfss:// or gs://"
        )
    names = [*definition.metadata_columns, *(["_irregular"] if definition.irregular == "keep" else [])]
    options = TableOptions(
        definition.partition_fields, definition.format_version, definition.write_mode == "merge-on-read",
        CompactionRules() if definition.compaction == "auto" else None, definition.sort_fields,
    )  # fmt: skip
    catalog = _catalog(definition, folder)
    return IcebergTables(catalog, tuple(names), session, cut_tags=definition.cut_tags, options=options)


def catalog_trial(definition: Any, folder: Folder | None) -> CatalogTrial:
    """Tries the catalog: see `sinks.catalog_trial`."""
    from changefeed.sinks.iceberg.trial import trial

    return trial(open_sink(definition, None, folder))


def key_reader(section: Any, folder: Folder, path: str, key: Mapping[str, str]) -> KeyReader | None:
    """Reads the rows with a key from snapshots of an Iceberg table; see `sinks.key_reader`."""
    if section is None and not folder.names(f"{path}/metadata"):
        return None
    from changefeed.errors import MissingExtraError

    try:
        from changefeed.sinks.iceberg.catalog import TableCatalog
        from changefeed.sinks.iceberg.row import KeyReader
    except ModuleNotFoundError as error:
        raise MissingExtraError("rows of Iceberg tables", "iceberg") from error
    if section is None:
        return KeyReader(TableCatalog("", {}, "{database}", folder, _location(folder)), path, key, named=False)
    return KeyReader(_catalog(section, folder), path, key)


def _catalog(definition: Any, folder: Folder) -> TableCatalog:
    """Opens the catalog of a section whose path is a folder."""
    from changefeed.errors import ConfigError
    from changefeed.sinks.iceberg.catalog import TableCatalog
    from changefeed.storage.local import LocalFolder

    properties = dict(definition.catalog_properties)
    if definition.catalog is None and not properties:
        if not isinstance(folder, LocalFolder):
            raise ConfigError("sink.catalog-properties is missing: Iceberg tables in an object store need a catalog")
        properties = {"type": "sql", "uri": f"sqlite:///{folder.path}/catalog.db"}
    return TableCatalog(definition.catalog or "changefeed", properties, definition.namespace, folder, _location(folder))


def _location(folder: Folder) -> str:
    """Returns a folder's location in metadata."""
    from changefeed.storage.local import LocalFolder

    return f"file://{folder.path}" if isinstance(folder, LocalFolder) else folder.path
