"""Iceberg tables in the catalog of a real Hive metastore: threads, writers at the same time, servers that go away, names."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException

from changefeed.errors import SinkError
from changefeed.sinks.iceberg.catalog import TableCatalog
from changefeed.sinks.iceberg.sink import IcebergTables
from changefeed.sinks.writes import Load, Upsert
from changefeed.storage.local import LocalFolder
from tests.services.hive_metastore import HiveMetastore
from tests.services.processes import free_ports
from tests.sinks.iceberg.tables import PATH, Tables

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("processes")]


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    with HiveMetastore(tmp_path_factory.mktemp("hive") / "metastore", locks=True) as started:
        yield started


@dataclass
class InHive(Tables):
    """Tables whose names are in Hive."""

    servers: str = ""

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "hive", "uri": self.servers}

    @property
    def identifier(self) -> tuple[str, str]:
        """Namespace and name of the table."""
        return self.sink().catalog.identifier(PATH)

    def ids_of(self, path: str) -> list[int]:
        """The ids of the rows of a table."""
        table = self.sink().catalog.load(path)
        assert table is not None
        return sorted(table.scan().to_arrow().column("id").to_pylist())

    def sink(self, metadata: tuple[str, ...] = ()) -> IcebergTables:
        folder = LocalFolder(str(self.root))
        catalog = TableCatalog(
            self.catalog, self.properties, f"{self.root.name}_{{database}}", folder, f"file://{self.root}"
        )
        return IcebergTables(catalog, metadata, None, "changefeed:test:1", self.limits, options=self.options)


@pytest.fixture
def tables(metastore: HiveMetastore, tmp_path: Path) -> InHive:
    root = tmp_path / f"lake{free_ports(1)[0]}"
    root.mkdir()
    return InHive(root, servers=metastore.uri)


def test_many_tables_are_committed_by_threads(tables: InHive) -> None:
    sink = tables.sink()
    paths = [f"shop/t{number}" for number in range(12)]

    def write(path: str) -> None:
        own = InHive(tables.root, servers=tables.servers)
        own.write(sink, Load, {"id": 1, "note": path}, path=path)
        for number in (2, 3):
            own.write(sink, Upsert, {"id": number, "note": path}, path=path)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, paths))
    assert sorted(sink.catalog.paths()) == sorted(paths)
    assert {path: tables.ids_of(path) for path in paths} == {path: [1, 2, 3] for path in paths}


def test_another_writer_at_the_same_time_loses_nothing(tables: InHive) -> None:
    """A program with PyIceberg adds rows while a pipeline writes: who comes second tries again."""
    tables.write(tables.sink(), Load, {"id": 0, "note": "first"})
    added, written = range(100, 105), range(200, 205)

    def add() -> None:
        catalog = load_catalog("other", **tables.properties)
        for number in added:
            _until_done(partial(_append, catalog, tables.identifier, number), CommitFailedException)

    def write() -> None:
        sink = tables.sink()
        for number in written:
            _until_done(partial(tables.write, sink, Upsert, {"id": number, "note": "ours"}), SinkError)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(add), pool.submit(write)]:
            done.result()
    assert tables.ids_of(PATH) == [0, *added, *written]


def _append(catalog: Catalog, identifier: tuple[str, str], number: int) -> None:
    table = catalog.load_table(identifier)
    table.append(pa.table({"id": [number], "note": ["another's"]}, table.schema().as_arrow()))


def _until_done(write: Callable[[], None], *refused: type[Exception]) -> None:
    """Writes; once more for each refusal, which another commit is the reason of."""
    for _ in range(20):
        with suppress(*refused):
            return write()
    raise AssertionError("refused each time")


def test_a_metastore_that_goes_away(tables: InHive, tmp_path: Path) -> None:
    [port] = free_ports(1)
    with HiveMetastore(tmp_path / "metastore", locks=True) as metastore:
        away = InHive(tables.root, servers=f"thrift://127.0.0.1:{port}, {metastore.uri}")  # the first one is down
        sink = away.sink()
        away.write(sink, Load, {"id": 1, "note": "one"})
        metastore.stop()
        with pytest.raises(SinkError) as caught:
            sink.snapshot(PATH)
        assert caught.value.transient
        assert "does not answer" in str(caught.value)
        assert "is uri in sink.catalog-properties right?" in str(caught.value)
        metastore.start()
        away.write(sink, Upsert, {"id": 2, "note": "two"})
        assert away.ids_of(PATH) == [1, 2]


def test_a_metastore_that_hangs_is_left(tables: InHive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("changefeed.sinks.iceberg.hive._ANSWER", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hanging = InHive(tables.root, servers=f"thrift://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(SinkError, match="does not answer") as caught:
            hanging.sink().snapshot(PATH)
    assert caught.value.transient


def test_names_with_capitals_are_found_again(tables: InHive) -> None:
    """Hive stores names in lower case, and folders have those of the database."""
    path, sink = "Shop/Orders", tables.sink()
    tables.write(sink, Load, {"id": 1, "note": "one"}, path=path)
    tables.write(sink, Upsert, {"id": 2, "note": "two"}, path=path)
    assert tables.ids_of(path) == [1, 2]
    assert list(tables.sink().tables()) == [path]


def test_of_two_names_that_hive_stores_as_one_the_second_is_refused(tables: InHive) -> None:
    """Otherwise the rows of one table would replace those of the other."""
    sink = tables.sink()
    tables.write(sink, Load, {"id": 1, "note": "one"}, path="shop/orders")
    for kind in (Load, Upsert):
        with pytest.raises(
            SinkError, match=r"shop/Orders: the catalog has this name for .*/shop/orders, because it stores names in"
        ):
            tables.write(sink, kind, {"id": 2, "note": "two"}, path="shop/Orders")
    sink.delete("shop/Orders")
    assert tables.ids_of("shop/orders") == [1]
    assert list(tables.sink().tables()) == ["shop/orders"]


@pytest.mark.parametrize("path", ["shop/order-items", "shop/über"])
def test_names_that_hive_does_not_have_are_refused(tables: InHive, path: str) -> None:
    with pytest.raises(SinkError, match=r"is not a valid object name.* pipeline.exclude") as caught:
        tables.write(tables.sink(), Load, {"id": 1, "note": "one"}, path=path)
    assert not caught.value.transient, "another try is refused, too"
