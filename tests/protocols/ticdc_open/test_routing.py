"""Topics and partitions: those of a recording, computed again, and those of `dispatchers`, by the producers' own cases."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from changefeed.errors import ConfigError
from changefeed.model.batch import BatchBuilder, Decoded
from changefeed.model.event import Resolved, SchemaChange
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.ticdc.dispatch import Dispatcher
from tests.protocols.conformance.cases import decode, histories
from tests.protocols.ticdc_open.messages import TS, encode, rows

DATA = json.loads((Path(__file__).parents[2] / "data/ticdc/dispatch.json").read_text())
RECORDED = next(h for h in histories() if h.file.endswith("open-3.newarch.jsonl.gz"))


def test_every_row_is_where_the_dispatcher_puts_it() -> None:
    dispatcher = Dispatcher("index-value", 3, (), None, UTC)
    row_events = rows(decode(RECORDED))
    images = [(row, row.before if row.after is None else row.after) for row in row_events]
    wrong = [
        str(row.place)
        for row, image in images
        if dispatcher.partition(row.shape, image or {}, row.irregular, row.commit_ts or 0) != row.place.partition
    ]
    assert (len(row_events), wrong) == (4629, [])


def inserted(schema: str, table: str, columns: Iterable[tuple[str, str]] = (("id", "1"),), ts: int = TS) -> Decoded:
    columns = list(columns)
    rows = BatchBuilder()
    shape = TableShape(schema, table, tuple(Column(name, ColumnType("bigint"), False, True) for name, _ in columns))
    after = {name: int(value) for name, value in columns}
    rows.add(shape, Place("test", 0, 0), "insert", before=None, after=after, commit_ts=ts)
    return Decoded(rows.build())


def places(changes: Decoded, **options: Any) -> list[tuple[str, int]]:
    return [(r["topic"], r["partition"]) for r in encode(changes, **options).to_pylist()]


@pytest.mark.parametrize("case", DATA["router"]["topics"], ids=lambda c: c["schema"])
def test_topics_by_rules(case: dict[str, Any]) -> None:
    options = {"dispatchers": DATA["router"]["rules"], "topic": DATA["router"]["default_topic"], "partition_num": 1}
    assert places(inserted(case["schema"], case["table"]), **options) == [(case["topic"], 0)]


@pytest.mark.parametrize("case", DATA["router"]["partitions"], ids=lambda c: c["schema"])
def test_partitions_by_rules(case: dict[str, Any]) -> None:
    columns = [c for c in case.get("columns", [["id", "1"]]) if c[0] in case.get("handle", ["id"])]
    changes = inserted(case["schema"], case["table"], columns, case.get("commit_ts", TS))
    [(_, partition)] = places(changes, dispatchers=DATA["router"]["rules"], topic="test", partition_num=case["n"])
    assert partition == case["expected"]


@pytest.mark.parametrize("partitions", [None, 1])
def test_marks_go_to_every_active_topic_and_the_default_one(partitions: int | None) -> None:
    rules = [{"matcher": r["matcher"], "topic": r.get("topic", "")} for r in DATA["router"]["rules"]]
    tables = [inserted(case["schema"], case["table"]) for case in DATA["router"]["topics"][:6]]
    changes = Decoded([batch for one in tables for batch in one.tables], [Resolved(TS, Place("test", 0, 9, None, 9))])
    targets = places(changes, dispatchers=rules, topic=DATA["router"]["default_topic"], partition_num=partitions)
    assert sorted({topic for topic, _ in targets[-5:]}) == sorted(DATA["router"]["active_topics"])


STATEMENTS = {
    "CreateSchema": ("create_database", "CREATE DATABASE `{schema}`"),
    "DropSchema": ("drop_database", "DROP DATABASE `{schema}`"),
    "CreateTable": ("create_table", "CREATE TABLE `{schema}`.`{table}` (`a` INT)"),
    "DropTable": ("drop_table", "DROP TABLE `{schema}`.`{table}`"),
    "DropView": ("drop_view", "DROP VIEW `{schema}`.`{table}`"),
    "AddColumn": ("add_column", "ALTER TABLE `{schema}`.`{table}` ADD COLUMN `b` INT"),
    "DropColumn": ("drop_column", "ALTER TABLE `{schema}`.`{table}` DROP COLUMN `b`"),
    "RenameTable": ("rename_table", "RENAME TABLE `{pre_schema}`.`{pre_table}` TO `{schema}`.`{table}`"),
}


@pytest.mark.parametrize("case", DATA["ddl_topics"]["cases"], ids=lambda c: c["action"])
def test_topics_of_schema_changes(case: dict[str, Any]) -> None:
    kind, text = STATEMENTS[case["action"]]
    event = SchemaChange(kind, case["schema"], case.get("table"), text.format(**case), Place("up", 0, 0), commit_ts=TS)
    options = {"dispatchers": DATA["ddl_topics"]["rules"], "topic": DATA["ddl_topics"]["default_topic"]}
    assert places(Decoded(control=[event]), **options, partition_num=2) == [(case["topic"], 0), (case["topic"], 1)]


@pytest.mark.parametrize("named, topic", [("x", "of_t"), ("t", "of_x")])
def test_an_exchange_goes_to_the_topic_of_the_other_table(named: str, topic: str) -> None:
    text = "ALTER TABLE `shop`.`t` EXCHANGE PARTITION `p` WITH TABLE `shop`.`x`"
    event = SchemaChange("exchange_table_partition", "shop", named, text, Place("up", 3, 7), commit_ts=TS)
    rules = [{"matcher": ["*.*"], "topic": "of_{table}"}]
    assert places(Decoded(control=[event]), dispatchers=rules) == [(topic, 3)]


@pytest.mark.parametrize(
    "options, topic",
    [({}, "found"), ({"case_sensitive": True}, "up"), ({"case_sensitive": True, "bug_compat": True}, "found")],
)
def test_case_sensitive_is_followed_except_by_newarchs_bug(options: dict[str, Any], topic: str) -> None:
    changes = inserted("Shop", "t")
    for table in changes.tables:
        assert table.shape.database == "Shop"
    rules = [{"matcher": ["shop.*"], "topic": "found"}]
    assert places(changes, dispatchers=rules, topic="up", **options) == [(topic, 0)]


def test_a_rule_that_chooses_partitions_needs_their_number() -> None:
    with pytest.raises(ConfigError) as caught:
        places(inserted("shop", "t"), dispatchers=[{"matcher": ["a.*", "b.*"], "partition": "ts"}])
    assert str(caught.value) == (
        "dispatchers: rule of a.*, b.* chooses among partitions: set their number with partition-num"
    )


def test_an_unknown_partition_rule_is_the_default_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        places(inserted("shop", "t"), dispatchers=[{"matcher": ["a.*"], "partition": "tables"}], partition_num=3)
    assert caplog.messages == [
        "dispatchers: rule of a.*: partition tables is unknown, `default` is used. Known: default, table, ts, index-value, "
        "columns"
    ]
