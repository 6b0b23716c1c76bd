"""The catalog of a sink's Iceberg tables: names, the newest metadata of a table, and the commit.

A catalog has one pointer for each table, to its newest metadata, and replaces it only if it is still the one that a commit was
based on. Every error of a catalog becomes a `SinkError` here; a `ConflictError` if somebody else was faster.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.catalog import Catalog, CatalogType, infer_catalog_type, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    TableAlreadyExistsError,
)
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.table import StagedTable, StaticTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.utils.config import Config

from changefeed.errors import ChangefeedError, ConfigError, SinkError
from changefeed.local_files import make_folder
from changefeed.sinks.iceberg.failures import translated
from changefeed.sinks.iceberg.file_io import FOLDER, LOCATION, FolderIO
from changefeed.sinks.iceberg.rest import TimedRestCatalog
from changefeed.sinks.iceberg.staging import stages_below_tables
from changefeed.sinks.iceberg.version_3 import writes_version_3
from changefeed.storage import Folder

_METADATA = re.compile(r"(\d{5,})-.*\.metadata\.json$")
_DOT = "~2E"  # a dot would separate namespaces


class ConflictError(SinkError):
    """Somebody else has committed to the table, or has made it."""


@dataclass(slots=True)
class TableCatalog:
    """The names of a sink's tables.

    Attributes:
        name: the catalog's name.
        properties: its properties, by PyIceberg's names.
        namespace: the namespace of a table, with `{database}` in it.
        folder: the folder of the tables.
        location: its location in metadata: a URL.
    """

    name: str
    properties: dict[str, str]
    namespace: str
    folder: Folder
    location: str
    _opened: Catalog | None = None
    _lock: Lock = field(default_factory=Lock)
    _namespaces: set[str] = field(default_factory=set)  # known to exist

    @property
    def io(self) -> FolderIO:
        """The files of the tables."""
        return FolderIO({FOLDER: self.folder, LOCATION: self.location})

    def identifier(self, path: str) -> tuple[str, str]:
        """Returns namespace and name of the table at a path."""
        database, _, table = path.replace(".", _DOT).partition("/")
        return self.namespace.replace("{database}", database), table

    def load(self, path: str) -> Table | None:
        """Returns a table with its newest metadata; None if there is none.

        Raises:
            SinkError: the catalog or the metadata cannot be read, or the table's files are outside of the sink's folder.
        """
        if "/" not in path or self._is_missing():  # the folder of a database has no slash
            return None
        with self._errors(path):
            try:
                return self._catalog().load_table(self.identifier(path))
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def load_unnamed(self, path: str) -> Table | None:
        """Returns a table below the sink's folder that another catalog has: with the metadata that was written last.

        Raises:
            SinkError: the metadata cannot be read, or two files of it are the newest.
        """
        with self._errors(path):
            numbers = [
                (int(match[1]), name)
                for name in self.folder.names(f"{path}/metadata")
                if (match := _METADATA.match(name))
            ]
            newest = [name for number, name in numbers if number == max(numbers)[0]]
            if len(newest) > 1:
                raise SinkError(f"{self.location}/{path}: two files of metadata are the newest: {', '.join(newest)}")
            place = f"{self.location}/{path}/metadata"
            return StaticTable.from_metadata(f"{place}/{newest[0]}", self._files) if newest else None

    def paths(self) -> Iterator[str]:
        """Yields the paths of all tables whose names could be of this sink."""
        if self._is_missing():
            return
        pattern = re.compile("(.+)".join(map(re.escape, self.namespace.split("{database}"))))
        with self._errors(""):
            catalog = self._catalog()
            names = [
                (match[1], table[-1])
                for namespace in catalog.list_namespaces()
                if len(namespace) == 1 and (match := pattern.fullmatch(namespace[0]))
                for table in catalog.list_tables(namespace)
            ]
        for database, table in names:
            yield f"{database}/{table}".replace(_DOT, ".")

    def commit(
        self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
    ) -> TableMetadata:
        """Replaces a table's metadata, or makes the table; returns the new metadata.

        Raises:
            ConflictError: a requirement is not met, or somebody else has committed at the same time.
            SinkError: the answer is unknown (transient): the commit may have been made.
        """
        name = ".".join(table.name())
        with self._errors(name):
            try:
                made = self._catalog().commit_table(table, tuple(requirements), tuple(updates))
            except (CommitFailedException, TableAlreadyExistsError) as error:
                raise ConflictError(f"{name}: {error}", transient=True) from error
        self._delete_old_metadata(table.metadata, made.metadata)
        return made.metadata

    def staged(self, path: str, metadata: TableMetadata) -> StagedTable:
        """Returns a table that is still to be made, for `commit`."""
        with self._errors(path):
            namespace, name = self.identifier(path)
            if (database := self._database()) is not None:
                make_folder(os.path.dirname(database))
            self._create_namespace(namespace)
            return StagedTable((namespace, name), metadata, f"{metadata.location}/metadata", self.io, self._catalog())

    def drop(self, path: str) -> None:
        """Removes a table's name; nothing happens if there is none."""
        if self._is_missing():
            return
        with self._errors(path):
            try:
                self._catalog().drop_table(self.identifier(path))
            except (NoSuchTableError, NoSuchNamespaceError):
                return

    def try_namespace(self) -> bool:
        """Makes a namespace and removes it; False if nothing is tried, because the first run makes the catalog.

        Raises:
            AccessError: this user may not do that.
            SinkError: the catalog does not answer, or refuses.
        """
        if self._is_missing():
            return False
        with self._errors(""):
            catalog = self._catalog()
            name = f"changefeed_check_{uuid.uuid4().hex[:12]}"
            catalog.create_namespace(name)
            catalog.drop_namespace(name)
        return True

    def answers(self) -> None:
        """Asks the catalog for the names of its namespaces.

        Raises:
            SinkError: the catalog does not answer, or refuses.
        """
        if not self._is_missing():
            with self._errors(""):
                self._catalog().list_namespaces()

    def _create_namespace(self, namespace: str) -> None:
        if namespace in self._namespaces:
            return
        catalog = self._catalog()
        try:
            if not catalog.namespace_exists(namespace):
                catalog.create_namespace(namespace)
        except NamespaceAlreadyExistsError:
            pass
        except Exception:
            if not catalog.namespace_exists(namespace):  # two threads made it at the same time
                raise
        self._namespaces.add(namespace)

    def _delete_old_metadata(self, before: TableMetadata, after: TableMetadata) -> None:
        """Deletes metadata files that the table's log of metadata no longer has, if the table asks for it."""
        if after.properties.get("write.metadata.delete-after-commit.enabled", "false").lower() != "true":
            return
        kept = {entry.metadata_file for entry in after.metadata_log}
        for entry in before.metadata_log:
            if entry.metadata_file not in kept:
                self.io.delete(entry.metadata_file)

    @property
    def _files(self) -> dict[str, Any]:
        """The properties by which a catalog opens the files of its tables."""
        return {PY_IO_IMPL: f"{FolderIO.__module__}.{FolderIO.__name__}", FOLDER: self.folder, LOCATION: self.location}

    def _database(self) -> str | None:
        """The file of a catalog in SQLite; None for other catalogs."""
        scheme, _, path = self.properties.get("uri", "").partition("?")[0].partition(":///")
        return path if scheme.partition("+")[0] == "sqlite" and path not in ("", ":memory:") else None

    def _is_missing(self) -> bool:
        """Whether the catalog is in SQLite and does not exist yet: to look for a table must not make it."""
        database = self._database()
        return database is not None and not os.path.exists(database)

    def _catalog(self) -> Catalog:
        with self._lock:
            if self._opened is None:
                try:
                    catalog = stages_below_tables(writes_version_3(self._open()))
                except (ValueError, KeyError, ImportError, NotInstalledError) as error:
                    raise ConfigError(
                        f"catalog {self.name} cannot be opened: {error}. See sink.catalog-properties"
                    ) from error
                # PyIceberg would let properties of a table, or of a REST server, choose a class and a place for files.
                catalog._load_file_io = lambda *_, **__: self.io  # type: ignore[method-assign]
                self._opened = catalog
            return self._opened

    def _open(self) -> Catalog:
        known = {**(Config().get_catalog_config(self.name) or {}), **self.properties}
        kind = _kind(self.name, known)
        if kind is CatalogType.REST:
            return TimedRestCatalog(self.name, **{**known, **self._files})
        if kind is CatalogType.SQL:
            from changefeed.sinks.iceberg.sql import HistorySqlCatalog  # SQLAlchemy is there for catalogs in databases

            return HistorySqlCatalog(self.name, **{**known, **self._files})
        if kind is CatalogType.HIVE:
            from changefeed.sinks.iceberg.hive import ThreadedHiveCatalog  # Thrift is there for catalogs in Hive

            return ThreadedHiveCatalog(self.name, **{**known, **self._files})
        return load_catalog(self.name, **self.properties, **self._files)

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Translates the errors of catalogs."""
        try:
            yield
        except ChangefeedError:
            raise
        except FileNotFoundError as error:
            raise SinkError(f"{self.location}/{path}: a file of the table's metadata is gone: {error}") from error
        except Exception as error:
            raise translated(error, self.name, path, _server(self.properties.get("uri", ""))) from error


def _server(uri: str) -> str:
    """Returns a URI without credentials; an empty text if it names no server."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.hostname else ""


def _kind(name: str, properties: Mapping[str, Any]) -> CatalogType | None:
    """Returns the type of the catalog that PyIceberg opens with these properties; None for a class of the user's."""
    if "py-catalog-impl" in properties:
        return None
    written = properties.get("type")
    return CatalogType(str(written).lower()) if written else infer_catalog_type(name, dict(properties))
