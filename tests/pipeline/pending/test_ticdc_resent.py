"""A TiCDC that restarts sends again from its checkpoint: tables with and without a key are exact at every cut and at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import pyarrow as pa

from changefeed.model import text
from changefeed.model.batch import record_batch
from changefeed.model.table import canonical
from changefeed.pipeline.flow import Batch
from changefeed.protocols import protocol
from changefeed.protocols.base import Stores
from changefeed.stages.decode import RecordReader
from tests.examples import TIMES
from tests.pipeline.kit.in_memory import Storage, memory_definition, memory_flow

HISTORIES = max(8, round(200 * TIMES))
_STEP = 1 << 18
_BASE = 450_000_000_000_000_000


@dataclass
class Changefeed:
    """The records of each partition in the order of commit_ts.

    Attributes:
        lines: partition -> (number of the transaction, whether it is a resolved event, the record's lines).
        written: (number of the transaction, table, values) of each row.
    """

    partitions: int
    random: Random
    lines: dict[int, list[tuple[int, bool, list[str]]]] = field(default_factory=dict)
    written: list[tuple[int, str, tuple[int, ...]]] = field(default_factory=list)

    def make(self, transactions: int) -> None:
        """Each transaction has rows of `log`, equal ones too, and behind them one row of `t` in each partition."""
        for partition in range(self.partitions):
            for table, columns in (("log", "v INT"), ("t", "id INT PRIMARY KEY, f INT")):
                self._add(partition, 0, {"kind": "schema", "type": "create_table", "database": "app", "table": table,
                                         "ddl": f"CREATE TABLE `{table}` ({columns})"})  # fmt: skip
        for number in range(1, transactions + 1):
            for _ in range(self.random.choice([0, 1, 2, 4])):
                value = self.random.randint(0, 2)
                self._row(value % self.partitions, number, "log", {"v": value})
                self.written.append((number, "log", (value,)))
            for partition in range(self.partitions):
                self._row(partition, number, "t", {"id": number * 10 + partition, "f": 1})
                self.written.append((number, "t", (number * 10 + partition,)))
            if self.random.random() < 0.4 or number == transactions:
                for partition in range(self.partitions):
                    self._add(partition, number, {"kind": "resolved", "partition": partition})

    def _row(self, partition: int, number: int, table: str, after: dict[str, Any]) -> None:
        columns = [{"name": n, "type": "int", "nullable": n != "id", "key": n == "id"} for n in after]
        shape = {"kind": "shape", "shape": table, "database": "app", "table": table, "columns": columns, "wire": None}
        row = {
            "kind": "row", "op": "insert", "database": "app", "table": table, "shape": table, "before": None, "after": after,
            "keys": ["id"] if "id" in after else [],
        }  # fmt: skip
        self._add(partition, number, row, canonical(shape))

    def _add(self, partition: int, number: int, document: dict[str, Any], *before: str) -> None:
        line = canonical({**document, "commit_ts": _BASE + number * _STEP, "position": f"app:{partition}:0"})
        self.lines.setdefault(partition, []).append((number, document["kind"] == "resolved", [*before, line]))

    def sent(self) -> dict[int, list[dict[str, Any]]]:
        """The records of a producer that restarts now and then, from a checkpoint that all partitions have passed.

        Each time it sends a whole transaction at least, whose row of `t` shows that a sending begins.
        """
        at, last, checkpoint = dict.fromkeys(self.lines, 0), max(number for number, _, _ in self.lines[0]), 0
        out: dict[int, list[list[str]]] = {partition: [] for partition in self.lines}
        for restart in range(self.random.randint(0, 3) + 1):
            stop = self.random.randint(checkpoint + 2, last)
            for partition, records in self.lines.items():
                until = len(records) if stop == last else self._stop(records, stop)
                silent = restart and self.random.random() < 0.3  # no resolved event until something new is sent
                for number, resolved, lines in records[at[partition] : until]:
                    if not (silent and resolved and number < stop):
                        out[partition].append(lines)
            checkpoint = self.random.randint(0, stop - 2)
            at = {p: self._after(records, checkpoint) for p, records in self.lines.items()}
        for partition, records in self.lines.items():  # in the end, everything is sent
            out[partition] += [lines for _, _, lines in records[at[partition] :]]
        return {partition: _encoded(partition, parts) for partition, parts in out.items()}

    def _stop(self, records: list[tuple[int, bool, list[str]]], stop: int) -> int:
        """Somewhere within transaction `stop`."""
        inside = [i for i, (number, _, _) in enumerate(records) if number == stop]
        return self.random.randint(inside[0], inside[-1] + 1)

    def _after(self, records: list[tuple[int, bool, list[str]]], checkpoint: int) -> int:
        """The first record above a checkpoint; the resolved event of the checkpoint may come first."""
        above = next((i for i, (number, _, _) in enumerate(records) if number > checkpoint), len(records))
        return above - 1 if records[above - 1][1] and self.random.random() < 0.5 else above


def _encoded(partition: int, parts: list[list[str]]) -> list[dict[str, Any]]:
    ticdc_open = protocol("ticdc-open")
    encoder = ticdc_open.encoder(ticdc_open.read_options({"max-batch-size": 1}), Stores())
    lines = [line for part in parts for line in part]
    records = [r for events in text.parse(lines) for r in encoder.encode(events).to_pylist()]
    names = ("topic", "partition", "key", "value")
    return [{name: r[name] for name in names} | {"offset": i, "partition": partition} for i, r in enumerate(records)]


def test_random_restarts_leave_every_cut_exact() -> None:
    for seed in range(HISTORIES):
        random = Random(seed)
        producer = Changefeed(random.randint(1, 3), random)
        producer.make(random.randint(3, 7))
        left = producer.sent()
        storage = Storage()
        flow = memory_flow(storage, protocol("ticdc-open").capabilities, memory_definition())
        flow.begin()
        partitions = {(records[0]["topic"], partition) for partition, records in left.items()}
        while any(left.values()):
            batch = []
            for partition, records in left.items():
                count = random.choice([0, 1, 2, 5, 12])
                batch += records[:count]
                left[partition] = records[count:]
            if not batch:
                continue
            flow.take(Batch(partial(packed, record_batch(batch)), "", partitions))
            compare(flow.ledger.state, storage, producer, seed)
        assert flow.ledger.state.counts.pending == 0


def packed(records: pa.RecordBatch, dated: Any, fragments: Any) -> list[pa.RecordBatch]:
    reader = RecordReader("ticdc-open", {}, dated)
    return [reader.pack(reader(records), records)]


def compare(state: Any, storage: Storage, producer: Changefeed, seed: int) -> None:
    if state.barrier is None:
        return
    number = (state.barrier - _BASE) // _STEP
    wanted = {table: Counter(v for n, t, v in producer.written if t == table and n <= number) for table in ("log", "t")}
    for table in ("log", "t"):
        known = state.tables.get(f"app.{table}")
        rows = storage.tables.rows(known.path) if known else []
        assert Counter((row.get("v", row.get("id")),) for row in rows) == wanted[table], (
            f"seed {seed}: {table} at {number}"
        )
