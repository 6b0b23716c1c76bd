"""A commit is made once, whatever the catalog answers; every type of column is written, merged and read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy.exc import OperationalError

from changefeed.errors import ConfigError, FencedError, SinkError
from changefeed.pipeline.config.load import read as definition_of
from changefeed.sinks.iceberg import open_sink
from changefeed.sinks.iceberg.section import IcebergSink
from changefeed.sinks.writes import Create, Load, Upsert
from changefeed.storage.objects import ObjectFolder
from tests.sinks.contract import Row, table
from tests.sinks.iceberg.tables import COLUMNS, KEYS, ORDERS, PATH, Tables, same

ONE: Row = {"id": 1, "note": "one"}
TWO: Row = {"id": 2, "note": "two"}


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    (tmp_path / "lake").mkdir()
    return Tables(tmp_path / "lake")


def answers(monkeypatch: pytest.MonkeyPatch, *, before: Callable[[], None], after: Callable[[], None]) -> None:
    """Calls `before` and `after` around the next commit of a catalog."""
    commit = SqlCatalog.commit_table

    def once(catalog: SqlCatalog, *arguments: Any) -> Any:
        monkeypatch.setattr(SqlCatalog, "commit_table", commit)
        before()
        made = commit(catalog, *arguments)
        after()
        return made

    monkeypatch.setattr(SqlCatalog, "commit_table", once)


def gone() -> None:
    raise OperationalError("UPDATE iceberg_tables", {}, ConnectionResetError("connection reset"))


def nothing() -> None:
    pass


@pytest.mark.parametrize("kind", [Load, Upsert, Create])
def test_a_commit_whose_answer_is_lost_counts(tables: Tables, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ONE)
    answers(monkeypatch, before=nothing, after=gone)
    tables.write(sink, kind, *([] if kind is Create else [TWO]))
    assert tables.rows() == {Load: [TWO], Upsert: [ONE, TWO], Create: []}[kind]
    there = sink.snapshot(PATH)
    assert there is not None
    assert sink.distance(PATH, -1, there.revision) == 2


def test_a_new_table_whose_answer_is_lost_counts(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, before=nothing, after=gone)
    tables.write(tables.sink(), Load, ONE)
    assert tables.rows() == [ONE]


def test_a_catalog_that_does_not_answer_is_tried_once_more(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = tables.sink()
    tables.write(sink, Load, ONE)
    answers(monkeypatch, before=gone, after=nothing)
    tables.write(sink, Upsert, TWO)
    assert tables.rows() == [ONE, TWO]
    monkeypatch.setattr(SqlCatalog, "commit_table", lambda *arguments: gone())
    with pytest.raises(SinkError, match=r"a snapshot cannot be committed: catalog test: .* connection reset") as caught:
        tables.write(sink, Upsert, {**TWO, "note": "new"})
    assert caught.value.transient
    assert tables.rows() == [ONE, TWO]


def test_a_run_that_is_overtaken_by_a_newer_one_at_its_commit_is_fenced(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, newer = tables.sink(), Tables(tables.root, step=50)
    tables.write(sink, Load, ONE)

    def overtake() -> None:
        newer.epoch = 2
        newer.write(newer.sink(), Upsert, {**TWO, "note": "of the newer run"})

    answers(monkeypatch, before=overtake, after=nothing)
    with pytest.raises(
        FencedError, match=r"epoch 2 of pipeline changefeed:test:1 writes this table now; this run is epoch 1"
    ):
        tables.write(sink, Upsert, TWO)
    assert tables.rows() == [ONE, {**TWO, "note": "of the newer run"}]


@pytest.mark.parametrize("key", KEYS)
def test_every_type_is_a_key_or_a_value(tables: Tables, key: str) -> None:
    """A row that is updated is found by the bounds of its file and by its key."""
    of = table(*[f"*{name}" if name == key else name for name in COLUMNS])
    low, high = ({name.split(" ")[0]: pair[i] for name, pair in COLUMNS.items()} for i in (0, 1))
    sink = tables.sink()
    assert sink.refusal(of) is None
    for row in (low, high):
        tables.write(sink, Load if row is low else Upsert, row, of=of)
    assert same(tables.rows(), [low, high])
    name = key.split(" ")[0]
    swapped = [{**low, name: high[name]}, {**high, name: low[name]}]
    tables.write(sink, Upsert, *swapped, of=of)
    assert same(tables.rows(), swapped)
    assert sink.differences(PATH, of) == []


def test_a_catalog_that_cannot_be_opened_is_named(tables: Tables) -> None:
    sink = tables.sink()
    sink.catalog.properties = {"type": "nonsense"}
    with pytest.raises(ConfigError, match=r"catalog test cannot be opened: .*nonsense.* See sink.catalog-properties"):
        tables.write(sink, Load, ONE, of=ORDERS)


def test_tables_in_an_object_store_need_a_catalog() -> None:
    section = IcebergSink.model_validate({"type": "iceberg", "path": "s3://lake/tables"})
    folder = ObjectFolder.__new__(ObjectFolder)
    with pytest.raises(ConfigError) as caught:
        open_sink(section, None, folder)
    assert str(caught.value) == "sink.catalog-properties is missing: Iceberg tables in an object store need a catalog"


@pytest.mark.parametrize("namespace", ["lake", "{database}.{database}", "lake.{database}", "{database} x"])
def test_a_namespace_has_the_database_once(namespace: str, tmp_path: Path) -> None:
    written = {
        "source": {"type": "files", "path": "x", "protocol": "ticdc-open"},
        "sink": {"type": "iceberg", "path": "lake", "namespace": namespace}, "pipeline": {"name": "test"},
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"expected letters, digits and `_` around one `\{database\}`"):
        definition_of(written, base=tmp_path)


def test_databases_get_the_name_of_the_pattern(tables: Tables) -> None:
    sink = tables.sink()
    sink.catalog.namespace = "lake_{database}"
    tables.write(sink, Load, ONE, path="my.shop/the.orders")
    assert list(sink.tables()) == ["my.shop/the.orders"]
    assert sink.catalog.identifier("my.shop/the.orders") == ("lake_my~2Eshop", "the~2Eorders")
    sink.delete("my.shop/the.orders")
    assert list(sink.tables()) == []
