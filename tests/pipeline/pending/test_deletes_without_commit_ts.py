"""Deletes without a commit_ts end the same however the records are divided into batches."""

from __future__ import annotations

import random
from itertools import combinations

import pyarrow as pa
import pytest

from changefeed.frames.chunks import Dated, pack, pack_dated
from changefeed.model.batch import BatchBuilder, Decoded, record_batch
from changefeed.model.event import Resolved
from changefeed.model.position import Place
from changefeed.model.table import Column, TableShape
from changefeed.model.types import ColumnType
from changefeed.pipeline.flow import Batch
from changefeed.protocols import protocol
from changefeed.stages.lone_tombstones import of_tables
from changefeed.stages.missing_ts import TimestampEstimator
from tests.examples import TIMES
from tests.pipeline.kit.in_memory import Storage, memory_definition, memory_flow

SHAPES = {name: TableShape("app", name, (Column("id", ColumnType("int"), False, True),)) for name in "ab"}
Record = tuple[str, int | None, int]  # table or `mark`, commit_ts, id; a delete has no commit_ts

HISTORIES: dict[str, tuple[list[Record], dict[str, list[int]]]] = {
    "an older row of another table before the delete": (
        [("mark", 1, 0), ("b", 10, 1), ("a", 5, 1), ("b", None, 1), ("mark", 20, 0)],
        {"app.a": [1], "app.b": []},
    ),
    "a newer row of another table before the delete": (
        [("b", 10, 1), ("a", 15, 1), ("b", None, 1), ("b", 12, 1), ("mark", 20, 0)],
        {"app.a": [1], "app.b": [1]},
    ),
    "a transaction of deletes": (
        [("a", 5, 1), ("mark", 10, 0), ("a", None, 1), ("a", None, 2), ("a", None, 3), ("a", 12, 3), ("mark", 20, 0)],
        {"app.a": [3]},
    ),
    "sent again": (
        [("a", 5, 1), ("a", None, 1), ("a", 7, 1), ("mark", 7, 0), ("a", 5, 1), ("a", None, 1), ("a", 7, 1), ("mark", 9, 0)],
        {"app.a": [1]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_batches_of_any_size_end_equal(name: str) -> None:
    records, wanted = HISTORIES[name]
    places = range(1, len(records))
    for cuts in (cuts for count in (0, 1, 2, len(places)) for cuts in combinations(places, count)):
        storage = Storage()
        flow = memory_flow(storage, protocol("ticdc-avro").capabilities, memory_definition())
        flow.begin()
        for first, end in zip((0, *cuts), (*cuts, len(records)), strict=True):
            # the lambda is called before the next turn
            flow.take(Batch(lambda dated, fragments: chunks(records, first, end, dated), "", {("t", 0)}))  # noqa: B023
        state = storage.published()[-1]
        tables = {n: [row["id"] for row in storage.tables.rows(t.path)] for n, t in state.tables.items()}
        assert tables == wanted, f"batches end before {cuts}"
        assert state.counts.pending == 0


def drawn(chance: random.Random) -> tuple[list[Record], dict[int, dict[str, set[int]]]]:
    """Records of one partition with restarts of the producer, and the tables' keys at each mark."""
    sent, tables, ts = list[Record](), {"app.a": set[int](), "app.b": set[int]()}, 10
    marked = {10: {name: set(keys) for name, keys in tables.items()}}
    log: list[tuple[int, Record]] = [(10, ("mark", 10, 0))]
    for _ in range(chance.randint(5, 25)):
        ts += chance.randint(1, 3)
        if chance.random() < 0.3:
            log.append((ts, ("mark", ts, 0)))
            marked[ts] = {name: set(keys) for name, keys in tables.items()}
        for name, id in {(chance.choice("ab"), chance.randint(1, 3)) for _ in range(chance.randint(0, 3))}:
            gone = id in tables[f"app.{name}"] and chance.random() < 0.6
            (tables[f"app.{name}"].discard if gone else tables[f"app.{name}"].add)(id)
            log.append((ts + 1, (name, None if gone else ts + 1, id)))
        ts += 1
    ts += 1
    log.append((ts, ("mark", ts, 0)))
    marked[ts] = {name: set(keys) for name, keys in tables.items()}
    at = 0
    while at < len(log):  # up to somewhere, then from the last mark again
        end = chance.randint(at, len(log)) if chance.random() < 0.6 else len(log)
        sent += [record for _, record in log[at:end]]
        if end == len(log):
            break
        at = max((i for i in range(end) if log[i][1][0] == "mark"), default=0)
    return sent, marked


@pytest.mark.parametrize("number", range(max(1, round(60 * TIMES))))
def test_every_cut_is_right_while_the_producer_restarts(number: int) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    records, marked = drawn(chance)
    storage = Storage()
    flow = memory_flow(storage, protocol("ticdc-avro").capabilities, memory_definition())
    flow.begin()
    first = 0
    while first < len(records):
        end = min(len(records), first + chance.choice([1, 1, 2, 5, 30]))
        # the lambda is called before the next turn
        flow.take(Batch(lambda dated, fragments: chunks(records, first, end, dated), "", {("t", 0)}))  # noqa: B023
        first = end
    states = storage.published()
    assert states[-1].barrier == max(marked), f"seed {seed}"
    for state in states:
        if state.barrier is None:
            continue
        rows = {n: storage.tables.rows(t.path, t.version or 0) for n, t in state.tables.items()}
        actual = {n: sorted(row["id"] for row in of) for n, of in rows.items() if of}
        wanted = {n: sorted(keys) for n, keys in marked[state.barrier].items() if keys}
        assert actual == wanted, f"seed {seed}, at {state.barrier}: {records}"


def chunks(records: list[Record], first: int, end: int, dated: Dated) -> list[pa.RecordBatch]:
    """The chunks of a batch, as a worker makes them."""
    builder, control = BatchBuilder(), list[Resolved]()
    for number, (kind, ts, id) in enumerate(records[first:end]):
        place = Place("t", 0, first + number, None, number)
        if kind == "mark" and ts is not None:
            control.append(Resolved(ts, place))
        elif ts is None:
            builder.add(SHAPES[kind], place, "delete", before={"id": id}, after=None, commit_ts=None)
        else:
            builder.add(SHAPES[kind], place, "upsert", before=None, after={"id": id}, commit_ts=ts)
    estimator = TimestampEstimator(of_tables(dated))
    decoded = estimator.fill(Decoded(builder.build(), [*control], []))
    batch = record_batch([{"topic": "t", "partition": 0, "offset": number} for number in range(first, end)])
    return [pack(decoded, batch), pack_dated(estimator.dated())]
