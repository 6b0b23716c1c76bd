"""The table sinks keep the contract of `sinks.base`: the same cases on Delta, on Iceberg and in memory."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog import load_catalog

from changefeed.model.types import ColumnType
from changefeed.sinks.apply.compaction import CompactionRules
from changefeed.sinks.apply.files import Limits
from changefeed.sinks.base import TableSink, TypeMap
from changefeed.sinks.delta.sink import DeltaTables
from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.options import TableOptions
from changefeed.sinks.iceberg.partition_fields import PartitionField, parsed
from changefeed.sinks.iceberg.sink import IcebergTables
from changefeed.sinks.iceberg.sort_fields import SortField, parsed_sort_field
from changefeed.sinks.memory import Lake, MemorySink
from changefeed.sinks.sql import SparkTypes
from changefeed.storage.folders import folder_at
from changefeed.storage.local import LocalFolder
from changefeed.storage.objects import ObjectFolder
from tests.examples import by_turns
from tests.services.postgres import Postgres
from tests.services.rest_catalog import RestCatalog
from tests.services.s3 import S3Server
from tests.sinks.conformance import Conformance
from tests.sinks.contract import Harness, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Memory:
    """The sink in memory."""

    lake: Lake

    def sink(self, owner: str = "changefeed:test:1", metadata: Sequence[str] = ()) -> TableSink:
        return MemorySink(self.lake, tuple(metadata), owner)

    def rows(self, path: str, version: int | None = None) -> list[Row]:
        return self.lake.rows(path, -1 if version is None else version)


@dataclass
class Delta:
    """The sink of Delta tables."""

    spark: SparkSession
    root: str
    native: bool
    merges_on_read: bool = False

    def sink(self, owner: str = "changefeed:test:1", metadata: Sequence[str] = ()) -> TableSink:
        return DeltaTables(
            self.root,
            tuple(metadata),
            self.spark,
            owner,
            self.native,
            self.merges_on_read,
            limits=Limits(least_marked=0),
        )

    def rows(self, path: str, version: int | None = None) -> list[Row]:
        table = DeltaTable(f"{self.root}/{path}", version=version)
        return rows_of(pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()))


@dataclass
class DeltaOnS3:
    """The sink of Delta tables in a bucket, without a session: nothing may need Spark."""

    folder: ObjectFolder
    environ: dict[str, str]
    merges_on_read: bool = False

    def sink(self, owner: str = "changefeed:test:1", metadata: Sequence[str] = ()) -> TableSink:
        return DeltaTables(
            self.folder.path, tuple(metadata), None, owner, merges_on_read=self.merges_on_read,
            limits=Limits(least_marked=0), folder=self.folder,
        )  # fmt: skip

    def rows(self, path: str, version: int | None = None) -> list[Row]:
        table = DeltaTable(f"{self.folder.path}/{path}", version=version, storage_options=self.environ)
        return rows_of(pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()))


@dataclass
class Iceberg:
    """The sink of Iceberg tables, without a session; PyIceberg reads them with files and a catalog of its own."""

    folder: LocalFolder | ObjectFolder
    catalog: dict[str, str]
    files: dict[str, str] = field(default_factory=dict)  # properties of the reader
    prefix: str = ""  # of namespaces
    options: TableOptions = field(default_factory=TableOptions)

    def sink(self, owner: str = "changefeed:test:1", metadata: Sequence[str] = ()) -> TableSink:
        location = f"file://{self.folder.path}" if isinstance(self.folder, LocalFolder) else self.folder.path
        catalog = TableCatalog("test", dict(self.catalog), self.prefix + "{database}", self.folder, location)
        limits = Limits(least_marked=0)
        return IcebergTables(catalog, tuple(metadata), None, owner, limits, options=self.options)

    def rows(self, path: str, version: int | None = None) -> list[Row]:
        catalog = load_catalog("test", **self.catalog, **self.files)
        try:
            table = catalog.load_table(self.prefix + path.replace("/", "."))
            return rows_of(table.scan(snapshot_id=version).to_arrow())
        finally:
            catalog.close()


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of a table, with maps as dicts."""
    maps = {name for name in table.column_names if pa.types.is_map(table.schema.field(name).type)}
    return [{n: dict(v) if n in maps and v is not None else v for n, v in row.items()} for row in table.to_pylist()]


def test_conversions_of_sinks_with_sparks_types() -> None:
    types: TypeMap = SparkTypes()
    assert types.conversion(ColumnType("int"), ColumnType("bigint")) == "rewrite"
    assert types.conversion(ColumnType("mediumint"), ColumnType("int")) == "none"
    assert types.conversion(ColumnType("varchar"), ColumnType("int")) is None
    assert types.conversion(ColumnType("date"), ColumnType("varchar"), widening=True) == "rewrite"


class TestMemory(Conformance):
    @pytest.fixture
    def harness(self) -> Memory:
        return Memory(Lake())


# SQL writes a table that merges on read as it writes any other: Delta makes the deletion vectors.
WAYS = ["native", *by_turns(["sql", "native-mor"], 3), pytest.param("sql-mor", marks=pytest.mark.nightly)]


class TestDelta(Conformance):
    @pytest.fixture(params=WAYS)
    def harness(self, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Delta:
        return Delta(spark, str(tmp_path / "lake"), "native" in request.param, "mor" in request.param)


_COLUMNS = {"shop.orders": "id", "shop.kinds": "shop", "shop.pairs": "a"}  # of the suite's tables; others have `at`


def _fields(table: str) -> tuple[PartitionField, ...]:
    """The partitions of the suite's tables."""
    return (parsed(f"bucket(3, {_COLUMNS[table]})" if table in _COLUMNS else "at"),)


def _order(table: str) -> tuple[SortField, ...]:
    """The sort order of the suite's tables."""
    return (parsed_sort_field(f"{_COLUMNS[table]} desc" if table in _COLUMNS else "at nulls last"),)


ICEBERG = {
    "plain": TableOptions(),
    "partitions": TableOptions(_fields),
    "merge-on-read": TableOptions(merges_on_read=True, compaction=CompactionRules(many=2, every=2)),
    "partitions, merge-on-read": TableOptions(_fields, merges_on_read=True),
    "version 3": TableOptions(format_version=3),
    "version 3, partitions, merge-on-read": TableOptions(_fields, 3, merges_on_read=True),
    "sorted": TableOptions(sort_fields=_order),
    "version 3, all options": TableOptions(
        _fields, 3, merges_on_read=True, compaction=CompactionRules(many=2, every=2), sort_fields=_order
    ),
}
ICEBERG_REMOTE = ["plain", "partitions, merge-on-read", "version 3, all options"]


class TestIceberg(Conformance):
    @pytest.fixture(params=["plain", *by_turns([name for name in ICEBERG if name != "plain"], 2)])
    def harness(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iceberg:
        (tmp_path / "lake").mkdir()
        catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake/catalog.db"}
        return Iceberg(LocalFolder(str(tmp_path / "lake")), catalog, options=ICEBERG[request.param])


class TestIcebergInPostgres(Conformance):
    @pytest.fixture
    def harness(self, postgres: Postgres, tmp_path: Path) -> Iceberg:
        (tmp_path / "lake").mkdir()
        name = f"t{uuid.uuid4().hex}"
        postgres.execute(f"CREATE DATABASE {name}")
        return Iceberg(LocalFolder(str(tmp_path / "lake")), {"type": "sql", "uri": postgres.uri(name)})


class TestIcebergInRestCatalog(Conformance):
    @pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.nightly)])
    def place(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    @pytest.fixture(params=by_turns(ICEBERG_REMOTE, 3))
    def harness(
        self, place: str, request: pytest.FixtureRequest, rest_catalog: RestCatalog, s3: S3Server, tmp_path: Path
    ) -> Iceberg:
        catalog, prefix = {"type": "rest", "uri": rest_catalog.url}, f"t{uuid.uuid4().hex}_"  # tests share the catalog
        options = ICEBERG[request.param]
        if place == "s3":
            return iceberg_on_s3(s3, catalog, prefix, options)
        (tmp_path / "lake").mkdir()
        return Iceberg(LocalFolder(str(tmp_path / "lake")), catalog, prefix=prefix, options=options)


@pytest.mark.nightly
class TestIcebergOnS3(Conformance):
    @pytest.fixture(params=ICEBERG_REMOTE)
    def harness(self, request: pytest.FixtureRequest, s3: S3Server, tmp_path: Path) -> Iceberg:
        catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
        return iceberg_on_s3(s3, catalog, options=ICEBERG[request.param])


@pytest.mark.nightly
class TestIcebergInGlue(Conformance):
    @pytest.fixture
    def harness(self, s3: S3Server) -> Iceberg:
        access = {"region": "us-east-1", "access-key-id": s3.keys[0], "secret-access-key": s3.keys[1]}
        catalog = {"type": "glue", "glue.endpoint": s3.url} | {f"glue.{name}": value for name, value in access.items()}
        return iceberg_on_s3(s3, catalog, f"t{uuid.uuid4().hex}_")  # tests share the catalog

    def test_two_runs_at_once_leave_the_newer_ones_write(self, harness: Harness) -> None:
        pytest.skip("moto does not compare the versions of two commits, as AWS Glue does")


def iceberg_on_s3(
    s3: S3Server, catalog: dict[str, str], prefix: str = "", options: TableOptions | None = None
) -> Iceberg:
    """A new folder in a bucket."""
    folder = folder_at(f"s3://lake/{uuid.uuid4().hex}", s3.storage())
    assert isinstance(folder, ObjectFolder)
    files = {
        "s3.endpoint": s3.url, "s3.region": "us-east-1", "s3.access-key-id": s3.keys[0], "s3.secret-access-key": s3.keys[1],
    }  # fmt: skip
    return Iceberg(folder, catalog, files, prefix, options or TableOptions())


class TestDeltaOnS3(Conformance):
    @pytest.fixture(params=by_turns(["copy-on-write", "merge-on-read"], 2))
    def harness(self, request: pytest.FixtureRequest, s3: S3Server) -> DeltaOnS3:
        folder = folder_at(f"s3://lake/{uuid.uuid4().hex}", s3.storage())
        assert isinstance(folder, ObjectFolder)
        return DeltaOnS3(folder, s3.environ, request.param == "merge-on-read")
