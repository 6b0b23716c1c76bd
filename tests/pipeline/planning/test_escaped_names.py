"""Columns whose names have characters that Delta does not have in names, with `sink.column-names: escaped`."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from changefeed.model.escaped_names import NOT_IN_NAMES, escaped, original
from changefeed.pipeline.config.load import read
from changefeed.pipeline.planning.rules import Rules
from changefeed.pipeline.run import run
from tests.examples import examples
from tests.pipeline.kit.downstream import Lake
from tests.pipeline.kit.history import HistoryBuilder
from tests.pipeline.kit.random_runs import compare, history
from tests.pipeline.kit.upstream import Change, Ddl, Row, Table

RULES = Rules(restored_ddl=True, escapes=True)
SIGNS = (" ", ",", "=", ";", "{", "}", "(", ")", "~20", "\t", "`", "%")
_COLUMN = re.compile("`([abcnr][0-9]*)`", re.IGNORECASE)


@given(
    st.text(st.sampled_from(NOT_IN_NAMES + "~20aBé"), max_size=12),
    st.text(st.sampled_from(NOT_IN_NAMES + "~20"), max_size=6),
)
def test_names_stay_different_and_have_no_other_characters(name: str, other: str) -> None:
    assert not set(escaped(name)) & set(NOT_IN_NAMES)
    assert original(escaped(name)) == name
    assert (escaped(name) == escaped(other)) == (name == other)


def test_ordinary_names_stay() -> None:
    assert [escaped(n) for n in ("price", "größe", "a.b", "a~b", "~2g", "")] == [
        "price",
        "größe",
        "a.b",
        "a~b",
        "~2g",
        "",
    ]


@pytest.mark.heavy
@pytest.mark.slow
@examples(100, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**48), st.integers(1, 60), st.sampled_from(["transaction", "key"]))
def test_a_random_history_ends_as_the_upstream(seed: int, steps: int, consistency: str) -> None:
    random = Random(seed)
    upstream = history(random, steps, moves=consistency == "transaction")
    events = [*map(_odd, upstream.events), upstream.ts]
    lake = Lake(RULES, random, consistency)
    lake.follow(events, random)
    compare({name: _escaped(table) for name, table in upstream.tables.items()}, lake)


def _odd_name(name: str) -> str:
    """Another name for a column, with odd characters; the same one for names that differ by case alone."""
    if name.lower() == "id":
        return name
    sign = SIGNS[sum(map(ord, name.lower())) % len(SIGNS)]
    return f"{name[:1]}{sign}{name[1:]}{sign}"


def _odd(event: Any) -> Any:
    if isinstance(event, Ddl):
        quoted = lambda m: "`" + _odd_name(m[1]).replace("`", "``") + "`"  # noqa: E731
        return replace(event, text=_COLUMN.sub(quoted, event.text))
    if isinstance(event, Change):
        return replace(event, kinds=_renamed(event.kinds), before=_image(event.before), after=_image(event.after))
    return event


def _image(row: Row | None) -> Row | None:
    return None if row is None else _renamed(row)


def _renamed(values: dict[str, Any]) -> dict[str, Any]:
    return {_odd_name(name): value for name, value in values.items()}


def _escaped(table: Table) -> Table:
    def lake(values: dict[str, Any]) -> dict[str, Any]:
        return {escaped(_odd_name(name)): value for name, value in values.items()}

    copy = Table(lake(table.columns), table.keyed)
    copy.rows = {k: lake(r) for k, r in table.rows.items()} if table.keyed else [lake(row) for row in table.rows]
    return copy


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.parametrize("limit", [1, 1000])
@pytest.mark.parametrize("writer, mode", [("native", "merge-on-read"), ("spark", "copy-on-write")])
def test_tables_in_delta_have_the_escaped_names(
    spark: SparkSession, tmp_path: Path, limit: int, writer: str, mode: str
) -> None:
    h = HistoryBuilder()
    h.schema(
        "app", "t", "CREATE TABLE `app`.`t` (`id` BIGINT PRIMARY KEY, `day (first)` DATE, UNIQUE KEY (`day (first)`))"
    )
    h.rows(("t", None, {"id": 1, "day (first)": "0000-00-00"}), ("t", None, {"id": 2, "day (first)": "2026-01-02"}))
    h.resolved()
    h.schema(
        "app", "t", "ALTER TABLE `app`.`t` ADD COLUMN `unit price` INT DEFAULT 7 AFTER `id`, DROP KEY `day (first)`"
    )
    row = {"id": 2, "unit price": 7, "day (first)": "2026-01-02"}
    h.rows(("t", row, {**row, "unit price": 8}), ("t", None, {**row, "id": 3}), ("t", None, {**row, "id": 4}))
    h.resolved()
    h.schema("app", "t", "ALTER TABLE `app`.`t` RENAME COLUMN `unit price` TO `price`")
    h.rows(("t", {"id": 3, "price": 7, "day (first)": "2026-01-02"}, None))
    h.resolved()
    source = {"type": "files", "protocol": "ticdc-open", "path": str(h.write(tmp_path / "log.jsonl"))}
    sink = {"type": "delta", "path": str(tmp_path / "lake"), "column-names": "escaped", "irregular": "keep"}
    sink |= {"writer": writer, "write-mode": mode}
    source_section = {**source, "max-records-per-batch": limit}
    run(read({"source": source_section, "sink": sink, "pipeline": {"name": "t"}}), spark, once=True)
    table = QueryBuilder().register("t", DeltaTable(tmp_path / "lake/app/t")).execute("select * from t order by id")
    rows = pa.table(table.read_all()).to_pylist()
    born = date(2026, 1, 2)
    assert [(r["id"], r["price"], r["day~20~28first~29"]) for r in rows] == [(1, 7, None), (2, 8, born), (4, 7, born)]
    assert dict(rows[0]["_irregular"]) == {"day~20~28first~29": "0000-00-00"}
