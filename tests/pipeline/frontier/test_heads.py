"""Changes at or below the barrier that were never read: the run stops, because they were not sent before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from changefeed import record_log
from changefeed.errors import UnsupportedError
from changefeed.model.batch import record_batch
from changefeed.pipeline.flow import Batch, Flow
from changefeed.pipeline.state import State
from changefeed.protocols import protocol
from changefeed.stages.decode import RecordReader
from tests.pipeline.kit.debezium_log import Connector, following, numbered
from tests.pipeline.kit.in_memory import Storage, memory_definition, memory_flow

FIELD = Path(__file__).parents[2] / "data/field"
TWO = FIELD / "two-changefeeds-in-one-topic.jsonl"
WAY_OUT = (
    ": several producers write to this topic, or the producer has broken its promise. Give each producer topics of its own, "
    "and start a new pipeline in an empty folder; with `consistency: key` it may read such a topic as it is"
)


def log() -> list[dict[str, Any]]:
    return [record for batch in record_log.read(TWO) for record in batch.to_pylist()]


def begun(storage: Storage, consistency: str = "transaction") -> Flow:
    flow = memory_flow(storage, protocol("ticdc-open").capabilities, memory_definition(consistency=consistency))
    flow.begin()
    return flow


def take(flow: Flow, records: list[dict[str, Any]], *, size: int = 4) -> None:
    for start in range(0, len(records), size):
        batch, read = record_batch(records[start : start + size]), RecordReader("ticdc-open", {})
        chunks = [read.pack(read(batch), batch)]
        flow.take(Batch(lambda dated, fragments: chunks, "", {("shop", 0)}))  # noqa: B023


@pytest.mark.parametrize("size, first", [(1, 532), (4, 552)])
def test_two_changefeeds_in_one_topic(size: int, first: int) -> None:
    """The changefeed of `bb` is behind that of `aa`, whose resolved events seem to hold for both."""
    storage = Storage()
    with pytest.raises(UnsupportedError) as error:
        take(begun(storage), log(), size=size)
    assert str(error.value) == (
        f"shop:0 has sent a row of shop.bb at 463267594595935{first}, which it had not sent before, after it was complete up to "
        "463267594595935742, where the tables are" + WAY_OUT
    )


def test_without_cuts_such_a_topic_is_read_as_it_is() -> None:
    storage = Storage()
    take(begun(storage, "key"), log())
    assert sorted((row["id"], row["v"]) for row in storage.tables.rows("shop/bb")) == [(1, 9), (2, 2)]


def test_what_was_sent_before_is_sent_again() -> None:
    """Any part of one changefeed may come again; and what a ledger without heads has read is not checked."""
    own = [record for record in log() if record["offset"] in (0, 1, 4, 5, 8, 9)]
    once = Storage()
    take(begun(once), own)
    for first in range(len(own)):
        storage = Storage()
        flow = begun(storage)
        again = [record | {"offset": 10 + i} for i, record in enumerate(own[first:])]
        take(flow, [*own, *again])
        assert storage.tables.rows("shop/aa") == once.tables.rows("shop/aa")
    old = begun(Storage())
    take(old, own)
    old.ledger.finish(State(**{**vars_of(old.ledger.state), "heads": {}, "checked": None}))
    take(old, [record | {"offset": 20 + i} for i, record in enumerate(own)])
    assert old.ledger.state.checked == old.ledger.state.barrier


def vars_of(state: State) -> dict[str, Any]:
    return {name: getattr(state, name) for name in State.__slots__}


def test_a_schema_change_that_was_never_read() -> None:
    records = log()
    late = records[2]  # CREATE TABLE bb
    with pytest.raises(UnsupportedError, match=r"has sent a schema change of shop\.bb at 463267594595935235") as error:
        take(begun(Storage()), [records[4], records[5], records[8], records[9], late], size=1)
    assert str(error.value).endswith(WAY_OUT)


def test_two_connectors_of_one_server_whose_transactions_end_once() -> None:
    """Rows of one connector lie below the barrier that the ends of the other have made."""
    connector = Connector()
    connector.ddl(("a", "CREATE TABLE a (id INT PRIMARY KEY)"))
    connector.ddl(("b", "CREATE TABLE b (id INT PRIMARY KEY)"))
    connector.transaction([("b", None, {"id": 1})])
    connector.transaction([("b", None, {"id": 2})])
    behind = [record for record in connector.records if record["topic"] == "srv.shop.b"]
    connector.records.remove(behind[1])
    connector.transaction([("a", None, {"id": 1})])
    count = b'"event_count": 1'
    for record in connector.records:  # the connector of `a` has no events of `b`
        if record["topic"] == "srv.transaction" and b":4" in record["value"]:
            record["value"] = record["value"].replace(count, b'"event_count": 0')
    records = numbered(connector.records)
    run = following(records)
    run.take(records, caught_up=True)
    run.idle()
    late = {**behind[1], "offset": 1}
    with pytest.raises(
        UnsupportedError, match=r"srv\.shop\.b:0 has sent a row of shop\.b at .* which it had not sent before"
    ):
        run.take([late], caught_up=True)
