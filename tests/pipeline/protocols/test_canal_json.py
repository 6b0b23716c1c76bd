"""Canal-JSON of TiCDC through a pipeline: DDL on one partition, watermarks, deletes, changed keys, records sent again."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from changefeed import record_log
from changefeed.frames.convert import to_canonical
from changefeed.frames.types import sink_type
from changefeed.model.batch import record_batch
from changefeed.pipeline.flow import Batch
from changefeed.pipeline.run import run
from changefeed.pipeline.state import State
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores
from changefeed.stages.decode import RecordReader
from tests.examples import TIMES
from tests.pipeline.kit.history import HistoryBuilder, lagging_history, small_history
from tests.pipeline.kit.in_memory import Storage, memory_definition, memory_flow
from tests.pipeline.kit.oracle import History, same_rows
from tests.pipeline.kit.running import check_cuts, definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Record = dict[str, Any]
ORDERS = max(1, round(3 * TIMES))
WRITTEN = {"bare types": {}, "full types": {"content-compatible": "true"}}


def canal_json(log: Path, options: dict[str, str], *, extension: bool = True) -> list[Record]:
    """The records of an Open Protocol log as Canal-JSON; TiCDC sends a DDL to partition 0 alone."""
    opened, canal = protocol("ticdc-open"), protocol("canal-json")
    decoder = opened.decoder(opened.read_options({}), Stores())
    encoder = canal.encoder(canal.read_options({"enable-tidb-extension": str(extension).lower(), **options}), Stores())
    records = [r for batch in record_log.read(log) for r in encoder.encode(decoder.decode(batch)).to_pylist()]
    return numbered([r for r in records if r["partition"] == 0 or not json.loads(r["value"])["isDdl"]])


def numbered(records: list[Record]) -> list[Record]:
    offsets: dict[int, int] = {}
    numbered = list[Record]()
    for record in records:
        offset = offsets[record["partition"]] = offsets.get(record["partition"], -1) + 1
        numbered.append(record | {"offset": offset, "topic": "app"})
    return numbered


def commit_ts(record: Record) -> int:
    extension = json.loads(record["value"])["_tidb"]
    return int(extension.get("commitTs") or extension["watermarkTs"])


def sent_again(records: list[Record], chance: random.Random) -> list[Record]:
    """The producer stops behind some record, and starts at its checkpoint: it sends this watermark, and everything above it."""
    marks = [i for i, record in enumerate(records) if b"TIDB_WATERMARK" in record["value"]]
    end = chance.randint(marks[1] + 1, len(records))
    last = {records[i]["partition"]: records[i] for i in marks if i < end}
    checkpoint = min(last.values(), key=commit_ts)
    above = [record for record in records if commit_ts(record) > commit_ts(checkpoint)]
    return numbered([*records[:end], *(checkpoint | {"partition": partition} for partition in (0, 1)), *above])


def tables(storage: Storage, state: State) -> dict[str, list[dict[str, Any]]]:
    """The rows of a state's tables, with the values of the canonical text."""
    result = {}
    for current in state.tables.values():
        stored = storage.tables.rows(current.path, current.version if current.version is not None else -1)
        columns = {
            c.name: to_canonical(pa.array([row[c.name] for row in stored], sink_type(c.type).arrow), c.type)
            for c in current.table.columns
        }
        names = list(columns)
        result[current.table.name] = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return result


def take(records: list[Record], chance: random.Random, **options: str) -> Storage:
    """A pipeline over the records, in batches of any size."""
    storage = Storage()
    flow = memory_flow(storage, protocol("canal-json").capabilities, memory_definition(**options))
    flow.begin()
    at, largest = 0, chance.choice([1, 4, 30, len(records)])
    while at < len(records):
        size = chance.randint(1, largest)
        batch = record_batch(records[at : at + size])
        at += size

        def chunks(dated: Any, fragments: Any, batch: pa.RecordBatch = batch) -> list[pa.RecordBatch]:
            read = RecordReader("canal-json", {}, dated)
            return [read.pack(read(batch), batch)]

        flow.take(Batch(chunks, "", {("app", 0), ("app", 1)}, caught_up=at >= len(records)))
    flow.step(flow.ledger.state, {("app", 0), ("app", 1)}, idle=True)
    return storage


@pytest.mark.heavy
@pytest.mark.parametrize("again", [False, True], ids=["once", "sent again"])
@pytest.mark.parametrize("options", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("make", [lambda path: small_history(path)[0], lagging_history], ids=["small", "lagging"])
def test_every_cut_is_the_upstreams(make: Any, options: dict[str, str], again: bool, tmp_path: Path) -> None:
    log = make(tmp_path / "app.jsonl")
    records, history = canal_json(log, options), History(log)
    for _ in range(ORDERS):
        seed = random.randrange(2**32)
        chance = random.Random(seed)
        storage = take(sent_again(records, chance) if again else records, chance)
        states = storage.published()
        assert states[-1].barrier == max(commit_ts(r) for r in records if b"TIDB_WATERMARK" in r["value"])
        for state in states:
            if state.barrier is None:
                continue
            wanted, actual = history.at(state.barrier), tables(storage, state)
            assert sorted(actual) == sorted(wanted), f"seed {seed}"
            for name, rows in actual.items():
                assert not (difference := same_rows(rows, wanted[name])), f"seed {seed}: {name}: {difference}"


@pytest.mark.heavy
@pytest.mark.parametrize("make", [lambda path: small_history(path)[0], lagging_history], ids=["small", "lagging"])
def test_by_key_rows_wait_for_schema_changes_in_partition_0(make: Any, tmp_path: Path) -> None:
    """Partition 1 may be read to its end before the first record of partition 0, which has all schema changes."""
    log = make(tmp_path / "app.jsonl")
    records, wanted = canal_json(log, {}), History(log).at(None)
    for seed in (random.randrange(2**32) for _ in range(4 * ORDERS)):
        storage = take(read_apart(records, random.Random(seed)), random.Random(seed), consistency="key")
        actual = tables(storage, storage.published()[-1])
        assert sorted(actual) == sorted(wanted), f"seed {seed}"
        for name, rows in actual.items():
            assert not (difference := same_rows(rows, wanted[name])), f"seed {seed}: {name}: {difference}"


def read_apart(records: list[Record], chance: random.Random) -> list[Record]:
    """The records in an order in which the two partitions may be read: each in its own, one far ahead of the other."""
    parts = [[r for r in records if r["partition"] == partition] for partition in (0, 1)]
    order = list[Record]()
    while any(parts):
        part = chance.choice([p for p in parts if p])
        size = chance.choice([1, 5, len(part)])
        order += part[:size]
        del part[:size]
    return order


def test_without_the_extension_tables_follow_their_rows(tmp_path: Path) -> None:
    """No commit_ts and no watermarks: `consistency: key`. DDL, on partition 0 alone, has no place in the order of rows."""
    h = HistoryBuilder()
    h.schema("app", "orders", "CREATE TABLE `app`.`orders` (`id` BIGINT NOT NULL,`qty` INT,PRIMARY KEY(`id`))")
    h.schema("app", "notes", "CREATE TABLE `app`.`notes` (`n` INT NOT NULL,`note` VARCHAR(20))")
    for i in range(6):
        h.rows(("orders", None, {"id": i, "qty": i}), ("notes", None, {"n": i, "note": f"order {i}"}))
    h.rows(("orders", {"id": 2, "qty": 2}, {"id": 8, "qty": 2}), ("orders", {"id": 3, "qty": 3}, None))
    h.schema("app", "orders", "ALTER TABLE `app`.`orders` ADD COLUMN `note` VARCHAR(20) NULL")
    h.rows(("orders", {"id": 1, "qty": 1, "note": None}, {"id": 1, "qty": 9, "note": "dear"}))
    h.rows(("notes", None, {"n": 5, "note": "order 5"}))
    records, wanted = (
        canal_json(h.write(tmp_path / "app.jsonl"), {}, extension=False),
        History(tmp_path / "app.jsonl").at(None),
    )
    for _ in range(ORDERS):
        seed = random.randrange(2**32)
        storage = take(records, random.Random(seed), consistency="key", **{"schema.change.behavior": "try_evolve"})
        state = storage.published()[-1]
        assert (state.counts.pending, state.counts.repeated) == (0, 0)
        actual = tables(storage, state)
        assert sorted(actual) == sorted(wanted), f"seed {seed}"
        for name, rows in actual.items():
            assert not (difference := same_rows(rows, wanted[name])), f"seed {seed}: {name}: {difference}"


def test_a_row_without_types_is_a_dead_letter_of_its_table(tmp_path: Path) -> None:
    records = canal_json(small_history(tmp_path / "app.jsonl")[0], {})
    number = next(i for i, r in enumerate(records) if b'"type":"INSERT"' in r["value"] and b'"orders"' in r["value"])
    message = json.loads(records[number]["value"])
    records[number]["value"] = json.dumps(message | {"mysqlType": None}).encode()
    storage = take(records, random.Random(0), **{"dead-letters": "quarantine"})
    state = storage.published()[-1]
    assert (state.counts.dead, "app.orders" in state.held) == (1, True)
    assert sorted(state.versions()) == ["app.drafts", "app.notes"]


def test_a_pipeline_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    log = small_history(tmp_path / "open.jsonl")[0]
    record_log.write(tmp_path / "app.jsonl", [record_batch(canal_json(log, {}))])
    pipeline = definition(tmp_path / "app.jsonl", tmp_path / "lake", protocol="canal-json", limit=9)
    run(pipeline, spark, once=True)
    check_cuts(pipeline, History(log))
