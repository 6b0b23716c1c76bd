"""`explain` shows what a run would do before anything runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import MonthTransform
from pyiceberg.types import DateType, IntegerType, NestedField

from changefeed.cli import run as command
from changefeed.errors import ChangefeedError, UnsupportedError
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.load import read
from changefeed.pipeline.flow import Batch
from changefeed.pipeline.operations.check import checks
from changefeed.pipeline.operations.explain import explain
from changefeed.sources import source
from tests.pipeline.kit.debezium_recorded import Recorded
from tests.pipeline.kit.history import HistoryBuilder, small_history
from tests.pipeline.kit.in_memory import Storage, memory_flow
from tests.pipeline.kit.running import definition
from tests.services.debezium import write_log


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
        "app.t: column 'unit price': plain Delta tables have no ' ' in names of columns. Set "
        "sink.column-names to `escaped`, which makes it unit~20price, or name the table in pipeline.exclude"
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


def test_partitions_and_sort_order_are_those_of_the_table_or_of_the_definition(tmp_path: Path) -> None:
    history = HistoryBuilder()
    for name in ("new", "old"):
        history.schema("app", name, f"CREATE TABLE `app`.`{name}` (`id` INT PRIMARY KEY, `day` DATE)")
    log, lake = history.write(tmp_path / "app.jsonl"), tmp_path / "lake"
    lake.mkdir()
    catalog = load_catalog("changefeed", type="sql", uri=f"sqlite:///{lake}/catalog.db", init_catalog_tables="true")
    schema = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "day", DateType()))
    spec = PartitionSpec(PartitionField(2, 1000, MonthTransform(), "day_month"))
    catalog.create_namespace("app")
    order = SortOrder(SortField(2, MonthTransform(), SortDirection.DESC, NullOrder.NULLS_FIRST))
    catalog.create_table(
        ("app", "old"), schema, location=f"file://{lake}/app/old", partition_spec=spec, sort_order=order
    )
    catalog.close()
    definition = {
        "source": {"type": "files", "path": str(log), "protocol": "ticdc-open"}, "pipeline": {"name": "test"},
        "sink": {
            "type": "iceberg", "path": str(lake), "adopt": ["app.*"], "write-mode": "merge-on-read",
            "partition-by": {"app.*": ["day(day)", "bucket(4, id)"]}, "sort-by": {"app.*": ["day  DESC", "id nulls last"]},
        },
    }  # fmt: skip
    tables = explain(read(definition)).to_dict()["tables"]
    assert {table["table"]: (table["partitions"], table["apply"]) for table in tables} == {
        "app.new": (["days(day)", "bucket(4, id)"], "merge by key, merge-on-read"),
        "app.old": (["months(day)"], "merge by key, merge-on-read"),
    }
    assert {table["table"]: table["sort_order"] for table in tables} == {
        "app.new": ["day desc", "id nulls last"],
        "app.old": ["months(day) desc nulls first"],
    }


FIELD = Path(__file__).parents[2] / "data" / "field"
_CREATE = "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL, `total` DECIMAL(10,2), PRIMARY KEY (`id`))"
_NOTES = "CREATE TABLE `app`.`notes` (`n` INT NOT NULL, `note` VARCHAR(20))"


def _keyless_update(history: HistoryBuilder) -> None:
    history.schema("app", "notes", _NOTES)
    history.rows(("notes", {"n": 1, "note": "a"}, {"n": 1, "note": "b"}))


def _refused_statement(history: HistoryBuilder) -> None:
    history.schema("app", "orders", _CREATE)
    history.schema("app", "orders", "ALTER TABLE `app`.`orders` DROP COLUMN `gone`")


def _irregular_value(history: HistoryBuilder) -> None:
    history.schema("app", "orders", _CREATE)
    history.rows(("orders", None, {"id": 1, "total": "1234567890123.00"}))


def _keyless_table(history: HistoryBuilder) -> None:
    history.schema("app", "notes", _NOTES)
    history.rows(("notes", None, {"n": 1, "note": "a"}))


def _no_stop(history: HistoryBuilder) -> None:
    history.schema("app", "orders", _CREATE)
    history.schema("app", "notes", _NOTES)
    history.rows(("orders", None, {"id": 1, "total": "1.50"}), ("notes", None, {"n": 1, "note": "a"}))


@pytest.mark.parametrize("consistency", ["transaction", "key"])
@pytest.mark.parametrize(
    "build, options",
    [
        (_no_stop, {}),
        (_keyless_update, {}),
        (_keyless_update, {"keyless": "inserts"}),
        (_keyless_update, {"exclude": ["*.notes"]}),
        (_keyless_update, {"include": ["*.orders"]}),
        (_keyless_table, {"keyless": "refuse"}),
        (_refused_statement, {}),
        (_refused_statement, {"schema.change.behavior": "try_evolve"}),
        (_refused_statement, {"schema.change.behavior": "exception"}),
        (_refused_statement, {"schema.change.behavior": "ignore"}),
        (_irregular_value, {}),
    ],
)
def test_explain_and_check_stop_where_a_run_stops_in_the_same_words(
    build: Callable[[HistoryBuilder], None], options: dict[str, Any], consistency: str, tmp_path: Path
) -> None:
    history = HistoryBuilder()
    build(history)
    history.resolved()
    log = history.write(tmp_path / "app.jsonl")
    pipeline = definition(log, tmp_path / "lake", consistency=consistency, **options)
    tables, stop = _run(pipeline)
    reported = [one for one in checks(pipeline) if one.name == "tables"]
    assert [one.message for one in reported if one.status == "fail"] == ([stop] if stop else [])
    if stop:
        with pytest.raises(ChangefeedError) as error:
            explain(pipeline)
        assert str(error.value) == stop
    else:
        assert {table.table: table.keys for table in explain(pipeline).tables} == tables


def _run(pipeline: Definition) -> tuple[dict[str, tuple[str, ...]], str]:
    """The keys of the tables after a run in memory, and the error that it stopped with."""
    opened = source(pipeline.source)
    flow = memory_flow(Storage(), opened.capabilities, pipeline)
    flow.begin()
    chunks = list(opened.sample_chunks(1000))
    partitions = {("app", 0), ("app", 1)}
    try:
        flow.take(Batch(lambda dated, fragments: chunks, "", partitions, caught_up=True))
        flow.step(flow.ledger.state, partitions, idle=True)
    except ChangefeedError as error:
        return {}, str(error)
    return {name: table.table.keys for name, table in flow.ledger.state.tables.items()}, ""


def test_a_key_of_the_records_alone_is_shown_as_a_run_uses_it(capsys: pytest.CaptureFixture[str]) -> None:
    """`message.key.columns` gives the records of a table without a primary key a key: an update has no row to change."""
    path = FIELD / "debezium-message-key-columns-without-primary-key.yaml"
    assert command(["explain", str(path)]) == 3
    assert (
        "shop.codes has no handle key, so the update at srv.shop.codes:0:1 cannot be applied" in capsys.readouterr().err
    )
    assert command(["check", str(path)]) == 2
    assert "fail  tables      shop.codes has no handle key" in capsys.readouterr().out


@pytest.mark.parametrize("policy, code", [("stop", 3), ("continue", 0)])
def test_dead_letters_stop_explain_as_they_stop_a_run(
    policy: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, _ = small_history(tmp_path / "app.jsonl")
    lines = log.read_text().splitlines(keepends=True)
    lines[4] = json.dumps(json.loads(lines[4]) | {"key": "AA=="}) + "\n"
    log.write_text("".join(lines))
    (tmp_path / "p.yaml").write_text(
        f"source: {{type: files, path: app.jsonl, protocol: ticdc-open}}\nsink: {{type: delta, path: lake}}\n"
        f"pipeline: {{name: test, dead-letters: {policy}}}\n"
    )
    assert command(["explain", str(tmp_path / "p.yaml")]) == code
    printed = capsys.readouterr()
    if policy == "stop":
        assert printed.err.startswith("error: 1 record could not be decoded, the first: ticdc-open: ")
        assert "dlq list" not in printed.err  # nothing was kept
    else:
        assert "1 dead letter\n" in printed.out


@pytest.mark.parametrize("streamed, warns", [(False, False), (True, True)])
def test_a_snapshot_needs_no_end_of_a_transaction(streamed: bool, warns: bool, tmp_path: Path) -> None:
    """Debezium's snapshot is applied without transaction metadata; streamed rows are not."""
    events = Recorded("mariadb-initial").events
    events = [event for event in events if event["topic"] != "srv.transaction"]
    if streamed:
        last = next(event for event in reversed(events) if event["topic"] == "srv.shop.customers")
        value = re.sub(r'"snapshot":"\w+"', '"snapshot":"false"', last["value"]).replace('"op":"r"', '"op":"c"')
        events.append(last | {"value": re.sub(r'"pos":(\d+)', r'"pos":9\1', value)})
    pipeline = definition(write_log(tmp_path / "log.jsonl", events), tmp_path / "lake", protocol="debezium-mysql")
    notes = [note for note in explain(pipeline).notes if "provide.transaction.metadata" in note]
    records = next(one for one in checks(pipeline, 100_000) if one.name == "records")
    assert (bool(notes), records.status) == (warns, "warn" if warns else "ok")
