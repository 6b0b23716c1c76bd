"""Transactions that can never be complete: some of their events were filtered out, or compacted away."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from changefeed.cli import run as command
from tests.pipeline.kit.connector import Connector, MemoryRun

FIELD = Path(__file__).parents[2] / "data" / "field"
NAME = "debezium-transaction-with-a-filtered-row"
_ID = "11111111-2222-3333-4444-555555555555"
WAITS = (
    "it waits for the others, and all later changes with it. If a transform, a filter or compaction has removed them, set "
    "pipeline.incomplete-transactions to `apply`"
)


def _connector() -> Connector:
    connector = Connector()
    connector.ddl("shop", "orders", "CREATE TABLE `orders` (`id` INT PRIMARY KEY)")
    connector.rows(("shop", "orders", {"id": 1}))
    connector.rows(("shop", "orders", {"id": 2}), ("shop", "orders", {"id": 3}), sent=1)
    connector.rows(("shop", "orders", {"id": 4}))
    return connector


def _ids(run: MemoryRun) -> list[int]:
    return [row["id"] for row in run.rows("shop.orders")]


def _waiting(run: MemoryRun) -> str:
    """The transaction that changes wait for, or nothing."""
    return str(run.flow.ledger.state.incomplete or "")


def test_a_transaction_that_lacks_an_event_is_named_and_waits() -> None:
    connector = _connector()
    run = MemoryRun(connector)
    run.take()
    state = run.flow.ledger.state
    assert (_ids(run), state.counts.pending) == ([1], 2)
    assert state.incomplete is not None
    assert state.incomplete.waits == (
        f"transaction {_ID}:3: 1 of 2 events of shop.orders read to the end of all partitions: {WAITS}"
    )
    steps = run.flow.ledger.step
    run.flow.step(state, run.partitions, idle=True)
    assert run.flow.ledger.step == steps  # nothing new to say
    connector.rows(("shop", "orders", {"id": 5}))
    run.take()
    assert run.flow.ledger.state.incomplete == state.incomplete


def test_it_is_applied_as_it_was_read_if_that_is_set() -> None:
    run = MemoryRun(_connector(), **{"incomplete-transactions": "apply"})
    run.take()
    state = run.flow.ledger.state
    assert (_ids(run), state.counts.pending, state.incomplete) == ([1, 2, 4], 0, None)


def test_the_option_may_be_set_afterwards() -> None:
    run = MemoryRun(_connector())
    run.take()
    run.definition = MemoryRun(Connector(), **{"incomplete-transactions": "apply"}).definition
    run.restart()
    run.take()
    assert (_ids(run), run.flow.ledger.state.incomplete) == ([1, 2, 4], None)


def test_an_event_that_comes_late_ends_the_wait() -> None:
    connector = Connector()
    connector.ddl("shop", "orders", "CREATE TABLE `orders` (`id` INT PRIMARY KEY)")
    connector.rows(("shop", "orders", {"id": 1}), ("shop", "orders", {"id": 2}))
    records = connector.taken()
    late = [record for record in records if json.loads(record["key"]) == {"id": 2}]
    run = MemoryRun(connector)
    connector.records = [record for record in records if record not in late]
    run.take()
    assert _waiting(run).startswith(f"transaction {_ID}:2: 1 of 2 events")
    connector.records = late
    run.take()
    assert (_ids(run), _waiting(run)) == ([1, 2], "")


@pytest.mark.parametrize("tables, shown", [(["a"], "of shop.a"), (["a", "b"], "of shop.a (1), shop.b (1)")])
def test_the_tables_are_named_with_their_numbers_of_events(tables: list[str], shown: str) -> None:
    connector = Connector()
    connector.rows(*(("shop", table, {"id": 1}) for table in tables), sent=0)
    connector.rows(("shop", "a", {"id": 2}))
    run = MemoryRun(connector)
    run.take()
    assert str(run.flow.ledger.state.incomplete) == (
        f"transaction {_ID}:1: 0 of {len(tables)} events {shown} read to the end of all partitions"
    )


def test_one_that_has_no_end_is_named_if_a_later_one_has() -> None:
    connector = _connector()
    connector.records = [
        record for record in connector.records if f'"END", "id": "{_ID}:2"' not in record["value"].decode()
    ]
    run = MemoryRun(connector)
    run.take()
    assert str(run.flow.ledger.state.incomplete) == (
        f"transaction {_ID}:2: its end was not read, but that of a later one, to the end of all partitions"
    )


@pytest.mark.parametrize("option", ["wait", "apply"])
def test_one_that_is_open_is_named_and_waits_for_its_end(option: str) -> None:
    connector = _connector()
    connector.rows(("shop", "orders", {"id": 5}), ("shop", "orders", {"id": 6}))
    *records, end = connector.taken()
    assert b'"END"' in end["value"]
    run = MemoryRun(connector, **{"incomplete-transactions": option})
    connector.records = [record for record in records if f'"{_ID}:3"'.encode() not in record["value"]]
    run.take()
    incomplete = run.flow.ledger.state.incomplete
    assert (_ids(run), run.flow.ledger.state.counts.pending) == ([1, 4], 2)
    assert incomplete is not None
    assert incomplete.waits == (
        f"transaction {_ID}:5: its end has not come, behind 2 events: it waits, and all later changes with it. The way out: look "
        "at the connector, which sends the end when it goes on"
    )
    connector.records = [end]
    run.take()
    assert (_ids(run), _waiting(run)) == ([1, 4, 5, 6], "")


def test_explain_and_check_name_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ending in ("yaml", "jsonl"):
        shutil.copy(FIELD / f"{NAME}.{ending}", tmp_path)
    path = str(tmp_path / f"{NAME}.yaml")
    sentence = f"transaction {_ID}:3: 1 of 2 events of shop.orders read to the end of all partitions"
    assert command(["explain", path, "--json"]) == 0
    assert f"{sentence}: {WAITS}" in json.loads(capsys.readouterr().out)["notes"]
    assert command(["explain", path, "--records", "10", "--json"]) == 0
    assert not any("1 of 2" in note for note in json.loads(capsys.readouterr().out)["notes"])  # more may follow
    assert command(["check", path, "--json"]) == 0
    [records] = [one for one in json.loads(capsys.readouterr().out)["checks"] if one["name"] == "records"]
    assert (records["status"], records["message"].endswith(sentence)) == ("warn", True)


@pytest.mark.parametrize("policy, ids", [("wait", [2, 12]), ("apply", [2, 3, 4, 12, 14])])
def test_a_run_and_status_name_it(
    policy: str, ids: list[int], spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = FIELD / f"{NAME}.jsonl"
    (tmp_path / "p.yaml").write_text(
        f"source: {{type: files, path: {log}, protocol: debezium-mysql}}\nsink: {{type: delta, path: lake}}\n"
        f"pipeline: {{name: field, incomplete-transactions: {policy}}}\n"
    )
    assert command(["run", str(tmp_path / "p.yaml"), "--once", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert command(["status", str(tmp_path / "p.yaml"), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    sentence = f"transaction {_ID}:3: 1 of 2 events of shop.orders read to the end of all partitions: {WAITS}"
    expected = None if policy == "apply" else sentence
    assert (summary.get("incomplete_transaction"), status.get("incomplete_transaction")) == (expected, expected)
    assert command(["status", str(tmp_path / "p.yaml")]) == 0
    assert (sentence in capsys.readouterr().out) == (policy == "wait")
    from deltalake import DeltaTable

    assert sorted(DeltaTable(tmp_path / "lake/shop/orders").to_pyarrow_table().column("id").to_pylist()) == ids
