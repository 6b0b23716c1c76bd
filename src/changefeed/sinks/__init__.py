"""Sinks: one folder for each kind of target, with its types and its way to commit; the contract is in `base.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from changefeed.errors import ConfigError
from changefeed.modules import function_of, is_own, module_of
from changefeed.protocols.base import Encoder
from changefeed.sinks.base import TableSink
from changefeed.sinks.events import EventSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from changefeed.sinks.catalog import Catalog, CatalogTrial
    from changefeed.sinks.rows_by_key import KeyReader
    from changefeed.sinks.section import EventSinkSection, SinkSection
    from changefeed.storage import Folder

SINKS: dict[str, str] = {
    "delta": "changefeed.sinks.delta",
    "iceberg": "changefeed.sinks.iceberg",
}
# Sinks to which changes are appended as records; the contract is in `events.py`.
EVENT_SINKS: dict[str, str] = {
    "files": "changefeed.sinks.files",
    "kafka": "changefeed.sinks.kafka",
}


def sink_sections() -> dict[str, type[SinkSection]]:
    """Returns sink type -> model of the `sink` section in a definition."""
    return {name: import_module(f"{place}.section").SECTION for name, place in SINKS.items()}


def sink(definition: Any, session: SparkSession | None = None, folder: Folder | None = None) -> TableSink:
    """Opens the sink that a definition's `sink` section describes.

    Args:
        definition: the section.
        session: the Spark session; None to use only methods that need no Spark.
        folder: the folder at the section's path; None if only Spark can reach it.

    Raises:
        ConfigError: the sink type is unknown, its module has no `open_sink`, or the sink that it opens would not give its tables
            the metadata columns of the definition.
    """
    open_sink = function_of("sink", definition.type, SINKS, "open_sink")
    opened: TableSink = open_sink(definition, session, folder)
    if set(opened.metadata_columns) != set(definition.added_columns):
        raise ConfigError(
            f'sink "{definition.type}" was opened with the metadata columns {_listed(opened.metadata_columns)}, but the '
            f"definition has {_listed(definition.added_columns)}: open_sink must take section.added_columns"
        )
    return opened


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "(none)"


def catalog_of(definition: Any, session: SparkSession | None, pipeline: str) -> Catalog | None:
    """Opens the catalog that a definition's `sink` section names; None if it names none, or its sink has no catalogs.

    Args:
        definition: the section.
        session: the Spark session; None to use only the catalog's name and the names in it.
        pipeline: the pipeline's name, which its entries carry.
    """
    opener: Callable[..., Catalog | None] | None = getattr(
        module_of("sink", definition.type, SINKS), "open_catalog", None
    )
    return None if opener is None else opener(definition, session, pipeline)


def catalog_trial(definition: Any, folder: Folder | None) -> CatalogTrial | None:
    """Tries the catalog through which a sink commits; None if it commits without one.

    Args:
        definition: the `sink` section.
        folder: the folder at the section's path; None if only Spark can reach it.

    Raises:
        ChangefeedError: the catalog does not answer, or lets this user do nothing.
    """
    attempt: Callable[..., CatalogTrial] | None = getattr(
        module_of("sink", definition.type, SINKS), "catalog_trial", None
    )
    return None if attempt is None else attempt(definition, folder)


def commits_are_files(definition: Any) -> bool:
    """Whether a sink commits by creating a file below its path, so that of two files of one name the storage must refuse one.

    Args:
        definition: the `sink` section.
    """
    return bool(getattr(module_of("sink", definition.type, SINKS), "COMMITS_ARE_FILES", False))


def key_reader(definition: Any, folder: Folder, path: str, key: Mapping[str, str]) -> KeyReader:
    """Opens a table to read the rows with a key from its versions, without Spark.

    Args:
        definition: the `sink` section; None if only the folder is known, whose tables then show their format.
        folder: the folder of all tables.
        path: the table.
        key: column -> its value as text: `137`, `2026-01-31`; bytes in hex, `0x00ff`.

    Raises:
        ConfigError: the sink does not offer that.
        SinkError: the table cannot be opened.
    """
    types = list(SINKS) if definition is None else [definition.type]
    for name in types:
        opener: Callable[..., KeyReader | None] | None = getattr(module_of("sink", name, SINKS), "key_reader", None)
        if opener is not None and (reader := opener(definition, folder, path, key)) is not None:
            return reader
    raise ConfigError(f"{folder.path}/{path}: rows are shown of {' and '.join(sorted(SINKS))} tables alone")


def old_letters(
    definition: Any, path: str, session: SparkSession | None = None, folder: Folder | None = None
) -> list[dict[str, Any]]:
    """Reads the dead letters that an earlier version of changefeed kept in a table of the sink; empty if there are none.

    Args:
        definition: the `sink` section.
        path: location of that table.
        session: the Spark session; None to read it without Spark.
        folder: the folder at `path`; None if only Spark can reach it.

    Raises:
        SinkError: the table cannot be read.
    """
    read: Callable[..., list[dict[str, Any]]] | None = getattr(
        module_of("sink", definition.type, SINKS), "old_letters", None
    )
    return [] if read is None else read(path, session, folder)


def event_sink_sections() -> dict[str, type[EventSinkSection]]:
    """Returns event sink type -> model of the `sink` section in a definition."""
    return {name: import_module(f"{place}.section").SECTION for name, place in EVENT_SINKS.items()}


def is_event_sink(type: object) -> bool:
    """Whether a type names an event sink: one of changefeed's, or a module of one's own that opens one."""
    if not is_own(type):
        return type in EVENT_SINKS
    try:
        return hasattr(module_of("event sink", str(type), EVENT_SINKS), "open_events")
    except ConfigError:
        return False  # validation reports it


def event_sink(definition: Any, encoder: Callable[[], Encoder]) -> EventSink:
    """Opens the event sink that a section describes.

    Args:
        definition: the section.
        encoder: creates an encoder of the protocol in which changes are written.

    Raises:
        ConfigError: the sink type is unknown, or its module has no `open_events`.
    """
    opened: EventSink = function_of("event sink", definition.type, EVENT_SINKS, "open_events")(definition, encoder)
    return opened
