"""Readers that are not PyIceberg read the tables: now, at an old snapshot, and after DDL by field id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars
import pytest

from changefeed.sinks.writes import Constant, ConvertedFrom, Load, Rewrite, Upsert
from tests.sinks.contract import Row, sorted_rows, table
from tests.sinks.iceberg.tables import COLUMNS, PATH, Tables, same


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    (tmp_path / "lake").mkdir()
    return Tables(tmp_path / "lake")


def by_polars(tables: Tables, version: int | None = None) -> list[Row]:
    """The rows as Polars reads them, by its own reader in Rust, from the metadata file alone."""
    with tables.opened() as opened:
        location = opened.metadata_location
    frame = polars.scan_iceberg(location, snapshot_id=version, reader_override="native")
    rows: list[dict[str, Any]] = frame.collect().to_dicts()
    return rows


def test_polars_reads_every_type(tables: Tables) -> None:
    names = {name for name in COLUMNS if not name.startswith(("place", "vec"))}  # structs and lists have a test below
    of = table(*[f"*{name}" if name == "small smallint unsigned" else name for name in COLUMNS if name in names])
    low, high = ({n.split(" ")[0]: pair[i] for n, pair in COLUMNS.items() if n in names} for i in (0, 1))
    sink = tables.sink()
    tables.write(sink, Load, low, of=of)
    tables.write(sink, Upsert, high, of=of)
    assert same(by_polars(tables), tables.rows())
    assert same(by_polars(tables), [low, high])


def test_polars_reads_nested_values(tables: Tables) -> None:
    of = table("*id int", "place point", "vec vector(2)")
    tables.write(
        tables.sink(), Load, {"id": 1, "place": {"srid": 0, "wkb": b"\x01"}, "vec": [0.5, 1.0]}, {"id": 2}, of=of
    )
    assert same(by_polars(tables), tables.rows())


def test_polars_reads_old_snapshots_and_columns_that_were_renamed(tables: Tables) -> None:
    sink, old = tables.sink(), table("*id int", "note varchar(20)")
    tables.write(sink, Load, {"id": 1, "note": "one"}, {"id": 2, "note": "two"}, of=old)
    tables.write(sink, Upsert, {"id": 2, "note": "new"}, of=old)
    there = sink.snapshot(PATH)
    assert there is not None
    new = table("*id bigint", "remark varchar(20)", "state varchar(5)")
    expressions = (
        ConvertedFrom("id", old.columns[0].type), ConvertedFrom("note", old.columns[1].type), Constant("open"),
    )  # fmt: skip
    tables.write(sink, Rewrite, of=new, expressions=expressions)
    tables.write(sink, Upsert, {"id": 3, "remark": None, "state": "new"}, of=new)
    wanted = [
        {"id": 1, "remark": "one", "state": "open"}, {"id": 2, "remark": "new", "state": "open"},
        {"id": 3, "remark": None, "state": "new"},
    ]  # fmt: skip
    assert sorted_rows(by_polars(tables)) == tables.rows() == wanted
    assert sorted_rows(by_polars(tables, there.revision)) == [{"id": 1, "note": "one"}, {"id": 2, "note": "new"}]
