"""The catalog `spark_catalog` of a Spark session: Hive's metastore, AWS Glue by its client for Hive, or Spark's memory.

Theory of operation:

Rule 1. Entries are made and removed by the calls with which Spark's SQL ends, not by SQL. `CREATE TABLE … USING DELTA LOCATION`
        reads the table's log, needs the format's jars, and refuses a property that the table does not have. The call
        does neither, and the property `changefeed.pipeline` is the catalog's alone: nothing is written to the table.
Rule 2. An entry is external and has a location, a provider, and no columns: readers take these from the table itself. To
        remove it deletes no file.
Rule 3. Entries are looked up by name, those of a database in one request.
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from changefeed.errors import AccessError, SinkError
from changefeed.sinks.catalog import Comparison, EntryName
from changefeed.sinks.sql import quoted
from changefeed.storage.folders import is_object_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "spark_catalog"
MARK = "changefeed.pipeline"
"""The property of an entry that has the name of the pipeline that made it."""

_REFUSED = re.compile(
    r"AccessControlException|AccessDenied|not authorized|Unauthorized|Permission denied|[Nn]o privilege|not have .*privilege"
)
_AWAY = re.compile(
    r"Could not connect to meta ?store|TTransportException|java\.net\.\w+Exception|SdkClientException|Throttl|Rate exceeded"
    r"|timed out"
)
_PROPERTIES = 11  # index of the properties among the fields of Spark's `CatalogTable`


@dataclass(frozen=True, slots=True)
class SparkCatalog:
    """The entries of one pipeline in the catalog of a session.

    Attributes:
        session: the Spark session; None to use only `name` and `pattern`.
        pipeline: the pipeline's name.
        provider: Spark's name for the format of the tables.
        pattern: the option `catalog-names`.
    """

    session: SparkSession | None
    pipeline: str
    provider: str
    pattern: str

    @property
    def name(self) -> str:
        """See `Catalog`."""
        return NAME

    @property
    def lasts(self) -> bool:
        """See `Catalog`."""
        return self._spark.sparkContext.getConf().get("spark.sql.catalogImplementation", "in-memory") != "in-memory"

    def compare(self, wanted: Mapping[EntryName, str], former: Mapping[EntryName, Collection[str]]) -> Comparison:
        """See `Catalog`."""
        missing, moved, taken = dict[EntryName, str](), dict[EntryName, str](), dict[EntryName, str]()
        with _answering():
            entries = self._entries(former.keys() | wanted.keys())
            ours = {e for e, places in former.items() if e in entries and self._is_ours(entries[e], places)}
            for name, location in wanted.items():
                if (entry := entries.get(name)) is None:
                    missing[name] = location
                elif not self._is_at(entry, location):
                    if name in ours:
                        moved[name] = location
                    else:
                        taken[name] = _description(entry, name)
        return Comparison(missing, moved, tuple(sorted(ours - wanted.keys())), taken)

    def apply(self, comparison: Comparison) -> None:
        """See `Catalog`."""
        with _answering():
            for entry in comparison.stale:
                self._drop(entry)
            for database in sorted({entry.database for entry in comparison.missing}):
                if not self._catalog.databaseExists(database):
                    self._spark.sql(f"CREATE DATABASE IF NOT EXISTS {NAME}.{quoted(database)}")
            for entry, location in comparison.missing.items():
                self._create(entry, location)
            for entry, location in comparison.moved.items():
                self._catalog.alterTable(self._table(entry, location))  # keeps the rights on it

    def try_out(self, wanted: Mapping[EntryName, str]) -> None:
        """See `Catalog`."""
        probe = f"changefeed_check_{uuid.uuid4().hex}"
        places = {entry.database: location for entry, location in wanted.items()}
        with _answering():
            self._catalog.listDatabases()
            missing = [database for database in places if not self._catalog.databaseExists(database)]
            for database in places.keys() - missing:
                self._create(EntryName(database, probe), places[database])
                self._drop(EntryName(database, probe))
            if missing:
                self._spark.sql(f"CREATE DATABASE {NAME}.{probe}")
                self._spark.sql(f"DROP DATABASE {NAME}.{probe}")

    @property
    def _spark(self) -> SparkSession:
        assert self.session is not None, "the catalog was opened without a session"
        return self.session

    @property
    def _catalog(self) -> Any:
        return self._spark._jsparkSession.sessionState().catalog()

    @property
    def _jvm(self) -> Any:
        return self._spark._jvm

    def _entries(self, names: Iterable[EntryName]) -> dict[EntryName, _Entry]:
        """The entries that there are under these names."""
        databases = defaultdict[str, list[Any]](list)
        for name in names:
            databases[name.database].append(self._identifier(name))
        entries = dict[EntryName, _Entry]()
        for database, identifiers in databases.items():
            if self._catalog.databaseExists(database):
                tables = self._catalog.getTablesByName(self._jvm.PythonUtils.toSeq(identifiers))
                for table in self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(tables):
                    entries[EntryName(database, str(table.identifier().table()).lower())] = self._entry(table)
        return entries

    def _entry(self, table: Any) -> _Entry:
        location, mark = table.storage().locationUri(), table.properties().get(MARK)
        path = str(self._jvm.org.apache.hadoop.fs.Path(location.get()).toString()) if location.isDefined() else ""
        provider = str(table.provider().get()).lower() if table.provider().isDefined() else ""
        return _Entry(str(table.tableType().name()), provider, path, str(mark.get()) if mark.isDefined() else "")

    def _identifier(self, entry: EntryName) -> Any:
        kind = self._jvm.org.apache.spark.sql.catalyst.TableIdentifier
        return kind(entry.table, self._jvm.scala.Option.apply(entry.database))

    def _is_at(self, entry: _Entry, location: str) -> bool:
        """Whether an entry is an external table of the format at this location."""
        if (entry.kind, entry.provider) != ("EXTERNAL", self.provider):
            return False
        return _comparable(entry.location) == _comparable(str(self._path(location).toString()))

    def _is_ours(self, entry: _Entry, locations: Iterable[str]) -> bool:
        return entry.mark == self.pipeline and any(self._is_at(entry, location) for location in locations)

    def _path(self, location: str) -> Any:
        """The location as a path of Hadoop with a scheme; only one in an object store needs no file system of Hadoop."""
        path = self._jvm.org.apache.hadoop.fs.Path(location)
        if is_object_store(location):
            return path
        return path.getFileSystem(self._spark._jsc.hadoopConfiguration()).makeQualified(path)

    def _create(self, entry: EntryName, location: str) -> None:
        """Makes an entry, unless there is one by now."""
        self._catalog.createTable(self._table(entry, location), True, False)

    def _table(self, entry: EntryName, location: str) -> Any:
        """An entry as Spark's `CatalogTable`."""
        types, some = self._jvm.org.apache.spark.sql.catalyst.catalog, self._jvm.scala.Option.apply
        storage = types.CatalogStorageFormat.empty()
        rest = [getattr(storage, f"copy$default${n}")() for n in range(2, 1 + _parameters(storage.getClass()))]
        storage = storage.copy(some(self._path(location).toUri()), *rest)
        values = [self._identifier(entry), types.CatalogTableType.EXTERNAL(), storage]
        values += [self._jvm.org.apache.spark.sql.types.StructType(), some(self.provider)]
        kind = self._jvm.org.apache.spark.util.Utils.classForName(types.CatalogTable._fqn, True, True)
        # later versions of Spark have more fields, all of which have a default
        values += [getattr(types.CatalogTable, f"apply$default${n}")() for n in range(6, 1 + _parameters(kind))]
        values[_PROPERTIES] = self._jvm.PythonUtils.toScalaMap({MARK: self.pipeline})
        return types.CatalogTable(*values)

    def _drop(self, entry: EntryName) -> None:
        self._catalog.dropTable(self._identifier(entry), True, False)


@dataclass(frozen=True, slots=True)
class _Entry:
    """Entry of any program: `kind` is EXTERNAL, MANAGED or VIEW; texts are empty where it has none."""

    kind: str
    provider: str
    location: str
    mark: str


def _description(entry: _Entry, name: EntryName) -> str:
    """A phrase about an entry that is not the pipeline's, and the way out."""
    if entry.kind == "VIEW":
        return f"a view. Remove it (DROP VIEW {name}), or give it another name"
    what = "a table that owns its files" if entry.kind == "MANAGED" else "another table"
    remedy = "Give it another name" if entry.kind == "MANAGED" else f"Remove it (DROP TABLE {name} deletes no file)"
    provider = f" of {entry.provider}" if entry.provider else ""
    return f"{what}{provider} at {entry.location}. {remedy}, or set sink.catalog-names"


def _comparable(location: str) -> str:
    """A location in one spelling: `s3://` and `s3a://` are one store."""
    return re.sub(r"^s3[an]://", "s3://", location).rstrip("/")


def _parameters(kind: Any) -> int:
    """The number of fields of a case class of Scala."""
    return max(len(constructor.getParameterTypes()) for constructor in kind.getConstructors())


@contextmanager
def _answering() -> Iterator[None]:
    """Translates the errors of a catalog.

    Raises:
        AccessError: it refuses this user.
        SinkError: it does not answer, or fails.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        causes = _causes(error)
        if any(_REFUSED.search(cause) for cause in causes):
            fix = "Give it the rights, or leave out sink.catalog"
            raise AccessError(f"{NAME} refuses this user: {causes[-1]}. {fix}") from error
        if any(_AWAY.search(cause) for cause in causes):
            fix = "The tables are as in the ledger; run again when it answers"
            raise SinkError(f"{NAME} does not answer: {causes[-1]}. {fix}", transient=True) from error
        fix = "The tables are as in the ledger. Correct the catalog, or leave out sink.catalog"
        raise SinkError(f"{NAME}: {causes[-1]}. {fix}") from error


def _causes(error: Any) -> list[str]:
    """The first lines of a Java error and its causes, outermost first."""
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    causes = list[str]()
    while cause is not None:
        causes.append(str(cause.toString()).split("\n")[0])
        cause = cause.getCause()
    return causes or [str(error).split("\n")[0]]
