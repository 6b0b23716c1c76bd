"""Recorded events of Debezium, read in any order of partitions while the connector goes on, end as when they are read at once."""

from __future__ import annotations

import json
import random
from collections.abc import Collection
from functools import partial
from typing import Any

import pytest

from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.flow import Batch, Flow
from changefeed.protocols import protocol
from tests.examples import TIMES, by_turns
from tests.pipeline.kit.debezium_histories import TWICE
from tests.pipeline.kit.debezium_recorded import ALL, MANY, Recorded
from tests.pipeline.kit.in_memory import Storage, debezium_chunks, memory_definition, memory_flow
from tests.services.debezium import Event

pytestmark = pytest.mark.slow
Partition = tuple[str, int]
Record = dict[str, Any]
ORDERS = max(1, round(4 * TIMES))


@pytest.mark.heavy
@pytest.mark.parametrize("consistency", ["transaction", "key"])
@pytest.mark.parametrize("history", by_turns(ALL, 2), ids=str)
def test_read_in_any_order(history: Recorded, consistency: str) -> None:
    twice = read_twice(history, consistency)
    wanted = tables(run(history, consistency, None), twice)
    assert wanted
    for _ in range(ORDERS):
        seed = random.randrange(2**32)
        assert tables(run(history, consistency, random.Random(seed)), twice) == wanted, f"seed {seed}"


@pytest.mark.heavy
@pytest.mark.parametrize("consistency", ["transaction", "key"])
@pytest.mark.parametrize("history", by_turns(ALL, 2, first=1), ids=str)
def test_rows_come_after_the_tombstones_that_a_compacted_topic_begins_with(history: Recorded, consistency: str) -> None:
    twice = read_twice(history, consistency)
    wanted = tables(run(history, consistency, None), twice)
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    records = sent(history, chance)
    topic = chance.choice(sorted({r["topic"] for r in records if r["topic"].count(".") == 2}))
    late = [record for record in records if record["topic"] == topic]
    partitions = {(record["topic"], record["partition"]) for record in records}
    tombstones = [r | {"offset": 0, "key": b"{}", "value": None} for r in firsts_of(late)]
    storage = Storage()
    flow = begun(storage, memory_definition(consistency=consistency, keyless="inserts"))
    early = [*(record for record in records if record["topic"] != topic), *tombstones]
    flow.take(Batch(partial(debezium_chunks, early), "", partitions, caught_up=False))
    later = [record | {"offset": record["offset"] + 1} for record in late]
    flow.take(Batch(partial(debezium_chunks, later), "", partitions, caught_up=True))
    flow.step(flow.ledger.state, partitions, idle=True)
    assert tables(storage, twice) == wanted, f"seed {seed}: {topic}"


def read_twice(history: Recorded, consistency: str) -> Collection[str]:
    """The tables without a key whose rows are there twice; skips a history with others that are read again."""
    if consistency == "key" and history not in MANY:
        pytest.skip("a table without a key is read again in it")
    return TWICE.get(history.name.rpartition("-")[2], ()) if consistency == "key" else ()


def firsts_of(records: list[Record]) -> list[Record]:
    """The first record of each partition."""
    first = {record["partition"]: record for record in reversed(records)}
    return list(first.values())


@pytest.mark.heavy
@pytest.mark.parametrize("history", by_turns(ALL, 2), ids=str)
def test_dead_letters_hold_nothing_back(history: Recorded) -> None:
    """With `dead-letters: continue`, everything else is applied: a transaction without the event that is a dead letter, too."""
    for _ in range(ORDERS):
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        records = sent(history, chance)
        ends = [i for i, record in enumerate(records) if record["topic"].endswith(".transaction")]
        if not ends:
            pytest.skip("a snapshot without its last row waits for a change after it")
        last = ends[-1]  # it stays: without it, the last transaction may still go on
        first = firsts(records[:last])
        # the tombstone behind a delete that is its partition's first record has no place, if it is in a later batch
        placeless = {i for i in first if b'"op":"d"' in (records[i]["value"] or b"")}
        damaged = chance.sample([i for i in chance.choice([range(last), first]) if i not in placeless], 2)
        for i in damaged:
            records[i] = records[i] | {"value": (records[i]["value"] or b"{")[:-20]}
        storages = [dead_letters_left_out(records, order) for order in (None, chance)]
        for storage in storages:
            counts = storage.published()[-1].counts
            assert (counts.dead, counts.pending) == (len(damaged), 0), f"seed {seed}: {damaged}"
        if all(records[i]["topic"] != "srv" for i in damaged):  # without a schema change, rows have another meaning
            assert tables(storages[1]) == tables(storages[0]), f"seed {seed}: {damaged}"


def firsts(records: list[Record]) -> list[int]:
    """The index of the first record of each partition: nothing shows yet that a table's rows are in its topic."""
    first: dict[Partition, int] = {}
    for i, record in enumerate(records):
        first.setdefault((record["topic"], record["partition"]), i)
    return [i for (topic, _), i in first.items() if topic != "srv"]


def dead_letters_left_out(records: list[Record], chance: random.Random | None) -> Storage:
    """A pipeline that continues without dead letters, over the records: at once, or in batches by chance."""
    storage, partitions = Storage(), {(record["topic"], record["partition"]) for record in records}
    flow = begun(storage, memory_definition(keyless="inserts", **{"dead-letters": "continue"}))
    if chance is None:
        flow.take(Batch(partial(debezium_chunks, records), "", partitions, caught_up=True))
    else:
        follow(flow, records, partitions, chance)
    flow.step(flow.ledger.state, partitions, idle=True)
    return storage


def tables(storage: Storage, but: Collection[str] = ()) -> dict[str, list[str]]:
    """The rows of all tables; without those of tables that are read twice and have no key."""
    state = storage.published()[-1]
    # without ends of transactions, the last row waits for a later one
    assert state.counts.pending == int(state.incomplete is not None and not state.incomplete.name)
    return {
        name: [] if table.table.name in but else sorted(map(repr, storage.tables.rows(table.path)))
        for name, table in state.tables.items()
    }


def run(history: Recorded, consistency: str, chance: random.Random | None) -> Storage:
    """A pipeline over the history: at once, or in batches by chance."""
    storage = Storage()
    flow = begun(storage, memory_definition(consistency=consistency, keyless="inserts"))
    records = sent(history, random.Random(0) if chance is None else chance)
    partitions = {(record["topic"], record["partition"]) for record in records}
    if chance is None:
        flow.take(Batch(partial(debezium_chunks, records), "", partitions, caught_up=True))
    else:
        follow(flow, records, partitions, chance)
    flow.step(flow.ledger.state, partitions, idle=True)
    return storage


def begun(storage: Storage, definition: Definition) -> Flow:
    """A run of a pipeline, which has taken it over."""
    flow = memory_flow(storage, protocol("debezium-mysql").capabilities, definition)
    flow.begin()
    return flow


def follow(flow: Flow, records: list[Record], partitions: set[Partition], chance: random.Random) -> None:
    """Takes a stretch of each partition at a time; the connector sends more before the ends are asked for."""
    read, produced = dict.fromkeys(partitions, 0), 0
    largest = chance.choice([3, 10, 40])
    while sum(read.values()) < len(records):
        produced = end_of(records, produced + chance.randint(0, 2 * largest))
        batch = list[Record]()
        for at, logged in logs(records[:produced], partitions).items():
            stretch = logged[read[at] :][: chance.choice([0, largest // 3, largest])]
            read[at] += len(stretch)
            batch += stretch
        caught_up = sum(read.values()) == produced
        produced = end_of(records, produced + chance.choice([0, 0, largest]))
        ended = {at for at, logged in logs(records[:produced], partitions).items() if len(logged) == read[at]}
        if batch:
            flow.take(Batch(partial(debezium_chunks, batch), "", partitions, caught_up, ended))
        elif caught_up:
            flow.step(flow.ledger.state, partitions, idle=True)


def end_of(records: list[Record], count: int) -> int:
    """The number of records that are sent when at least `count` are: what the connector sends together is there together."""
    while 0 < count < len(records) and records[count - 1]["follows"] is not None:
        if records[count - 1]["follows"] not in (True, records[count]["follows"]):
            break
        count += 1
    return min(count, len(records))


def together(event: Event) -> Any:
    """A value that is the same for records that the connector sends together; True for a record that belongs to the next one.

    These are the schema changes of a snapshot, and the rows of one event of the binlog.
    """
    if event["value"] is None:
        return True
    payload = json.loads(event["value"])
    payload = payload.get("payload", payload)
    source = payload.get("source") or {}
    if source.get("snapshot") == "incremental":
        return True
    is_read = payload.get("op") == "r"
    return None if is_read or "file" not in source else (source["file"], source["pos"])


def sent(history: Recorded, chance: random.Random) -> list[Record]:
    """The history's records; the partitions of each topic are those that the key gives them."""
    numbers: dict[str, int] = {}
    offsets: dict[Partition, int] = {}
    records = list[Record]()
    for event in history.events:
        count = numbers.setdefault(event["topic"], 1 if event["topic"] == "srv" else chance.randint(1, 3))
        at = event["topic"], hash_of(event["key"]) % count
        offsets[at] = offsets.get(at, -1) + 1
        key, value = (None if text is None else text.encode() for text in (event["key"], event["value"]))
        records.append({"topic": at[0], "partition": at[1], "offset": offsets[at], "key": key, "value": value})
        records[-1]["follows"] = together(event)
    return records


def hash_of(key: str | None) -> int:
    return sum(map(ord, key or ""))


def logs(records: list[Record], partitions: set[Partition]) -> dict[Partition, list[Record]]:
    """The records by partition."""
    by_partition: dict[Partition, list[Record]] = {at: [] for at in sorted(partitions)}
    for record in records:
        by_partition[record["topic"], record["partition"]].append(record)
    return by_partition
