"""Recorded histories of `bench/ddl_live.py`: the tables end as the server's in all ways; and what the judge notices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from changefeed.model.types import ColumnType
from changefeed.pipeline.planning import schema_changes
from tests.live.comparing import is_same_type
from tests.live.history import History
from tests.live.judging import WAYS, judge
from tests.live.schema import Content
from tests.live.verdicts import verdict
from tests.pipeline.kit.faithful import SparkCompute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent.parent / "data" / "ddl" / "live"
LOST = DATA.with_name("live-lost")  # histories of which a snapshot of the engine has lost values
RECORDED = sorted(path.name.removesuffix(".json.gz") for path in DATA.glob("*.json.gz"))


def recorded(name: str) -> History:
    return History.load(DATA / f"{name}.json.gz")


@pytest.mark.heavy
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", RECORDED)
def test_tables_end_as_the_servers(name: str, way: str, spark: SparkSession) -> None:
    outcome = judge(recorded(name), way, SparkCompute(spark))
    assert outcome.verdict == "RIGHT", outcome.text


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["mariadb-binary-members", "mysql-binary-members", "mariadb-second-snapshot"])
def test_values_that_a_snapshot_has_lost_stop(name: str, way: str) -> None:
    outcome = judge(History.load(LOST / f"{name}.json.gz"), way)
    assert outcome.verdict == "STOP", outcome.text
    assert "a snapshot of Debezium has NULL for every value of ENUM in the character set binary" in outcome.text


def test_a_table_that_is_kept_does_not_hide_values_that_the_engine_has_spoiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_changes, "lost_in_snapshots", lambda columns: [])
    history = History.load(LOST / "mariadb-second-snapshot.json.gz")
    its_verdict = verdict(history, None)
    assert its_verdict.verdict == "ENGINE"
    assert its_verdict.text.startswith("values: h58000008c.t2: rows, n2: None for 'b'")
    del history.tables["h58000008c.t2"]  # it is there, and no note has the reason
    assert verdict(history, None).verdict == "WRONG"


@pytest.mark.heavy
@pytest.mark.parametrize("what", ["value", "row", "column", "order", "type", "table"])
def test_every_difference_is_noticed(what: str, spark: SparkSession) -> None:
    history = recorded(RECORDED[0])
    name, table = next((n, t) for n, t in history.tables.items() if "int(" in t.columns[0][1] and t.rows)
    (first, *columns), (row, *rows) = table.columns, table.rows
    changed = {
        "value": replace(table, rows=((*row[:-1], "00" if row[-1] is None else None), *rows)),
        "row": replace(table, rows=tuple(rows)),
        "column": replace(table, columns=(("other", *first[1:]), *columns)),
        "order": Content((*columns, first), tuple((*r[1:], r[0]) for r in table.rows)),
        "type": replace(table, columns=((first[0], "mediumint(9) unsigned", first[2]), *columns)),
    }
    history.tables = {**history.tables, name: changed[what]} if what in changed else {}
    outcome = judge(history, "at once", SparkCompute(spark))
    assert outcome.verdict == ("DRIFT" if what == "type" else "WRONG")
    assert name in outcome.text


@pytest.mark.parametrize(
    "actual, server, same",
    [
        ("int", "int(11)", True),
        ("int unsigned", "int(10) unsigned zerofill", True),
        ("int", "bigint(20)", False),
        ("varchar(10)", "varchar(10)", True),
        ("varchar(10)", "varchar(20)", False),
        ("decimal(10,0)", "decimal(10,0)", True),
        ("datetime(3)", "datetime", False),
        ("datetime", "datetime(0)", True),
        ("enum('a','b')", "enum('a','b')", True),
        ("enum('a','b')", "enum('b','a')", False),
        ("json", "longtext", True),
        ("float(7,3)", "float(7,3)", True),
        ("float", "float(7,3)", False),
    ],
)
def test_types_are_compared_without_display_widths(actual: str, server: str, same: bool) -> None:
    assert is_same_type(ColumnType.parse(actual), server) is same
