"""One statement of MySQL is several events of Debezium at one place; they are applied in their order, and all of them."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from tests.examples import TIMES
from tests.pipeline.kit.debezium_log import Connector, Following, following, numbered, read_at_once

ORDERS = max(3, round(5 * TIMES))
BOTH = pytest.mark.parametrize("consistency", ["transaction", "key"])
T = ("t", "CREATE TABLE t (id INT PRIMARY KEY, f INT NOT NULL UNIQUE)")


def replaced(partitions: int) -> Connector:
    """REPLACE INTO t VALUES (12,1),(13,1),(61,1),(15,1), with a unique key on the second column."""
    connector = Connector(partitions)
    connector.ddl(T)
    rows = [{"id": i, "f": 1} for i in (12, 13, 61, 15)]
    moves = [("t", old, new) for old, new in itertools.pairwise(rows)]
    connector.transaction([("t", None, rows[0])], moves)
    return connector


@BOTH
@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_a_row_that_one_statement_writes_and_replaces_is_there_once(partitions: int, consistency: str) -> None:
    run = read_at_once(numbered(replaced(partitions).records), consistency)
    assert run.rows()["shop.t"] == ["{'id': 15, 'f': 1}"]


def by_batches(connector: Connector, consistency: str, cuts: list[int]) -> Following:
    """Reads the records up to each of the cuts in turn, each batch as if there was nothing more."""
    records = numbered(connector.records)
    run = following(records, consistency)
    for start, end in itertools.pairwise([0, *cuts, len(records)]):
        if batch := records[start:end]:
            run.take(batch, caught_up=False)
    run.idle()
    return run


STATEMENTS = {
    "renamed in a circle": [("a", "RENAME TABLE `a` TO `z`"), ("b", "RENAME TABLE `b` TO `a`"), ("z", "RENAME TABLE `z` TO `b`")],
    "dropped": [("a", "DROP TABLE `a`"), ("b", "DROP TABLE `b`")],
    "moved on": [("a", "RENAME TABLE `a` TO `old`"), ("b", "RENAME TABLE `b` TO `a`")],
}  # fmt: skip


def with_statement(name: str) -> Connector:
    connector = Connector()
    for table, column in (("a", "x"), ("b", "y")):
        connector.ddl((table, f"CREATE TABLE {table} (id INT PRIMARY KEY, {column} INT)"))
        connector.transaction([(table, None, {"id": 1, column: 1})])
    connector.ddl(*STATEMENTS[name])
    connector.ddl(("c", "CREATE TABLE c (id INT PRIMARY KEY)"))
    connector.transaction([("c", None, {"id": 7})])
    return connector


def statement_at(name: str, connector: Connector) -> int:
    """The number of the first record of the statement."""
    return next(i for i, r in enumerate(connector.records) if STATEMENTS[name][0][1].encode() in r["value"])


@pytest.mark.heavy
@BOTH
@pytest.mark.parametrize("name", STATEMENTS)
def test_the_events_of_one_statement_are_applied_wherever_a_batch_ends(name: str, consistency: str) -> None:
    connector = with_statement(name)
    wanted = read_at_once(numbered(connector.records), consistency).rows()
    for cut in range(statement_at(name, connector), len(connector.records)):
        assert by_batches(connector, consistency, [cut]).rows() == wanted, cut


@pytest.mark.heavy
@BOTH
@pytest.mark.parametrize("name", STATEMENTS)
def test_the_producer_has_sent_a_part_of_a_statement_when_nothing_more_is_there(name: str, consistency: str) -> None:
    """The rest comes later; a connector that restarts sends all of the statement again."""
    connector = with_statement(name)
    wanted = read_at_once(numbered(connector.records), consistency).rows()
    begin = statement_at(name, connector)
    for cut, restarts in itertools.product(range(begin, len(connector.records)), [False, True]):
        sent = connector.records[:cut] + connector.records[min(begin, cut) if restarts else cut :]
        records = numbered(sent)
        run = following(records, consistency)
        run.take(records[:cut], caught_up=True)
        run.idle()
        run.take(records[cut:], caught_up=True)
        run.idle()
        assert run.rows() == wanted, (cut, restarts)


@BOTH
@pytest.mark.parametrize("name", STATEMENTS)
def test_partitions_are_read_in_any_order(name: str, consistency: str) -> None:
    connector = with_statement(name)
    records = numbered(connector.records)
    wanted = read_at_once(records, consistency).rows()
    for seed in range(ORDERS):
        random = Random(seed)
        run = following(records, consistency)
        left = {at: [r for r in records if (r["topic"], r["partition"]) == at] for at in sorted(run.partitions)}
        while any(left.values()):
            batch = []
            for at, waiting in left.items():
                count = random.choice([0, 1, 2, 5])
                batch += waiting[:count]
                left[at] = waiting[count:]
            if batch:
                run.take(batch, caught_up=False, ended=[at for at, waiting in left.items() if not waiting])
        run.idle()
        assert run.rows() == wanted, seed


CHAINS = {
    "circle": STATEMENTS["renamed in a circle"],
    "chain": [("a", "RENAME TABLE `a` TO `x`"), ("b", "RENAME TABLE `b` TO `a`"), ("c", "RENAME TABLE `c` TO `b`")],
    "on and on": [("a", "RENAME TABLE `a` TO `x`"), ("x", "RENAME TABLE `x` TO `y`"), ("y", "RENAME TABLE `y` TO `w`")],
}


@BOTH
@pytest.mark.parametrize("name", CHAINS)
def test_parts_of_a_statement_in_several_partitions_are_in_the_servers_order(name: str, consistency: str) -> None:
    """The key of a schema change is its database, so that a statement about several may be in several partitions."""
    connector = Connector()
    for table in "abc":
        connector.ddl((table, f"CREATE TABLE {table} (id INT PRIMARY KEY, {table}_ INT)"))
        connector.transaction([(table, None, {"id": 1, f"{table}_": 1})])
    begin = len(connector.records)
    connector.ddl(*CHAINS[name])
    wanted = read_at_once(numbered(connector.records), consistency).rows()
    for partitions in itertools.product(range(3), repeat=3):
        records = [dict(record) for record in connector.records]
        for record, partition in zip(records[begin:], partitions, strict=True):
            record["partition"] = partition
        assert read_at_once(numbered(records), consistency).rows() == wanted, partitions
