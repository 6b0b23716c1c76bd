"""The order of changes of one key: Spark SQL, columns and memory agree with an oracle, however the partitions are named."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from changefeed.pipeline.pending.memory import in_order
from changefeed.sinks.apply.latest import latest as latest_in_columns
from changefeed.stages.changes import schema, schema_ddl
from changefeed.stages.latest import latest
from tests.examples import TIMES
from tests.stages.random_changes import NAMES, TABLE, change

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = range(max(20, round(100 * TIMES)))
Change = dict[str, Any]


def written(
    ts: int | None, offset: int, value: int = 0, partition: int = 0, op: str = "insert", key: int = 1
) -> Change:
    return change(ts, offset, key, (value, None, None), _partition=partition, _op=op)


def deleted(ts: int | None, offset: int, partition: int = 0, op: str = "delete", key: int = 1) -> Change:
    return change(ts, offset, key, None, _partition=partition, _op=op)


# name -> changes of key 1, whether they are final states, and the value after them; None if the row is deleted
CASES: dict[str, tuple[list[Change], bool, int | None]] = {
    "written, then deleted": ([written(7, 0), deleted(7, 1)], False, None),
    "written, deleted, written": ([written(7, 0, 1), deleted(7, 1), written(7, 2, 2)], False, 2),
    "deleted, then written": ([deleted(7, 0), written(7, 1, 2)], False, 2),
    "written twice": ([written(7, 0, 1), written(7, 1, 2)], False, 2),
    "by index in one record": ([deleted(7, 0) | {"_index": 1}, written(7, 0) | {"_index": 0}], False, None),
    "left in one partition, taken in a later one": ([deleted(7, 0, 0), written(7, 0, 2, 1)], False, 2),
    "left in one partition, taken in an earlier one": ([deleted(7, 0, 1), written(7, 0, 2, 0)], False, 2),
    "replaced and left in one partition, taken in another": (
        [written(7, 0, 1), deleted(7, 1), written(7, 9, 2, 1)], False, 2,
    ),
    "taken in one partition, replaced and left in another": (
        [written(7, 9, 2, 0), written(7, 0, 1, 1), deleted(7, 1, 1)], False, 2,
    ),
    "deleted later": ([deleted(8, 0, 1), written(7, 9, 2, 0)], False, None),
    "a snapshot's row is before all changes": ([deleted(7, 0), written(7, 9, 1, op="read")], False, None),
    "without commit_ts": ([written(None, 0), deleted(None, 1)], False, None),
    "TiDB: in order": ([written(7, 0), deleted(7, 1)], True, None),
    "TiDB: a row moves to the key before another leaves it": (
        [written(7, 0, 1, op="update"), deleted(7, 1, op="update")], True, 1,
    ),
    "TiDB: a split update, of which a part is sent again": ([deleted(7, 0), written(7, 1, 1), deleted(7, 2)], True, 1),
    "TiDB: the same in another partition": (
        [deleted(7, 0, 1), written(7, 1, 1, 1), deleted(7, 2, 1), deleted(7, 3, 0)], True, 1,
    ),
}  # fmt: skip


def value_in_memory(changes: list[Change], *, final_states: bool) -> dict[int, int | None]:
    ordered = in_order(changes, ["c0"], final_states=final_states)
    return {row["c0"]: None if row["_deleted"] else row["c1"] for row in ordered}


def value_in_columns(changes: list[Change], *, final_states: bool) -> dict[int, int | None]:
    rows = [row | {"_irregular": list(row["_irregular"].items())} for row in changes]
    table = pa.Table.from_pylist(rows, schema(TABLE))
    last = latest_in_columns(table, NAMES, [0], partial=False, final_states=final_states)
    return {row["c0"]: None if row["_deleted"] else row["c1"] for row in last.to_pylist()}


@pytest.mark.parametrize("name", CASES)
def test_cases_by_hand(name: str) -> None:
    changes, final_states, wanted = CASES[name]
    for shuffled in (changes, changes[::-1]):
        assert value_in_memory(shuffled, final_states=final_states) == {1: wanted}
        assert value_in_columns(shuffled, final_states=final_states) == {1: wanted}


def random_changes(random: Random) -> list[Change]:
    """Few keys, commit_ts and partitions, so that much happens at once."""
    offsets = [0, 0, 0]
    changes = []
    for number in range(random.randint(1, 30)):
        partition, ts, key = random.randrange(3), random.choice([None, 1, 1, 2, 3]), random.randint(1, 3)
        op = random.choice(["insert", "update", "delete", "read"])
        make = deleted if op == "delete" or (op == "update" and random.random() < 0.5) else written
        values = {} if make is deleted else {"value": number}
        made = make(ts, offsets[partition], partition=partition, op=op, key=key, **values)
        changes.append(made | {"_index": random.choice([None, number])})
        offsets[partition] += random.randint(0, 1)
    return changes


def expected(changes: list[Change], *, final_states: bool) -> dict[int, int | None]:
    """The rules, one key, commit_ts and partition after the other."""
    result: dict[int, int | None] = {}
    for key in {c["c0"] for c in changes}:
        by_time = defaultdict[Any, list[Change]](list)
        for c in changes:
            if c["c0"] == key:
                by_time[-1 if c["_ts"] is None else c["_ts"], c["_ts"] is not None and c["_op"] != "read"].append(c)
        newest = by_time[max(by_time)]
        lasts = []
        for partition in sorted({c["_partition"] for c in newest}):
            own = sorted(
                (c for c in newest if c["_partition"] == partition),
                key=lambda c: (c["_offset"], -1 if c["_index"] is None else c["_index"], c["_half"]),
            )
            halves = [c["_half"] for c in own]
            if final_states and own[0]["_ts"] is not None:
                again = max(halves.count(0), halves.count(1)) > 1
                early = [c for c in own if c["_deleted"] and (again or c["_op"] == "update")]
                own = early + [c for c in own if c not in early]
            lasts.append(own[-1])
        if newest[0]["_ts"] is not None:
            lasts = [c for c in lasts if not c["_deleted"]] or lasts
        result[key] = None if lasts[-1]["_deleted"] else lasts[-1]["c1"]
    return result


@pytest.mark.parametrize("final_states", [False, True])
def test_random_changes_in_any_order_are_those_of_the_oracle(final_states: bool) -> None:
    for seed in SEEDS:
        random = Random(seed)
        changes = random_changes(random)
        wanted = expected(changes, final_states=final_states)
        random.shuffle(changes)
        assert value_in_memory(changes, final_states=final_states) == wanted, seed
        assert value_in_columns(changes, final_states=final_states) == wanted, seed


def test_spark_has_the_same_order(spark: SparkSession) -> None:
    """All cases and many random histories in one frame, with keys of their own."""
    for final_states in (False, True):
        everything, wanted = list[Change](), dict[int, int | None]()
        histories = [changes for changes, final, _ in CASES.values() if final == final_states]
        histories += [random_changes(Random(seed)) for seed in SEEDS]
        for number, changes in enumerate(histories):
            moved = [c | {"c0": 10 * number + c["c0"]} for c in changes]
            everything += moved
            wanted |= expected(moved, final_states=final_states)
        Random(1).shuffle(everything)
        frame = spark.createDataFrame(everything, schema_ddl(TABLE)).repartition(3)
        for partial in (False, True):
            rows = latest(frame, TABLE, partial=partial, final_states=final_states).collect()
            assert len(rows) == len(wanted)
            assert {row["c0"]: None if row["_deleted"] else row["c1"] for row in rows} == wanted
