"""`explain` shows what a run would do before anything runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from changefeed.errors import UnsupportedError
from changefeed.pipeline.config.load import read
from changefeed.pipeline.operations.explain import explain
from tests.pipeline.history import HistoryBuilder, small_history
from tests.pipeline.running import definition


@pytest.mark.parametrize(
    "consistency, guarantee",
    [
        ("transaction", "TiCDC Open Protocol sends at least once; each change is applied once"),
        ("key", "TiCDC Open Protocol sends at least once; what it sends again is applied again"),
    ],
)
def test_no_more_is_promised_than_the_consistency_holds(tmp_path: Path, consistency: str, guarantee: str) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    assert explain(definition(log, tmp_path / "lake", consistency=consistency)).to_dict()["guarantee"] == guarantee


def test_a_table_that_the_sink_cannot_have_is_refused(tmp_path: Path) -> None:
    history = HistoryBuilder()
    history.schema("app", "t", "CREATE TABLE `app`.`t` (`id` INT PRIMARY KEY, `unit price` INT)")
    log = history.write(tmp_path / "app.jsonl")
    with pytest.raises(UnsupportedError) as error:
        explain(definition(log, tmp_path / "lake")).to_dict()
    assert str(error.value) == (
        "app.t: column 'unit price': plain Delta tables have no ' ' in names of columns. Rename it upstream, "
        "or name the table in pipeline.exclude"
    )


def test_tables_that_are_written_in_sql_are_named_with_the_reason(tmp_path: Path) -> None:
    history = HistoryBuilder()
    for name in ("plain", "fed"):
        history.schema("app", name, f"CREATE TABLE `app`.`{name}` (`id` INT PRIMARY KEY)")
    log, lake = history.write(tmp_path / "app.jsonl"), tmp_path / "lake"
    schema = pa.schema([("id", pa.int32())])
    DeltaTable.create(lake / "app" / "fed", schema, configuration={"delta.enableChangeDataFeed": "true"})
    sections = {"source": {"type": "files", "path": str(log), "protocol": "ticdc-open"}, "pipeline": {"name": "test"}}
    for writer, wanted in (
        ("native", ["merge by key in SQL (a change data feed)", "merge by key"]),
        ("spark", ["merge by key in SQL (sink.writer is `spark`)"] * 2),
    ):
        sink = {"type": "delta", "path": str(lake), "adopt": ["app.*"], "writer": writer}
        assert [table["apply"] for table in explain(read({**sections, "sink": sink})).to_dict()["tables"]] == wanted


def test_the_write_mode_is_named_where_it_is_not_the_plain_one(tmp_path: Path) -> None:
    history = HistoryBuilder()
    for name in ("new", "old", "fed"):
        history.schema("app", name, f"CREATE TABLE `app`.`{name}` (`id` INT PRIMARY KEY)")
    history.schema("app", "log", "CREATE TABLE `app`.`log` (`at` INT)")
    log, lake = history.write(tmp_path / "app.jsonl"), tmp_path / "lake"
    schema = pa.schema([("id", pa.int32())])
    DeltaTable.create(lake / "app" / "fed", schema, configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable.create(lake / "app" / "old", schema)
    sections = {"source": {"type": "files", "path": str(log), "protocol": "ticdc-open"}, "pipeline": {"name": "test"}}
    sink = {"type": "delta", "path": str(lake), "adopt": ["app.*"], "write-mode": "merge-on-read"}
    way_out = (
        "set delta.enableDeletionVectors = true, and let the pipeline go on from there: changefeed repair --accept"
    )
    without = f"copy-on-write (the table was made without: {way_out})"
    assert {
        table["table"]: table["apply"] for table in explain(read({**sections, "sink": sink})).to_dict()["tables"]
    } == {
        "app.fed": f"merge by key in SQL (a change data feed), {without}",
        "app.log": "append only: no handle key",
        "app.new": "merge by key, merge-on-read",
        "app.old": "merge by key, merge-on-read",
    }
    in_sql = {"app.new": "merge-on-read", "app.old": without, "app.fed": without}
    assert {
        table["table"]: table["apply"]
        for table in explain(read({**sections, "sink": {**sink, "writer": "spark"}})).to_dict()["tables"]
    } == {name: f"merge by key in SQL (sink.writer is `spark`), {mode}" for name, mode in in_sql.items()} | {
        "app.log": "append only: no handle key in SQL (sink.writer is `spark`)"
    }
    modes = {
        table["write_mode"]
        for table in explain(read({**sections, "sink": {**sink, "write-mode": "copy-on-write"}})).to_dict()["tables"]
    }
    assert modes == {"copy-on-write", None}
