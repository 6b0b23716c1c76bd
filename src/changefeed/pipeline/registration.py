"""Keeps the names of the pipeline's tables in a catalog equal to the ledger: see the contract in `sinks/catalog.py`.

Rule 1. A run compares the catalog with the ledger when it begins, because an earlier one may have ended before it could; then
        only after steps that made, renamed or dropped a table, and only the names that changed. Other steps ask nothing.
Rule 2. The ledger is written first. If the catalog does not answer, the step is done, and the run's next try or the next run
        makes up for it.
Rule 3. A path belongs to one upstream name for good: a renamed table has another path and another entry, and one that is dropped
        and created again has the entry that it had. An entry moves only if two upstream names are one in the catalog: after
        a table has moved between databases that have one database in the catalog.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from changefeed.model.names import full_name
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.edge import as_ours
from changefeed.pipeline.planning.table_path import names_in
from changefeed.pipeline.state import State
from changefeed.pipeline.tables import open_tables
from changefeed.sinks import catalog_of
from changefeed.sinks.base import TableSink
from changefeed.sinks.catalog import Catalog, EntryName, entry_name, named
from changefeed.spark_runtime.opened import spark_named

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CatalogEntries:
    """The entries that a catalog should have, by the ledger.

    Attributes:
        entries: name -> the table's path.
        former: name -> paths of tables that had it before they were renamed or dropped.
        refused: table -> why it has no entry.
    """

    entries: dict[EntryName, str]
    former: dict[EntryName, tuple[str, ...]]
    refused: dict[str, str]


def entries_for(
    paths: Mapping[str, str], retired_paths: Iterable[str], pattern: str, excludes: Callable[[str], bool]
) -> CatalogEntries:
    """Returns the entries that tables should have.

    Args:
        paths: `database.table` -> path of the table.
        retired_paths: paths of tables that were renamed or dropped.
        pattern: the option `catalog-names`.
        excludes: whether the definition excludes a table.
    """
    names = named(paths, pattern, excludes)
    entries = {entry: paths[table] for table, entry in names.entries.items()}
    former = defaultdict[EntryName, tuple[str, ...]](tuple)
    for path in retired_paths:
        if (table := names_in(path)) is not None:
            former[entry_name(full_name(*table), pattern)] += (path,)
    return CatalogEntries(entries, former, names.refused)


def written_paths(state: State) -> dict[str, str]:
    """`database.table` -> path, for the tables of a state that there are."""
    return {name: table.path for name, table in state.tables.items() if table.written}


@dataclass(slots=True)
class Registration:
    """Registers the tables of one run.

    Attributes:
        location: path below the sink's path -> its location.
        paths: `database.table` -> path of the tables with which the catalog was last compared; None before the first time.
        last_entries: the entries of these tables.
    """

    catalog: Catalog
    location: Callable[[str], str]
    excludes: Callable[[str], bool]
    paths: dict[str, str] | None = None
    last_entries: CatalogEntries | None = None

    def settle(self, state: State) -> None:
        """Makes the catalog's entries equal to the tables of a state; logs a warning for each table that can have none.

        Raises:
            AccessError, SinkError: the catalog refuses this user, does not answer or fails.
        """
        paths, last = written_paths(state), self.last_entries
        if paths == self.paths:
            return
        current = entries_for(paths, state.left, self.catalog.pattern, self.excludes)
        entries, former, refused = current.entries, current.former, current.refused
        if last is not None:
            former = {entry: (path,) for entry, path in last.entries.items() if entries.get(entry) != path}
            entries = {entry: path for entry, path in entries.items() if last.entries.get(entry) != path}
            refused = {table: reason for table, reason in refused.items() if table not in last.refused}
        comparison = self.catalog.compare(*_located(self.location, entries, former))
        self.catalog.apply(comparison)
        self.paths, self.last_entries = paths, current
        if new_entries := sorted(comparison.missing | comparison.moved):
            _log.info("registered in %s: %s", self.catalog.name, ", ".join(map(str, new_entries)))
        if comparison.stale:
            _log.info("removed from %s: %s", self.catalog.name, ", ".join(map(str, sorted(comparison.stale))))
        for sentence in sentences(refused, comparison.taken):
            _log.warning("%s", sentence)


def _located(
    location: Callable[[str], str], entries: Mapping[EntryName, str], former: Mapping[EntryName, Iterable[str]]
) -> tuple[dict[EntryName, str], dict[EntryName, list[str]]]:
    """The locations of entries and of former entries."""
    places = {entry: [location(path) for path in paths] for entry, paths in former.items()}
    return {entry: location(path) for entry, path in entries.items()}, places


def registration(definition: Definition, session: SparkSession, sink: TableSink) -> Registration | None:
    """The registration of a pipeline's tables; None if the definition names no catalog."""
    catalog = catalog_of(definition.sink, session, definition.pipeline.name)
    return None if catalog is None else Registration(catalog, sink.location, definition.pipeline.excludes)


@dataclass(frozen=True, slots=True)
class Outlook:
    """A catalog as a run would find it.

    Attributes:
        names: `database.table` -> its name in the catalog, for people.
        missing: number of entries that the run would make or move.
        stale: number of entries that it would remove.
        sentences: about tables that would have no entry.
        lasts: whether the entries outlive Spark's process.
    """

    names: dict[str, str]
    missing: int
    stale: int
    sentences: tuple[str, ...]
    lasts: bool


def outlook(
    definition: Definition, paths: Mapping[str, str], retired_paths: Iterable[str], *, tries: bool = False
) -> Outlook | None:
    """Compares the catalog with tables, in a Spark session of the pipeline; None if the definition names no catalog.

    Args:
        definition: the pipeline.
        paths: `database.table` -> path of the table.
        retired_paths: paths of tables that were renamed or dropped.
        tries: also checks that this user may make entries.

    Raises:
        AccessError, SinkError: the catalog refuses this user, does not answer or fails.
        ConfigError: Spark does not start.
    """
    if catalog_of(definition.sink, None, definition.pipeline.name) is None:
        return None
    with spark_named(f"changefeed {definition.pipeline.name}", definition.spark) as spark, as_ours():
        sink = open_tables(definition)
        catalog = catalog_of(definition.sink, spark, definition.pipeline.name)
        assert catalog is not None
        current = entries_for(paths, retired_paths, catalog.pattern, definition.pipeline.excludes)
        entries, former = _located(sink.location, current.entries, current.former)
        comparison = catalog.compare(entries, former)
        if tries:
            catalog.try_out(entries)
        tables = {path: table for table, path in paths.items()}
        return Outlook(
            {
                tables[path]: f"{catalog.name}.{entry}"
                for entry, path in current.entries.items()
                if entry not in comparison.taken
            },
            len(comparison.missing | comparison.moved),
            len(comparison.stale),
            tuple(sentences(current.refused, comparison.taken)),
            catalog.lasts,
        )


def sentences(refused: dict[str, str], taken: dict[EntryName, str]) -> list[str]:
    """Sentences about the tables that have no entry."""
    return [
        *(f"{table} is not in the catalog: {reason}" for table, reason in sorted(refused.items())),
        *(f"{entry} in the catalog is not this pipeline's, but {reason}" for entry, reason in sorted(taken.items())),
    ]
