"""Recorded events of Debezium with snapshots of every kind: the tables end as the database's, however they are read.

`tests/data/debezium-snapshots` has the histories of `debezium_histories.py`, with the tables that the server then had.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from changefeed.errors import UnsupportedError
from changefeed.pipeline.operations.status import status
from changefeed.pipeline.run import run
from tests.pipeline.kit.databases import check_equal
from tests.pipeline.kit.debezium_histories import SHOP
from tests.pipeline.kit.debezium_recorded import ALL, MANY, Recorded, check, pipeline
from tests.services.debezium import write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# test_debezium_in_memory.py reads each of them in other orders
ALWAYS = ("mariadb-incremental", "mysql-streamed")


def some(histories: list[Recorded], always: tuple[str, ...]) -> list[Any]:
    """The histories; those that are not in `always` run nightly."""
    return [one if one.name in always else pytest.param(one, marks=pytest.mark.nightly) for one in histories]


@pytest.mark.parametrize("history", some(ALL, ALWAYS), ids=str)
def test_read_at_once(history: Recorded, spark: SparkSession, tmp_path: Path) -> None:
    pipe = pipeline(write_log(tmp_path / "log.jsonl", history.events), tmp_path / "lake")
    run(pipe, spark, once=True)
    check(pipe, history)


@pytest.mark.heavy
@pytest.mark.parametrize("history", some(MANY, ("mariadb-streamed",)), ids=str)
def test_by_key_in_small_batches(history: Recorded, spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", history.events, partitions=3)
    pipe = pipeline(log, tmp_path / "lake", consistency="key", limit=max(len(history.events) // 6, 9))
    run(pipe, spark, once=True)
    check(pipe, history)


@pytest.mark.heavy
@pytest.mark.parametrize("history", some(MANY, ("mariadb-again",)), ids=str)
def test_stopped_and_started_at_any_record(history: Recorded, spark: SparkSession, tmp_path: Path) -> None:
    events = history.events
    pipe = pipeline(tmp_path / "log.jsonl", tmp_path / "lake")
    for end in stops(history.name, len(events)):
        write_log(tmp_path / "log.jsonl", events[:end], partitions=2)
        run(pipe, spark, once=True)
    check(pipe, history)


def stops(name: str, count: int) -> list[int]:
    """Numbers of records to stop at, different for each history: in the snapshot's DDL, in its rows, after it."""
    start = zlib.crc32(name.encode()) % 9
    return [12 + start, 24 + start, count - count // 3 + start, count]


LAYOUTS: dict[str, Callable[[str], str]] = {
    "one topic": lambda _: "all",
    "tables together": lambda topic: "tables" if topic.startswith("srv.shop.") else topic,
}


@pytest.mark.nightly
@pytest.mark.parametrize("layout", ["one topic", "tables together"])
@pytest.mark.parametrize("consistency", ["transaction", "key"])
def test_any_topics(layout: str, consistency: str, spark: SparkSession, tmp_path: Path) -> None:
    history = Recorded("mariadb-streamed")
    log = write_log(tmp_path / "log.jsonl", history.events, topic=LAYOUTS[layout])
    pipe = pipeline(log, tmp_path / "lake", consistency=consistency, limit=70)
    run(pipe, spark, once=True)
    check(pipe, history)


@pytest.mark.heavy
@pytest.mark.parametrize("consistency", [pytest.param("transaction", marks=pytest.mark.nightly), "key"])
def test_schema_changes_may_be_read_last(consistency: str, spark: SparkSession, tmp_path: Path) -> None:
    history = Recorded("mariadb-streamed")
    write_log(tmp_path / "sent.jsonl", history.events, partitions=2)
    lines = (tmp_path / "sent.jsonl").read_text().splitlines(keepends=True)
    lines.sort(key=lambda line: json.loads(line)["topic"] in ("srv", "srv.transaction"))
    (tmp_path / "log.jsonl").write_text("".join(lines))
    pipe = pipeline(tmp_path / "log.jsonl", tmp_path / "lake", consistency=consistency, limit=40)
    run(pipe, spark, once=True)
    check(pipe, history)


def test_rows_at_the_position_of_the_barrier_are_applied(spark: SparkSession, tmp_path: Path) -> None:
    """Such rows come from a blocking snapshot requested through a file, with nothing in the binlog since the barrier."""
    history = Recorded("mariadb-initial")
    late = [event for event in history.events if event["topic"] == "srv.shop.events"]
    first = [event for event in history.events if event not in late and "`events`" not in event["value"]]
    again = [event for event in first if event["topic"] == "srv.shop.customers"]
    pipe = pipeline(tmp_path / "log.jsonl", tmp_path / "lake")
    write_log(tmp_path / "log.jsonl", first)
    run(pipe, spark, once=True)
    write_log(tmp_path / "log.jsonl", [*first, *again, *late])
    run(pipe, spark, once=True)
    check_equal(pipe, SHOP, history.tables)


def test_a_table_without_a_key_that_is_read_again_is_refused_or_skipped(spark: SparkSession, tmp_path: Path) -> None:
    history = Recorded("mariadb-initial")
    again = [event for event in history.events if event["topic"] == "srv.shop.events"]
    moved = [
        event
        | {
            "value": re.sub(r'"pos":(\d+)', r'"pos":9\1', event["value"]).replace(
                '"snapshot":"last_in_data_collection"', '"snapshot":"last"'
            )
        }
        for event in again
    ]
    log = write_log(tmp_path / "log.jsonl", [*history.events, *moved])
    with pytest.raises(UnsupportedError, match=r"shop\.events has no handle key, and a snapshot without its CREATE"):
        run(pipeline(log, tmp_path / "refused", keyless="append"), spark, once=True)
    pipe = pipeline(log, tmp_path / "passed")
    run(pipe, spark, once=True)
    check_equal(pipe, SHOP, history.tables)


def test_a_snapshot_is_held_back_until_its_last_row(spark: SparkSession, tmp_path: Path) -> None:
    events = Recorded("mariadb-initial").events
    pipe = pipeline(tmp_path / "log.jsonl", tmp_path / "lake")
    write_log(tmp_path / "log.jsonl", events[:-1])
    assert run(pipe, spark, once=True).state.tables == {}
    assert status(pipe).to_dict()["pending"] > 0
