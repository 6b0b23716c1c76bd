"""A connector that is killed sends rows again: for Debezium, file, pos and row are the row, so each is applied once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from changefeed import record_log
from tests.examples import TIMES
from tests.pipeline.kit.debezium_log import Connector, Following, Record, following, numbered, read_at_once

FIELD = Path(__file__).parents[2] / "data/field"
BOTH = pytest.mark.parametrize("consistency", ["transaction", "key"])
HISTORIES = max(6, round(60 * TIMES))
LOG = ("log", "CREATE TABLE log (v INT, s VARCHAR(9))")
T = ("t", "CREATE TABLE t (id INT PRIMARY KEY, f INT)")


def rows_of_log(run: Following) -> list[str]:
    return run.rows().get("shop.log", [])


def entry(v: int, s: str = "x") -> tuple[str, None, dict[str, Any]]:
    return "log", None, {"v": v, "s": s}


def started(**options: Any) -> Connector:
    connector = Connector(**options)
    connector.ddl(LOG)
    connector.ddl(T)
    return connector


@BOTH
@pytest.mark.parametrize("cut", range(2, 12))
def test_a_transaction_that_is_sent_again_whole_is_applied_once(consistency: str, cut: int) -> None:
    """In the partition of the table without a key, nothing goes back; a batch may end anywhere."""
    connector = started()
    connector.transaction([("t", None, {"id": 1, "f": 1})], [entry(1)])
    first = len(connector.records)
    connector.transaction([("t", None, {"id": 2, "f": 2})], [entry(2), entry(2)], [entry(2)])
    connector.again(first)
    connector.transaction([entry(3)])
    records = numbered(connector.records)
    run = following(records, consistency)
    run.take(records[:cut], caught_up=True)
    run.take(records[cut:], caught_up=True)
    run.idle()
    assert Counter(rows_of_log(run)) == {"{'v': 1, 's': 'x'}": 1, "{'v': 2, 's': 'x'}": 3, "{'v': 3, 's': 'x'}": 1}
    assert read_at_once(records, consistency).rows() == run.rows()


def random_history(random: Random, **options: Any) -> tuple[Connector, list[tuple[int, int]]]:
    """Transactions of both tables with rows that are equal; and the places of the rows of `log`, with their value."""
    connector = started(partitions=random.randint(1, 3), **options)
    written = []
    for _ in range(random.randint(3, 8)):
        events = []
        place = connector.place + 100
        for _ in range(random.randint(1, 3)):
            place += 100
            if random.random() < 0.6:
                values = [random.randint(0, 1) for _ in range(random.randint(1, 3))]
                events.append([entry(v) for v in values])
                written += [(place, v) for v in values]
            else:
                events.append([("t", None, {"id": place * 10 + i, "f": 1}) for i in range(random.randint(1, 2))])
        connector.transaction(*events)
    return connector, written


def with_restarts(connector: Connector, random: Random) -> list[Record]:
    """The records as a connector sends them that is killed now and then; rows without a key may go to another partition."""
    sent, at = list[Record](), 0
    records = connector.records
    while at < len(records):
        end = random.randint(at + 1, len(records))
        sent += [_elsewhere(record, connector, random) for record in records[at:end]]
        at = random.randint(min(max(2, end - 9), end), end) if end < len(records) and random.random() < 0.7 else end
    return numbered(sent)


def _elsewhere(record: Record, connector: Connector, random: Random) -> Record:
    if record["key"] == b"null" or record["key"] is None:
        return record | {"partition": random.randrange(connector.partitions)}
    return record


def compare(run: Following, written: list[tuple[int, int]], *, place: int | None, seed: int) -> None:
    wanted = Counter(v for at, v in written if place is None or at <= place)
    actual = Counter(int(json.loads(row.replace("'", '"'))["v"]) for row in rows_of_log(run))
    assert actual == wanted, f"seed {seed}"


@BOTH
def test_random_restarts_leave_each_row_once(consistency: str) -> None:
    """Batches end anywhere; in a mode with cuts, every cut is exact."""
    for seed in range(HISTORIES):
        random = Random(seed)
        connector, written = random_history(random, metadata=consistency == "transaction", gtid=random.random() < 0.7)
        records = with_restarts(connector, random)
        run = following(records, consistency)
        start = 0
        while start < len(records):
            end = random.randint(start + 1, min(start + 8, len(records)))
            last = {(r["topic"], r["partition"]) for r in records[end:]}
            run.take(records[start:end], caught_up=random.random() < 0.3, ended=run.partitions - last)
            start = end
            barrier = run.flow.ledger.state.barrier
            if consistency == "transaction" and barrier is not None:
                compare(run, written, place=barrier & (1 << 40) - 1, seed=seed)
        run.idle()
        compare(run, written, place=None, seed=seed)


@pytest.mark.heavy
@BOTH
def test_partitions_are_read_unevenly(consistency: str) -> None:
    for seed in range(HISTORIES):
        random = Random(seed)
        connector, written = random_history(random)
        records = with_restarts(connector, random)
        run = following(records, consistency)
        left = {at: [r for r in records if (r["topic"], r["partition"]) == at] for at in sorted(run.partitions)}
        while any(left.values()):
            batch = []
            for at, waiting in left.items():
                count = random.choice([0, 1, 3, 9])
                batch += waiting[:count]
                left[at] = waiting[count:]
            if batch:
                run.take(batch, ended=[at for at, waiting in left.items() if not waiting])
        run.idle()
        compare(run, written, place=None, seed=seed)


@pytest.mark.heavy
def test_places_of_another_server_are_other_rows() -> None:
    """After a failover, the same places come again in another binlog; with `consistency: key` they are applied."""
    connector = started()
    for v in range(3):
        connector.transaction([entry(v)])
    first = len(connector.records)
    connector.server, connector.uuid, connector.place, connector.number = 2, connector.uuid.replace("1", "9"), 100, 0
    for v in range(3):
        connector.transaction([entry(v)], [entry(v + 10)])
    connector.again(first + 1)
    records = numbered(connector.records)
    for cut in range(3, len(records)):
        run = following(records, "key")
        run.take(records[:cut], caught_up=True)
        run.take(records[cut:], caught_up=True)
        run.idle()
        values = sorted(int(json.loads(row.replace("'", '"'))["v"]) for row in rows_of_log(run))
        assert values == [0, 0, 1, 1, 2, 2, 10, 11, 12], cut


@BOTH
def test_a_connector_that_was_killed(consistency: str) -> None:
    """MariaDB: transaction 0-1-406 was sent twice, and both are read at once. In the partition of the table nothing goes back."""
    records = [
        {name: record[name] for name in ("topic", "partition", "offset", "key", "value")}
        for batch in record_log.read(FIELD / "keyless_resent_twice.jsonl.gz")
        for record in batch.to_pylist()
    ]
    tables = read_at_once(records, consistency).rows()
    assert sum("order 370" in row for row in tables["web.audit_events"]) == 1
    assert len(tables["web.audit_events"]) == 4


def test_rows_of_a_compressed_transaction_have_one_place() -> None:
    """MySQL numbers the rows of each event in it from 0 again; the order in the transaction shows which are sent again."""
    connector = started()
    connector.transaction([entry(1)], [entry(1)], [entry(1)])
    rows = [r for r in connector.records if r["topic"] == "srv.shop.log"]
    for record in rows:
        value = json.loads(record["value"])
        value["source"]["pos"] = 400
        record["value"] = json.dumps(value).encode()
    connector.again(2)
    run = read_at_once(numbered(connector.records))
    assert rows_of_log(run) == ["{'v': 1, 's': 'x'}"] * 3


@BOTH
def test_a_statement_that_is_sent_again_in_part_changes_nothing(consistency: str) -> None:
    """The end of its transaction was read before: without the rest of the second sending, the row would be there again."""
    connector = started()
    moves = [({"id": 12, "f": 1}, {"id": 13, "f": 1}), ({"id": 13, "f": 1}, {"id": 15, "f": 1})]
    connector.transaction([("t", None, {"id": 12, "f": 1})], [("t", *move) for move in moves])
    first = next(i for i, r in enumerate(connector.records) if r["topic"] == "srv.shop.t")
    for last in range(first, len(connector.records)):
        again = Connector(records=list(connector.records))
        again.again(first, last)
        if consistency == "transaction":
            assert read_at_once(numbered(again.records), consistency).rows()["shop.t"] == ["{'id': 15, 'f': 1}"], last


CHANGES = {
    "a column that was dropped": ([("t", "ALTER TABLE t DROP f")], [{"id": 1}, {"id": 2}, {"id": 3}], "t"),
    "rows that were truncated": ([("t", "TRUNCATE t")], [{"id": 3}], "t"),
    "a table that was renamed": ([("t", "RENAME TABLE t TO u")], [{"id": 1}, {"id": 2}, {"id": 3}], "u"),
    "a table that was dropped": ([("t", "DROP TABLE t")], None, "t"),
}


@BOTH
@pytest.mark.parametrize("change, left, table", CHANGES.values(), ids=CHANGES)
def test_rows_from_before_a_schema_change_do_not_bring_back(
    change: list[tuple[str, str]], left: list[dict[str, Any]] | None, table: str, consistency: str
) -> None:
    connector = started()
    connector.transaction([("t", None, {"id": 1, "f": 1}), ("t", None, {"id": 2, "f": 2})])
    connector.transaction([("t", {"id": 1, "f": 1}, {"id": 1, "f": 5})])
    connector.ddl(*change)
    if left is not None:
        connector.transaction([(table, None, {"id": 3} if "DROP" in change[0][1] else {"id": 3, "f": 3})])
    first = len(connector.records)
    connector.again(2, first)
    connector.transaction([entry(9)])
    records = numbered(connector.records)
    run = following(records, consistency)
    run.take(records[:first], caught_up=True)
    run.idle()
    for record in records[first:]:
        run.take([record], caught_up=True)
    run.idle()
    rows = run.rows().get(f"shop.{table}")
    wanted = None if left is None else read_at_once(records[:first], consistency).rows()[f"shop.{table}"]
    assert rows == wanted
    assert (rows is None) == (left is None)
    assert left is None or len(wanted or []) == len(left)
    assert run.rows().keys() <= {"shop.log", f"shop.{table}"}


def test_rows_of_another_binlog_are_applied_below_the_last_schema_change() -> None:
    """After a failover, places begin again: rows of tables with a key are newer, and none is left out."""
    connector = started()
    connector.transaction([("t", None, {"id": 1, "f": 1})])
    connector.place += 5000
    connector.ddl(("t", "ALTER TABLE t ADD g INT"))
    connector.transaction([("t", None, {"id": 2, "f": 2, "g": 2})])
    first = len(connector.records)
    connector.server, connector.uuid, connector.place, connector.number = 2, connector.uuid.replace("1", "9"), 100, 0
    for number in range(3, 9):
        connector.transaction([("t", None, {"id": number, "f": number, "g": number})])
    records = numbered(connector.records)
    for size in (1, 4, 99):
        run = following(records, "key")
        run.take(records[:first], caught_up=True)
        run.idle()
        for start in range(first, len(records), size):
            run.take(records[start : start + size], caught_up=True)
        run.idle()
        assert len(run.rows()["shop.t"]) == 8, size


@BOTH
@pytest.mark.parametrize("size", [1, 2, 3, 99])
@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE t DROP PRIMARY KEY"],
        ["ALTER TABLE t DROP PRIMARY KEY", "ALTER TABLE t ADD INDEX (f)"],
        ["ALTER TABLE t DROP PRIMARY KEY", "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, f INT)"],
        ["CREATE TABLE u LIKE t", "ALTER TABLE u DROP PRIMARY KEY", "DROP TABLE t", "CREATE TABLE t LIKE u"],
    ],
    ids=lambda statements: statements[-1],
)
def test_rows_whose_key_ddl_has_removed_are_left_out_when_they_are_sent_again(
    size: int, consistency: str, statements: list[str]
) -> None:
    """The connector still sends the key, and each row was there twice."""
    connector = started()
    connector.transaction([("t", None, {"id": 1, "f": 1})])
    for statement in statements:
        connector.ddl(("t", statement))
    connector.transaction([("t", None, {"id": 1, "f": 2})])
    connector.transaction([("t", None, {"id": 7, "f": 7}), ("t", None, {"id": 7, "f": 7})])
    first = len(connector.records)
    connector.again(2, first)
    connector.transaction([("t", None, {"id": 1, "f": 3})])
    run, records = following(numbered(connector.records), consistency), numbered(connector.records)
    for start in range(0, len(records), size):
        run.take(records[start : start + size], caught_up=True)
    run.idle()
    rows = [json.loads(row.replace("'", '"')) for row in run.rows()["shop.t"]]
    earlier = [] if "DROP TABLE t" in statements else [(1, 1)]
    assert sorted((row["id"], row["f"]) for row in rows) == [*earlier, (1, 2), (1, 3), (7, 7), (7, 7)]
